"""Reads nothing: bounds are functions of numbers."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs

INPUTS = Inputs((), "")
