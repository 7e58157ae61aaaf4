"""Results of the demo suite with plausible random values, made from the plan: no training."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from dpgraph.experiments.config import Config
from dpgraph.experiments.plan import Entry, Plan, load_plan
from dpgraph.randomness import numpy_generator
from dpgraph.reporting.aggregate import COLUMNS

WORKFLOW = Path(__file__).parents[2] / "workflow"
REASON = "Lemma 2 is false for Algorithm 1; the percentile threshold is data-dependent & unpaid"
BASE = {"gnn": 0.80, "mlp": 0.62, "dp-gnn": 0.70, "dp-mlp": 0.55, "dp-residual": 0.72}


def result_rows(entry: Entry, mean: float | None = None, std: float = 0.01, **changed: object) -> list[dict]:
    """Rows of one cell: test accuracy at the last step and one step before, per seed."""
    cell, privacy = entry.cell, entry.cell.privacy
    variant = "none" if privacy is None else privacy.variant
    target = math.nan if entry.epsilon is None else entry.epsilon
    private = privacy is not None
    bound = BASE[cell.method] + (0.02 * math.log(entry.epsilon or 1.0) if private else 0.0)
    generator = numpy_generator("test", entry.paper, cell.slug)
    rows = []
    for seed in cell.seeds:
        value = (bound if mean is None else mean) + std * float(generator.standard_normal())
        row = {
            "paper": entry.paper,
            "cell": cell.slug,
            "dataset": cell.task.dataset,
            "setting": cell.task.setting,
            "split": cell.task.split,
            "features": cell.task.features,
            "method": cell.method,
            "variant": variant,
            "architecture": cell.model.architecture,
            "hops": cell.model.hops,
            "optimizer": cell.training.optimizer,
            "epsilon_target": target,
            "seed": seed,
            "status": "ok",
            "reason": "",
            "step": 100,
            "final": True,
            "metric": "accuracy/test",
            "class_id": -1,
            "value": value,
            "delta": 8.34e-5 if private else math.nan,
            "adjacency": "node-null" if private else "",
            "eps_published": {"none": math.inf, "published": target}.get(variant, 3.1 * target),
            "eps_published_reason": "",
            "eps_rigorous": {"none": math.inf, "published": math.nan}.get(variant, 0.999 * target),
            "eps_rigorous_reason": REASON if variant == "published" else "",
            "noise_std_over_clip": 12.5 if private else 0.0,
            "steps": 100,
            "seconds": 3.25,
            "steps_per_second": 30.8,
            "roots_per_second": 6160.0,
            "peak_memory_bytes": 420_000_000,
            "device": "cpu",
        }
        row |= changed
        rows += [
            row,
            row | {"step": 50, "final": False, "value": 0.01},
            row | {"metric": "accuracy/val", "value": 0.02},
        ]
    return rows


def missing_row(entry: Entry, status: str, reason: str) -> dict:
    first = result_rows(entry)[0]
    nothing = dict.fromkeys(
        ("value", "delta", "eps_published", "eps_rigorous", "seconds", "steps_per_second"), math.nan
    )
    return first | nothing | {"seed": -1, "metric": "", "status": status, "reason": reason, "eps_rigorous_reason": ""}


def frame_of(rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS)).drop_duplicates(ignore_index=True).astype(COLUMNS)


def first_entries(plan: Plan) -> list[Entry]:
    """Each cell once."""
    return list({(entry.paper, entry.cell.slug): entry for entry in plan.entries}.values())


@pytest.fixture(scope="session")
def plan() -> Plan:
    return load_plan(Config(), WORKFLOW)


@pytest.fixture(scope="session")
def results(plan: Plan) -> pd.DataFrame:
    """All ok but two: a non-private GCN that diverged and a DP-MLP without data."""
    rows: list[dict] = []
    for entry in first_entries(plan):
        if entry.task_id == "sbm-clustered" and entry.method_id == "gcn-2":
            rows.append(missing_row(entry, "failed", "diverged: non-finite loss at step 41"))
        elif entry.task_id == "sbm-clustered" and entry.method_id == "dp-mlp":
            rows.append(missing_row(entry, "not run", "data not available"))
        else:
            rows += result_rows(entry)
    return frame_of(rows)


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., list[dict]]:
    return result_rows


@pytest.fixture(scope="session")
def as_frame() -> Callable[[list[dict]], pd.DataFrame]:
    return frame_of


@pytest.fixture(scope="session")
def paper_plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A small suite on two of the paper's data sets."""
    folder = tmp_path_factory.mktemp("workflow")
    (folder / "suites").mkdir()
    (folder / "experiments").symlink_to(WORKFLOW / "experiments")
    (folder / "suites" / "small.yaml").write_text(SMALL_SUITE, encoding="utf-8")
    return load_plan(Config(suite="small"), folder)


SMALL_SUITE = """
name: small
title: Two of the paper's data sets
note: For tests.
seeds: 4
tasks:
  arxiv:
    label: ogbn-arxiv
    task: {dataset: ogbn-arxiv}
    published: ogbn-arxiv
  reddit:
    label: reddit
    task: {dataset: reddit}
    published: reddit
papers:
  daigavane:
    rules:
      - set: {training: {learning_rate: 0.01, batch_size: 1000, steps: 10}}
    artefacts:
      table1:
        - {tasks: [arxiv, reddit], epsilons: [6, 12]}
      table7:
        - {tasks: [arxiv, reddit]}
      fig2:
        - {methods: [gcn-1, mlp, dp-gcn-1, dp-gcn-1-published, dp-mlp], tasks: [arxiv, reddit], epsilons: [2, 6, 12]}
"""
