"""Reads results; the shares are derived from predictions, of the nodes that the graphs say are tested."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs

INPUTS = Inputs(aggregation_reads_graphs=True)
