"""Graphs of given lists, as in the tests of samplers."""

from tests.engine.sampling.conftest import graph_of

__all__ = ["graph_of"]
