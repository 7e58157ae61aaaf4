"""Graphs with canaries: no files; the registry's options are their numbers."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from dpgraph.data.canaries import Canaries, generate
from dpgraph.data.raw_graph import RawGraph
from dpgraph.errors import UserError


def read(raw_dir: Path, **parameters: str | int) -> RawGraph:
    try:
        model = Canaries.model_validate(parameters)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"options of reader canaries, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return generate(model)
