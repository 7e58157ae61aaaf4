"""Compare the accountants with a table of reference values."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpgraph.core.errors import UserError
from dpgraph.privacy.accountants.evaluate import evaluate

PRINTED_DIGIT = 0.005  # papers print two decimals

# Epsilon of another library by the name of its method: (parameters, delta) -> epsilon. This package loads none of them.
Libraries = Mapping[str, Callable[[Mapping[str, Any], float], float]]


def check_row(row: Mapping[str, str], libraries: Libraries | None = None) -> tuple[bool, str]:
    """Whether one row of a reference table holds, and a line with the result.

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


def check_accounting(path: Path | str, libraries: Libraries | None = None) -> tuple[int, int, list[str]]:
    """(passed, failed, one line per row) of a CSV of reference values.

    Columns: id, accountant, mode (published, paper, rigorous, bug or cross-check), parameters (JSON), delta, quantity,
    expected, rel_tol. A paper's value may differ by half its last printed digit.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"path={path}: expected a CSV file of reference values")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = {"id", "accountant", "mode", "parameters", "delta", "quantity", "expected", "rel_tol"} - set(
            reader.fieldnames or ()
        )
        if missing:
            raise UserError(f"path={path}: expected the columns {', '.join(sorted(missing))}")
        results = [check_row(row, libraries) for row in reader]
    passed = sum(ok for ok, _ in results)
    return passed, len(results) - passed, [line for _, line in results]
