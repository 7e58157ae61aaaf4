"""Risk in words: what an attacker tells of one record (docs/reference/own-graph.md)."""

from __future__ import annotations

import math

from dpgraph.families.votes.epsilon import FALSE_ALARMS, TradeOff
from dpgraph.families.votes.rules import CHOICE, RECORDS_OF_CHOICE
from dpgraph.own_graph.classes import ClassSelection
from dpgraph.privacy.public_numbers import gaussian_mu
from dpgraph.privacy.relation import Relation

HARDLY_ANYBODY = 0.9  # the advantage from which a release is called weak wherever it is named
DIGITS = 10**6  # advantages are rounded up to multiples of 1 / DIGITS
ROUNDING = 1e-6  # of a mu that was solved for
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
    return [f"this release {why}. Expected: below {HARDLY_ANYBODY:g}, at a smaller --epsilon"] if why else []


def with_classes(
    selection: ClassSelection, relation: Relation, *, epsilon: float, delta: float, nodes: int
) -> TradeOff:
    """Return the curve of a choice of classes with any run that it leaves the rest of (epsilon, delta) to.

    Whatever was chosen, that run is a Gaussian mechanism of at most this mu, with at most this choice of a reader, but
    for unlikely events within its delta. f-DP composes adaptively (Dong et al. 2022, Theorem 4).
    """
    if not selection.charged_under(relation):
        return TradeOff(mu=(1 + ROUNDING) * gaussian_mu(epsilon=epsilon, delta=delta))
    spent = float(selection.epsilon)
    left, rest = epsilon - spent, delta - selection.delta
    reader = CHOICE * left + ROUNDING if relation is Relation.NODE_NULL and nodes * left >= RECORDS_OF_CHOICE else 0.0
    unlikely = rest if relation is Relation.NODE_REMOVE else 0.0
    mu = (1 + ROUNDING) * gaussian_mu(epsilon=left, delta=rest)
    return TradeOff(mu=mu, choice=spent + reader, failure=selection.delta + unlikely)
