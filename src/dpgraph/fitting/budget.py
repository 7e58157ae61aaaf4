"""What a budget buys: a cell with its calibration, from public numbers alone, and its epsilon at any delta."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpgraph.errors import UserError, invalid
from dpgraph.methods.votes.own_graph import ALONE, KINDS, capped_votes, own_graph_cell
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.votes import CappedVotes, PoissonVotes
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.vote_sensitivity import edge_votes
from dpgraph.problems.base import Size

RELATIONS = (Relation.NODE_NULL, Relation.NODE_REMOVE, Relation.EDGE)
MEAN_DEGREE = 10.0  # what caps are made for where no mean degree is stated
MOST_EPSILON = 1000.0  # under node-null, of a run that is solved for an edge
HALVINGS = 40


@dataclass(frozen=True)
class PublicNumbers:
    """All that a plan may read of a graph. `voters`: nodes on the side that trains; of node-remove alone."""

    nodes: int
    labelled: int
    classes: int
    voters: int | None = None
    mean_degree: float = MEAN_DEGREE
    degree_bound: int | None = None
    features: int | None = None

    def __post_init__(self) -> None:
        most = self.nodes if self.voters is None else self.voters
        if not 1 <= self.labelled <= most:
            raise invalid("--labelled", self.labelled, f"an integer in 1..{most}")
        if not 0 < self.mean_degree < math.inf:
            raise invalid("--mean-degree", self.mean_degree, "a finite number > 0")
        if self.degree_bound is not None and self.degree_bound < 1:
            raise invalid("--degree-bound", self.degree_bound, "an integer >= 1")


@dataclass(frozen=True)
class Budgeted:
    """A cell with its calibration: functions of public numbers."""

    relation: Relation
    target: float  # epsilon, under `relation`
    cell: Any
    calibration: Calibration

    @property
    def mechanism(self) -> PoissonVotes:
        mechanism = self.calibration.mechanism
        if not isinstance(mechanism, PoissonVotes):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of votes")
        return mechanism

    @property
    def votes(self) -> bool:
        return self.mechanism.votes_ratio is not None

    @property
    def training_mu(self) -> float:
        steps, noise = self.mechanism.closed()
        return float(np.sqrt(steps) / noise)

    @property
    def mu(self) -> float:
        """Of all that is released, as one Gaussian mechanism under `relation`: batches are full, nothing is chosen.

        Under node-remove the larger one of a voter's and a receiver's, and but for `failure`.
        """
        mechanism = self.mechanism
        if self.relation is Relation.EDGE:  # moves votes only
            return edge_votes(mass=mechanism.mass, degree_floor=mechanism.degree_floor) * mechanism.votes_mu
        voter = float(np.hypot(self.training_mu, mechanism.release_mu))
        return max(voter, mechanism.received_mu) if isinstance(mechanism, CappedVotes) else voter

    @property
    def failure(self) -> float:
        """Probability of the events that the theorem charges to delta; 0: there are none."""
        mechanism = self.mechanism
        return mechanism.delta - mechanism.delta_left if isinstance(mechanism, CappedVotes) else 0.0

    def epsilon_at(self, delta: float) -> float | None:
        """None: nothing is stated at a delta that unlikely events use up."""
        return gaussian_epsilon(mu=self.mu, delta=delta - self.failure) if delta > self.failure else None

    @property
    def epsilon(self) -> float:
        """At the delta of the run, under `relation`."""
        stated = self.calibration.statement
        for one in (stated.rigorous, *stated.beside):
            if one.relation is self.relation and one.epsilon is not None:
                return one.epsilon
        raise TypeError(f"relation={self.relation}: nothing is stated")


def budgeted(
    kind: str,
    numbers: PublicNumbers,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: Relation = Relation.NODE_NULL,
) -> Budgeted:
    """The run of `kind` (a key of KINDS, or auto) whose epsilon under `relation` is the target.

    Raises UserError for what no run has.
    """
    if kind not in (*KINDS, "auto"):
        raise invalid("--method", kind, f"one of auto, {', '.join(KINDS)}")
    if not 0 < epsilon < math.inf:
        raise invalid("--epsilon", epsilon, "a finite number > 0")
    chosen = usual_delta(numbers.nodes) if delta is None else delta
    if not 0 < chosen < 1 / numbers.nodes:
        raise invalid("--delta", chosen, f"a number > 0 and < 1 / nodes = {1 / numbers.nodes:.3g}")
    if relation is Relation.EDGE:
        if kind == "own":
            raise UserError("--relation edge, --method own: nothing reads an edge: expected votes, or another relation")
        return replace(_for_an_edge(numbers, epsilon, chosen), target=epsilon)
    if relation is Relation.NODE_REMOVE:
        privacy = _capped(kind, numbers, epsilon)
    else:
        privacy = {"votes_share": KINDS["votes" if kind == "auto" else kind]}
    return replace(_solved(relation, numbers, privacy, epsilon, chosen), target=epsilon)


def _solved(
    relation: Relation, numbers: PublicNumbers, privacy: dict[str, Any], epsilon: float, delta: float
) -> Budgeted:
    roots = numbers.nodes if numbers.voters is None else numbers.voters
    raw = own_graph_cell(roots=roots, num_labelled=numbers.labelled, privacy={
        "epsilon": epsilon, "delta": delta, **privacy})  # fmt: skip
    cell = resolve(raw, "fit")
    return Budgeted(relation, epsilon, cell, calibrate(cell, roots, num_protected=numbers.nodes))


def _capped(kind: str, numbers: PublicNumbers, epsilon: float) -> dict[str, Any]:
    """Node-remove: caps by the public rule of the mechanism, or own records where votes would drown in noise."""
    if numbers.voters is None:
        raise TypeError("node-remove: expected the number of voters")
    entries = max(1, round(numbers.mean_degree * numbers.nodes))
    words = None if numbers.features is None else float(numbers.features)  # of a record, at most
    size = Size(numbers.nodes, entries, 1, numbers.classes, numbers.voters, words, numbers.degree_bound)
    if kind != "own" and (found := capped_votes(size, epsilon)) is not None:
        return found
    if kind == "votes":
        raise UserError("--method votes: votes would drown in noise, by the public rule: expected auto, own, a "
                        "larger --epsilon, or a --degree-bound")  # fmt: skip
    return ALONE


def _for_an_edge(numbers: PublicNumbers, epsilon: float, delta: float) -> Budgeted:
    """Training reads no edge and costs it nothing; it is private under node-null as well, at what comes out."""
    privacy = {"votes_share": KINDS["votes"]}
    low, high = math.log(1e-4), math.log(MOST_EPSILON)
    if _solved(Relation.EDGE, numbers, privacy, MOST_EPSILON, delta).epsilon < epsilon:
        raise invalid("--epsilon", epsilon, "a smaller one: beyond it the noise on votes would protect no record")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = _solved(Relation.EDGE, numbers, privacy, math.exp(middle), delta)
        low, high = (middle, high) if found.epsilon <= epsilon else (low, middle)
        if high - low < 1e-4:
            break
    return _solved(Relation.EDGE, numbers, privacy, math.exp(low), delta)
