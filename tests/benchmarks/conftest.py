"""Graphs written by hand, as in tests/sampling."""

from tests.sampling.conftest import graph_of

__all__ = ["graph_of"]
