"""Runs docs/tutorial.ipynb without Jupyter: its code cells one after the other in one namespace.

`python -m tests.tutorial docs/tutorial.ipynb` runs it and prints it with the new outputs; with `--write` they replace
those in the file.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import sys
from pathlib import Path
from typing import Any


def outputs_of(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """As Jupyter shows them: what is printed, and the value of a last line that is an expression."""
    tree, said = ast.parse(source), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(tree, f"cell {count}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    found: list[dict[str, Any]] = []
    if said.getvalue():
        lines = said.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        text = repr(value).splitlines(keepends=True)
        found.append({"data": {"text/plain": text}, "execution_count": count, "metadata": {},
                      "output_type": "execute_result"})  # fmt: skip
    return found


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its code cells. Raises whatever a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            made = outputs_of("".join(cell["source"]), names, count)
            cell = {**cell, "execution_count": count, "outputs": made}
        cells.append(cell)
    return {**notebook, "cells": cells}


def main(path: Path, write: bool) -> None:
    made = run(json.loads(path.read_text(encoding="utf-8")))
    if write:
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        print(json.dumps(made))


if __name__ == "__main__":
    logging.disable()
    main(Path(sys.argv[1]).absolute(), "--write" in sys.argv)
