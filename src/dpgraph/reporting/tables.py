"""A table of a paper, regenerated: CSV for machines; Markdown, LaTeX and HTML for people.

Every table has a long form, a row per result; those of accuracies have a wide one, in the paper's own layout, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import artefact_of, caption
from dpgraph.reporting.display import Table
from dpgraph.reporting.latex import as_latex
from dpgraph.reporting.missing_data import how_to_run
from dpgraph.reporting.page import page
from dpgraph.reporting.rendering import as_html, as_markdown
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.views.registry import table_of, wide_of

SUFFIXES = ("csv", "md", "tex", "html")
WIDE = ("wide.csv", "wide.md", "wide.tex", "wide.html")


def write_table(plan: Plan, artefact_id: str, given: Any, stem: Path) -> list[Path]:
    """Writes stem.csv (long form), stem.md, stem.tex and stem.html from what the view's inputs gave, and its own files.

    Raises UserError where the artefact is no table of the plan, or its view makes none.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    frame, table, files = table_of(artefact_id, artefact.view)(plan, artefact_id, given)
    _remark(plan, artefact_id, table, frame)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*SUFFIXES, *files)]
    write_csv(frame, paths[0])
    _write(plan, artefact_id, table, paths[2], paths[3])
    write_text(paths[1], as_markdown(table))
    for path, text in zip(paths[len(SUFFIXES) :], files.values(), strict=True):
        write_text(path, text)
    return paths


def write_wide(plan: Plan, artefact_id: str, given: Any, stem: Path) -> list[Path]:
    """Writes stem.wide.csv, .md, .tex and .html, in the paper's own layout.

    Raises UserError where the artefact is no table of the plan, or its view has the long form only.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    place = wide_of(artefact_id, artefact.view)
    frame = table_of(artefact_id, artefact.view)(plan, artefact_id, given).frame
    numbers, table = place(plan, artefact_id, frame)
    _remark(plan, artefact_id, table, frame)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in WIDE]
    write_csv(numbers, paths[0])
    _write(plan, artefact_id, table, paths[2], paths[3], "-wide")
    write_text(paths[1], as_markdown(table))
    return paths


def _remark(plan: Plan, artefact_id: str, table: Table, frame: pd.DataFrame) -> None:
    """What is said below every form of the artefact."""
    below = plan.artefacts[artefact_id].caption
    first = [*([below] if below else []), *splits.remarks(plan, artefact_id)]
    table.remarks[:0] = first
    if table.brief is not None:
        table.brief[:0] = first
    table.remarks.extend(how_to_run(plan, artefact_id, frame))


def _write(plan: Plan, artefact_id: str, table: Table, latex: Path, html: Path, end: str = "") -> None:
    citation = plan.experiments[artefact_id.split("/")[0]].citation
    write_text(html, page(plan.suite, table.title, as_html(table), citation))
    if plan.suite.demonstration:  # the page is marked on top
        for remarks in (table.remarks, table.brief or []):
            remarks.insert(0, " ".join(plan.suite.note.split()))
    write_text(latex, as_latex(table, caption(plan, artefact_id), artefact_id.replace("/", "-") + end))
