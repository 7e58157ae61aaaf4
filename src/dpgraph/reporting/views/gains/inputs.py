"""Reads results, and the statistics of graphs."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS), "dpgraph.reporting.views.gains.rows:results_and_statistics")
