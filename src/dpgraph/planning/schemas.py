"""JSON schemas of what a user writes, generated from the models: editors complete, a test keeps them from drifting."""

from __future__ import annotations

import json
from pathlib import Path

from dpgraph.experiments.config import Config
from dpgraph.experiments.experiment import Experiment, Suite
from dpgraph.experiments.frozen import Frozen
from dpgraph.files import write_text
from dpgraph.methods.registry import specs

MODELS: dict[str, type[Frozen]] = {"config": Config, "suite": Suite, "experiment": Experiment}


def models() -> dict[str, type[Frozen]]:
    """By name of the file: a cell has a schema for each method, whose settings are its own."""
    return {**MODELS, **{f"cells/{name}": spec.cell for name, spec in specs().items()}}


def schema_text(name: str) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **models()[name].model_json_schema()}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    paths = []
    for name in models():
        path = folder / f"{name}.schema.json"
        write_text(path, schema_text(name))
        paths.append(path)
    return paths
