"""Figures of papers as PDF, SVG and PNG with the same bytes on every run, their points and captions; that of audits."""

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
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.formats import page, template
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.splits import how_to_run
from dpgraph.reporting.views.registry import function_of


def write_figure(plan: Plan, artefact_id: str, given: Any, stem: Path) -> list[Path]:
    """Write stem.pdf, stem.svg, stem.png, stem.csv (the plotted points), stem.txt (the caption, a paragraph a line)
    and stem.html (the picture with its caption, in itself complete) from what the view's inputs gave.

    Raises UserError where the artefact is no figure of the plan, or its view draws none.
    """
    drawn = draw_figure(plan, artefact_id, given, stem)
    files = [stem.with_name(f"{stem.name}.{suffix}") for suffix in canvas.METADATA]
    table, shown = (stem.with_name(f"{stem.name}.{suffix}") for suffix in ("csv", "html"))
    write_csv(drawn.points, table)
    text = write_caption(drawn.caption, stem)
    data = f"data:image/png;base64,{base64.b64encode(stem.with_name(f'{stem.name}.png').read_bytes()).decode()}"
    write_text(shown, page(plan.suite, heading(plan, artefact_id), figure_html(data, drawn.caption)))
    return [*files, table, text, shown]


def draw_figure(plan: Plan, artefact_id: str, given: Any, stem: Path, *suffixes: str) -> Drawn:
    """Draw a figure and write its pictures, those of `suffixes` alone if any are named; the caption explains labels."""
    draw = function_of(artefact_id, artefact_of(plan, artefact_id, "figure").view, "figure")
    with canvas.house_style(artefact_id):
        drawn: Drawn = draw(plan, artefact_id, given)
        canvas.name_empty(drawn.figure, ", ".join(task.label for task, _ in plan.tasks_of(artefact_id).values()))
        canvas.save_all(drawn.figure, stem, *suffixes)
    shown = drawn.points
    if "status" in shown:  # methods without a mark need no explanation
        shown = shown[shown["status"].isin(("ok", "printed")) & shown["method"].isin(drawn.methods or shown["method"])]
    labels = described_labels(abouts(plan, artefact_id, shown))
    return drawn._replace(caption=[*drawn.caption, *labels, *how_to_run(plan, artefact_id, given)])


def write_caption(caption: list[str], stem: Path) -> Path:
    path = stem.with_name(f"{stem.name}.txt")
    write_text(path, "".join(f"{line}\n" for line in plain(caption)))
    return path


def plain(caption: list[str]) -> list[str]:
    """Return the lines without line breaks and no-break spaces."""
    return [" ".join(line.split()) for line in caption]


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
    if curves.empty:
        raise UserError("audits: expected at least one with a curve (votes, votes-membership, subgraph-steps)")
    handles: dict[str, Artist] = {
        "claimed": marks.sample(CLAIMED),
        "measured lower bound (99 %)": marks.sample(MEASURED),
    }
    by_audit = [rows for _, rows in curves.groupby("audit", sort=False)]
    titles = [str(rows["title"].iloc[0]) for rows in by_audit]
    with canvas.house_style("audits"):
        figure, grid, _ = canvas.panelled(titles, handles, False, "ε", "δ(ε)", ACROSS, HEIGHT)
        for axes, rows in zip(grid, by_audit):
            _panel(axes, rows)
        files = canvas.save_all(figure, stem)
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
