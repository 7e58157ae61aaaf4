"""What training took in a suite that was run, against what was planned for it; `dpgraph cost` plans with it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Cell
from dpgraph.planning.cost import train_seconds
from dpgraph.planning.estimates import ALL, Throughput, hours_of
from dpgraph.planning.plan import Plan

EDGES = (0.1, 0.9)  # of the cells' ratios, what is called low and high


def processor() -> str:
    """Its name, as the operating system has it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or "unknown"])[0]


def measured(plan: Plan, results: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell whose seeds all ran on a CPU: its method, task, seeds, planned and measured CPU seconds."""
    good = results[(results["status"] == "ok") & (results["device"] == "cpu")]
    spent = good.drop_duplicates(["cell", "seed"]).groupby("cell")["cpu_seconds"].agg(["sum", "count"])
    rows = [
        {
            "cell": slug,
            "method": cell.method,
            "dataset": cell.task.dataset,
            "runs": len(cell.seeds),
            "planned_s": train_seconds(cell),
            "measured_s": float(spent.at[slug, "sum"]),
        }
        for slug, cell in plan.cells.items()
        if slug in spent.index and spent.at[slug, "count"] == len(cell.seeds) and spent.at[slug, "sum"] > 0
    ]
    return pd.DataFrame(rows, columns=["cell", "method", "dataset", "runs", "planned_s", "measured_s"])


def throughputs(plan: Plan, results: pd.DataFrame) -> list[Throughput]:
    """By method, and of all together. Raises UserError where nothing was measured."""
    table = measured(plan, results)
    if table.empty:
        raise UserError(f"suite {plan.suite.name}: no cell was trained on a CPU: expected results to learn from")
    commits = sorted({str(one) for one in results.loc[results["status"] == "ok", "commit"].dropna()})
    commit = commits[0] if len(commits) == 1 else "several"
    groups = [*table.groupby("method", sort=True), (ALL, table)]
    return [_throughput(str(name), part, plan.suite.name, commit) for name, part in groups]


def _throughput(method: str, table: pd.DataFrame, suite: str, commit: str) -> Throughput:
    ratios = (table["measured_s"] / table["planned_s"]).to_numpy()
    total = float(table["measured_s"].sum() / table["planned_s"].sum())
    low, high = (float(one) for one in np.quantile(ratios, EDGES))
    return Throughput(
        method=method,
        cells=len(table),
        runs=int(table["runs"].sum()),
        planned_s=float(table["planned_s"].sum()),
        measured_s=float(table["measured_s"].sum()),
        low=min(low, total),
        high=max(high, total),
        suite=suite,
        commit=commit,
        processor=processor(),
    )


def left_out_check(plan: Plan, results: pd.DataFrame) -> pd.DataFrame:
    """How far estimates are from a run, for each data set by throughputs that were learnt on the others.

    Columns dataset, cells, estimated_h, measured_h, ratio; the last row is of all data sets.
    """
    table, cells = measured(plan, results), plan.cells
    rows = []
    for dataset, part in table.groupby("dataset", sort=True):
        others = table[table["dataset"] != dataset]
        if others.empty:
            continue
        groups = [*others.groupby("method"), (ALL, others)]
        known = {str(name): _throughput(str(name), one, plan.suite.name, "") for name, one in groups}
        rows.append(_row(str(dataset), part, cells, known))
    if rows:
        hours = {name: sum(row[name] for row in rows) for name in ("cells", "estimated_h", "measured_h")}
        rows.append({"dataset": "all", **hours, "ratio": hours["estimated_h"] / hours["measured_h"]})
    return pd.DataFrame(rows, columns=["dataset", "cells", "estimated_h", "measured_h", "ratio"])


def against(plan: Plan, results: pd.DataFrame, known: Mapping[str, Throughput]) -> dict[str, Any]:
    """Of the cells that ran, by throughputs of other runs: dataset "all", cells, estimated_h, measured_h, ratio."""
    return _row("all", measured(plan, results), plan.cells, known)


def _row(
    dataset: str, part: pd.DataFrame, cells: Mapping[str, Cell], known: Mapping[str, Throughput]
) -> dict[str, Any]:
    estimated = sum(hours_of(cells[slug], known).mid for slug in part["cell"])
    spent = float(part["measured_s"].sum()) / 3600
    return {
        "dataset": dataset,
        "cells": len(part),
        "estimated_h": estimated,
        "measured_h": spent,
        "ratio": estimated / spent,
    }
