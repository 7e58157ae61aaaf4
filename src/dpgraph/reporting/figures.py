"""A figure of a paper, regenerated: PDF, SVG and PNG with the same bytes on every run, its points and caption."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from dpgraph.core.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import artefact_of, heading
from dpgraph.reporting.drawing import canvas
from dpgraph.reporting.formats import html_text
from dpgraph.reporting.page import page
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
    text = write_caption(drawn.caption, stem)
    shown = stem.with_name(f"{stem.name}.html")
    picture = next(path for path in files if path.suffix == ".png")
    data = f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
    write_text(shown, page(plan.suite, heading(plan, artefact_id), figure_html(data, drawn.caption)))
    return [*files, table, text, shown]


def write_caption(caption: list[str], stem: Path) -> Path:
    path = stem.with_name(f"{stem.name}.txt")
    write_text(path, "".join(f"{' '.join(line.split())}\n" for line in caption))
    return path


def read_caption(path: Path) -> list[str]:
    """Of a figure's stem.txt; none where there is no such file."""
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def figure_html(source: str, caption: list[str]) -> str:
    """<img> and its caption, without the page around them."""
    lines = "".join(f"<p>{html_text(line)}</p>" for line in caption)
    return f'<img class="figure" alt="" src="{source}"><div class="notes">{lines}</div>'
