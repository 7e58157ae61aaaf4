"""Columns of results.parquet: those of every row, settings of cells, numbers of mechanisms."""

import csv
import json
import math
import types
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpgraph.config.cell import Cell
from dpgraph.core.errors import shown
from dpgraph.families.registry import specs

NOT_SETTINGS = frozenset({"task", "method", "seeds"})  # columns of their own, or of the seed


class Column(NamedTuple):
    kind: str  # of pandas
    description: str
    stored: str = ""  # its field of a struct column in results.parquet; empty: a column of its own


_LINES = files("dpgraph.reporting").joinpath("columns.csv").read_text(encoding="utf-8").splitlines()
# of every row, by name
COLUMNS = {row["column"]: Column(row["type"], row["description"], row["stored"]) for row in csv.DictReader(_LINES)}
MECHANISM = "mechanism"  # fields of the recorded mechanism have columns of this name and their own
RECORDED_ELSEWHERE = frozenset({"steps", "delta"})  # columns of every row
PLAIN = {
    "training.optimizer": "SGD or Adam",
    "training.learning_rate": "Learning rate",
    "model.architecture": "Kind of network",
    "model.activation": "Function between layers",
    "mechanism.kind": "Mechanism that was accounted for and ran",
    "mechanism.release": "Where rows come from",
    "mechanism.column_norm": "tau, L1 norm of a column",
}


@cache
def settings() -> dict[str, Column]:
    """Return every setting of every method's cells by dotted path; a number where all of its values are numbers."""
    found: dict[str, Column] = {}
    for spec in specs().values():
        for name, field in spec.cell.model_fields.items():
            if name in NOT_SETTINGS:
                continue
            model = _model(field.annotation)
            if model is None and not _options(field.annotation):  # of methods without privacy
                continue
            parts = (
                {name: field} if model is None else {f"{name}.{key}": one for key, one in model.model_fields.items()}
            )
            for path, one in parts.items():
                kind = "float64" if _numeric(one.annotation) else "string"
                known = found.get(path)
                kind = kind if known is None or known.kind == kind else "string"
                told = " ".join((one.description or _told(one.annotation) or PLAIN.get(path, "")).split())
                found[path] = Column(kind, (known.description if known else "") or told)
    return found


@cache
def calibrated() -> dict[str, Column]:
    """Return every field of every mechanism: N (num_roots), noise, sampling rate or batch size, as calibrated."""
    found: dict[str, Column] = {}
    noisy = [variant.mechanism for spec in specs().values() for variant in spec.variants.values()]
    for kind in dict.fromkeys([*noisy, *(spec.without_noise for spec in specs().values())]):
        for name, field in kind.model_fields.items():
            if name not in RECORDED_ELSEWHERE:
                path = f"{MECHANISM}.{name}"
                told = " ".join((PLAIN.get(path) or field.description or "").split())
                found.setdefault(path, Column("float64" if _numeric(field.annotation) else "string", told))
    return found


def mechanism_values(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mechanism of a record by column of `calibrated`; nan or an empty text for a field that it lacks.

    Raises ValueError for a value that the column cannot hold.
    """
    values = {}
    for path, column in calibrated().items():
        value = recorded.get(path.removeprefix(f"{MECHANISM}."))
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not (is_number if column.kind == "float64" else isinstance(value, str | bool)):
            raise ValueError(f"{path}={shown(value)}: expected a {'number' if column.kind == 'float64' else 'text'}")
        values[path] = _as(column.kind, value)
    return values


def setting_values(cell: Cell) -> dict[str, Any]:
    """Return the cell by column of `settings`; nan or an empty text for a setting that it lacks."""
    flat: dict[str, Any] = {}
    for name, value in cell.model_dump(mode="json", exclude=set(NOT_SETTINGS)).items():
        flat |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    return {path: _as(column.kind, flat.get(path)) for path, column in settings().items()}


def dictionary() -> list[tuple[str, str, str]]:
    """Return (column, type, description) of results.parquet."""
    every = (COLUMNS | settings() | calibrated()).items()
    return [(column.stored or name, column.kind, column.description) for name, column in every]


def number(value: float | None) -> float:
    """Return a number as columns hold it: nan for none."""
    return math.nan if value is None else float(value)


def _as(kind: str, value: Any) -> float | str:
    if kind == "float64":
        return number(value)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _options(annotation: Any) -> list[Any]:
    """Return the types of a union, without None and annotations."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [option for part in get_args(annotation) for option in _options(part)]
    return [] if annotation is type(None) else [annotation]


def _told(annotation: Any) -> str:
    """Return the description that a part of a union has."""
    if get_origin(annotation) is Annotated:
        return next((one.description or "" for one in get_args(annotation)[1:] if isinstance(one, FieldInfo)), "")
    return next((told for part in get_args(annotation) if (told := _told(part))), "")


def _model(annotation: Any) -> type[BaseModel] | None:
    return next((one for one in _options(annotation) if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _numeric(annotation: Any) -> bool:
    options = _options(annotation)
    return bool(options) and all(
        one in (int, float)
        or (get_origin(one) is Literal and all(type(value) in (int, float) for value in get_args(one)))
        for one in options
    )
