"""A table as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Sequence

from dpgraph.reporting import formats
from dpgraph.reporting.display import NOT_IN_PAPER, Table, Text
from dpgraph.reporting.formats import DASH
from dpgraph.reporting.latex import spans
from dpgraph.reporting.page import html_table


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
