"""Self-contained HTML pages: no script, no outside file; they can be read alone and inside the Snakemake report."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dpgraph.config.suite import Suite
from dpgraph.reporting.formats import html_text, markdown


def page(suite: Suite, title: str, body: str, lead: str = "") -> str:
    """`body` is HTML, the other texts are plain. A demonstration is marked as such on top of every page."""
    note = suite.note.removeprefix("A demonstration. ") if suite.demonstration else ""
    return template("page.html").render(title=title, body=body, lead=lead or suite.title, note=note)


@cache
def template(name: str) -> Template:
    """Return a template of this folder; its filters `text` and `markdown` escape what is plain."""
    environment = Environment(
        loader=PackageLoader("dpgraph.reporting", ""), undefined=StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"text": html_text, "markdown": markdown}
    return environment.get_template(f"{name}.j2")
