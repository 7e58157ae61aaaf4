"""The content of a data set's files as its reader returns it: a graph or images, before the split."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.adjacency import symmetric_csr
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION

MOST_CLASSES = 1 << 15  # predicted classes are stored in 16 bits


@dataclass(frozen=True)
class RawGraph:
    """`source[i] -> target[i]` as in the files; either direction may be missing or repeated."""

    source: np.ndarray  # (E,) integers in [0, N)
    target: np.ndarray  # (E,)
    features: np.ndarray | sp.csr_matrix | None  # (N, F) float32; None: the files have none
    labels: np.ndarray  # (N,) int64 (made of any whole numbers); -1: none
    split: np.ndarray | None  # (N,) uint8, the official split; None: there is none
    directed: bool  # whether the original graph is directed; the Graph made of it never is
    texts: dict[str, list[str]] | None = None  # column -> N texts
    meta: dict[str, object] = field(default_factory=dict)
    data_dependent: tuple[str, ...] = ()  # what the reader made of all records together, see `graph.data_dependent`

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _checked_labels(self.labels))
        nodes = self.num_nodes
        if self.source.shape != self.target.shape or self.source.ndim != 1:
            raise UserError(f"edges: {len(self.source)} sources and {len(self.target)} targets: expected as many")
        for name, ids in (("source", self.source), ("target", self.target)):
            if len(ids) and (ids.min() < 0 or ids.max() >= nodes):
                raise UserError(f"edge {name} ids {ids.min()}..{ids.max()}: expected 0..{nodes - 1}, one per label")
        if self.features is not None:
            _check_features(self.features, nodes)
        if self.split is not None and len(self.split) != nodes:
            raise UserError(f"split of {len(self.split)} nodes: expected {nodes}, one per label")

    @property
    def num_nodes(self) -> int:
        return len(self.labels)

    @cached_property
    def symmetric(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR (ptr, idx) with both directions, no self-loops, no duplicates."""
        return symmetric_csr(self.source, self.target, self.num_nodes)

    def induced(self, nodes: np.ndarray) -> RawGraph:
        """Return the subgraph of `nodes` (ascending ids), renumbered from 0."""
        place = np.full(self.num_nodes, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        source, target = place[self.source], place[self.target]
        inside = (source >= 0) & (target >= 0)
        return replace(
            self,
            source=source[inside],
            target=target[inside],
            features=None if self.features is None else self.features[nodes],
            labels=self.labels[nodes],
            split=None if self.split is None else self.split[nodes],
            texts=None if self.texts is None else {key: [text[i] for i in nodes] for key, text in self.texts.items()},
        )


def split_array(num_nodes: int, train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return (N,) uint8 from three lists of ids in [0, N), which may not overlap; raises ValueError for others."""
    split = np.full(num_nodes, NO_SPLIT, dtype=np.uint8)
    for ids, value in ((train, TRAIN), (validation, VALIDATION), (test, TEST)):
        if len(ids) and (ids.min() < 0 or ids.max() >= num_nodes):
            raise ValueError(f"official split: ids {ids.min()}..{ids.max()}: expected 0..{num_nodes - 1}")
        split[ids] = value
    total = len(train) + len(validation) + len(test)
    assigned = int((split != NO_SPLIT).sum())
    if assigned != total:
        raise ValueError(f"official split: {total} ids for {assigned} nodes: expected each node at most once")
    return split


def _checked_labels(labels: np.ndarray) -> np.ndarray:
    """Return (N,) int64 in -1..MOST_CLASSES - 1, from integers, or floating-point numbers that are whole."""
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        raise UserError(f"labels of shape {labels.shape}, type {labels.dtype}: expected one integer per node")
    if len(labels) and not (labels.min() >= -1 and labels.max() < MOST_CLASSES):
        raise UserError(f"labels {labels.min()}..{labels.max()}: expected -1 (none)..{MOST_CLASSES - 1}")
    whole = labels.astype(np.int64, copy=False)
    if labels.dtype.kind == "f" and (whole != labels).any():
        raise UserError("labels: expected integers, found numbers with a fraction")
    return whole


def _check_features(features: np.ndarray | sp.csr_matrix, nodes: int) -> None:
    if len(features.shape) != 2:
        raise UserError(f"features of shape {features.shape}: expected a matrix with a row per node")
    if features.shape[0] != nodes:
        raise UserError(f"rows of features={features.shape[0]}: expected {nodes}, one per label")
    values = features if isinstance(features, np.ndarray) else features.data
    # a sum of finite 32-bit numbers is finite in 64 bits, and it needs no second array of that size
    with np.errstate(invalid="ignore"):  # inf - inf
        total = values.sum(dtype=np.float64)
    if not np.isfinite(total):
        raise UserError("features: expected finite numbers, found nan or inf")


def frequent_classes(raw: RawGraph, least: int) -> RawGraph:
    """Return the nodes of classes with `least` nodes or more that have an edge among themselves, with classes from 0.

    Which classes and nodes these are depends on all records: declared public, and stated with every run. Raises
    UserError where no class is left.
    """
    if least < 1:
        raise invalid("least_in_class", least, "an integer >= 1")
    counts = np.bincount(raw.labels[raw.labels >= 0], minlength=1)
    classes = np.flatnonzero(counts >= least)
    if not len(classes):
        raise invalid("least_in_class", least, f"at most {int(counts.max())}, the nodes of the largest class")
    kept = raw.induced(np.flatnonzero(np.isin(raw.labels, classes)))
    joined = np.flatnonzero(np.diff(kept.symmetric[0]))
    kept = kept.induced(joined)
    stated = f"the classes: those with at least {least} nodes; nodes without an edge among these are removed"
    return replace(kept, labels=np.searchsorted(classes, kept.labels), data_dependent=(*raw.data_dependent, stated))


@dataclass(frozen=True)
class RawImages:
    """N images with labels."""

    images: np.ndarray  # (N, height, width, channels) float32 in [0, 1]
    labels: np.ndarray  # (N,) int64; -1: none
    split: np.ndarray | None = None  # (N,) uint8, the official split; None: there is none
    data_dependent: tuple[str, ...] = ()  # what the reader made of all records together, see `records.data_dependent`

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or not self.images.size:
            raise UserError(f"images {list(self.images.shape)}: expected (N, height, width, channels), none of them 0")
        for name in ("labels", "split"):
            value = getattr(self, name)
            if value is not None and value.shape != (len(self.images),):
                raise UserError(f"{name} of {len(value)} images: expected {len(self.images)}")
