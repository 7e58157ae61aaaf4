"""Figures of papers as PDF, SVG and PNG with the same bytes on every run, their points and captions; that of audits."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from dpgraph.core.errors import UserError
from dpgraph.core.files import write_text
from dpgraph.engine.methods.looks import BLACK, BLUE, Look
from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import abouts, artefact_of, described_labels, heading
from dpgraph.reporting.drawing import canvas, marks
from dpgraph.reporting.drawing.canvas import house_style, panel_title, panels, save_all
from dpgraph.reporting.formats import page, template
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.views.registry import figure_of


def write_figure(plan: Plan, artefact_id: str, given: Any, stem: Path) -> list[Path]:
    """Write stem.pdf, stem.svg, stem.png, stem.csv (the plotted points), stem.txt (the caption, a paragraph a line)
    and stem.html (the picture with its caption, in itself complete) from what the view's inputs gave.

    Raises UserError where the artefact is no figure of the plan, or its view draws none.
    """
    draw = figure_of(artefact_id, artefact_of(plan, artefact_id, "figure").view)
    with canvas.house_style(artefact_id):
        drawn = draw(plan, artefact_id, given)
        files = canvas.save_all(drawn.figure, stem)
    table = stem.with_name(f"{stem.name}.csv")
    write_csv(drawn.points, table)
    lines = [*drawn.caption, *described_labels(abouts(plan, artefact_id, drawn.points))]
    text = write_caption(lines, stem)
    shown = stem.with_name(f"{stem.name}.html")
    picture = next(path for path in files if path.suffix == ".png")
    data = f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
    write_text(shown, page(plan.suite, heading(plan, artefact_id), figure_html(data, lines)))
    return [*files, table, text, shown]


def write_caption(caption: list[str], stem: Path) -> Path:
    path = stem.with_name(f"{stem.name}.txt")
    write_text(path, "".join(f"{' '.join(line.split())}\n" for line in caption))
    return path


def read_caption(path: Path) -> list[str]:
    """Return the lines of a figure's stem.txt; none without such a file."""
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def figure_html(source: str, caption: list[str]) -> str:
    """Return <img> and its caption, without the page around them."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in caption)
    return f'<img class="figure" alt="" src="{source}"><div class="notes">{lines}</div>'


LOWEST = 1e-4  # deltas below are not drawn: no audit of this size sees them
ACROSS, HEIGHT = 3, 1.85  # panels next to each other; inches of one
CLAIMED, MEASURED = Look(BLACK, "", "-"), Look(BLUE, "", "-")


def read_audits(path: Path) -> pd.DataFrame:
    """Return the rows that `audits.registry.write_audits` wrote."""
    if not path.is_file():
        raise UserError(f"{path}: no audits there; make them with `dpgraph audit all --out {path}`")
    return pd.read_parquet(path)


def write_audit_figure(audits: pd.DataFrame, stem: Path) -> list[Path]:
    """Writes stem.pdf, stem.svg, stem.png and stem.txt, the caption: a panel per statistical audit.

    A claim holds as far as was seen where the measured lower bound stays below the claimed curve. The caption tells how
    near it comes: an attack that measures little says little.
    """
    curves = audits[audits["epsilon"].notna()]
    names = list(dict.fromkeys(curves["audit"]))
    if not names:
        raise UserError("audits: expected at least one with a curve (votes, votes-membership, subgraph-steps)")
    handles: dict[str, Artist] = {
        "claimed": marks.sample(CLAIMED),
        "measured lower bound (99 %)": marks.sample(MEASURED),
    }
    with house_style("audits"):
        figure, places, width = panels([1] * len(names), handles, ACROSS, HEIGHT)
        for (axes,), name in zip(places, names):
            rows = curves[curves["audit"] == name]
            panel_title(axes, str(rows["title"].iloc[0]), False, width)
            _panel(axes, rows)
        files = save_all(figure, stem)
    return [*files, write_caption(_caption(curves), stem)]


def reached(rows: pd.DataFrame) -> float | None:
    """Return the largest share of a claimed delta that was measured in one audit's curve; None without a curve."""
    seen = rows[rows["claimed"] >= LOWEST]
    return float((seen["measured"] / seen["claimed"]).max()) if len(seen) else None


def _caption(curves: pd.DataFrame) -> list[str]:
    parts = [
        f"{rows['title'].iloc[0]} {100 * (reached(rows) or 0.0):.0f} %"
        for _, rows in curves.groupby("audit", sort=False)
    ]
    return [
        "The measured bound must stay below the claimed δ(ε).",
        f"Largest share of a claimed δ that was measured: {'; '.join(parts)}.",
    ]


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_yscale("log")
    axes.set_ylim(LOWEST, 1.0)
    axes.set_xlabel("ε")
    axes.set_ylabel("δ(ε)")
    seen = rows[rows["measured"] >= LOWEST]
    axes.plot(seen["epsilon"], seen["measured"], color=MEASURED.colour, linewidth=1.8, zorder=2)
    axes.plot(rows["epsilon"], rows["claimed"], color=CLAIMED.colour, linewidth=1.2, zorder=3)
    visible = rows[(rows["measured"] >= LOWEST) | (rows["claimed"] >= LOWEST)]
    axes.set_xlim(0.0, max(float(visible["epsilon"].max()), 1.0))


def write_audit_page(plan: Plan, audits: pd.DataFrame, path: Path) -> Path:
    """Write a page with one line per audit."""
    shares = {name: reached(rows) for name, rows in audits.groupby("audit", sort=False)}
    rows = audits.drop_duplicates("audit").to_dict("records")
    body = template("audits.html").render(rows=rows, shares=shares).strip("\n")
    lead = "Attacks on the code of this project: what they measure must not exceed what is claimed."
    write_text(path, page(plan.suite, "Audits", body, lead))
    return path
