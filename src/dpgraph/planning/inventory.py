"""Every table, figure and claim of the papers, by the suite that has all of them."""

from pathlib import Path

from dpgraph.config.config import Config, parse
from dpgraph.config.documents import read_yaml
from dpgraph.config.inventory import Inventory
from dpgraph.core.errors import invalid
from dpgraph.planning.plan import Plan, load_plan

INVENTORY = "inventory.yaml"


def read_inventory(workflow: Path, paper: str | None = None) -> tuple[Plan, list[dict[str, str]]]:
    """Return the plan of the suite that has all, and every item of one paper or all with the artefacts that show it."""
    path = workflow / INVENTORY
    known = parse(Inventory, read_yaml(path), str(path))
    plan = load_plan(Config(suite=known.suite), workflow)
    if paper is not None and paper not in plan.experiments:
        raise invalid("--paper", paper, f"one of {', '.join(plan.experiments)}")
    names = {
        one: [*(name.partition("/")[2] for name in plan.artefacts if name.startswith(f"{one}/")), *experiment.claims]
        for one, experiment in plan.experiments.items()
        if paper in (None, one)
    }
    return plan, known.rows(names)
