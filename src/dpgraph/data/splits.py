"""Splits of nodes into training, validation and test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgraph.data.graph import NO_SPLIT, TEST, TRAIN, VALIDATION
from dpgraph.data.raw_graph import RawGraph
from dpgraph.errors import UserError, invalid
from dpgraph.randomness import numpy_generator

PARTS = (TRAIN, VALIDATION, TEST)


def make_split(raw: RawGraph, name: str, split: str) -> tuple[np.ndarray, dict[str, Any]]:
    """(N,) uint8 and what to say about it. But for clusters a split depends on which nodes have a label, no more.

    public: the official one. train-rest: public validation and test nodes, every other labelled node trains
    (Igamberdiev & Habernal, Table 1). random-A-B-C: percent of the labelled nodes, keyed by the data set's name and the
    split's. ratio-A-B-C: clusters merged to that ratio, see `clusters.cluster_split`.
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
    if match[1] == "random":
        return random_split(raw.labels, percent, name, split), {}
    from dpgraph.data.clusters import cluster_split

    return cluster_split(raw, percent)


def random_split(labels: np.ndarray, percent: Sequence[int], *names: str) -> np.ndarray:
    """Uniform split of the labelled nodes; part sizes are the rounded cumulative percentages."""
    labelled = np.flatnonzero(labels >= 0)
    order = numpy_generator("split", *names).permutation(labelled)
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
