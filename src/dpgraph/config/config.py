"""config.yaml: what to run and where files are. How to run it (cores, cluster) is set by Snakemake and its profile."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from dpgraph.config.cell import MOST_SEEDS
from dpgraph.config.documents import read_yaml
from dpgraph.config.frozen import Finite, Frozen
from dpgraph.core.errors import UserError, meant, one_line, shown

M = TypeVar("M", bound=Frozen)
Folder = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
MOST_JOBS = 10_000
LONGEST_REASON = 2000


class Config(Finite):
    suite: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=100)] = "demo"
    """File below workflow/suites/: demo, cpu, paper or one of yours"""
    papers: tuple[str, ...] | None = Field(default=None, description="Papers of the suite to run; null: all")
    artefacts: tuple[str, ...] | None = None
    """Artefacts to run, e.g. [daigavane/table1]; null: all of the suite"""
    seeds: Annotated[int, Field(ge=1, le=MOST_SEEDS)] | None = None
    """Seeds per cell, 0 to seeds - 1; null: what the suite says"""
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: a GPU where there is one")
    mirrors: tuple[Folder, ...] = ()
    """Folders that hold data files, tried before the URLs; $DPGRAPH_MIRROR comes after them"""
    data: Folder = "data"
    """Folder of raw files and preprocessed graphs, shared by all suites"""
    results: Folder = Field(default="results", description="A suite writes below results/<suite>/")
    registry: tuple[Folder, ...] = ()
    """Files and folders of your own data sets and methods (docs/how-to/extend-from-outside.md)"""
    parallel_jobs: Annotated[int, Field(ge=1, le=MOST_JOBS)] | None = None
    """Jobs that run side by side; cells share jobs so that each of these has at least two, of an hour at most.
    null: as `dpgraph run` counts cores, GPUs or the profile's jobs; without it 16, of at least two minutes"""
    jobs_per_gpu: Annotated[int, Field(ge=1, le=MOST_JOBS)] | None = None
    """Training jobs that share a GPU of this machine; null: as many as fit in its memory, at most 12"""
    when_data_is_missing: Literal["record", "fail"] = "record"
    """record: tables show 'not run (data not available)'; fail: stop the workflow"""

    def arguments(self) -> str:
        """Return this config as options of the stages that need the plan; what only groups cells changes no stage."""
        plan = self.model_copy(update={"parallel_jobs": None, "jobs_per_gpu": None})
        return " ".join(f"--set {shlex.quote(item)}" for item in plan.items())

    def overrides(self) -> str:
        """Return this config as values of Snakemake's `--config`."""
        return " ".join(shlex.quote(item) for item in self.items())

    def items(self) -> list[str]:
        """Return NAME=VALUE of each key that is not null, the value as JSON."""
        # null is what an absent key means, and Snakemake reads it as a text
        values = self.model_dump(mode="json", exclude_none=True)
        return [f"{name}={json.dumps(value)}" for name, value in values.items()]


def parse(model: type[M], value: Any, where: str, given: Mapping[str, str] = MappingProxyType({})) -> M:
    """Return the model of plain data. Raise UserError for the first error: where, field, value, what was expected.

    `given` names the places of keys that are not from `where`.
    """
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: expected a mapping of names to values")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        location = error.errors(include_url=False)[0]["loc"]
        place = given.get(str(location[0]), where) if location else where
        raise UserError(f"{place}: {first_line(error, model)}") from None


def first_line(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return the first error of a validation of `model`, with a name that an unknown key may have been meant to be."""
    first = error.errors(include_url=False)[0]
    name = ".".join(shown(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    given = f"{name}={shown(first['input'])}"
    if first["type"] == "extra_forbidden":
        return one_line(f"{given}: unknown key{meant(first['loc'][-1], keys_of(model, first['loc'][:-1]))}{more}")
    if first["type"] == "missing":
        return one_line(f"{name}: missing{more}")
    if first["type"] == "json_invalid":  # the input is the whole file
        return one_line(f"not valid JSON: {first['ctx']['error']}")
    if first["type"] == "tuple_type":
        example = f", such as [{shown(first['input'])}]" if isinstance(first["input"], str) else ""
        return one_line(f"{given}: expected a list{example}{more}")
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")[:LONGEST_REASON]
    if first["type"] == "value_error":
        where = "" if not name else f"{name}: " if isinstance(first["input"], Mapping) else f"{given}: "
        return one_line(f"{where}{message}{more}")
    names = re.findall(r"'([^']*)'", first["ctx"]["expected"]) if first["type"] == "literal_error" else []
    return one_line(f"{given}: expected {message}{more}{meant(first['input'], names)}")


def keys_of(model: type[BaseModel] | None, location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the model at `location` has; none where there is no model."""
    for name in location:
        field = None if model is None else model.model_fields.get(str(name))
        kind: Any = None if field is None else field.annotation
        model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return [] if model is None else list(model.model_fields)


def load(model: type[M], path: Path) -> M:
    value = read_yaml(path)
    return parse(model, {} if value is None else value, str(path))


def knows(model: type[BaseModel], path: Path) -> bool:
    """Return whether the file is a mapping whose keys all are the model's."""
    value = read_yaml(path)
    return isinstance(value, Mapping) and set(value) <= set(model.model_fields)
