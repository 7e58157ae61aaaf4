"""Compare the accountants with a table of reference values."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

from dpgraph.errors import UserError
from dpgraph.privacy.evaluate import evaluate

PRINTED_DIGIT = 0.005  # papers print two decimals
CROSS_CHECK_TOLERANCE = 0.02


def check_row(row: Mapping[str, str]) -> tuple[bool, str]:
    """Whether one row of a reference table holds, and a line that says so."""
    try:
        expected, tolerance = float(row["expected"]), float(row["rel_tol"])
        parameters = json.loads(row["parameters"])
        value = evaluate(row["accountant"], row["mode"], parameters, float(row["delta"]), row["quantity"])
    except (KeyError, TypeError, ValueError, UserError) as error:
        return False, f"{row.get('id', '?')}: {type(error).__name__}: {error}"
    allowed = tolerance * abs(expected)
    if row["mode"] == "paper":
        allowed = max(allowed, PRINTED_DIGIT)
    if row["mode"] == "cross-check":
        allowed = max(allowed, CROSS_CHECK_TOLERANCE * abs(expected))
    passed = abs(value - expected) <= allowed
    verdict = "ok" if passed else f"FAILED (allowed difference {allowed:.3g})"
    return passed, f"{row['id']}: {row['accountant']} {row['mode']} {value:.6g}, expected {expected:g}: {verdict}"


def check_accounting(path: Path | str) -> tuple[int, int, list[str]]:
    """(passed, failed, one line per row) of a CSV of reference values.

    Columns: id, accountant, mode (published, paper, rigorous, bug or cross-check), parameters (JSON), delta, quantity,
    expected, rel_tol. A paper's value may differ by half its last printed digit, another library's by two percent.
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
        results = [check_row(row) for row in reader]
    passed = sum(ok for ok, _ in results)
    return passed, len(results) - passed, [line for _, line in results]
