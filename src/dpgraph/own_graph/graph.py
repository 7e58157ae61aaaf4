"""The one value that all readers make of a user's graph; every defect is one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dpgraph.core.errors import UserError, shown
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.adjacency import symmetric_csr, transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import SPLIT_NAMES, TEST, TRAIN, VALIDATION

DEGREES = 16  # columns of a graph without features: powers of two of the own list's length
MOST_NUMBERS = 2 * 10**9  # of features, in memory


Ranges = tuple[tuple[str, float, float], ...]  # column, and the public ends that become -1 and 1


@dataclass(frozen=True, eq=False)
class OwnGraph:
    """`source[i] -> target[i]`; undirected unless `directed`. Labels are places in `classes`, -1: to be predicted."""

    ids: tuple[str, ...]
    source: np.ndarray  # (E,) int64 in [0, N)
    target: np.ndarray
    features: np.ndarray | None  # (N, F), float32 after `with_ranges`; None: the own list's length is the only feature
    labels: np.ndarray  # (N,) int64
    classes: tuple[str, ...]
    split: np.ndarray | None = None  # (N,) uint8: public roles; None: a tenth, drawn, is held out
    directed: bool = False
    columns: tuple[str, ...] = ()
    classes_given: bool = False
    where: str = "graph"
    ranges: Ranges = ()  # of columns that were brought to -1..1
    public_columns: tuple[str, ...] = ()  # that the user confirms to be public, though they tell a degree
    list_columns: tuple[str, ...] = ()  # that the user says are made from the node's own list
    files: tuple[Path, ...] = ()  # that it was read from
    as_they_are: tuple[str, ...] = ()  # columns that may have nearly all of the norm
    read: tuple[str, ...] = ()  # how files were read, in words: for the curator's screen alone
    uncovered: tuple[str, ...] = ()  # what was made from all records before: no epsilon covers it
    missing: Mapping[str, int] = field(default_factory=dict)  # texts that mean no label, and how many: as `read`

    def __post_init__(self) -> None:
        size, where = len(self.ids), self.where
        if size < 2:
            raise UserError(f"{where}: {size} nodes: expected at least 2")
        if not (self.labels >= 0).any():
            raise UserError(f"{where}: no node has a label: expected some to train on")
        if len(self.classes) < 2:
            found = ", ".join(self.classes) or "none"
            raise UserError(f"{where}: classes={shown(found)}: expected at least 2 (in the label column or --classes)")
        for name, ids in (("source", self.source), ("target", self.target)):
            wrong = np.flatnonzero((ids < 0) | (ids >= size))
            if len(wrong):
                raise UserError(f"{where}: edge {wrong[0]}, {name}={ids[wrong[0]]}: expected 0..{size - 1}")
        if self.features is not None:
            if self.features.ndim != 2 or len(self.features) != size:
                raise UserError(f"{where}: features of shape {self.features.shape}: expected a row for each of {size}")
            if self.features.size > MOST_NUMBERS:
                raise UserError(f"{where}: {self.features.size} features: expected at most {MOST_NUMBERS} in all")
            wrong = np.flatnonzero(~np.isfinite(self.features).all(axis=1))
            if len(wrong):
                name = self.names[int(np.isfinite(self.features[wrong[0]]).argmin())]
                raise UserError(f"{where}: node {shown(self.ids[wrong[0]])}: features: expected finite numbers, "
                                f"below 3e38: {shown(name)}")  # fmt: skip

    @property
    def roles(self) -> np.ndarray:
        """(N,) uint8. Who is held out depends on places only: it is drawn from N, and public."""
        return held_out(len(self.ids)) if self.split is None else self.split

    @property
    def split_is_drawn(self) -> bool:
        """Return whether the roles are those that are drawn where none are given, as for a data set of the registry."""
        return self.split is None or np.array_equal(self.split, held_out(len(self.ids)))

    @property
    def num_features(self) -> int:
        return DEGREES if self.features is None else self.features.shape[1]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of columns; of features that came as an array, by place."""
        return self.columns or tuple(f"feature {place}" for place in range(self.num_features))

    @property
    def known_words(self) -> float | None:
        """Features of a record that are not 0, where that is known without looking: of a list's length, one."""
        return 1.0 if self.features is None else None

    def graph(self) -> Graph:
        """Return the stored graph, without duplicates and self-loops in its lists."""
        size = len(self.ids)
        if self.directed:
            keys = np.unique((self.source * size + self.target)[self.source != self.target])
            ptr = np.concatenate([[0], np.cumsum(np.bincount(keys // size, minlength=size))]).astype(np.int64)
            idx = (keys % size).astype(np.int32)
            back = transpose(ptr, idx)
        else:
            ptr, idx = symmetric_csr(self.source, self.target, size)
            back = ptr, idx
        features = self.features
        if features is None:
            features = length_rows(np.diff(ptr))
        return Graph(
            name="own-graph", features=features, labels=self.labels, split=self.roles, num_classes=len(self.classes),
            out_ptr=ptr, out_idx=idx, in_ptr=back[0], in_idx=back[1],
        )  # fmt: skip


def held_out(size: int) -> np.ndarray:
    """Draw the (N,) roles of a graph without a split from N alone: a tenth of the nodes is held out."""
    drawn = numpy_generator("dpgraph", "held out", size).random(size) < 0.1
    return np.where(drawn, TEST, TRAIN).astype(np.uint8)


def length_rows(lengths: np.ndarray) -> np.ndarray:
    """Return (n, DEGREES) float32 rows for nodes without features: the power of two at or below the list's length.

    A null record has an empty list, and must be a row of zeros, which does not vote.
    """
    place = np.minimum(np.log2(lengths + 1).astype(np.int64), DEGREES - 1)
    return np.eye(DEGREES, dtype=np.float32)[place] * (lengths > 0)[:, None].astype(np.float32)


def scaled_columns(features: np.ndarray, columns: Sequence[str], ranges: Ranges) -> np.ndarray:
    """Return float32 features with LOW..HIGH of each of these columns as -1..1; values outside are clipped.

    Times in seconds differ in digits that float32 does not have, so it is the scaled number that is rounded.
    """
    with np.errstate(over="ignore"):
        rows = features.astype(np.float32)
        for name, low, high in ranges:
            place = columns.index(name)
            rows[:, place] = np.clip((features[:, place].astype(np.float64) - low) / (high - low) * 2 - 1, -1, 1)
    return rows


def in_order(own: OwnGraph) -> OwnGraph:
    """Return nodes by their ids (shorter ones first, n2 before n10), whatever the order of their rows.

    Ids are public and the model lists them; the order of a table may depend on private
    data: one that is sorted by label would publish the labels.
    """
    order = np.array(sorted(range(len(own.ids)), key=lambda place: (len(own.ids[place]), own.ids[place])))
    if (np.diff(order) == 1).all():
        return own
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return replace(
        own, ids=tuple(own.ids[one] for one in order.tolist()), source=place[own.source], target=place[own.target],
        features=None if own.features is None else own.features[order], labels=own.labels[order],
        split=None if own.split is None else own.split[order],
    )  # fmt: skip


def places_of(values: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """Return (len(values),) place of each in `known`, which are distinct; -1: not among them."""
    import pandas as pd

    return pd.Index(known, dtype=object).get_indexer(pd.Index(values, dtype=object)).astype(np.int64)


def split_of(values: Sequence[str], where: str, first: int = 2) -> np.ndarray:
    array = np.asarray(values, dtype=object)
    found = places_of([str(value).lower() for value in values], list(SPLIT_NAMES))
    wrong = np.flatnonzero(found < 0)
    if len(wrong):
        names = ", ".join(SPLIT_NAMES)
        raise UserError(f"{where}, row {wrong[0] + first}: split={shown(array[wrong[0]])}: expected one of {names}")
    return np.asarray([TRAIN, VALIDATION, TEST], dtype=np.uint8)[found]


NAMED = 8  # columns and classes that a line names


def what_was_read(own: OwnGraph, held_out: str = "") -> list[str]:
    """Return lines on files, columns, nodes, edges and labels, and `held_out` or who is held out.

    They are for the curator's screen: they come from private data, and no release has any of them.
    """
    return [*own.read, _graph(own), _labels(own), held_out or _held_out(own)]


def _graph(own: OwnGraph) -> str:
    size, rows = len(own.ids), len(own.source)
    keys = (own.source * size + own.target)[own.source != own.target]
    loops, apart = rows - len(keys), np.unique(keys)
    joined = np.unique(np.minimum(apart // size, apart % size) * size + np.maximum(apart // size, apart % size))
    kept = len(apart) if own.directed else len(joined)
    both = 0 if own.directed else len(apart) - len(joined)
    left = ((loops, "self-loops"), (len(keys) - len(apart), "duplicates"), (both, "the other direction of an edge"))
    why = ", ".join(f"{count} {what}" for count, what in left if count)
    text = f"{size} nodes; {kept} {'directed' if own.directed else 'undirected'} edges of {rows} given"
    text += f" (left out: {why})" if why else ""
    if own.features is None:
        return f"{text}; no features: the lengths of lists are read"
    if own.columns or own.num_features == 1:
        return f"{text}; {own.num_features} features: {_listed(own.names)}"
    return f"{text}; {own.num_features} features, named by their places: {own.names[0]} to {own.names[-1]}"


def _labels(own: OwnGraph) -> str:
    counts = np.bincount(own.labels[own.labels >= 0], minlength=len(own.classes)).tolist()
    of_classes = [f"{name} {count}" for name, count in zip(own.classes, counts, strict=True)]
    none = int((own.labels < 0).sum())
    means = ", ".join(f"{count} as {shown(text)}" for text, count in own.missing.items())
    return f"{len(own.classes)} classes: {_listed(of_classes)}; {none} nodes without a label" + (
        f" ({means})" if means else ""
    )


def _held_out(own: OwnGraph) -> str:
    if own.split_is_drawn:
        return "held out: a tenth of the nodes, drawn from their number alone"
    parts = ", ".join(f"{name} {int((own.roles == role).sum())}" for name, role in SPLIT_NAMES.items())
    return f"held out by the split that was given: {parts}"


def _listed(names: list[str] | tuple[str, ...]) -> str:
    first = ", ".join(shown(name) for name in names[:NAMED])
    return first if len(names) <= NAMED else f"{first}, ... {shown(names[-1])}"
