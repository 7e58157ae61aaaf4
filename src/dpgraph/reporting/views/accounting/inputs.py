"""Reads calibrations, which it finds by the cells of the plan: nothing is trained."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.CALIBRATIONS,), loader="")
