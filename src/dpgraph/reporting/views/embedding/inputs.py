"""Reads results, exposed embeddings, and the labels of graphs."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS, SuiteFiles.CELLS))
