"""Audit of votes with noisy caps under node-remove: noisy degrees, their caps, and what a node that leaves moves.

Prepared runs with the same noise are compared with and without a voter and a receiver of small graphs (Theorem 15,
docs/privacy/votes.md). Noisy numbers of others may move by what is charged for them, and votes, given these, by B or S
B. The audit also counts how often a degree exceeds its cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dpgraph.audits.graphs import directed_graph, with_edges, without_node
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.families.votes.audit import CLASSES, MASS, NORM, predictions, prepared_votes
from dpgraph.families.votes.ballots import CappedBallots
from dpgraph.families.votes.removed_mechanism import CappedVotes

SIZE, MARGIN, FLOOR = 24, 1.0, 3
VARIANT = "node-remove-capped"
VOTER, RECEIVER = 0, 3  # nodes that leave; every fourth node receives
TITLE = "votes with noisy caps when a node leaves with all its edges"


@dataclass
class NoisyCaps:
    """Ballots with their caps, the mechanism, and the noisy numbers that were released on the way."""

    ballots: CappedBallots
    mechanism: CappedVotes
    received: np.ndarray  # (N,) noisy numbers of voters
    degrees: np.ndarray  # (N,) noisy numbers of receivers


def graphs() -> dict[str, Graph]:
    """Return a clique, two receivers that share all voters, and a random graph."""
    random = numpy_generator("audits", "votes capped")
    upper = np.triu(random.random((SIZE, SIZE)) < 0.3, 1)
    shared = np.zeros((SIZE, SIZE), dtype=bool)
    shared[[RECEIVER, RECEIVER + 4]] = True
    shared[:, [RECEIVER, RECEIVER + 4]] = True
    found = {}
    for name, half in (
        ("shared", np.triu(shared, 1)),
        ("clique", np.triu(np.ones((SIZE, SIZE), dtype=bool), 1)),
        ("random", upper),
    ):
        split = np.where(np.arange(SIZE) % 4 < 3, TRAIN, TEST)
        plain = directed_graph([], [], np.ones((SIZE, 2)), np.zeros(SIZE, dtype=int), split, CLASSES)
        found[name] = with_edges(plain, *np.nonzero(half | half.T))
    return found


def prepared(graph: Graph, seed: int, variant: str = VARIANT) -> NoisyCaps:
    """Prepare ballots with caps, and record the noisy numbers."""
    budget: dict[str, Any] = {
        "variant": variant,
        "degrees_share": 0.2,
        "cap_margin": MARGIN,
        "degree_floor": FLOOR,
        "hub_share": 0.1,
        "hub_limit": 1000,  # no hubs, so that flags are the same on both sides
    }
    step = prepared_votes(graph, seed, **budget)
    seen: dict[str, np.ndarray] = {}
    hubs, caps = CappedBallots.without_hubs, CappedBallots.capped

    def of_hubs(self: CappedBallots, noisy: np.ndarray, limit: float) -> CappedBallots:
        seen["received"] = noisy
        return hubs(self, noisy, limit)

    def of_caps(self: CappedBallots, noisy: np.ndarray, margin: float, std: float) -> CappedBallots:
        seen["degrees"] = noisy
        return caps(self, noisy, margin, std)

    with patch.object(CappedBallots, "without_hubs", of_hubs), patch.object(CappedBallots, "capped", of_caps):
        ballots, mechanism = step.ballots(), step.votes_of
    if not isinstance(ballots, CappedBallots) or not isinstance(mechanism, CappedVotes):
        raise TypeError("expected votes with caps")
    return NoisyCaps(ballots, mechanism, seen["received"], seen["degrees"])


def caps_of(ballots: CappedBallots) -> np.ndarray:
    """Return the caps of ballots; raise TypeError without caps."""
    if ballots.caps is None:
        raise TypeError("expected votes with caps")
    return ballots.caps


def moved(graph: Graph, node: int, seed: int, variant: str = VARIANT) -> dict[str, float]:
    """Return by how much a node that leaves moves each noisy number and the votes, over what is charged.

    Noise is the same on both sides, since the names of its streams are.
    """
    here, there = prepared(graph, seed, variant), prepared(without_node(graph, node), seed, variant)
    others, mechanism = np.arange(SIZE) != node, here.mechanism
    found = {}
    for name, ratio in (("received", mechanism.hubs_ratio), ("degrees", mechanism.degrees_ratio)):
        shift = float(np.linalg.norm((getattr(here, name) - getattr(there, name))[others]))
        noise = mechanism.hubs_noise if name == "received" else mechanism.degrees_noise
        charged = 1 / ((ratio or math.nan) * mechanism.closed()[1])  # mu
        payer = VOTER if name == "received" else RECEIVER
        found[name] = _over(shift / (noise or math.nan), charged if node == payer else 0.0)
    # given the caps of one side, as if both sides had released the same degrees
    fixed, sums = replace(there.ballots, caps=caps_of(here.ballots)), []
    for ballots in (here.ballots, fixed):
        votes = np.column_stack([np.tile(np.eye(CLASSES)[0] - 1 / CLASSES, (SIZE, 1)), np.full(SIZE, MASS)])
        kept = others if ballots is fixed else np.ones(SIZE, dtype=bool)
        sums.append(ballots.buckets(votes * ballots.weights[:, None] * kept[:, None])[others])
    voters = np.flatnonzero(np.asarray(here.ballots.lists[:, [node]].todense()).ravel())
    above = int((here.ballots.degrees > caps_of(here.ballots))[voters].sum())
    bound = 1.0 if node == VOTER else above / (2 * FLOOR)
    return {**found, "votes": _over(float(np.linalg.norm(sums[0] - sums[1])), bound * NORM)}


def _over(value: float, bound: float) -> float:
    """Return value / bound; inf if a value moves whose bound is 0."""
    return value / bound if bound else math.inf if value > 1e-9 else 0.0


def looks_elsewhere(graph: Graph, node: int) -> bool:
    """Return True if others read one and the same release otherwise when `node` is gone."""
    released = numpy_generator("audits", "votes capped", "release").standard_normal((SIZE, CLASSES + 1))
    others, chances, found = np.arange(SIZE) != node, predictions(graph), []
    for one in (graph, without_node(graph, node)):
        ballots = prepared(one, 0).ballots
        cast = ballots.ballots(np.full(SIZE, -1), chances, MASS)
        read = ballots.read(released, cast, MASS, NORM, 1.0)
        found.append(ballots.scores(chances, read, ballots.readers[0])[others])
    return not np.array_equal(found[0], found[1])


def votes_capped(trials: int) -> AuditResult:
    """Audit a voter and a receiver of each graph that leave, `trials` times with other noise."""
    most = {"received": 0.0, "degrees": 0.0, "votes": 0.0}
    spread: list[bool] = []
    above, count = 0, 0
    looked = sum(looks_elsewhere(graph, node) for graph in graphs().values() for node in (VOTER, RECEIVER))
    for graph in graphs().values():
        for seed in range(trials):
            for node in (VOTER, RECEIVER):
                found = moved(graph, node, seed)
                most = {name: largest(value, found[name]) for name, value in most.items()}
            one = prepared(graph, seed)
            voters = graph.train_nodes
            caps, degrees = caps_of(one.ballots)[voters], one.ballots.degrees[voters]
            above, count = above + int((degrees > caps).sum()), count + len(voters)
            usual = degrees + 1 + MARGIN * one.mechanism.degrees_noise
            spread.extend((caps > usual)[usual > FLOOR])
    chance = float(ndtr(-MARGIN))
    rare = above <= binom.isf(1e-7, count, chance)
    noisy = 0.3 < float(np.mean(spread)) < 0.7  # half of the noise is positive
    reached = min(most["degrees"], most["received"]) > 0.99
    holds = largest(*most.values()) <= 1 + 1e-6 and reached and rare and noisy and not looked
    return AuditResult(
        audit="votes-capped", title=TITLE, passed=bool(holds),
        claim="a voter moves noisy numbers of voters by what is charged and votes by B; a receiver noisy degrees, and "
        "votes by (its voters above their caps) / (2 m); few are above",
        trials=trials,
        finding=f"numbers of voters {most['received']:.3g}, degrees {most['degrees']:.3g}, votes {most['votes']:.3g} "
        f"of the bound; {above} of {count} above their caps; "
        f"noise up in {np.mean(spread):.2f}; others read one release otherwise in {looked}",
    )  # fmt: skip


AUDITS = {"votes-capped": Audit(votes_capped, 12)}
