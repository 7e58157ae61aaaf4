"""Self-contained HTML pages: no script, no outside file; they can be read alone and inside the Snakemake report."""

from __future__ import annotations

from collections.abc import Iterable

from dpgraph.experiments.suite import Suite
from dpgraph.reporting.formats import html_text

STYLE = """
body { font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: #1c1c1c; background: #fff;
  margin: 2rem auto; padding: 0 1.5rem; max-width: 76rem; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; }
p.lead { color: #555; margin: 0 0 1.2rem; }
.banner { border-left: 4px solid #D55E00; background: #fdf2ea; padding: .6rem .9rem; margin: 0 0 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; vertical-align: bottom; }
thead tr:last-child th { border-bottom: 2px solid #333; }
thead th.over { border-bottom: 1px solid #999; text-align: center; }
th, td { padding: .28rem .6rem; }
td { vertical-align: top; border-bottom: 1px solid #e4e4e4; }
td.number { white-space: nowrap; }
.folded td.number { white-space: normal; }
.folded td:first-child { min-width: 9rem; }
tr.block th { padding-top: 1rem; border-bottom: 1px solid #999; }
td.quiet { color: #6b6b6b; }
sup { line-height: 0; }
td.code { white-space: nowrap; font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .8rem; }
td.reason { color: #555; padding-left: 2rem; font-size: .85rem; }
summary { cursor: pointer; }
img.figure { width: 100%; max-width: 60rem; }
.notes { font-size: .85rem; color: #444; margin-top: 1rem; }
.notes p { margin: .25rem 0; }
.verdict { font-weight: 600; white-space: nowrap; }
.reproduced::before { content: "\\25CF\\00A0"; color: #009E73; }
.contradicted::before { content: "\\25A0\\00A0"; color: #D55E00; }
.inconclusive::before { content: "\\25CB\\00A0"; color: #56B4E9; }
.underpowered::before { content: "\\25CC\\00A0"; color: #777; }
.not-run { font-weight: 400; color: #555; white-space: normal; }
.not-run::before { content: "\\2013\\00A0"; }
.elsewhere, .elsewhere::before { font-weight: 400; color: #555; }
td.evidence { min-width: 19rem; }
.evidence div { margin-bottom: .2rem; }
.control { display: block; color: #7a3b00; font-size: .85rem; }
.scope, .mechanism, .why { display: block; color: #555; font-size: .85rem; }
.mechanism { font-style: italic; }
"""


def page(suite: Suite, title: str, body: str, lead: str = "") -> str:
    """`body` is HTML, the other texts are plain. A demonstration is marked as such on top of every page."""
    banner = ""
    if suite.demonstration:
        banner = f'<div class="banner"><strong>Demonstration.</strong> {html_text(_without_prefix(suite.note))}</div>'
    return document(title, body, lead or suite.title, banner)


def document(title: str, body: str, lead: str, banner: str = "") -> str:
    """A page that belongs to no suite; `body` and `banner` are HTML, the other texts are plain."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html_text(title)}</h1>\n"
        f'<p class="lead">{html_text(lead)}</p>\n{banner}\n{body}\n</body>\n</html>\n'
    )


def html_table(
    columns: Iterable[str], body: Iterable[str], spans: Iterable[tuple[str, int]] = (), folded: bool = False
) -> str:
    """`body` is HTML, a row each; the columns are plain, and so are the heads above them with how many they span.

    Folded: numbers may break where they have a plain space.
    """
    over = "".join(
        f'<th scope="colgroup" colspan="{width}"{" class=over" if name else ""}>{html_text(name)}</th>'
        for name, width in spans
    )
    head = "".join(f'<th scope="col">{html_text(name)}</th>' for name in columns)
    heads = f"<tr>{over}</tr><tr>{head}</tr>" if over else f"<tr>{head}</tr>"
    kind = "wide folded" if folded else "wide"
    return f'<div class="{kind}"><table><thead>{heads}</thead><tbody>{"".join(body)}</tbody></table></div>'


def _without_prefix(note: str) -> str:
    return note.removeprefix("A demonstration. ")
