"""Risk in words: what an attacker tells of one record, the epsilon of an advantage (docs/reference/own-graph.md)."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import ndtri

from dpgraph.core.errors import UserError, invalid
from dpgraph.families.votes.epsilon import FALSE_ALARMS, TradeOff
from dpgraph.families.votes.rules import CHOICE
from dpgraph.own_graph.classes import ClassSelection
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.public_numbers import gaussian_mu
from dpgraph.privacy.relation import Relation

HARDLY_ANYBODY = 0.9  # the advantage from which a release is called weak wherever it is named
LEAST_ADVANTAGE, MOST_ADVANTAGE = 0.001, 0.999  # the allowed ones
DIGITS = 10**6  # advantages are rounded up to multiples of 1 / DIGITS
ROUNDING = 1e-6  # of a mu that was solved for
CLOSE = 0.01  # how far below the target the solved advantage may be, as a share
BELOW, ABOVE = 4.0, 1.5  # of the logarithm of the epsilon of a Gaussian mechanism: where the solution is looked for
TOLD = {
    Relation.NODE_NULL: ("whether a node's record is in the data", "records"),
    Relation.NODE_REMOVE: ("whether a node is in the data", "nodes"),
    Relation.EDGE: ("whether two nodes are joined by an edge", "edges"),
    Relation.RECORD_REPLACE: ("which of two records a node has", "records"),
}


def rounded_up(value: float, digits: int = DIGITS) -> float:
    """Return the next multiple of 1 / `digits`, at most 1: the side of privacy.

    >>> rounded_up(0.42461, 1000), rounded_up(1.0, 1000)
    (0.425, 1.0)
    """
    return min(1.0, math.ceil(value * digits) / digits)


def in_words(curve: TradeOff, relation: Relation) -> str:
    """Return a sentence for somebody who knows no epsilon."""
    secret, things = TOLD[relation]
    found = 100 * rounded_up(curve.true_positives, 1000)
    return (
        f"an attacker who knows everything else tells {secret} with an advantage of at most "
        f"{rounded_up(curve.advantage, 1000):g} (0: guessing, 1: certain); of 100 {things} at most {found:g} are found "
        f"at {100 * FALSE_ALARMS:g} false alarm in 100"
    )


def weakness(advantage: float) -> str:
    """Return why a release must not be called private without more words; empty below HARDLY_ANYBODY."""
    if advantage < HARDLY_ANYBODY:
        return ""
    return (
        f"protects hardly anybody: an attacker's advantage is up to {rounded_up(advantage, 1000):g} (0: guessing, 1: "
        "certain)"
    )


def risk_warnings(curve: TradeOff) -> list[str]:
    """Return a warning of a large advantage, or none."""
    why = weakness(curve.advantage)
    return [f"this release {why}. Expected: below {HARDLY_ANYBODY:g} (--advantage)"] if why else []


def with_classes(selection: ClassSelection, relation: Relation, *, epsilon: float, delta: float) -> TradeOff:
    """Return the curve of a choice of classes with any run that it leaves the rest of (epsilon, delta) to.

    Whatever was chosen, that run is a Gaussian mechanism of at most this mu, with at most this choice of a reader, but
    for unlikely events within its delta. f-DP composes adaptively (Dong et al. 2022, Theorem 4).
    """
    if not selection.charged_under(relation):
        return TradeOff(mu=(1 + ROUNDING) * gaussian_mu(epsilon=epsilon, delta=delta))
    spent = float(selection.epsilon)
    left, rest = epsilon - spent, delta - selection.delta
    reader = CHOICE * left + ROUNDING if relation is Relation.NODE_NULL else 0.0
    unlikely = rest if relation is Relation.NODE_REMOVE else 0.0
    mu = (1 + ROUNDING) * gaussian_mu(epsilon=left, delta=rest)
    return TradeOff(mu=mu, choice=spent + reader, failure=selection.delta + unlikely)


def epsilon_with_classes(advantage: float, delta: float, relation: Relation) -> float:
    """Return the epsilon of a release that chooses its classes, before they are chosen (`with_classes`)."""

    def curve(epsilon: float) -> TradeOff:
        selection = ClassSelection.within(epsilon=epsilon, delta=delta)
        return with_classes(selection, relation, epsilon=epsilon, delta=delta)

    return epsilon_for(advantage, delta, curve)


def check_advantage(advantage: float) -> None:
    if not LEAST_ADVANTAGE <= advantage <= MOST_ADVANTAGE:
        raise invalid("--advantage", advantage, f"a number in {LEAST_ADVANTAGE:g}..{MOST_ADVANTAGE:g}")


def gaussian_budget(advantage: float, delta: float) -> float:
    """Return the epsilon at `delta` of the Gaussian mechanism that has this advantage, 2 Phi(mu / 2) - 1."""
    return gaussian_epsilon(mu=2 * float(ndtri((1 + advantage) / 2)), delta=delta)


def epsilon_for(advantage: float, delta: float, curve: Callable[[float], TradeOff]) -> float:
    """Return an epsilon whose `curve` has at most this advantage, less by 1 % at most where the curve is continuous.

    It is not where a public rule begins to choose a reader.
    Raises UserError where unlikely events alone have more.
    """
    most = math.floor(DIGITS * advantage + 1e-3) / DIGITS - 1e-9  # so that it is kept once it is rounded up

    def excess(logarithm: float) -> float:
        return curve(math.exp(logarithm)).advantage - most

    found = gaussian_budget(most, delta)
    place = math.log(found) if found > 0 else -math.inf
    if found > 0 and -CLOSE * advantage <= excess(place) <= 0:
        return found
    if not found > 0 or excess(place - BELOW) > 0:
        raise UserError(f"--advantage {advantage:g}: delta = {delta:.3g} alone takes it: expected a larger one, or a "
                        "smaller --delta")  # fmt: skip
    place = float(brentq(excess, place - BELOW, place + ABOVE, xtol=1e-7))
    while excess(place) > 0:
        place -= 1e-6
    return math.exp(place)
