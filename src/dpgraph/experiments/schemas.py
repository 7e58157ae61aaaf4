"""JSON schemas of what a user writes, generated from the models: editors complete, a test keeps them from drifting."""

from __future__ import annotations

import json
from pathlib import Path

from dpgraph.experiments.cell import Cell
from dpgraph.experiments.config import Config
from dpgraph.experiments.experiment import Experiment, Suite
from dpgraph.experiments.frozen import Frozen
from dpgraph.files import write_text

MODELS: dict[str, type[Frozen]] = {"config": Config, "suite": Suite, "experiment": Experiment, "cell": Cell}


def schema_text(name: str) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **MODELS[name].model_json_schema()}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    paths = []
    for name in MODELS:
        path = folder / f"{name}.schema.json"
        write_text(path, schema_text(name))
        paths.append(path)
    return paths
