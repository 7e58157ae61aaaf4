"""Reads results, and the class frequencies of graphs; so do claims on it."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS), claims_read_graphs=True)
