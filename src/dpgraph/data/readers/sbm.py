"""Generated graphs: no files; the registry's options are the model's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpgraph.core.errors import UserError
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.synthetic import BlockModel, generate

M = TypeVar("M", bound=BaseModel)


def read(raw_dir: Path, **parameters: str | int | float) -> RawGraph:
    return generate(model_of(BlockModel, "sbm", parameters))


def model_of(kind: type[M], reader: str, parameters: Mapping[str, Any]) -> M:
    """Return the model with these parameters; raise UserError that names the first wrong one."""
    try:
        return kind.model_validate(parameters)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"options of reader {reader}, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
