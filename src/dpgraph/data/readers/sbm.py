"""Generated graphs: no files; the registry's options are the model's parameters."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.errors import UserError


def read(raw_dir: Path, **parameters: str | int | float) -> RawGraph:
    try:
        model = BlockModel.model_validate(parameters)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"options of reader sbm, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return generate(model)
