"""A table as Markdown, LaTeX or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dpgraph.reporting import formats
from dpgraph.reporting.display import NOT_IN_PAPER, Table, Text
from dpgraph.reporting.formats import DASH
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
    return formats.markdown(cell.value) + _marks(cell.notes, "<sup>", "</sup>")


def _marks(notes: Sequence[int], before: str, after: str) -> str:
    return f"{before}{','.join(map(str, notes))}{after}" if notes else ""


def as_latex(table: Table, label: str) -> str:
    r"""A table float, made smaller where the page is; needs \usepackage{booktabs,adjustbox}. ASCII: for any engine."""
    width = len(table.columns)
    lines = [
        "% needs \\usepackage{booktabs,adjustbox}",
        "\\begin{table*}[htbp]",
        "\\centering",
        "\\footnotesize",
        "\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{formats.latex(table.title)}}}",
        f"\\label{{tab:{label}}}",
        "\\begin{adjustbox}{max width=\\textwidth, max totalheight=0.75\\textheight}",
        f"\\begin{{tabular}}{{@{{}}{'l' * table.text_columns}{'r' * (width - table.text_columns)}@{{}}}}",
        "\\toprule",
        *_latex_spans(table),
        " & ".join(map(formats.latex, table.columns)) + " \\\\",
    ]
    for block in table.blocks:
        lines.append("\\midrule")
        if block.title:
            lines.append(f"\\multicolumn{{{width}}}{{@{{}}l}}{{\\itshape {formats.latex(block.title)}}} \\\\")
        lines += [" & ".join(_latex_cell(cell) for cell in row) + " \\\\" for row in block.rows]
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{adjustbox}"]
    below = [
        f"\\textsuperscript{{{number}}}~{formats.latex(text)}" for number, text in enumerate(table.footnotes, 1)
    ] + [formats.latex(text) for text in table.remarks]
    if below:
        lines += ["", "\\smallskip", "\\begin{minipage}{\\textwidth}", "\\scriptsize"]
        lines += [" \\par\n".join(below), "\\end{minipage}"]
    return "\n".join([*lines, "\\end{table*}"]) + "\n"


def _spans(table: Table) -> list[tuple[str, int]]:
    """Heads above the columns with how many they span; none of none. Columns without one are not joined."""
    if not any(table.spans):
        return []
    parts = [(name, len(list(part))) for name, part in groupby(table.spans)]
    return [one for name, width in parts for one in ([(name, width)] if name else [("", 1)] * width)]


def _latex_spans(table: Table) -> list[str]:
    heads, rules, first = [], [], 1
    for name, width in _spans(table):
        if name:
            heads.append(f"\\multicolumn{{{width}}}{{c}}{{{formats.latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{first}-{first + width - 1}}}")
        else:
            heads.append("")
        first += width
    return [" & ".join(heads) + " \\\\", "".join(rules)] if heads else []


def _latex_cell(cell: Text) -> str:
    return formats.latex(cell.value) + _marks(cell.notes, "\\textsuperscript{", "}")


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
    heads = html_table(table.columns, body, _spans(table), folded=bool(table.spans))
    return heads + f'<div class="notes">{f"<ol>{notes}</ol>" if notes else ""}{remarks}</div>'


def _html_cell(cell: Text, is_text: bool) -> str:
    quiet = cell.value in (DASH, NOT_IN_PAPER)
    kind = " ".join(name for name, holds in (("number", not is_text), ("quiet", quiet)) if holds)
    marks = _marks(cell.notes, "<sup>", "</sup>")
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{formats.html_text(cell.value)}{marks}</td>"
