"""Figure of the audits: the claimed delta(epsilon) of each mechanism above what an attacker measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpgraph.errors import UserError
from dpgraph.files import write_text
from dpgraph.methods.looks import BLACK, BLUE, VERMILION
from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing.canvas import Legend, house_style, panels, save_all
from dpgraph.reporting.formats import html_text
from dpgraph.reporting.page import html_table, page

LOWEST = 1e-4  # deltas below are not drawn: no audit of this size sees them
STYLES: dict[str, tuple[str, Any]] = {
    "claimed": (BLACK, "-"),
    "measured": (BLUE, "-"),
    "planted": (VERMILION, (0, (4, 2))),
}


def read_audits(path: Path) -> pd.DataFrame:
    """Rows as `audits.registry.write_audits` leaves them."""
    if not path.is_file():
        raise UserError(f"{path}: no audits there; make them with `dpgraph audit all --out {path}`")
    return pd.read_parquet(path)


def write_audit_figure(audits: pd.DataFrame, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg and stem.png: a panel per statistical audit.

    A claim holds as far as was seen where the measured lower bound stays below the claimed curve. Dashed: the same
    audit with each of its bugs planted, which must rise above it.
    """
    curves = audits[audits["epsilon"].notna()]
    names = list(dict.fromkeys(curves["audit"]))
    if not names:
        raise UserError("audits: expected at least one with a curve (update, trajectory, partition, ...)")
    handles = [Line2D([], [], color=colour, linestyle=line) for colour, line in STYLES.values()]
    labels = ["claimed", "measured lower bound (99 %)", "the same with a planted bug"]
    with house_style("audits"):
        figure, places = panels(len(names), Legend(dict(zip(labels, handles)), [], len(labels)))
        for (axes,), name in zip(places, names):
            _panel(axes, curves[curves["audit"] == name])
        return save_all(figure, stem)


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_title(str(rows["title"].iloc[0]), loc="left")
    axes.set_yscale("log")
    axes.set_ylim(LOWEST, 1.0)
    axes.set_xlabel("ε")
    axes.set_ylabel("δ(ε)")
    for planted, part in rows.groupby(rows["planted"].fillna(""), sort=False):
        seen = part[part["measured"] >= LOWEST]
        kind = "planted" if planted else "measured"
        colour, line = STYLES[kind]
        width = 0.8 if planted else 1.6
        axes.plot(seen["epsilon"], seen["measured"], color=colour, linestyle=line, linewidth=width, zorder=2)
    first = rows[rows["planted"].fillna("") == rows["planted"].fillna("").iloc[0]]
    axes.plot(first["epsilon"], first["claimed"], color=STYLES["claimed"][0], linewidth=1.2, zorder=3)
    visible = rows[(rows["measured"] >= LOWEST) | (rows["claimed"] >= LOWEST)]
    axes.set_xlim(0.0, max(float(visible["epsilon"].max()), 1.0))


def write_audit_page(plan: Plan, audits: pd.DataFrame, path: Path) -> Path:
    """One line per audit and planted bug."""
    one = audits.drop_duplicates(["audit", "planted"])
    head = ("Audit", "Planted bug", "Verdict", "Claim", "Found")
    table = html_table(head, map(_html_row, one.to_dict("records")))
    lead = "Attacks on the code of this project. A planted bug must be caught; the code as it is must pass."
    write_text(path, page(plan.suite, "Audits", table, lead))
    return path


def _html_row(row: dict) -> str:
    planted = row["planted"] if isinstance(row["planted"], str) else ""
    verdict = ("missed" if row["passed"] else "caught") if planted else ("passed" if row["passed"] else "FAILED")
    finding = f"{row['finding']} ({row['trials']} trials, {row['seconds']:.2g} s)"
    cells = (row["title"], planted or "–", verdict, row["claim"], finding)
    return "<tr>" + "".join(f"<td>{html_text(str(cell))}</td>" for cell in cells) + "</tr>"
