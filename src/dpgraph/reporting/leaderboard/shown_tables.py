"""Tables on the first page of a kept suite that has few: HTML of the Markdown that `rendering.as_markdown` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dpgraph.reporting.formats import html_text
from dpgraph.reporting.page import html_table

SHOWN = 9_000  # bytes of all tables of a suite; with more, the page links to them
CELL = re.compile(r"(?<!\\)\|")
MARK = re.compile(r"\\(?P<escaped>.)|(?P<bold>\*\*)|<sup>(?P<note>[\d,]+)</sup>", re.DOTALL)


def shown_tables(files: Mapping[str, Path]) -> dict[str, str]:
    """HTML by table of its Markdown file; none where they are longer than `SHOWN` together."""
    if sum(path.stat().st_size for path in files.values()) > SHOWN:
        return {}
    return {name: as_page(path.read_text(encoding="utf-8")) for name, path in files.items()}


def as_page(text: str) -> str:
    r"""The blocks of a table and what stands around them; the first block, its title, is left out.

    >>> as_page("**t**\n\n| a |\n| --: |\n| **x\\_y**<sup>2</sup> |\n\nwhy\n").partition("<tbody>")[2]
    '<tr><td class="number"><strong>x_y</strong><sup>2</sup></td></tr></tbody></table></div><p class="note">why</p>'
    """
    return "".join(_block(block) for block in text.strip().split("\n\n")[1:])


def _block(block: str) -> str:
    lines = block.splitlines()
    if not block.startswith("|"):
        return f'<p class="note">{_inline(block)}</p>'
    heads, kinds = list(_cells(lines[0])), [kind.endswith(":") for kind in _cells(lines[1])]
    body = []
    for line in lines[2:]:
        marked = zip((_inline(cell) for cell in _cells(line)), kinds, strict=True)
        body.append(f"<tr>{''.join(f'<td{NUMBER * right}>{cell}</td>' for cell, right in marked)}</tr>")
    return html_table((MARK.sub(_plain, head) for head in heads), body)


NUMBER = ' class="number"'


def _cells(line: str) -> Iterator[str]:
    return (cell.strip() for cell in CELL.split(line.strip())[1:-1])


def _plain(found: re.Match) -> str:
    return found["escaped"] or ""


def _inline(text: str) -> str:
    parts, last, bold = [], 0, False
    for found in MARK.finditer(text):
        parts.append(html_text(text[last : found.start()]))
        last = found.end()
        if found["bold"]:
            bold = not bold
            parts.append("<strong>" if bold else "</strong>")
        else:
            parts.append(html_text(found["escaped"]) if found["escaped"] else f"<sup>{found['note']}</sup>")
    return "".join([*parts, html_text(text[last:])])
