"""Reads results, and predictions of the labelled test nodes of graphs."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS, SuiteFiles.CELLS))
