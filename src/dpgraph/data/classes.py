"""Which classes and nodes of a graph make up a task, where its publishers keep frequent classes only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpgraph.core.errors import invalid
from dpgraph.data.raw_graph import RawGraph


def frequent_classes(raw: RawGraph, least: int) -> RawGraph:
    """The nodes of classes with at least `least` nodes that have an edge among themselves; classes renumbered from 0.

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
    return replace(
        kept,
        labels=np.searchsorted(classes, kept.labels),
        data_dependent=(*raw.data_dependent, stated),
    )
