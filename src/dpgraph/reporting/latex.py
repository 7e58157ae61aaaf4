r"""A table as LaTeX floats for a paper in one or two columns, numbers aligned by siunitx.

A float is no wider than the page: at \footnotesize, in columns of their natural width, and only a wider one is
made smaller. A longer one than a page becomes several floats. ASCII: for any engine.
"""

import bisect
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpgraph.reporting.display import NOT_IN_PAPER, RowGroup, Table, Text
from dpgraph.reporting.formats import DASH, latex, template

PREAMBLE = (
    r"\usepackage{array,booktabs,adjustbox,siunitx}",
    r"\sisetup{separate-uncertainty=true,detect-weight=true,table-align-text-after=false,tight-spacing=true}",
)
LINES = 58  # of one float with its notes
NOTE_LINE = 150  # characters of a line of notes, which is a little lower
NOTE = 110  # characters of a short note
NUMBER = re.compile(r"([+−-]?)(\d[\d,]*)(?:\.(\d+))?(?: ± (\d+)(?:\.(\d+))?)?")
NOTHING = (DASH, NOT_IN_PAPER, "")
HEAD = 9  # characters of a head of numbers, beyond which it takes two lines
TEXT_WIDTH = 36  # characters of a first column, beyond which its cells are broken


def as_latex(table: Table, caption: str, label: str) -> str:
    """Return the floats, one or more, with the packages that they need as comments.

    An empty column is left out; one that says the same in all rows is said below instead.
    """
    table = _narrowed(table)
    parts = list(_parts(table))
    floats = [_float(table, blocks, caption, label, number, len(parts)) for number, blocks in enumerate(parts, 1)]
    return "".join([*(f"% {line}\n" for line in PREAMBLE), *floats])


def _narrowed(table: Table) -> Table:
    rows = [row for block in table.blocks for row in block.rows]
    kept, common = [], []
    for place, name in enumerate(table.columns):
        values = {row[place].value for row in rows}
        notes = any(row[place].notes for row in rows)
        if place < table.text_columns or notes or len(rows) < 2 or (len(values) > 1 and not values <= set(NOTHING)):
            kept.append(place)
        elif not values <= set(NOTHING):
            common.append(f"{name} {values.pop()}")
    blocks = [RowGroup(block.title, [[row[place] for place in kept] for row in block.rows]) for block in table.blocks]
    remarks = list(table.remarks if table.brief is None else table.brief)
    return replace(
        table,
        columns=[table.columns[place] for place in kept],
        blocks=blocks,
        brief=[*([f"In all rows: {'; '.join(common)}."] if common else []), *remarks],
        spans=tuple(table.spans[place] for place in kept) if table.spans else (),
    )


def _parts(table: Table) -> Iterator[list[RowGroup]]:
    """Yield the blocks of each float: cut between blocks if possible, and short enough for all notes below."""
    texts = [*map(brief, table.footnotes), *(table.brief or [])]
    most = max(LINES - sum(math.ceil(len(text) / NOTE_LINE) for text in texts), 15)
    part: list[RowGroup] = []
    free = most
    for block in table.blocks:
        head, rows = 1 if block.title else 0, block.rows
        if part and head + sum(map(_height, rows)) > free:
            yield part
            part, free = [], most
        while head + sum(map(_height, rows)) > free:
            count = bisect.bisect_right(list(itertools.accumulate(map(_height, rows))), free - head)
            yield [RowGroup(block.title, rows[:count])]
            rows = rows[count:]
        part.append(RowGroup(block.title, rows))
        free -= head + sum(map(_height, rows))
    if part or not table.blocks:
        yield part


def _height(row: Sequence[Text]) -> int:
    """Return the lines of a row: a long first cell is broken."""
    return math.ceil(len(row[0].value) / TEXT_WIDTH)


def _float(table: Table, blocks: Sequence[RowGroup], caption: str, label: str, number: int, of: int) -> str:
    more = "" if of == 1 else f" Part {number} of {of}."
    shown = [row for block in table.blocks for row in block.rows]  # all parts have the same columns
    kinds = [_kind([row[at] for row in shown], at < table.text_columns) for at in range(len(table.columns))]
    below = _notes(table, blocks) + (list(table.brief or []) if number == of else [])
    return template("table.tex").render(
        caption=latex(caption + more),
        label=label if number == 1 else f"{label}-{number}",
        kinds=kinds,
        spans=_spans(table),
        heads=[_head(name, kind) for name, kind in zip(table.columns, kinds, strict=True)],
        blocks=[(latex(block.title), [_cells(row, kinds) for row in block.rows]) for block in blocks],
        notes=[text if text.startswith("\\") else latex(text) for text in below],
    )


