"""JSON schemas of the YAML files that a user writes, generated from the models, for editors that complete keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpgraph.config.config import Config
from dpgraph.config.expansion import ExpandedModel
from dpgraph.config.experiment import Experiment
from dpgraph.config.frozen import Frozen
from dpgraph.config.inventory import Inventory
from dpgraph.config.literature import Baselines
from dpgraph.config.settings import ChosenSettings
from dpgraph.config.suite import Suite
from dpgraph.core.files import write_text
from dpgraph.families.registry import specs

MODELS: dict[str, type[Frozen]] = {
    "config": Config,
    "suite": Suite,
    "experiment": Experiment,
    "baselines": Baselines,
    "setting": ChosenSettings,
    "inventory": Inventory,
}
_NAMED = {"$ref": "#/$defs/Named"}
_REPEATED = {"$ref": "#/$defs/Repeated"}
# these hold of the expanded file
_COUNTED = ("patternProperties", "propertyNames", "minItems", "maxItems", "minProperties")
_WRITTEN = {
    "Named": {"type": "string", "pattern": r"^\$", "description": "$name: what define or a matrix gives it"},
    "Repeated": {
        "type": "object",
        "description": "An entry for each combination of its matrix",
        "properties": {
            "matrix": {
                "type": "object",
                "description": "Lists of values by name; several names with commas: lists of as many values",
            }
        },
        "required": ["matrix"],
    },
}


def models() -> dict[str, type[Frozen]]:
    """Return the models by the file's name, among them one for the cells of each method, whose settings are its own."""
    return {**MODELS, **{f"cells/{name}": spec.cell for name, spec in specs().items()}}


def schema_of(model: type[Frozen]) -> dict[str, Any]:
    schema = model.model_json_schema()
    if issubclass(model, ExpandedModel):
        schema = _as_written(schema, model)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _as_written(schema: dict[str, Any], model: type[ExpandedModel]) -> dict[str, Any]:
    """Admit, before expansion, a $name for any value and a matrix in any entry."""
    sections = {"define": "Values by name; $name stands for them anywhere in the file"}
    for section, into in model.SECTIONS.items():
        sections[section] = f"Values of {into} by name, for entries with {section}; a key may list several, with commas"
        for part in schema["$defs"].values():
            if into in part.get("properties", {}):
                part["properties"][section] = {"type": "string", "description": f"Name below {section} of the file"}
    result = _open(schema)
    for section, description in sections.items():
        result["properties"][section] = {"type": "object", "description": description}
    result["$defs"] |= _WRITTEN
    return result


def _open(part: Any) -> Any:
    if isinstance(part, list):
        return [_open(one) for one in part]
    if not isinstance(part, dict):
        return part
    result: dict[str, Any] = {}
    for key, value in part.items():
        if key == "properties":
            result[key] = {name: {"anyOf": [_open(one), _NAMED]} for name, one in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            result[key] = {"anyOf": [_open(value), _REPEATED, _NAMED]}
        elif key in _COUNTED:
            continue
        else:
            result[key] = _open(value)
    for value in part.get("patternProperties", {}).values():
        result["additionalProperties"] = {"anyOf": [_open(value), _REPEATED, _NAMED]}
    return result


def write_schemas(folder: Path) -> list[Path]:
    paths = []
    for name, model in models().items():
        paths.append(folder / f"{name}.schema.json")
        write_text(paths[-1], json.dumps(schema_of(model), indent=1, ensure_ascii=False) + "\n")
    return paths
