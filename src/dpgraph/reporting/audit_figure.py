"""Figure of the audits: the claimed delta(epsilon) of each mechanism above what an attacker measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from dpgraph.errors import UserError
from dpgraph.files import write_text
from dpgraph.methods.looks import BLACK, BLUE, BROWN, GREEN, OLIVE, ORANGE, PURPLE, SLATE, VERMILION, WINE, Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing import marks
from dpgraph.reporting.drawing.canvas import house_style, panel_title, panels, save_all
from dpgraph.reporting.figures import write_caption
from dpgraph.reporting.formats import html_text
from dpgraph.reporting.page import html_table, page

LOWEST = 1e-4  # deltas below are not drawn: no audit of this size sees them
ACROSS, HEIGHT = 3, 1.85  # panels next to each other; inches of one
CLAIMED, MEASURED = Look(BLACK, "", "-"), Look(BLUE, "", "-")
PLANTED = (
    Look(VERMILION, "o", (0, (4, 2))), Look(ORANGE, "s", (0, (1, 1))), Look(PURPLE, "^", (0, (6, 1, 1, 1))),
    Look(GREEN, "D", (0, (2, 1))), Look(BROWN, "v", (0, (8, 2))), Look(SLATE, "P", (0, (3, 1, 1, 1, 1, 1))),
    Look(WINE, "X", (0, (1, 2))), Look(OLIVE, "*", (0, (5, 1, 2, 1))),
)  # fmt: skip
MARKS = 6  # points of a curve of a planted bug between two marks


def read_audits(path: Path) -> pd.DataFrame:
    """Rows as `audits.registry.write_audits` leaves them."""
    if not path.is_file():
        raise UserError(f"{path}: no audits there; make them with `dpgraph audit all --out {path}`")
    return pd.read_parquet(path)


def write_audit_figure(audits: pd.DataFrame, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg, stem.png and stem.txt, the caption: a panel per statistical audit.

    A claim holds as far as was seen where the measured lower bound stays below the claimed curve. Dashed: the same
    audit with each of its bugs planted, which must rise above it; the caption names them in the order of the legend.
    """
    curves = audits[audits["epsilon"].notna()]
    names = list(dict.fromkeys(curves["audit"]))
    if not names:
        raise UserError("audits: expected at least one with a curve (update, trajectory, partition, ...)")
    bugs = {name: _bugs(curves[curves["audit"] == name]) for name in names}
    planted = PLANTED[: max(map(len, bugs.values()))]
    handles: dict[str, Artist] = {
        "claimed": marks.sample(CLAIMED),
        "measured lower bound (99 %)": marks.sample(MEASURED),
    }
    handles |= {f"with planted bug {place + 1}": marks.sample(look) for place, look in enumerate(planted)}
    with house_style("audits"):
        figure, places, width = panels([1] * len(names), handles, ACROSS, HEIGHT)
        for (axes,), name in zip(places, names):
            rows = curves[curves["audit"] == name]
            panel_title(axes, str(rows["title"].iloc[0]), False, width)
            _panel(axes, rows, bugs[name])
        files = save_all(figure, stem)
    return [*files, write_caption(_caption(curves, bugs), stem)]


def _bugs(rows: pd.DataFrame) -> list[str]:
    return [str(bug) for bug in dict.fromkeys(rows["planted"].fillna("")) if bug]


def _caption(curves: pd.DataFrame, bugs: dict[str, list[str]]) -> list[str]:
    lines = ["The measured bound must stay below the claimed δ(ε); with a planted bug it must rise above it somewhere."]
    for name, of_audit in bugs.items():
        title = curves.loc[curves["audit"] == name, "title"].iloc[0]
        listed = "; ".join(f"{place + 1}. {bug}" for place, bug in enumerate(of_audit))
        lines += (
            [f"Planted bugs of \N{LEFT DOUBLE QUOTATION MARK}{title}\N{RIGHT DOUBLE QUOTATION MARK}: {listed}."]
            if listed
            else []
        )
    return lines


def _panel(axes: Axes, rows: pd.DataFrame, bugs: list[str]) -> None:
    axes.set_yscale("log")
    axes.set_ylim(LOWEST, 1.0)
    axes.set_xlabel("ε")
    axes.set_ylabel("δ(ε)")
    for bug, part in rows.groupby(rows["planted"].fillna(""), sort=False):
        seen = part[part["measured"] >= LOWEST]
        look = PLANTED[bugs.index(str(bug)) % len(PLANTED)] if bug else MEASURED
        first = bugs.index(str(bug)) if bug else 0  # marks of curves that coincide are not at one place
        style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "linewidth": 0.9 if bug else 1.8}
        every = (first % MARKS, MARKS)
        axes.plot(seen["epsilon"], seen["measured"], zorder=2, markevery=every, **style, **marks.marked(look, 3.2))
    one = rows[rows["planted"].fillna("") == rows["planted"].fillna("").iloc[0]]
    axes.plot(one["epsilon"], one["claimed"], color=CLAIMED.colour, linewidth=1.2, zorder=3)
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