def _notes(table: Table, blocks: Sequence[RowGroup]) -> list[str]:
    """Return the footnotes of these blocks, in one paragraph, made short."""
    named = {number for block in blocks for row in block.rows for cell in row for number in cell.notes}
    texts = [f"\\textsuperscript{{{number}}}~{latex(brief(text))}." for number, text in enumerate(table.footnotes, 1)
             if number in named]  # fmt: skip
    return [" ".join(texts)] if texts else []


def brief(text: str, limit: int = NOTE) -> str:
    """Return whole clauses of a reason, at least one, and a sign where some are left out.

    >>> brief("one clause"), brief("a first clause; a second one", 20)
    ('one clause', 'a first clause; ...')
    """
    clauses = text.rstrip(".").split("; ")
    kept = clauses[:1]
    for clause in clauses[1:]:
        if len("; ".join([*kept, clause])) > limit:
            break
        kept.append(clause)
    return "; ".join(kept) + ("; ..." if len(kept) < len(clauses) else "")


def _kind(cells: Sequence[Text], is_text: bool) -> str:
    """Return the column's type: S with the digits that its numbers need, or l, p or r."""
    if is_text:
        longest = max((len(cell.value) for cell in cells), default=0)
        return (
            "l"
            if longest <= TEXT_WIDTH
            else f">{{\\raggedright\\arraybackslash\\hangindent=1em}}p{{{TEXT_WIDTH / 2.2:.0f}em}}"
        )
    texts = [cell.tex or cell.value for cell in cells]
    found = [match for text in texts if (match := NUMBER.fullmatch(text))]
    # pairs of numbers such as 12.0 / 2.00 are texts: where most are, the rest is no column of numbers
    if 2 * len(found) <= sum(any(map(str.isdigit, text)) for text in texts):
        return "r"
    sign = "+" if any(match[1] for match in found) else ""
    whole = max(len(match[2].replace(",", "")) for match in found)
    decimals = max(len(match[3] or "") for match in found)
    spread = max(len((match[4] or "").lstrip("0") + (match[5] or "")) for match in found)
    form = f"{sign}{whole}.{decimals}" + (f"({spread})" if spread else "")
    return f"S[table-format={form}]"


def _head(name: str, kind: str) -> str:
    text = latex(name)
    if kind[0] in "Sr" and len(name) > HEAD and " " in name:
        words = name.split(" ")
        cut = min(range(1, len(words)), key=lambda at: max(len(" ".join(words[:at])), len(" ".join(words[at:]))))
        lines = r"\\ ".join(latex(" ".join(part)) for part in (words[:cut], words[cut:]))
        text = f"\\shortstack[{'c' if kind[0] == 'S' else 'r'}]{{{lines}}}"
    return f"{{{text}}}" if kind.startswith("S") else text


def _spans(table: Table) -> list[str]:
    heads, rules, first = [], [], 1
    for name, width in spans(table):
        if name:
            heads.append(f"\\multicolumn{{{width}}}{{c}}{{{latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{first}-{first + width - 1}}}")
        else:
            heads.append("")
        first += width
    return [" & ".join(heads) + " \\\\", "".join(rules)] if heads else []


def spans(table: Table) -> list[tuple[str, int]]:
    """Return the heads above the columns with their widths; columns without a head are not joined."""
    if not any(table.spans):
        return []
    parts = [(name, len(list(part))) for name, part in itertools.groupby(table.spans)]
    return [one for name, width in parts for one in ([(name, width)] if name else [("", 1)] * width)]


def _cells(row: Sequence[Text], kinds: Sequence[str]) -> list[str]:
    return [_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)]


def _cell(cell: Text, kind: str) -> str:
    value = cell.tex or (DASH if cell.value == NOT_IN_PAPER else cell.value)
    marks = f"\\textsuperscript{{{','.join(map(str, cell.notes))}}}" if cell.notes else ""
    if not kind.startswith("S"):
        return (f"\\textbf{{{latex(value)}}}" if cell.bold else latex(value)) + marks
    if not NUMBER.fullmatch(value):
        return f"{{{latex(value)}{marks}}}"
    number = value.replace(",", "").replace("−", "-").replace(" ± ", " +- ")
    return ("\\bfseries " if cell.bold else "") + number + (f" {{{marks}}}" if marks else "")
