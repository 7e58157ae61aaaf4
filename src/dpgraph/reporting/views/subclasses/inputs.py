"""Reads the images of the task alone: no training."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, SuiteFiles

INPUTS = Inputs((SuiteFiles.GRAPHS,), loader="")
