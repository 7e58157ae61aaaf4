"""Splits of nodes into training, validation and test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.raw_graph import RawGraph, RawImages
from dpgraph.data.records import DATA_DEPENDENT, NO_SPLIT, TEST, TRAIN, VALIDATION

PARTS = (TRAIN, VALIDATION, TEST)


def make_split(raw: RawGraph | RawImages, name: str, split: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the split, (N,) uint8, and its declaration. Except for clusters, it depends only on who has a label.

    public: the official one. train-rest: public validation and test nodes, every other labelled node trains
    (Igamberdiev & Habernal, Table 1). random-A-B-C: percent of the labelled nodes, keyed by the data set's name and the
    split's; here that of seed 0, the others are drawn when a seed is loaded (store.py). per-class-A-B: A training and B
    validation nodes of each class, all other labelled nodes are tested (Shchur et al., 2018, with 20 and 30); seeds as
    before, but it depends on the labels. ratio-A-B-C: clusters merged to that ratio, see `clusters.cluster_split`.
    """
    if split in ("public", "train-rest"):
        if raw.split is None:
            raise invalid("split", split, f"random-A-B-C, per-class-A-B or ratio-A-B-C; {name} has no official split")
        if split == "public":
            return raw.split, {}
        rest = np.where((raw.split == VALIDATION) | (raw.split == TEST), raw.split, TRAIN)
        return np.where((rest == TRAIN) & (raw.labels < 0), NO_SPLIT, rest).astype(np.uint8), {}
    if (counts := class_counts(split)) is not None:
        phrase = f"the split: {counts[0]} training nodes of each class, by the labels of all nodes"
        return drawn_split(raw.labels, split, name), {DATA_DEPENDENT: [phrase]}
    match = re.fullmatch(r"(random|ratio)-(\d+)-(\d+)-(\d+)", split)
    if not match or sum(percent := tuple(int(part) for part in match.groups()[1:])) != 100:
        raise invalid("split", split, "public, train-rest, per-class-A-B, random-A-B-C or ratio-A-B-C with sum 100")
    if is_drawn(split):
        some = bool((raw.labels < 0).any())  # a null record has no label either: all others would be drawn anew
        declared = {DATA_DEPENDENT: ["the split: drawn among the nodes that have a label"]} if some else {}
        return drawn_split(raw.labels, split, name), declared
    if not isinstance(raw, RawGraph):
        raise invalid("split", split, "public or random-A-B-C where there are no edges")
    from dpgraph.data.clusters import cluster_split, kept_clusters

    kept = kept_clusters(name, split, raw.num_nodes)
    return cluster_split(raw, percent) if kept is None else kept


def random_percentages(split: str) -> tuple[int, ...] | None:
    """Return A, B and C of random-A-B-C, None for another split.

    >>> random_percentages("random-60-15-25"), random_percentages("public")
    ((60, 15, 25), None)
    """
    match = re.fullmatch(r"random-(\d+)-(\d+)-(\d+)", split)
    return tuple(int(part) for part in match.groups()) if match else None


def class_counts(split: str) -> tuple[int, int] | None:
    """Return training and validation nodes of each class, of per-class-A-B; None: another split.

    >>> class_counts("per-class-20-30"), class_counts("public")
    ((20, 30), None)
    """
    match = re.fullmatch(r"per-class-(\d+)-(\d+)", split)
    return (int(match[1]), int(match[2])) if match else None


def is_drawn(split: str) -> bool:
    """Return whether each seed has a split of its own."""
    return random_percentages(split) is not None or class_counts(split) is not None


def drawn_split(labels: np.ndarray, split: str, name: str, number: int = 0) -> np.ndarray:
    """Return the split of that number of the data set `name`, for `split` of which `is_drawn` holds."""
    if (percent := random_percentages(split)) is not None:
        return random_split(labels, percent, name, split, number=number)
    if (counts := class_counts(split)) is None:
        raise invalid("split", split, "random-A-B-C or per-class-A-B")
    return per_class_split(labels, counts, name, split, number=number)


def per_class_split(labels: np.ndarray, counts: tuple[int, int], *names: str, number: int = 0) -> np.ndarray:
    """Return a random split with equal numbers of training and of validation nodes per class; the rest is tested.

    Raises UserError for a class that would leave no node to be tested.
    """
    labelled = np.flatnonzero(np.asarray(labels) >= 0)
    by_class, rank = by_classes(labels, numpy_generator(*_key(names, number)).permutation(labelled))
    sizes = np.bincount(labels[labelled])
    least = min(sizes[sizes > 0].tolist(), default=0)
    if least <= sum(counts):
        raise UserError(
            f"split=per-class-{counts[0]}-{counts[1]}: a class has {least} nodes: expected more than {sum(counts)}"
        )
    split = np.full(len(labels), NO_SPLIT, dtype=np.uint8)
    split[by_class] = np.select([rank < counts[0], rank < sum(counts)], [TRAIN, VALIDATION], TEST)
    return split


def by_classes(labels: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of `order` class by class, and how many of its class stand before each."""
    found = order[np.argsort(labels[order], kind="stable")]
    sizes = np.bincount(labels[found])
    return found, np.arange(len(found)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _key(names: Sequence[str], number: int) -> tuple[str | int, ...]:
    return ("split", *names) if number == 0 else ("split", *names, number)


def random_split(labels: np.ndarray, percent: Sequence[int], *names: str, number: int = 0) -> np.ndarray:
    """Return a uniform split of the labelled nodes; part sizes are the rounded cumulative percentages.

    `names` and, but for the first, the `number` of the split key the generator; sizes are the same for all numbers.
    """
    labelled = np.flatnonzero(np.asarray(labels) >= 0)
    order = numpy_generator(*_key(names, number)).permutation(labelled)
    split = np.full(len(labels), NO_SPLIT, dtype=np.uint8)
    for value, part in zip(PARTS, np.split(order, bounds(len(order), percent))):
        split[part] = value
    return split


def stratified_split(labels: np.ndarray, percent: Sequence[int], *names: str) -> np.ndarray:
    """Return a random split in which each class gives the same number of training nodes, train size / classes."""
    generator = numpy_generator("split", *names)
    by_class, rank = by_classes(labels, generator.permutation(len(labels)))
    counts = np.bincount(labels)
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
    """Return the ends of the first two of three parts of `count` items, rounded half up."""
    return [(count * sum(percent[: index + 1]) + 50) // 100 for index in range(2)]
