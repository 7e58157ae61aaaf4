"""Hooks of mkdocs.yml: the pages that are generated, and the navigation that follows the folders.

`python envs/site.py FOLDER` writes the generated pages without mkdocs.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NOTEBOOK = "tutorial/private-model.ipynb"
MOVED = {  # by the page of the repository, below docs, the page of the site
    NOTEBOOK: NOTEBOOK.replace(".ipynb", ".md"),
    "results/README.md": "results/suites.md",  # results/index.html is the page of results itself
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
}
MADE_OF = {"../src/dpgraph/reporting/columns.csv": "reference/results-columns.md"}  # a file that a page is made of
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
INDENT = 2  # spaces of a nested list, as on GitHub


def generated() -> dict[str, str]:
    """Return the text of each generated page by its path below docs."""
    pages = {
        "reference/cli.md": "\n".join(commands()),
        "reference/api.md": "\n".join(functions()),
        "reference/results-columns.md": "\n".join(columns()),
    }
    for name, page in MOVED.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        pages[page] = relinked(notebook(json.loads(text)) if name == NOTEBOOK else text, name, page)
    return pages


def relinked(text: str, name: str, page: str) -> str:
    """Return the text of file `name` with links as they are from `page`; files outside of docs have none."""

    def link(found: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(name), found[2]))
        target = {**MOVED, **MADE_OF}.get(target, target)
        if target.startswith("../"):
            target = target.removeprefix("../docs/")
        if target.startswith("../"):
            return found[1]
        return f"[{found[1]}]({os.path.relpath(target, os.path.dirname(page) or '.')}{found[3] or ''})"

    return LINK.sub(link, text)


def notebook(cells: dict[str, Any]) -> str:
    """Return a notebook as Markdown, with the outputs of its cells."""
    parts = []
    for cell in cells["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            said = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
            parts.append(f"```text\n{said.rstrip()}\n```")
    return "\n\n".join(parts)


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands: help and options of each, as its parser has them."""
    from dpgraph.cli.app import GROUPS, parser

    yield "# Commands\n\n`dpgraph COMMAND --help` prints the same text."
    for group in GROUPS.values():
        yield f"\n## {group.title}\n"
        for name in group.commands:
            text = parser(name).generate_docs(output_format="markdown", heading_level=3)
            text = re.sub(r" \*\[default: (?:\(\)|False|None)\]\*|, --(?:no|empty)-[\w-]+(?=`)", "", text)
            text = re.sub(r"^(Example: )(dpgraph [^.\n]*(?:\.\w[^.\n]*)*)", r"\1`\2`", text, flags=re.M)
            text = text.replace(f"dpgraph {name} {name}", f"dpgraph {name}")
            yield re.sub(r"(?<![`\w])docs/([\w/-]+\.md)", r"[\1](../\1)", text)


def functions() -> Iterator[str]:
    """Yield the lines of the page of functions: those that `import dpgraph` offers."""
    from dpgraph import PUBLIC
    from dpgraph.core.loading import load

    yield "# Python functions\n\n`import dpgraph` imports no torch; the functions below do, when they are first used."
    for name, place in PUBLIC.items():
        function = load(place)
        about, arguments = described(inspect.getdoc(function) or "")
        yield f"\n## dpgraph.{name}\n\n```python\n{call(name, function)}\n```\n\n{about}\n"
        yield from (f"* `{argument}`: {meaning}" for argument, meaning in arguments.items())


def call(name: str, function: Any) -> str:
    """Return a call of a function with its parameters and defaults, one to a line."""
    lines, keyword = [], False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not keyword:
            keyword = True
            lines.append("*,")
        default = one.default.value if isinstance(one.default, Enum) else one.default
        lines.append(f"{one.name}," if one.default is one.empty else f"{one.name}={default!r},")
    return "\n    ".join([f"dpgraph.{name}(", *lines]) + "\n)"


def described(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring without its arguments, and what it says of each argument."""
    before, _, rest = text.partition("\nArgs:\n")
    block = re.match(r"(?:(?:[ ]+.*)?\n?)*", rest)
    lines = block[0] if block else ""
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", lines, re.M)
    about = f"{before}\n{rest[len(lines) :]}"
    about = re.sub(r"^(Returns|Raises|Example|Examples):\s*", r"\n**\1** ", about, flags=re.M)
    about = re.sub(r"^ {4,}", "", about, flags=re.M)
    return about.strip(), {name: " ".join(words.split()) for name, words in found}


def columns() -> Iterator[str]:
    """Yield the lines of the page of the columns that every row of results.parquet has."""
    from dpgraph.reporting.dictionary import COLUMNS

    yield "# Columns of results.parquet\n"
    yield "A row is one metric of one seed of one cell. `results.columns.csv` beside each file describes these columns,"
    yield "and one column for each of the suite's settings, such as `training.learning_rate`.\n"
    yield "| column | type | meaning |\n|:--|:--|:--|"
    for name, column in COLUMNS.items():
        yield f"| `{name}` | {column.kind} | {column.description.replace('|', '&#124;')} |"


def expanded(entries: list[Any]) -> list[Any]:
    """Return entries of nav with the pages that a glob finds in its place, each once."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            found += [{title: one if isinstance(one, str) else expanded(one)} for title, one in entry.items()]
        elif "*" in entry:
            pages = (path.relative_to(DOCS).as_posix() for path in sorted(DOCS.glob(entry)))
            found += [page for page in pages if page not in found]
        else:
            found.append(entry)
    return found


def on_config(config: Any) -> Any:
    """Expand the navigation, and let two spaces nest a list."""
    from markdown.extensions import Extension

    class Nesting(Extension):
        def extendMarkdown(self, md: Any) -> None:
            md.tab_length = INDENT

    config.nav = expanded(config.nav)
    config.markdown_extensions.append(Nesting())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for page, text in generated().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to pages that have another place in the site."""
    made = page.file.src_uri
    return markdown if made in MOVED.values() else relinked(markdown, made, made)


if __name__ == "__main__":
    for written, content in generated().items():
        target = Path(sys.argv[1]) / written
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
