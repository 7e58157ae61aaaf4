"""Graphs with canaries: no files; the registry's options are their numbers."""

from __future__ import annotations

from pathlib import Path

from dpgraph.data.canaries import Canaries, generate
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers.sbm import model_of


def read(raw_dir: Path, **parameters: str | int) -> RawGraph:
    return generate(model_of(Canaries, "canaries", parameters))
