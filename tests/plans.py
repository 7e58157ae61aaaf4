"""Plans of the project's own suites, made once in a process: one takes up to two seconds. No test may change them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dpgraph.config.config import Config
from dpgraph.planning.plan import Plan, load_plan

WORKFLOW = Path(__file__).resolve().parents[1] / "workflow"
SUITES = sorted(path.stem for path in (WORKFLOW / "suites").glob("*.yaml"))


@cache
def _made(config: Config, workflow: Path) -> Plan:
    return load_plan(config, workflow)


def load_once(config: Config, workflow: Path = WORKFLOW) -> Plan:
    """Return what `load_plan` returns, made once."""
    return _made(config, workflow.resolve())


def plan_of(suite: str = "demo", **config: object) -> Plan:
    """Return the plan of a suite in workflow/suites, with other values of the config."""
    return load_once(Config.model_validate({"suite": suite, **config}))
