"""Reads the records of its own cells: no other cell of the suite need have run."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, Source

INPUTS = Inputs((Source.CELLS,), "dpgraph.reporting.views.search.rows:search_results")
