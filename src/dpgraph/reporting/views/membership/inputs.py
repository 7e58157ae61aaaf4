"""Reads results and exposed losses."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, Source

INPUTS = Inputs((Source.RESULTS, Source.CELLS))
