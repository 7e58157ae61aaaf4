"""The cost of every cell, and the reasons of those that failed."""

import math
from pathlib import Path

import pandas as pd

from dpgraph.core.files import write_text
from dpgraph.core.progress import duration
from dpgraph.planning.plan import Plan
from dpgraph.reporting.formats import DASH, page, significant, template
from dpgraph.reporting.results import Results, write_csv

GIB = 2**30


def write_runtimes(plan: Plan, results: pd.DataFrame | None, path_html: Path) -> list[Path]:
    """Write the page, and next to it the same as CSV."""
    table = runtimes(plan, results)
    path_csv = path_html.with_suffix(".csv")
    write_csv(table, path_csv)
    write_text(path_html, runtimes_page(plan, table))
    return [path_html, path_csv]


def runtimes(plan: Plan, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per cell of the plan, in its order.

    `seconds` and `cpu_seconds` sum the seeds' training times, rates are their means, memory is their peak. A cell
    without rows in results.parquet was not run.
    """
    frame = Results.of(results).frame
    known = dict(iter(frame.groupby("cell", sort=False)))
    return pd.DataFrame([_row(slug, known.get(slug, frame.iloc[:0])) for slug in plan.cells])


def _row(slug: str, rows: pd.DataFrame) -> dict[str, object]:
    good = rows[rows["status"] == "ok"].drop_duplicates("seed")
    bad = rows[rows["status"] != "ok"]
    status = "ok" if len(good) else str(bad["status"].iloc[0]) if len(bad) else "not run"
    return {
        "cell": slug,
        "status": status,
        "seeds": len(good),
        "seconds": good["seconds"].astype(float).sum(min_count=1),
        "cpu_seconds": good["cpu_seconds"].astype(float).sum(skipna=False, min_count=1),
        "steps": float(good["steps"].max()),
        "steps_per_second": good["steps_per_second"].mean(),
        "peak_memory_gib": good["peak_memory_bytes"].max() / GIB,
        "device": str(good["device"].iloc[0]) if len(good) else "",
        "reason": "; ".join(str(text) for text in bad["reason"].unique() if text),
    }


COLUMNS = ("Cell", "Status", "Seeds", "Seconds", "CPU seconds", "Steps", "Steps/s", "Memory (GiB)", "Device")

RATES = ("seconds", "cpu_seconds", "steps", "steps_per_second", "peak_memory_gib")


def runtimes_page(plan: Plan, table: pd.DataFrame) -> str:
    rows = table.to_dict("records")
    numbers = [[DASH if math.isnan(row[name]) else significant(row[name]) for name in RATES] for row in rows]
    counts = ", ".join(f"{number} {status}" for status, number in table["status"].value_counts().items())
    lead = f"{len(table)} cells: {counts}; {duration(table['seconds'].sum())} of training in all"
    body = template("runtimes.html").render(columns=COLUMNS, rows=rows, numbers=numbers).strip("\n")
    return page(plan.suite, "Runtime of every cell", body, lead)
