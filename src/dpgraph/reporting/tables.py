"""A table of a paper, regenerated: CSV for machines; Markdown, LaTeX and HTML for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpgraph.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting.artefacts import artefact_of
from dpgraph.reporting.page import page
from dpgraph.reporting.rendering import as_html, as_latex, as_markdown
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.views.registry import table_of

SUFFIXES = ("csv", "md", "tex", "html")


def write_table(plan: Plan, artefact_id: str, given: Any, stem: Path) -> list[Path]:
    """Writes stem.csv (long form), stem.md, stem.tex and stem.html from what the view's inputs gave, and its own files.

    Raises UserError where the artefact is no table of the plan, or its view makes none.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    frame, table, files = table_of(artefact_id, artefact.view)(plan, artefact_id, given)
    if artefact.caption:
        table.remarks.insert(0, artefact.caption)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*SUFFIXES, *files)]
    citation = plan.experiments[artefact_id.split("/")[0]].citation
    write_csv(frame, paths[0])
    write_text(paths[3], page(plan.suite, table.title, as_html(table), citation))
    if plan.suite.demonstration:  # the page is marked on top
        table.remarks.insert(0, " ".join(plan.suite.note.split()))
    write_text(paths[1], as_markdown(table))
    write_text(paths[2], as_latex(table, artefact_id.replace("/", "-")))
    for path, text in zip(paths[len(SUFFIXES) :], files.values(), strict=True):
        write_text(path, text)
    return paths
