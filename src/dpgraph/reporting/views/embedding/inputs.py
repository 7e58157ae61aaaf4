"""Reads results, exposed embeddings, and the labels of graphs."""

from __future__ import annotations

from dpgraph.reporting.views.registry import Inputs, Source

INPUTS = Inputs((Source.RESULTS, Source.GRAPHS, Source.CELLS))
