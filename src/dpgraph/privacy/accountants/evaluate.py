"""Evaluate and solve accountants by name, with their parameters as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from dpgraph.core import outside
from dpgraph.core.errors import invalid
from dpgraph.privacy.accountants.catalogue import find, modes, unproved
from dpgraph.privacy.accountants.declaration import EPSILON
from dpgraph.privacy.accountants.parameters import LEAST_PRICE, Unknown
from dpgraph.privacy.cache import Cache, made_elsewhere
from dpgraph.privacy.guarantee import Guarantee, Mode, remark_on_zero
from dpgraph.privacy.solving import EpsilonAt, shown, solved

Parameters = Mapping[str, Any]
# paper: a value printed in a paper; bug: the true accountant at the numbers of a known mistake; cross-check: another
# library's value for the same mechanism.
MODES: dict[str, Mode] = {"published": "published", "paper": "published", "rigorous": "rigorous", "bug": "rigorous",
                          "cross-check": "rigorous"}  # fmt: skip


def evaluate(name: str, mode: str, parameters: Parameters, delta: float, quantity: str = EPSILON) -> float:
    """Return the value of one accountant at one setting.

    Raises UserError for what is unknown, out of range, or outside the premises of the accountant's theorem.

    >>> round(evaluate("gaussian", "rigorous", {"sensitivity": 2, "sigma": 26, "compositions": 2000}, 1e-5), 3)
    19.941
    """
    if mode not in MODES:
        raise invalid("mode", mode, f"one of {', '.join(MODES)}")
    known = find(name, MODES[mode], quantity)
    return known.at(known.checked(parameters, delta), delta)


def guarantee(name: str, mode: Mode, parameters: Parameters, delta: float) -> Guarantee:
    """Return the epsilon with all that it rests on; the reason where nothing is guaranteed.

    A mechanism that no paper published has no published epsilon.
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
    """Return the parameters with the least noise, the most steps or the highest batch rate that meet `epsilon`.

    The answer's epsilon never exceeds the target. `cache` keeps answers, `show` reports progress. Raises UserError
    where no answer exists.
    """
    known = find(name, mode)
    open_ = known.unknown(unknown)
    if not LEAST_PRICE <= epsilon < math.inf:
        raise invalid("epsilon", epsilon, f"a finite number >= {LEAST_PRICE:g}")
    values = known.checked({key: value for key, value in parameters.items() if key != open_}, delta, open_)
    question = ["solve", name, mode, values, delta, epsilon, unknown, *made_elsewhere(known.function)]
    stored = None if cache is None else cache.get(question)
    if isinstance(stored, int | float) and stored > 0:
        return {**values, open_: stored}

    def epsilon_at(value: float) -> float:
        return known.at({**values, open_: value}, delta)

    with shown(unknown, epsilon_at) if show else nullcontext[EpsilonAt](epsilon_at) as watched:
        answer: float = solved(unknown, watched, target=epsilon, guess=known.guess)
    if unknown == "noise":  # a target that the least allowed noise meets
        answer = max(answer, known.parameters[open_].least or 0.0)
    if cache is not None:
        cache.put(question, answer)
    return {**values, open_: answer}
