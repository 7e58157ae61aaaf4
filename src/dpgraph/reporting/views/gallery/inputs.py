"""Reads results, reconstructions, and the images of the task."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS, SuiteFiles.CELLS))
