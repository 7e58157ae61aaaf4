"""Reads results and exposed losses."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.RESULTS, SuiteFiles.CELLS))
