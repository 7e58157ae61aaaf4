"""Reads results alone."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs

INPUTS = Inputs()
