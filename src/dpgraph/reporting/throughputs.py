"""What training took in a suite that was run, against what was planned for it; `dpgraph cost` plans with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpgraph.errors import UserError
from dpgraph.experiments.machine import processor
from dpgraph.planning.cost import PlannedParts, parts_of
from dpgraph.planning.plan import Plan
from dpgraph.planning.throughputs import Known, Throughput, learnt

EDGES = (0.1, 0.9)  # of the cells' ratios, what is called low and high


COLUMNS = ["cell", "method", "dataset", "runs", *PlannedParts._fields, "measured_s"]


def measured(plan: Plan, results: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell whose seeds all ran on a CPU, with the planned parts and the CPU seconds of all its seeds."""
    good = results[(results["status"] == "ok") & (results["device"] == "cpu")]
    spent = good.drop_duplicates(["cell", "seed"]).groupby("cell")["cpu_seconds"].agg(["sum", "count"])
    there = {
        slug: cell
        for slug, cell in plan.cells.items()
        if slug in spent.index and spent.at[slug, "count"] == len(cell.seeds) and spent.at[slug, "sum"] > 0
    }
    rows = [
        (slug, cell.method, cell.task.dataset, len(cell.seeds), *parts, float(spent.at[slug, "sum"]))
        for (slug, cell), parts in zip(there.items(), parts_of(there.values()), strict=True)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def throughputs(plan: Plan, results: pd.DataFrame) -> list[Throughput]:
    """By method and data set. Raises UserError where nothing was measured."""
    table = measured(plan, results)
    if table.empty:
        raise UserError(f"suite {plan.suite.name}: no cell was trained on a CPU: expected results to learn from")
    commits = sorted({str(one) for one in results.loc[results["status"] == "ok", "commit"].dropna() if one})
    return _throughputs(table, plan.suite.name, commits[0] if len(commits) == 1 else "several")


def _throughputs(table: pd.DataFrame, suite: str, commit: str) -> list[Throughput]:
    found = []
    for (method, dataset), part in table.groupby(["method", "dataset"], sort=True):
        sums = part[[*PlannedParts._fields, "measured_s"]].sum()
        planned = part[list(PlannedParts._fields)].sum(axis=1)
        total = float(sums["measured_s"] / planned.sum())
        low, high = (float(one) for one in np.quantile(part["measured_s"] / planned, EDGES))
        found.append(
            Throughput(
                method=str(method),
                dataset=str(dataset),
                cells=len(part),
                runs=int(part["runs"].sum()),
                starts_s=float(sums["starts"]),
                steps_s=float(sums["steps"]),
                work_s=float(sums["work"]),
                measured_s=float(sums["measured_s"]),
                low=min(low, total),
                high=max(high, total),
                suite=suite,
                commit=commit,
                processor=processor(),
            )
        )
    return found


def left_out_check(plan: Plan, results: pd.DataFrame) -> pd.DataFrame:
    """How far estimates are from a run, for each data set by throughputs that were learnt on the others.

    Columns dataset, cells, estimated_h, measured_h, ratio; the last row is of all data sets.
    """
    table = measured(plan, results)
    rows = []
    for dataset, part in table.groupby("dataset", sort=True):
        others = table[table["dataset"] != dataset]
        if not others.empty:
            rows.append(_row(str(dataset), part, learnt(_throughputs(others, plan.suite.name, ""))))
    if rows:
        hours = {name: sum(row[name] for row in rows) for name in ("cells", "estimated_h", "measured_h")}
        rows.append({"dataset": "all", **hours, "ratio": hours["estimated_h"] / hours["measured_h"]})
    return pd.DataFrame(rows, columns=["dataset", "cells", "estimated_h", "measured_h", "ratio"])


def against(plan: Plan, results: pd.DataFrame, known: Known) -> dict[str, Any]:
    """Of the cells that ran, by throughputs of other runs: dataset "all", cells, estimated_h, measured_h, ratio."""
    return _row("all", measured(plan, results), known)


def _row(dataset: str, part: pd.DataFrame, known: Known) -> dict[str, Any]:
    estimated = (
        sum(
            known.law(row.method).seconds(PlannedParts(row.starts, row.steps, row.work), row.dataset)
            for row in part.itertuples()
        )
        / 3600
    )
    spent = float(part["measured_s"].sum()) / 3600
    return {
        "dataset": dataset,
        "cells": len(part),
        "estimated_h": estimated,
        "measured_h": spent,
        "ratio": estimated / spent,
    }
