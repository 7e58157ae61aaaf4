"""The result of an audit, and the description of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, norm

from dpgraph.config.frozen import Frozen
from dpgraph.privacy.auditing import Errors, ProfileTest


class Point(Frozen):
    """A point of a curve: epsilon, the claimed delta and the measured lower bound of the true one."""

    epsilon: float
    claimed: float
    measured: float


class AuditResult(Frozen):
    """`passed`: the code under audit keeps its claim as far as this audit can see."""

    audit: str
    title: str
    passed: bool
    claim: str
    finding: str
    trials: int
    seconds: float = 0.0
    curve: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Audit:
    """An audit: the function that runs it with a number of trials, and how many trials it needs."""

    run: Callable[[int], AuditResult]
    trials: int  # by default
    quick: int | None = None  # trials of a demonstration, where those by default take long


def largest(*values: float) -> float:
    """Return the largest value, or NaN if one is: every comparison with it is false, so that an audit does not pass."""
    return float(np.max(values))


def in_words(broken: Mapping[str, float]) -> str:
    """Return how many facts are broken, with the first ones."""
    shown = "; ".join(f"{name}: {score:.3g}" for name, score in list(broken.items())[:4])
    return f"{len(broken)} broken" + (f": {shown}" if shown else "")


def quantile(squares: float, count: int) -> float:
    """Return the normal quantile of the tail of a sum of `count` squares of standard normal numbers, at most 99."""
    return float(np.clip(norm.isf(chi2.sf(squares, count)), -99, 99))


def statistical_result(
    audit: str, title: str, claim: str, trials: int, errors: Errors, test: ProfileTest, delta: float
) -> AuditResult:
    """Return the result of an attack whose error rates are compared with a claimed curve."""
    worst = float((test.measured - test.claimed).max())
    finding = f"eps_lb {errors.epsilon(delta):.3g} at delta {delta:g}, mu_lb {errors.mu:.3g}; measured delta " + (
        f"exceeds the claimed one by up to {worst:.2g}" if test.refuted else "not above the claimed one at any epsilon"
    )
    points = zip(test.epsilons.tolist(), test.claimed.tolist(), test.measured.tolist())
    return AuditResult(
        audit=audit,
        title=title,
        passed=not test.refuted,
        claim=claim,
        finding=finding,
        trials=trials,
        curve=tuple(Point(epsilon=e, claimed=c, measured=m) for e, c, m in points),
    )
