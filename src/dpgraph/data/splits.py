"""Splits of nodes into training, validation and test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.raw_images import RawImages
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION
from dpgraph.errors import UserError, invalid
from dpgraph.randomness import numpy_generator

PARTS = (TRAIN, VALIDATION, TEST)


def make_split(raw: RawGraph | RawImages, name: str, split: str) -> tuple[np.ndarray, dict[str, Any]]:
    """(N,) uint8 and what to say about it. But for clusters a split depends on which nodes have a label, no more.

    public: the official one. train-rest: public validation and test nodes, every other labelled node trains
    (Igamberdiev & Habernal, Table 1). random-A-B-C: percent of the labelled nodes, keyed by the data set's name and the
    split's; here that of seed 0, the others are drawn when a seed is loaded (store.py). ratio-A-B-C: clusters merged to
    that ratio, see `clusters.cluster_split`.
    """
    if split in ("public", "train-rest"):
        if raw.split is None:
            raise invalid("split", split, f"random-A-B-C or ratio-A-B-C; {name} has no official split")
        if split == "public":
            return raw.split, {}
        rest = np.where((raw.split == VALIDATION) | (raw.split == TEST), raw.split, TRAIN)
        return np.where((rest == TRAIN) & (raw.labels < 0), NO_SPLIT, rest).astype(np.uint8), {}
    match = re.fullmatch(r"(random|ratio)-(\d+)-(\d+)-(\d+)", split)
    if not match or sum(percent := tuple(int(part) for part in match.groups()[1:])) != 100:
        raise invalid("split", split, "public, train-rest, random-A-B-C or ratio-A-B-C with sum 100")
    if random_percentages(split) is not None:
        return random_split(raw.labels, percent, name, split), {}
    if not isinstance(raw, RawGraph):
        raise invalid("split", split, "public or random-A-B-C where there are no edges")
    from dpgraph.data.clusters import cluster_split

    return cluster_split(raw, percent)


def random_percentages(split: str) -> tuple[int, ...] | None:
    """Of random-A-B-C, whose seeds have splits of their own; None: all seeds have one split.

    >>> random_percentages("random-60-15-25"), random_percentages("public")
    ((60, 15, 25), None)
    """
    match = re.fullmatch(r"random-(\d+)-(\d+)-(\d+)", split)
    return tuple(int(part) for part in match.groups()) if match else None


def random_split(labels: np.ndarray, percent: Sequence[int], *names: str, number: int = 0) -> np.ndarray:
    """Uniform split of the labelled nodes; part sizes are the rounded cumulative percentages.

    `names` and, but for the first, the `number` of the split key the generator; sizes are the same for all numbers.
    """
    labelled = np.flatnonzero(np.asarray(labels) >= 0)
    key: tuple[str | int, ...] = ("split", *names) if number == 0 else ("split", *names, number)
    order = numpy_generator(*key).permutation(labelled)
    split = np.full(len(labels), NO_SPLIT, dtype=np.uint8)
    for value, part in zip(PARTS, np.split(order, bounds(len(order), percent))):
        split[part] = value
    return split


def stratified_split(labels: np.ndarray, percent: Sequence[int], *names: str) -> np.ndarray:
    """As `random_split`, but each class gives the same number of training nodes, train size / classes."""
    generator = numpy_generator("split", *names)
    order = generator.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    first, second = bounds(len(labels), percent)
    quota = first // len(counts)
    if quota > counts.min():
        raise UserError(f"stratified split: {quota} training nodes per class: expected at most {counts.min()}")
    split = np.full(len(labels), NO_SPLIT, dtype=np.uint8)
    split[by_class[rank < quota]] = TRAIN
    rest = generator.permutation(by_class[rank >= quota])
    split[rest[: second - first]] = VALIDATION
    split[rest[second - first :]] = TEST
    return split


def bounds(count: int, percent: Sequence[int]) -> list[int]:
    """Ends of the first two of three parts of `count` items, rounded half up."""
    return [(count * sum(percent[: index + 1]) + 50) // 100 for index in range(2)]
