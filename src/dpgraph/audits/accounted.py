"""Audit of what mechanisms state: epsilon, noise and procedure next to numbers from `theory`, which shares no code.

A prepared step that agrees with its mechanism may still be wrong together with it. Here the proved epsilon of every
method and variant is worked out a second time from (q, K, D, r, C, noise multiplier, steps).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from dpgraph.audits import theory
from dpgraph.audits.cases import Kind, Settings, mechanism_of, multiplier, of_each, std_over_multiplier
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.core.errors import UserError, invalid
from dpgraph.engine.training import opacus_engine
from dpgraph.privacy.procedure import Batches
from dpgraph.privacy.relation import Relation

ROOTS, DELTA = 400, 2e-4
SETTINGS = Settings(
    noise=6.0, rate=0.25, second_rate=0.2, steps=12, max_degree=2, list_cap=3, ratio=0.5, column_cap=3, top_k=2,
    num_rows=ROOTS, release_noise=40.0,
)  # fmt: skip
BELOW, ABOVE = 0.003, 0.02  # relative: how far an epsilon may be below ours, and above


def settings_of(kind: Kind) -> Settings:
    """Return the settings of a kind. Exponential rows are released at an epsilon of each draw, not at a noise std."""
    if kind.release in ("exponential", "exponential-values"):
        return Settings(**{**vars(SETTINGS), "release_noise": 0.02, "values_epsilon": 0.03})
    return SETTINGS


@cache
def own_epsilon(kind: Kind) -> float | None:
    """Work out the epsilon of a kind at `DELTA` a second time; None if no theorem proves one."""
    s, hops, noise = settings_of(kind), kind.hops, SETTINGS.noise
    roots = theory.affected_roots(s.max_degree, s.list_cap, hops, ROOTS)
    size = round(s.rate * ROOTS)
    if kind.relation is Relation.NONE:
        return None
    if kind.silent:
        return 0.0
    if kind.residual:
        ratio = s.ratio if kind.neighbours else 0.0
        return theory.residual(roots, s.rate, s.second_rate or s.rate, ratio, noise, s.steps).epsilon(DELTA)
    if kind.parts and kind.poisson:
        return theory.poisson(1, s.rate, noise / 2, s.steps).epsilon(DELTA)
    if kind.partition:
        # every step, where messages cross parts; else an epoch's worth of them
        visits = s.steps if kind.batches is Batches.MASKED_PARTS else math.ceil(s.steps * s.rate)
        vectors = math.ceil(ROOTS * s.rate) if kind.each_node else 1
        return theory.gaussian_epsilon(2 * vectors * math.sqrt(visits) / noise, DELTA)
    if kind.release is not None:
        return _rows_epsilon(kind, s, noise, size)
    if kind.fixed_size:
        moved = 2.0 if hops else 1.0
        step = theory.fixed_size_divergence(ROOTS, size, roots if hops else 1, noise, moved)
        return theory.epsilon_of_renyi(s.steps * step, theory.ORDERS, DELTA)
    mu = 1 / s.components_noise if kind.components else 0.0
    if kind.votes:  # half of the squared mu by default
        mu = s.rate * math.sqrt(s.steps) / noise
    if kind.sums:  # two by default, each with the noise multiplier of a step
        mu = math.sqrt(2) / noise
    return theory.poisson(roots, s.rate, noise, s.steps, mu).epsilon(DELTA)


def _rows_epsilon(kind: Kind, s: Settings, noise: float, size: int) -> float:
    mu = math.sqrt(2 * ROOTS) / s.release_noise if kind.release == "gaussian" else 0.0
    rho = mu**2 / 2
    if kind.release in ("exponential", "exponential-values"):
        rho = ROOTS * s.top_k * s.release_noise**2 / 2
        rho += ROOTS * (s.values_epsilon or 0.0) ** 2 / 2 if kind.release == "exponential-values" else 0.0
    if kind.variant == "published":
        affected, moved = (1, 1.0) if kind.release == "identity" else (ROOTS, 2.0)
        step = theory.fixed_size_divergence(ROOTS, size, affected, noise, moved)
        return theory.epsilon_of_renyi(rho * theory.ORDERS + s.steps * step, theory.ORDERS, DELTA)
    claim = theory.poisson(1 if kind.release == "identity" else s.column_cap + 1, s.rate, noise, s.steps, mu)
    if mu or not rho:
        return claim.epsilon(DELTA)
    # draws have no dominating pair: the better of Renyi composition and of two epsilons at half of delta each
    rows = theory.epsilon_of_renyi(rho * theory.ORDERS, theory.ORDERS, DELTA / 2)
    orders = 1 + np.geomspace(0.1, 15, 100)
    step = theory.poisson(s.column_cap + 1, s.rate, noise, 1).divergence(orders)
    together = theory.epsilon_of_renyi(rho * orders + s.steps * step, orders, DELTA)
    return min(together, rows + claim.epsilon(DELTA / 2))


def gaps_of(kind: Kind) -> dict[str, str]:
    """Return where the mechanism differs from `theory`: {name: "found, expected"}."""
    opened = mechanism_of(kind, settings_of(kind), ROOTS)
    mechanism = type(opened)(**{**dict(opened), "delta": DELTA})
    stated, expected = mechanism.rigorous(), own_epsilon(kind)
    gaps: dict[str, str] = {}
    if (stated.epsilon is None) != (expected is None):
        gaps["epsilon"] = f"{stated.epsilon}, {expected}"
    elif stated.epsilon is not None and expected is not None:
        low, high = (1 - BELOW) * expected, (1 + ABOVE) * expected + 1e-9
        gaps |= {} if low <= stated.epsilon <= high else {"epsilon": f"{stated.epsilon:.4g}, {expected:.4g}"}
    if stated.relation != kind.relation:
        gaps["relation"] = f"{stated.relation}, {kind.relation}"
    std = mechanism.noise_std_over_clip or 0.0
    factor = std_over_multiplier(kind, settings_of(kind), ROOTS)
    if not math.isclose(std, factor * multiplier(kind, settings_of(kind), ROOTS), rel_tol=1e-9):
        gaps["noise std / C"] = f"{std:.4g}, {SETTINGS.noise:.4g}"
    procedure = mechanism.procedure((1.0,))
    if not np.allclose(procedure.noise_std, SETTINGS.noise, rtol=1e-9):
        gaps["noise std of the procedure"] = f"{procedure.noise_std}, {SETTINGS.noise:.4g}"
    return gaps


def accounted(trials: int) -> AuditResult:
    """Compare what every method and variant states with a second derivation, at one setting.

    `trials` is not used, since the comparison is exact.
    """
    gaps_of_each = of_each(gaps_of)
    broken = {name: gaps for name, gaps in gaps_of_each.items() if gaps}
    shown = "; ".join(f"{name}: {what} {gap}" for name, gaps in broken.items() for what, gap in gaps.items())
    return AuditResult(
        audit="accounted", title="what mechanisms state",
        passed=not broken, trials=len(gaps_of_each),
        claim="proved epsilon, relation and noise as worked out from (q, K, D, r, C, noise multiplier, steps)",
        finding=f"{len(broken)} of {len(gaps_of_each)} differ"
        + (f" (found, expected): {shown[:400]}" if shown else ""),
    )  # fmt: skip


AUDITS = {"accounted": Audit(accounted, 4)}


def prv_epsilon(parameters: Mapping[str, Any], delta: float) -> float:
    """Return epsilon by Opacus' accountant of privacy random variables (Gopi et al. 2021).

    The mechanism is the Poisson-subsampled Gaussian, the relation add or remove; parameters are q, noise_multiplier and
    steps. The answer is an upper end of an interval about 1 % wide.
    """
    relation = parameters.get("relation", "add_or_remove_one")
    if relation != "add_or_remove_one":
        raise invalid("relation", relation, "add_or_remove_one, the only one of the PRV accountant")
    try:
        rate, noise, steps = parameters["q"], parameters["noise_multiplier"], parameters["steps"]
    except KeyError as error:
        raise UserError(f"prv: expected the parameter {error.args[0]}") from None
    return opacus_engine.prv_epsilon(rate, noise, steps, delta)
