"""Generated graphs: no files; the registry's options are the model's parameters."""

from __future__ import annotations

from pathlib import Path

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.synthetic import BlockModel, generate


def read(raw_dir: Path, **parameters: str | int | float) -> RawGraph:
    return generate(BlockModel.model_validate(parameters))
