"""A table of a paper, regenerated: CSV for machines; Markdown, LaTeX and HTML for people.

Every table has a long form, a row per result; those of accuracies have a wide one, in the paper's own layout, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dpgraph.core.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting import formats, splits
from dpgraph.reporting.artefacts import artefact_of, caption
from dpgraph.reporting.display import NOT_IN_PAPER, MadeTable, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.latex import as_latex, spans
from dpgraph.reporting.missing_data import how_to_run
from dpgraph.reporting.page import html_table, page
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.views.registry import table_of, wide_of


def as_markdown(table: Table) -> str:
    lines = [f"**{formats.markdown(table.title)}**", ""]
    for block in table.blocks:
        if block.title:
            lines += [f"{formats.markdown(block.title)}", ""]
        lines.append(_markdown_line(map(formats.markdown, table.columns)))
        lines.append(_markdown_line([":--"] * table.text_columns + ["--:"] * (len(table.columns) - table.text_columns)))
        lines += [_markdown_line(_markdown_cell(cell) for cell in row) for row in block.rows]
        lines.append("")
    for number, text in enumerate(table.footnotes, 1):
        lines += [f"<sup>{number}</sup> {formats.markdown(text)}", ""]
    for text in table.remarks:
        lines += [formats.markdown(text), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_line(cells) -> str:  # type: ignore[no-untyped-def]
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: Text) -> str:
    text = formats.markdown(cell.value)
    return (f"**{text}**" if cell.bold else text) + _marks(cell.notes, "<sup>", "</sup>")


def _marks(notes: Sequence[int], before: str, after: str) -> str:
    return f"{before}{','.join(map(str, notes))}{after}" if notes else ""


def as_html(table: Table) -> str:
    """<table> and its notes, without the page around them."""
    body = []
    for block in table.blocks:
        if block.title:
            body.append(
                f'<tr class="block"><th scope="rowgroup" colspan="{len(table.columns)}">'
                f"{formats.html_text(block.title)}</th></tr>"
            )
        body += ["<tr>" + "".join(_html_cell(cell, i < table.text_columns) for i, cell in enumerate(row)) + "</tr>"
                 for row in block.rows]  # fmt: skip
    notes = "".join(f"<li>{formats.html_text(text)}</li>" for text in table.footnotes)
    remarks = "".join(f"<p>{formats.html_text(text)}</p>" for text in table.remarks)
    heads = html_table(table.columns, body, spans(table), folded=bool(table.spans))
    return heads + f'<div class="notes">{f"<ol>{notes}</ol>" if notes else ""}{remarks}</div>'


def _html_cell(cell: Text, is_text: bool) -> str:
    quiet = cell.value in (DASH, NOT_IN_PAPER)
    kind = " ".join(name for name, holds in (("number", not is_text), ("quiet", quiet)) if holds)
    marks = _marks(cell.notes, "<sup>", "</sup>")
    text = formats.html_text(cell.value)
    shown = f"<strong>{text}</strong>" if cell.bold else text
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{shown}{marks}</td>"


SUFFIXES = ("csv", "md", "tex", "html")
WIDE = ("wide.csv", "wide.md", "wide.tex", "wide.html")


def displayed(plan: Plan, artefact_id: str, rows: pd.DataFrame | None, wide: bool = False) -> MadeTable:
    """Make a table with all that is said below it; `wide`: in the paper's own layout.

    Raises UserError where the artefact is no table of the plan, or its view makes none.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    made: MadeTable = table_of(artefact_id, artefact.view)(plan, artefact_id, rows)
    shown = MadeTable(*wide_of(artefact_id, artefact.view)(plan, artefact_id, made.frame)) if wide else made
    _remark(plan, artefact_id, shown.table, made.frame)
    return shown


def write_table(plan: Plan, artefact_id: str, rows: pd.DataFrame | None, stem: Path, wide: bool = False) -> list[Path]:
    """Write stem.csv (long form), stem.md, stem.tex and stem.html, and the view's own files; `wide`: stem.wide.csv etc.

    Raises UserError as `displayed`.
    """
    frame, table, files = displayed(plan, artefact_id, rows, wide)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*(WIDE if wide else SUFFIXES), *files)]
    write_csv(frame, paths[0])
    citation = plan.experiments[artefact_id.split("/")[0]].citation
    write_text(paths[3], page(plan.suite, table.title, as_html(table), citation))
    if plan.suite.demonstration:  # the page is marked on top
        for remarks in (table.remarks, table.brief or []):
            remarks.insert(0, " ".join(plan.suite.note.split()))
    name = artefact_id.replace("/", "-") + ("-wide" if wide else "")
    write_text(paths[1], as_markdown(table))
    write_text(paths[2], as_latex(table, caption(plan, artefact_id), name))
    for path, text in zip(paths[len(SUFFIXES) :], files.values(), strict=True):
        write_text(path, text)
    return paths


def _remark(plan: Plan, artefact_id: str, table: Table, frame: pd.DataFrame) -> None:
    """What is said below every form of the artefact."""
    below = plan.artefacts[artefact_id].caption
    first = [*([below] if below else []), *splits.remarks(plan, artefact_id)]
    table.remarks[:0] = first
    if table.brief is not None:
        table.brief[:0] = first
    table.remarks.extend(how_to_run(plan, artefact_id, frame))
