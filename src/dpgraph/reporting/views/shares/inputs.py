"""Reads nothing but the plan: settings are there before anything is trained."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs

INPUTS = Inputs((), loader="")
