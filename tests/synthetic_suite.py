"""A suite of as many cells as a test needs, with made-up records: a sweep over data sets of 3 to 41 classes.

Every twelfth value has an evaluation at twelve steps, as in the suite `paper`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dpgraph.config.cell import Cell
from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.config.record import Budget, CellRecord, Metric, SeedRecord
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.registry import entry
from dpgraph.engine.methods.base import evaluation_steps
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.planning.resolve import mechanism_for
from dpgraph.privacy.guarantee import Guarantee, PrivacyStatement
from dpgraph.privacy.relation import Relation, Scope

DATASETS = ("pubmed", "cora", "coauthor-cs", "ogbn-arxiv", "reddit-saint")
EPSILONS = (2.0, 4.0, 8.0, 16.0)
PER_VALUE = len(DATASETS) * (2 + 2 * len(EPSILONS))  # two methods without privacy, two with it
STEPS, EVALUATIONS, EVALUATED = 120, 12, 12


def synthetic_plan(folder: Path, cells: int, seeds: int) -> tuple[Plan, list[str]]:
    """A suite of at least `cells` cells in `folder`, and the options of stages that read it."""
    methods: dict[str, Any] = {
        "gcn": {"method": "gnn", "set": {}},
        "mlp": {"method": "mlp", "set": {"model": {"architecture": "mlp", "hops": 0}}},
        "dp-gcn": {"method": "dp-gnn", "set": {"privacy": {"variant": "rigorous"}}},
        "dp-gcn-published": {"method": "dp-gnn", "set": {"privacy": {"variant": "published"}}},
    }
    sweep = {"kind": "figure", "view": "sweep", "title": "Scale", "methods": list(methods), "sweep": {"label": "value"}}
    experiment = {
        "paper": "scale",
        "title": "Scale of the workflow",
        "citation": "none",
        "published": "none",
        "defaults": {"model": {"hops": 1}, "training": {"learning_rate": 0.01, "sampling_rate": 0.1, "steps": STEPS}},
        "methods": {name: {"label": name, **method} for name, method in methods.items()},
        "artefacts": {"scale": sweep},
    }
    values = {
        f"v{number}": {
            "training": {"learning_rate": 1e-4 * (number + 1), "evaluations": 1 if number % EVALUATED else EVALUATIONS}
        }
        for number in range(math.ceil(cells / PER_VALUE))
    }
    grid = {"tasks": list(DATASETS), "epsilons": list(EPSILONS), "values": values}
    suite = {
        "name": "scale",
        "title": "Scale",
        "note": "No number means anything.",
        "seeds": seeds,
        "tasks": {name: {"label": name, "task": {"dataset": name}} for name in DATASETS},
        "papers": {"scale": {"artefacts": {"scale": [grid]}}},
    }
    config = {"suite": "scale", "results": str(folder / "scale-results"), "data": str(folder / "data")}
    workflow = folder / "workflow"
    for path, content in (
        (workflow / "experiments/scale.yaml", experiment),
        (workflow / "suites/scale.yaml", suite),
        (folder / "config.yaml", config),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    options = ["--config", str(folder / "config.yaml"), "--workflow", str(workflow)]
    return load_plan(Config.model_validate(config), workflow), options


def write_records(plan: Plan) -> None:
    """Write a record of every cell, as its training job would.

    Cells of one data set, method and number of evaluations share their values: they cost as much to read as others.
    """
    paths = Paths(plan.config)
    rest: dict[tuple[str, str, str, int], tuple[CellRecord, str]] = {}
    for slug, cell in plan.cells.items():
        variant = "" if cell.privacy is None else cell.privacy.variant
        kind = (cell.task.dataset, cell.method, variant, cell.training.evaluations)
        if kind not in rest:
            record = synthetic_record(cell)
            text = record.model_dump_json(indent=1)
            rest[kind] = record, text[text.index('\n "status":') :]
        record, text = rest[kind]
        content = f'{{"cell": {cell.model_dump_json()},{text}\n'
        folder = paths.suite / "cells" / slug
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(content, encoding="utf-8")


def synthetic_record(cell: Cell) -> CellRecord:
    steps = sorted(evaluation_steps(cell.training.evaluations, STEPS))
    budgets = tuple(Budget(step=step, eps_published=step / 10, eps_rigorous=step / 20) for step in steps[:-1])
    return CellRecord(
        cell=cell.model_dump(mode="json"),
        status="ok",
        statement=_statement(cell),
        budgets=budgets if cell.privacy is not None else (),
        seeds=tuple(_seed(cell, seed, steps) for seed in cell.seeds),
        provenance={"versions": {}, "python": "3", "machine": "none", "commit": "none", "time": "2000-01-01T00:00:00Z"},
    )


def _seed(cell: Cell, seed: int, steps: Sequence[int]) -> SeedRecord:
    generator = numpy_generator("bench", "records", cell.task.dataset, seed)
    names = [f"{name}/{split}" for split in ("train", "val", "test") for name in ("accuracy", "macro_f1")]
    metrics = [
        Metric(step=step, final=step == steps[-1], metric=name, value=float(generator.random()))
        for step in steps
        for name in names
    ]
    metrics += [
        Metric(step=steps[-1], final=True, metric="class_accuracy/test", class_id=label, value=float(value))
        for label, value in enumerate(generator.random(entry(cell.task.dataset).expected.classes or 10))
    ]
    return SeedRecord(
        seed=seed,
        status="ok",
        metrics=tuple(metrics),
        seconds=float(generator.random()),
        steps_per_second=100.0,
        peak_memory_bytes=2**29,
        device="cpu",
        notes={"batches": "poisson", "edge_lists": "stable", "clip_norm": 1.0},
    )


def _statement(cell: Cell) -> dict[str, Any]:
    """As large as a real one; the epsilons are made up."""
    mechanism = mechanism_for(cell, num_train=10_000).model_dump(mode="json")
    place: dict[str, Any] = {"accountant": "made up", "sampling": "batches of 1000", "delta": 1e-5}
    node: dict[str, Any] = {"relation": Relation.NODE_NULL, "scope": Scope.PARAMETERS}
    epsilon = math.inf if cell.privacy is None else 4.0
    reason = (
        "Lemma 2 is false for Algorithm 1, and the threshold is a percentile of private data, not charged to the budget"
    )
    proved = cell.privacy is None or cell.privacy.variant == "rigorous"
    finite = {} if cell.privacy is None else node
    published = Guarantee(mode="published", epsilon=epsilon, **finite, **place)
    rigorous = Guarantee(
        mode="rigorous",
        epsilon=epsilon if proved else None,
        reason=None if proved else reason,
        **(finite if proved else {}),
        **place,
    )
    statement = PrivacyStatement(
        mechanism=mechanism,
        noise_std_over_clip=0.0 if cell.privacy is None else 10.0,
        steps=STEPS,
        published=published,
        rigorous=rigorous,
    )
    return statement.model_dump(mode="json")
