"""What every cell cost, and why those that failed did."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from dpgraph.core.files import write_text
from dpgraph.core.progress import duration
from dpgraph.planning.plan import Plan
from dpgraph.reporting.formats import DASH, html_text, significant
from dpgraph.reporting.page import html_table, page
from dpgraph.reporting.results import write_csv

GIB = 2**30


def write_runtimes(plan: Plan, results: pd.DataFrame | None, path_html: Path) -> list[Path]:
    """The page, and next to it the same as CSV."""
    table = runtimes(plan, results)
    path_csv = path_html.with_suffix(".csv")
    write_csv(table, path_csv)
    write_text(path_html, runtimes_page(plan, table))
    return [path_html, path_csv]


def runtimes(plan: Plan, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per cell of the plan, in its order.

    `seconds` and `cpu_seconds` sum the seeds' training times, rates are their means, memory is their peak. A cell
    without rows in results.parquet was not run.
    """
    known = {} if results is None else dict(iter(results.groupby("cell", sort=False)))
    return pd.DataFrame([_row(slug, known.get(slug)) for slug in plan.cells])


def _row(slug: str, rows: pd.DataFrame | None) -> dict[str, object]:
    if rows is None:
        rows = pd.DataFrame(columns=["status", "reason", "device", "seed", "seconds", "cpu_seconds"])
    good = rows[rows["status"] == "ok"].drop_duplicates("seed")
    bad = rows[rows["status"] != "ok"]
    status = "ok" if not good.empty else str(bad["status"].iloc[0]) if not bad.empty else "not run"
    reasons = [text for text in bad["reason"].unique() if text]
    empty = good.empty
    return {
        "cell": slug,
        "status": status,
        "seeds": len(good),
        "seconds": math.nan if empty else float(good["seconds"].sum()),
        "cpu_seconds": math.nan if empty else float(good["cpu_seconds"].sum(skipna=False)),
        "steps": math.nan if empty else float(good["steps"].max()),
        "steps_per_second": math.nan if empty else float(good["steps_per_second"].mean()),
        "peak_memory_gib": math.nan if empty else float(good["peak_memory_bytes"].max()) / GIB,
        "device": "" if empty else str(good["device"].iloc[0]),
        "reason": "; ".join(map(str, reasons)) or ("no result in results.parquet" if rows.empty else ""),
    }


COLUMNS = ("Cell", "Status", "Seeds", "Seconds", "CPU seconds", "Steps", "Steps/s", "Memory (GiB)", "Device")


def runtimes_page(plan: Plan, table: pd.DataFrame) -> str:
    rows = table.to_dict("records")
    following = [*(row["reason"] for row in rows[1:]), ""]
    body = (_html_row(row, row["reason"] != after) for row, after in zip(rows, following))
    counts = table["status"].value_counts()
    total = table["seconds"].sum()
    lead = (
        f"{len(table)} cells: "
        + ", ".join(f"{number} {status}" for status, number in counts.items())
        + f"; {duration(total)} of training in all"
    )
    note = "Seconds (wall, CPU) of training are summed over seeds; rates are their means; memory is the peak of one."
    return page(
        plan.suite,
        "Runtime of every cell",
        html_table(COLUMNS, body) + f'<div class="notes"><p>{note}</p></div>',
        lead,
    )


def _html_row(row: dict, says_why: bool) -> str:
    """A reason that several cells in a row share is shown below the last of them."""
    numbers = [
        row["seeds"],
        *(
            DASH if math.isnan(row[name]) else significant(row[name])
            for name in ("seconds", "cpu_seconds", "steps", "steps_per_second", "peak_memory_gib")
        ),
    ]
    cells = [f'<td class="code">{html_text(row["cell"])}</td>', f"<td>{html_text(row['status'])}</td>"]
    cells += [f'<td class="number">{number}</td>' for number in numbers]
    cells.append(f"<td>{html_text(row['device'] or DASH)}</td>")
    reason = f'<tr><td class="reason" colspan="{len(COLUMNS)}">{html_text(row["reason"])}</td></tr>'
    return f"<tr>{''.join(cells)}</tr>{reason if row['reason'] and says_why else ''}"
