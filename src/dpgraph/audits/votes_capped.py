"""Audit of votes under node-remove without a schema: noisy degrees, their caps, and what a node that leaves moves.

What is prepared is compared, for the same noise, with and without each node of small graphs (Theorem R,
docs/privacy.md, 12.7): noisy degrees of others against what is charged for them, votes against S given these, and how
often a degree exceeds its cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dpgraph.audits.graphs import directed_graph, with_edges, without_node
from dpgraph.audits.result import AuditResult
from dpgraph.audits.votes import CLASSES, IN_BALLOTS, MASS, NORM, planted_in, predictions, prepared_votes
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.methods.votes.ballots import Ballots, CappedBallots
from dpgraph.methods.votes.readers import READERS
from dpgraph.privacy.mechanisms.votes import CappedVotes
from dpgraph.randomness import numpy_generator

SIZE, MARGIN, FLOOR = 24, 1.0, 8
TITLE = "votes with noisy caps when a node leaves with all its edges"
IN_CAPPED = f"{IN_BALLOTS.rpartition('.')[0]}.CappedBallots"
OF_CAPPED = "dpgraph.privacy.mechanisms.votes.CappedVotes"


def graphs() -> dict[str, Graph]:
    """A clique, two nodes that share all their neighbours, and a random graph."""
    random = numpy_generator("audits", "votes capped")
    upper = np.triu(random.random((SIZE, SIZE)) < 0.3, 1)
    shared = np.zeros((SIZE, SIZE), dtype=bool)
    shared[:2, 2:] = True
    found = {}
    for name, half in (
        ("shared", shared),
        ("clique", np.triu(np.ones((SIZE, SIZE), dtype=bool), 1)),
        ("random", upper),
    ):
        split = np.where(np.arange(SIZE) % 4 < 3, TRAIN, TEST)
        plain = directed_graph([], [], np.ones((SIZE, 2)), np.zeros(SIZE, dtype=int), split, CLASSES)
        found[name] = with_edges(plain, *np.nonzero(half | half.T))
    return found


def prepared(graph: Graph, seed: int) -> tuple[CappedBallots, CappedVotes]:
    """Ballots with their caps, and the mechanism."""
    budget: dict[str, Any] = {
        "variant": "node-remove-capped",
        "degrees_share": 0.2,
        "cap_margin": MARGIN,
        "degree_floor": FLOOR,
    }
    step = prepared_votes(graph, seed, **budget)
    ballots, mechanism = step.ballots(), step.votes_of
    if not isinstance(ballots, CappedBallots) or not isinstance(mechanism, CappedVotes):
        raise TypeError("expected votes with caps")
    return ballots, mechanism


def caps_of(ballots: CappedBallots) -> np.ndarray:
    if ballots.caps is None:
        raise TypeError("expected votes with caps")
    return ballots.caps


def moved(graph: Graph, node: int, seed: int) -> dict[str, float]:
    """What a node moves, over what is charged for it; noise is the same on both sides, since names of streams are."""
    here, mechanism = prepared(graph, seed)
    there, _ = prepared(without_node(graph, node), seed)
    here_caps, there_caps = caps_of(here), caps_of(there)
    others = np.arange(SIZE) != node
    shift = np.minimum(np.abs(here_caps - there_caps)[others], 1)  # caps below m hide what noisy degrees do
    charged = 1 / ((mechanism.degrees_ratio or math.nan) * mechanism.closed()[1])  # mu
    degrees = float(np.linalg.norm(shift)) / mechanism.degrees_noise / charged
    # given the caps of one side: what a released degree is on both
    fixed = CappedBallots(there.lists, there.votes, there.degree_floor, there.degree_bound, 0.0, here_caps)
    sums = []
    for ballots in (here, fixed):
        votes = np.column_stack([np.tile(np.eye(CLASSES)[0] - 1 / CLASSES, (SIZE, 1)), np.full(SIZE, MASS)])
        kept = others if ballots is fixed else np.ones(SIZE, dtype=bool)
        sums.append(ballots.buckets(votes * ballots.weights[:, None] * kept[:, None])[others])
    neighbours = graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]]
    over = int((np.diff(graph.out_ptr)[neighbours] > here_caps[neighbours]).sum())
    bound = (1 + over / (2 * FLOOR)) * NORM
    return {"degrees": degrees, "votes": float(np.linalg.norm(sums[0] - sums[1])) / bound, "above": over}


def looks_elsewhere(graph: Graph, node: int) -> bool:
    """Whether others read one and the same release otherwise when `node` is gone."""
    released = numpy_generator("audits", "votes capped", "release").standard_normal((SIZE, CLASSES + 1))
    others, chances, found = np.arange(SIZE) != node, predictions(graph), []
    for one in (graph, without_node(graph, node)):
        ballots, _ = prepared(one, 0)
        cast = ballots.ballots(np.full(SIZE, -1), chances, MASS)
        read = ballots.read(released, cast, MASS, NORM, 1.0)
        found.append(ballots.scores(chances, read, READERS[0])[others])
    return not np.array_equal(found[0], found[1])


def _exact(self: CappedBallots, noisy: np.ndarray, margin: float, std: float) -> CappedBallots:
    return CappedBallots.plain_read(self, np.asarray(self.degrees, dtype=float), margin, std)  # type: ignore[attr-defined]


def _no_margin(self: CappedBallots, noisy: np.ndarray, margin: float, std: float) -> CappedBallots:
    return CappedBallots.plain_read(self, noisy, 0.0, std)  # type: ignore[attr-defined]


VOTES_CAPPED_BUGS: Mapping[str, Mapping[str, Any]] = {
    "degrees charged at sensitivity 1": {
        f"{OF_CAPPED}.degrees_noise": property(lambda self: self.degrees_ratio * self.closed()[1])
    },
    "caps from degrees without noise": {f"{IN_CAPPED}.plain_read": CappedBallots.capped, f"{IN_CAPPED}.capped": _exact},
    "caps without their margin": {f"{IN_CAPPED}.plain_read": CappedBallots.capped, f"{IN_CAPPED}.capped": _no_margin},
    "weights by degrees, not by caps": {
        f"{IN_CAPPED}.weights": property(lambda self: 1 / np.sqrt(np.maximum(self.degrees, 1)))
    },
    "reads the buckets of the own list": {f"{IN_CAPPED}.read": Ballots.read},
}


def votes_capped(trials: int, planted: str | None = None) -> AuditResult:
    """Some nodes of each graph leave, `trials` times with other noise."""
    most = {"degrees": 0.0, "votes": 0.0}
    spread: list[bool] = []
    above, count = 0, 0
    with planted_in(VOTES_CAPPED_BUGS[planted] if planted else {}):
        looked = sum(looks_elsewhere(graph, 0) for graph in graphs().values())
        for graph in graphs().values():
            for seed in range(trials):
                found = moved(graph, 0, seed)
                most = {name: max(value, found[name]) for name, value in most.items()}
                ballots, mechanism = prepared(graph, seed)
                caps = caps_of(ballots)
                low = np.diff(graph.out_ptr) > caps
                above, count = above + int(low.sum()), count + SIZE
                usual = ballots.degrees + 1 + MARGIN * mechanism.degrees_noise
                spread.extend((caps > usual)[usual > FLOOR])
    chance = float(ndtr(-MARGIN))
    rare = above <= binom.isf(1e-7, count, chance)
    noisy = 0.3 < float(np.mean(spread)) < 0.7  # half of the noise is positive
    holds = max(most.values()) <= 1 + 1e-6 and most["degrees"] > 0.99 and rare and noisy and not looked
    return AuditResult(
        audit="votes-capped", title=TITLE, planted=planted, passed=bool(holds),
        claim="degrees move by what is charged, votes by 1 + (those above their caps) / (2 m); few are above",
        trials=trials,
        finding=f"degrees {most['degrees']:.3g}, votes {most['votes']:.3g} of the bound; {above} of {count} above "
        f"their caps; noise up in {np.mean(spread):.2f}; others read one release otherwise in {looked}",
    )  # fmt: skip
