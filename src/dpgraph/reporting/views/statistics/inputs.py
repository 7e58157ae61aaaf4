"""Reads graphs alone."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, Source

INPUTS = Inputs((Source.GRAPHS,), "dpgraph.reporting.views.statistics.rows:stored_statistics")
