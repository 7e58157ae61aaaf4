"""Say what was read, in at most five lines on the curator's screen. It reads private data: no release has any of it."""

from __future__ import annotations

import numpy as np

from dpgraph.core.errors import shown
from dpgraph.data.records import SPLIT_NAMES
from dpgraph.own_graph.graph import OwnGraph

NAMED = 8  # columns and classes that a line names


def what_was_read(own: OwnGraph, held_out: str = "") -> list[str]:
    """Return lines on files and columns, on nodes and edges, on labels, and `held_out` or who is held out."""
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
    return f"{text}; {own.num_features} features: {_listed(own.names)}"


def _labels(own: OwnGraph) -> str:
    counts = np.bincount(own.labels[own.labels >= 0], minlength=len(own.classes)).tolist()
    of_classes = [f"{name} {count}" for name, count in zip(own.classes, counts, strict=True)]
    none = int((own.labels < 0).sum())
    means = ", ".join(f"{count} as {shown(text)}" for text, count in own.missing.items())
    return f"{len(own.classes)} classes: {_listed(of_classes)}; {none} nodes without a label" + (
        f" ({means})" if means else ""
    )


def _held_out(own: OwnGraph) -> str:
    if own.split is None:
        return "held out: a tenth of the nodes, drawn from their number alone"
    parts = ", ".join(f"{name} {int((own.split == role).sum())}" for name, role in SPLIT_NAMES.items())
    return f"held out by the split that was given: {parts}"


def _listed(names: list[str] | tuple[str, ...]) -> str:
    first = ", ".join(shown(name) for name in names[:NAMED])
    return first if len(names) <= NAMED else f"{first}, ... {shown(names[-1])}"
