"""Compare the accountants with reference values: those that they declare, or those of a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpgraph.core.errors import UserError
from dpgraph.privacy.accountants.catalogue import accountants
from dpgraph.privacy.accountants.evaluate import evaluate

PRINTED_DIGIT = 0.005  # papers print two decimals
COLUMNS = ("id", "accountant", "mode", "parameters", "delta", "quantity", "expected", "rel_tol")
Row = Mapping[str, str]

# Epsilon of another library by the name of its method: (parameters, delta) -> epsilon. This package loads none of them.
Libraries = Mapping[str, Callable[[Mapping[str, Any], float], float]]


def declared_rows() -> list[Row]:
    """Return the reference values of all declared accountants, as rows of a table."""
    keys = ("accountant", "mode", "quantity")
    return [dict(zip(keys, key)) | row for key, one in accountants().items() for row in one.references]


def check_row(row: Row, libraries: Libraries | None = None) -> tuple[bool, str]:
    """Return whether one row of a reference table holds, and a line with the result.

    A cross-check with a `method` of `libraries` is computed by that library, every other row by this package.
    """
    try:
        expected, tolerance = float(row["expected"]), float(row["rel_tol"])
        parameters = json.loads(row["parameters"])
        library = (libraries or {}).get(parameters.get("method", "")) if row["mode"] == "cross-check" else None
        if library is not None:
            value = library(parameters, float(row["delta"]))
        else:
            value = evaluate(row["accountant"], row["mode"], parameters, float(row["delta"]), row["quantity"])
    except (KeyError, TypeError, ValueError, UserError) as error:
        return False, f"{row.get('id', '?')}: {type(error).__name__}: {error}"
    allowed = tolerance * abs(expected)
    if row["mode"] == "paper":
        allowed = max(allowed, PRINTED_DIGIT)
    passed = abs(value - expected) <= allowed
    verdict = "ok" if passed else f"FAILED (allowed difference {allowed:.3g})"
    return passed, f"{row['id']}: {row['accountant']} {row['mode']} {value:.6g}, expected {expected:g}: {verdict}"


def check_accounting(path: Path | str | None, libraries: Libraries | None = None) -> tuple[int, int, list[str]]:
    """Return (passed, failed, one line per row) of a CSV of reference values; without one, of the declared values.

    Columns: id, accountant, mode (published, paper, rigorous, bug or cross-check), parameters (JSON), delta, quantity,
    expected, rel_tol. A paper's value may differ by half its last printed digit.
    """
    results = [check_row(row, libraries) for row in (declared_rows() if path is None else _table(Path(path)))]
    passed = sum(ok for ok, _ in results)
    return passed, len(results) - passed, [line for _, line in results]


def _table(path: Path) -> list[Row]:
    if not path.is_file():
        raise UserError(f"path={path}: expected a CSV file of reference values")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := set(COLUMNS) - set(reader.fieldnames or ()):
            raise UserError(f"path={path}: expected the columns {', '.join(sorted(missing))}")
        return list(reader)
