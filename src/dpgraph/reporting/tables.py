"""A table of a paper, regenerated: CSV for machines; Markdown, LaTeX and HTML for people.

Every table has a long form, a row per result; those of accuracies have a wide one, in the paper's own layout, too.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from dpgraph.core.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting import splits
from dpgraph.reporting.artefacts import abouts, artefact_of, caption, described_labels
from dpgraph.reporting.display import Footnotes, MadeTable, Table
from dpgraph.reporting.formats import page, template
from dpgraph.reporting.inputs import TABLE
from dpgraph.reporting.latex import as_latex, spans
from dpgraph.reporting.results import ran, worth_showing, write_csv
from dpgraph.reporting.splits import how_to_run, left_out
from dpgraph.reporting.views.registry import function_of


def as_markdown(table: Table) -> str:
    return template("table.md").render(table=table).rstrip() + "\n"


def as_html(table: Table) -> str:
    """Return <table> and its notes, without the page around them."""
    return template("table.html").render(table=table, spans=spans(table)).strip("\n")


def displayed(plan: Plan, artefact_id: str, rows: pd.DataFrame | None, wide: bool = False) -> MadeTable:
    """Make a table with all that is said below it; `wide`: in the paper's own layout.

    Without a result and a printed number it has no rows, and says how to run it.

    Raises UserError where the artefact is no table of the plan, or its view makes none.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    shown = made = function_of(artefact_id, artefact.view, "table")(plan, artefact_id, rows)
    if wide:
        shown = made._replace(table=function_of(artefact_id, artefact.view, "wide")(plan, artefact_id, made.frame))
    command = how_to_run(plan, artefact_id, rows)
    if rows is not None and len(made.frame) and worth_showing(made.frame).empty:
        return made._replace(table=Table(made.table.title, ["Not run"], [], [], [*command, *left_out(made.frame)]))
    _remark(plan, artefact_id, shown.table, made.frame)
    shown.table.remarks.extend(command)
    return shown


def write_table(plan: Plan, artefact_id: str, rows: pd.DataFrame | None, stem: Path, wide: bool = False) -> list[Path]:
    """Write stem.csv (long form), stem.md, stem.tex and stem.html; `wide`: stem.wide.md, stem.wide.tex, stem.wide.html.

    Raises UserError as `displayed`.
    """
    frame, table = displayed(plan, artefact_id, rows, wide)
    paths = [stem.with_name(f"{stem.name}{'.wide' * wide}.{suffix}") for suffix in TABLE[wide:]]
    if not wide:
        write_csv(frame, paths[0])
    citation = plan.experiments[artefact_id.split("/")[0]].citation
    write_text(paths[-1], page(plan.suite, table.title, as_html(table), citation))
    if plan.suite.demonstration:  # the page is marked on top
        for remarks in (table.remarks, table.brief or []):
            remarks.insert(0, " ".join(plan.suite.note.split()))
    name = artefact_id.replace("/", "-") + ("-wide" if wide else "")
    write_text(paths[-3], as_markdown(table))
    write_text(paths[-2], as_latex(table, caption(plan, artefact_id), name))
    return paths


def _remark(plan: Plan, artefact_id: str, table: Table, frame: pd.DataFrame) -> None:
    """Add what stands below every form of the artefact: remarks, and what labels leave out."""
    _explain_labels(table, abouts(plan, artefact_id, frame))
    below = plan.artefacts[artefact_id].caption if ran(frame) else None  # it is about what ran
    first = [*([below] if below else []), *splits.remarks(plan, artefact_id)]
    table.remarks[:0] = first
    if table.brief is not None:
        table.brief[:0] = first


def _explain_labels(table: Table, by_label: Mapping[str, str]) -> None:
    """Add a footnote to each label that leaves something out; a remark says it of labels that head no row."""
    notes, left = Footnotes(table.footnotes), dict(by_label)
    for row in (row for block in table.blocks for row in block.rows):
        if (about := by_label.get(row[0].value)) is not None:
            row[0] = replace(row[0], notes=(*row[0].notes, notes.number(about)))
            left.pop(row[0].value, None)
    table.remarks.extend(described_labels(left))
