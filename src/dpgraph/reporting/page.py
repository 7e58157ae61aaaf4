"""Self-contained HTML pages: no script, no outside file; they can be read alone and inside the Snakemake report."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dpgraph.config.suite import Suite
from dpgraph.reporting.formats import html_text


def page(suite: Suite, title: str, body: str, lead: str = "") -> str:
    """`body` is HTML, the other texts are plain. A demonstration is marked as such on top of every page."""
    note = suite.note.removeprefix("A demonstration. ") if suite.demonstration else ""
    return template("page.html").render(title=title, body=body, lead=lead or suite.title, note=note)


@cache
def template(name: str) -> Template:
    """Return a template of this folder, whose filter `text` escapes what is plain."""
    environment = Environment(
        loader=PackageLoader("dpgraph.reporting", ""), undefined=StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["text"] = html_text
    return environment.get_template(f"{name}.j2")


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
