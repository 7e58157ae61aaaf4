"""Reads graphs alone."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.GRAPHS,), "dpgraph.reporting.views.statistics.rows:stored_statistics")
