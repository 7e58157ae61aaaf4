"""Options that several commands share, and what they read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dpgraph.core.errors import UserError, invalid, shown

if TYPE_CHECKING:
    from dpgraph.config.cell import Cell
    from dpgraph.config.config import Config
    from dpgraph.planning.plan import Plan

Device = Literal["auto", "cpu", "cuda"]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON.")]


def _whole(_: Any, tokens: Any) -> int:
    return int(tokens[0].value)  # cyclopts rounds 1.5


Whole = Annotated[int, Parameter(converter=_whole)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options that choose a suite and change its config.

    Attributes:
        config: Config: a file, or JSON text.
        changes: NAME=VALUE: override the config; may be repeated.
        workflow: Folder of suites and experiments.
        suite: Suite (default: the config's).
    """

    config: str = "config.yaml"
    changes: Annotated[tuple[str, ...], Parameter(name="--set")] = ()
    workflow: Path = Path("workflow")
    suite: str | None = None

    def read(self, paper: str | None = None) -> Config:
        """Return the config with its overrides, and register what it names outside the package."""
        from dpgraph.config.config import Config, parse
        from dpgraph.config.documents import json_value, read_yaml, yaml_value
        from dpgraph.core import outside

        path, value = self.config, None
        if path.lstrip().startswith("{"):
            path, value = "config", json_value(path, "config")
        elif os.path.isfile(path) or path != "config.yaml":
            value = read_yaml(Path(path))
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise UserError(f"{path}: expected a mapping of names to values")
        given = {}
        for item in self.changes:
            name, equals, text = item.partition("=")
            if not equals:
                raise invalid("--set", item, "NAME=VALUE")
            value[name] = yaml_value(text, f"--set {shown(name)}")
            given[name] = "--set"
        if self.suite is not None:
            value["suite"], given["suite"] = self.suite, "--suite"
        if paper is not None:
            value["papers"], given["papers"] = [paper], "--paper"
        config = parse(Config, value, path, given)
        outside.use(config.registry)
        return config

    def plan(self, paper: str | None = None) -> Plan:
        """Return the plan of the suite."""
        from dpgraph.planning.plan import load_plan

        return load_plan(self.read(paper), self.workflow)


ANY_SUITE = PlanOptions()


def read_cell(text: str) -> Cell:
    """Return a cell from a JSON file or from JSON text."""
    from dpgraph.config.documents import json_value, text_of
    from dpgraph.planning.resolve import resolve

    if text.lstrip().startswith("{"):
        return resolve(json_value(text, "cell"))
    if not os.path.isfile(text):  # unlike Path's, it answers no to names that no file can have
        raise UserError(f"cell={shown(text)}: no such file")
    return resolve(json_value(text_of(Path(text)), text), text)


def only_one(options: dict[str, Any]) -> None:
    """Raise UserError unless exactly one of the options is given."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise UserError(f"{', '.join(given or options)}: expected {'only ' * bool(given)}one of {', '.join(options)}")
