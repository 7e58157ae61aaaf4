"""A table of a paper, regenerated: CSV for machines; Markdown, LaTeX and HTML for people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpgraph.experiments.plan import Plan
from dpgraph.files import write_text
from dpgraph.reporting.accuracy import accuracy_table
from dpgraph.reporting.artefacts import artefact_of, heading
from dpgraph.reporting.display import accuracy_display, as_html, as_latex, as_markdown, statistics_display
from dpgraph.reporting.formats import metric
from dpgraph.reporting.page import page
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.statistics import Statistics, statistics_table

SUFFIXES = ("csv", "md", "tex", "html")


def write_table(
    plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None, stem: Path
) -> list[Path]:
    """Writes stem.csv (long form), stem.md, stem.tex and stem.html.

    `statistics`, by task id, is for view statistics; `results` for the others. Either may be None: then every row says
    not run. Raises UserError where the artefact is no table of the plan.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    title = heading(plan, artefact_id)
    if artefact.view == "statistics":
        frame = statistics_table(plan, artefact_id, statistics)
        display = statistics_display(title, frame)
    else:
        frame = accuracy_table(plan, artefact_id, results)
        display = accuracy_display(title, frame, metric(artefact.metric))
    if artefact.caption:
        display.remarks.insert(0, artefact.caption)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in SUFFIXES]
    citation = plan.experiments[artefact_id.split("/")[0]].citation
    write_csv(frame, paths[0])
    write_text(paths[3], page(plan.suite, title, as_html(display), citation))
    if plan.suite.demonstration:  # the page says so on top
        display.remarks.insert(0, " ".join(plan.suite.note.split()))
    write_text(paths[1], as_markdown(display))
    write_text(paths[2], as_latex(display, artefact_id.replace("/", "-")))
    return paths
