"""Reads the records of its own cells: no other cell of the suite need have run."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.CELLS,), "dpgraph.reporting.views.search.rows:search_results")
