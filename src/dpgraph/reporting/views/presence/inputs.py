"""Reads results; what is shown of canaries is derived from predictions of the nodes that list them."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs

INPUTS = Inputs(aggregation_reads_graphs=True)
