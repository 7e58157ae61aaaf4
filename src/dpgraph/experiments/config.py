"""config.yaml: what to run and where things lie. How to run it (cores, cluster) is Snakemake's and its profile's."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from dpgraph.errors import UserError
from dpgraph.experiments.frozen import Frozen

M = TypeVar("M", bound=Frozen)


class Config(Frozen):
    suite: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = Field(
        default="demo", description="File below workflow/suites/: demo, cpu, paper or one of yours"
    )
    papers: tuple[str, ...] | None = Field(default=None, description="Papers of the suite to run; null: all")
    artefacts: tuple[str, ...] | None = Field(
        default=None, description="Artefacts to run, e.g. [daigavane/table1]; null: all of the suite"
    )
    seeds: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Seeds per cell, 0 to seeds - 1; null: what the suite says"
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: a GPU where there is one")
    mirrors: tuple[str, ...] = Field(
        default=(), description="Folders that hold data files, tried before the URLs; $DPGRAPH_MIRROR comes after them"
    )
    data: str = Field(default="data", description="Folder of raw files and preprocessed graphs, shared by all suites")
    results: str = Field(default="results", description="A suite writes below results/<suite>/")
    minutes_per_job: Annotated[float, Field(gt=0)] = Field(
        default=2.0,
        description="Cells of one task share a job up to this estimated time on one core; take more on a cluster",
    )
    when_data_is_missing: Literal["record", "fail"] = Field(
        default="record", description="record: tables show 'not run (data not available)'; fail: stop the workflow"
    )

    def arguments(self) -> str:
        """This config as command-line options of the stages that need the plan."""
        return " ".join(f"--set {shlex.quote(item)}" for item in self._items())

    def overrides(self) -> str:
        """This config as values of Snakemake's `--config`."""
        return " ".join(shlex.quote(item) for item in self._items())

    def _items(self) -> list[str]:
        # null is what an absent key means, and Snakemake reads it as a text
        values = self.model_dump(mode="json", exclude_none=True)
        return [f"{name}={json.dumps(value)}" for name, value in values.items()]


def parse(model: type[M], value: Any, where: str) -> M:
    """Model from plain data; the first error in one line: where, field, value, what was expected."""
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: expected a mapping of names to values")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{where}: {first_line(error)}") from None


def first_line(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        return f"{name}={first['input']}: unknown key{more}"
    if first["type"] == "missing":
        return f"{name}: missing{more}"
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if first["type"] == "value_error" and not name:
        return message + more
    if first["type"] == "value_error":
        return (
            f"{name}: {message}{more}"
            if isinstance(first["input"], Mapping)
            else (f"{name}={first['input']}: {message}{more}")
        )
    return f"{name}={first['input']}: expected {message}{more}"


# in C where PyYAML was built with it: every start of Snakemake and every job reads the suite's files
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeys(_SafeLoader):  # type: ignore[misc, valid-type]
    """Refuses a key that stands twice in a mapping: YAML's reader would keep the last one and say nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _UniqueKeys)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a YAML file: {' '.join(str(error).split())}") from None


def load(model: type[M], path: Path) -> M:
    return parse(model, read_yaml(path) or {}, str(path))
