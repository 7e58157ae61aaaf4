"""Accountants by name: of this package, of its families, and from outside. Find, evaluate, solve and check them.

Parameters are plain values.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid
from dpgraph.privacy.accountants.declaration import EPSILON, Accountant
from dpgraph.privacy.accountants.parameters import LEAST_PRICE, Unknown
from dpgraph.privacy.cache import Cache, made_elsewhere
from dpgraph.privacy.guarantee import Guarantee, Mode, remark_on_zero
from dpgraph.privacy.solving import EpsilonAt, shown, solved

PACKAGE = Path(outside.__file__).parents[1]
DECLARES = b"\n@accountant("
Accountants = dict[tuple[str, Mode, str], Accountant]
Parameters = Mapping[str, Any]
# paper: a value printed in a paper; bug: the true accountant at the numbers of a known mistake; cross-check: another
# library's value for the same mechanism.
MODES: dict[str, Mode] = {"published": "published", "paper": "published", "rigorous": "rigorous", "bug": "rigorous",
                          "cross-check": "rigorous"}  # fmt: skip
PRINTED_DIGIT = 0.005  # papers print two decimals
COLUMNS = ("id", "accountant", "mode", "parameters", "delta", "quantity", "expected", "rel_tol")
Row = Mapping[str, str]
# Epsilon of another library by the name of its method: (parameters, delta) -> epsilon. This package loads none of them.
Libraries = Mapping[str, Callable[[Mapping[str, Any], float], float]]


def accountants() -> Accountants:
    """Return all accountants by name, mode and quantity. Raise UserError for a file from outside that is broken."""
    return _accountants(outside.places())


@cache
def _accountants(places: outside.Places) -> Accountants:
    own = (*sorted(Path(__file__).parent.glob("*.py")), *sorted(PACKAGE.glob("families/*/*accountant.py")))
    modules = {
        path: import_module(".".join(("dpgraph", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for path in own
        if DECLARES in path.read_bytes()
    }
    modules |= {path: outside.import_file(path) for path in outside.accountant_files(places)}
    found: Accountants = {}
    for path, module in modules.items():
        for one in declared_in(module):
            if one.key in found:
                raise UserError(f"{path}: {one.name}: declared twice: expected another name")
            found[one.key] = one
    return found


def declared_in(module: ModuleType) -> Iterator[Accountant]:
    """Yield the accountants that a module declares, not those that it imports."""
    for one in vars(module).values():
        if isinstance(one, Accountant) and one.function.__module__ == module.__name__:
            yield one


def names() -> tuple[str, ...]:
    """Return the names of all accountants of an epsilon."""
    return tuple(dict.fromkeys(name for name, _, quantity in accountants() if quantity == EPSILON))


def modes(name: str) -> dict[Mode, Accountant]:
    """Return the accountants of epsilon of this name."""
    return {mode: one for (known, mode, what), one in accountants().items() if (known, what) == (name, EPSILON)}


def find(name: str, mode: Mode, quantity: str = EPSILON) -> Accountant:
    """Return an accountant.

    Raise UserError for an unknown name, and with the reason for a mode that it does not have.
    """
    every = accountants()
    if (name, mode, quantity) in every:
        return every[name, mode, quantity]
    if (reason := unproved(name)) is not None and mode == "rigorous":
        raise UserError(f"accountant={name} (rigorous, {quantity}): nothing is guaranteed: {reason}")
    known = sorted({f"{name} ({kind}, {what})" for name, kind, what in every})
    raise invalid("accountant", f"{name} ({mode}, {quantity})", f"one of {'; '.join(known)}")


def unproved(name: str) -> str | None:
    """Return why a published accountant has no rigorous twin, and which one to use instead."""
    published = modes(name).get("published")
    return None if published is None else published.unproved


def evaluate(name: str, mode: str, parameters: Parameters, delta: float, quantity: str = EPSILON) -> float:
    """Return the value of one accountant at one setting.

    >>> round(evaluate("gaussian", "rigorous", {"sensitivity": 2, "sigma": 26, "compositions": 2000}, 1e-5), 3)
    19.941

    Args:
        name: The accountant's name.
        mode: published or rigorous; paper, bug and cross-check of reference tables stand for one of these.
        parameters: Plain values by the names of the declaration.
        delta: In (0, 1).
        quantity: epsilon, or another one that is declared.

    Raises:
        UserError: A name is unknown, a value is out of range, or a premise of the accountant's theorem does not hold.
    """
    if mode not in MODES:
        raise invalid("mode", mode, f"one of {', '.join(MODES)}")
    known = find(name, MODES[mode], quantity)
    return known.value_at(known.checked(parameters, delta), delta)


def guarantee(name: str, mode: Mode, parameters: Parameters, delta: float) -> Guarantee:
    """Return the epsilon with its relation, scope and assumptions, or the reason where none is proved.

    A mechanism that no paper published has no claimed epsilon.
    """
    if (others := modes(name)) and mode not in others:
        reason = unproved(name) if mode == "rigorous" else "no paper published an accountant for it"
        return Guarantee(mode=mode, accountant=name, sampling="none", epsilon=None, reason=reason, delta=delta)
    known = find(name, mode)
    epsilon = evaluate(name, mode, parameters, delta)
    unchecked = () if mode == "published" or known.units in parameters else ("delta < 1/N was not checked",)
    stated = replace(known.statement.filled(), relation=known.relation(parameters))
    claimed = () if outside.is_within(known.function.__module__) else (
        f"claimed: {known.function.__code__.co_filename} is outside of the package, and nobody here has read its proof",
    )  # fmt: skip
    remarks = (*unchecked, *claimed, *remark_on_zero(epsilon))
    return stated.guarantee(mode, epsilon=epsilon, delta=delta, accountant=name, remarks=remarks)


def solve_for(
    name: str,
    mode: Mode,
    parameters: Parameters,
    unknown: Unknown,
    *,
    delta: float,
    epsilon: float,
    cache: Cache | None = None,
    show: bool = False,
) -> dict[str, Any]:
    """Return the parameters with the least noise, the most steps or the highest batch rate that meet a target.

    The answer's epsilon never exceeds the target.

    Args:
        name: The accountant's name.
        mode: published or rigorous.
        parameters: All parameters but the unknown one.
        unknown: noise, steps or rate.
        delta: In (0, 1).
        epsilon: The target.
        cache: Keeps answers for later, of accountants of this package.
        show: Reports progress.

    Raises:
        UserError: No answer exists.
    """
    known = find(name, mode)
    open_ = known.unknown(unknown)
    if not LEAST_PRICE <= epsilon < math.inf:
        raise invalid("epsilon", epsilon, f"a finite number >= {LEAST_PRICE:g}")
    values = known.checked({key: value for key, value in parameters.items() if key != open_}, delta, open_)
    files = made_elsewhere(known.function)
    cache = None if files is None else cache
    question = ["solve", name, mode, values, delta, epsilon, unknown, *(files or ())]
    stored = None if cache is None else cache.get(question)

    def epsilon_at(value: float) -> float:
        return known.value_at({**values, open_: value}, delta)

    # one evaluation instead of a search: a file that was edited is no answer
    if isinstance(stored, int | float) and stored > 0 and epsilon_at(stored) <= epsilon:
        return {**values, open_: stored}
    with shown(unknown, epsilon_at) if show else nullcontext[EpsilonAt](epsilon_at) as watched:
        answer: float = solved(unknown, watched, target=epsilon, guess=known.guess)
    if unknown == "noise":  # a target that the least allowed noise meets
        answer = max(answer, known.parameters[open_].least or 0.0)
    if cache is not None:
        cache.put(question, answer)
    return {**values, open_: answer}


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
