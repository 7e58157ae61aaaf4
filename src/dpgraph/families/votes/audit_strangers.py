"""Audit of votes under node-remove that are read over two hops, with a schema and with caps (Theorem 16).

Graphs are the only random part: sums before noise are compared, and readings of one and the same release. All whom the
stated scope covers must read the same, with and without a node or its record (docs/privacy/votes.md#theorem-16). Noise
is the same on both sides, since the names of its streams are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dpgraph.audits.graphs import directed_graph, null_records, with_edges, without_node
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.families.votes import audit_capped as votes_capped
from dpgraph.families.votes.audit import CLASSES, MASS, NORM, predictions, prepared_votes
from dpgraph.families.votes.audit_capped import FLOOR, MARGIN, RECEIVER, VOTER
from dpgraph.families.votes.ballots import Ballots, CappedBallots
from dpgraph.families.votes.mechanism import READERS
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.privacy.relation import Relation, Scope

BOUND, TAPERS = 9, (0.0, 1.0)
SIZE = 16
TITLE = "votes read over two hops when a node leaves, or its record"
CAPPED = "node-remove-capped-strangers"


def crowded_edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges of a star, a clique and a windmill, in both directions."""
    everyone = np.arange(BOUND + 1)
    pairs = np.array([(a, b) for a in everyone for b in everyone if a != b])
    star = pairs[(pairs == 0).any(axis=1)]
    vanes = np.array([(a, a + 1) for a in range(1, BOUND, 2)])
    return star, pairs, np.concatenate([star[star.max(axis=1) < BOUND], vanes, vanes[:, ::-1]])


def bounded_edges(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw an undirected graph of `SIZE` nodes; return its edges in both directions, with degrees up to `BOUND`."""
    upper = np.triu(random.random((SIZE, SIZE)) < random.uniform(0.1, 0.4), 1)
    both = upper | upper.T
    while (crowded := both.sum(axis=1) > BOUND).any():
        node = int(np.flatnonzero(crowded)[0])
        other = int(np.flatnonzero(both[node])[-1])
        both[node, other] = both[other, node] = False
    owners, members = np.nonzero(both)
    return owners, members


def graph_of(owners: np.ndarray, members: np.ndarray) -> Graph:
    """Return a graph all of whose nodes are of class 0."""
    split = np.where(np.arange(SIZE) % 4 < 3, TRAIN, TEST)
    graph = directed_graph([], [], np.ones((SIZE, 2)), np.zeros(SIZE, dtype=int), split, CLASSES)
    return with_edges(graph, owners, members)


def mutual_graphs(trials: int) -> Iterator[Graph]:
    """Yield a star, a clique, a windmill and random graphs of degrees up to D, edges in both lists.

    All labels agree, so that movements add up.
    """
    for edges in crowded_edges():
        yield graph_of(edges[:, 0], edges[:, 1])
    for trial in range(trials):
        yield graph_of(*bounded_edges(numpy_generator("audits", "votes strangers", trial)))


def covered(graph: Graph, node: int, scope: Scope) -> np.ndarray:
    """Return (N,) bool: nodes whose view a guarantee of this scope covers."""
    others = np.arange(graph.num_nodes) != node
    if scope is Scope.STRANGERS:
        named = graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]]
        others[named] = False
        others[np.repeat(np.arange(graph.num_nodes), np.diff(graph.out_ptr))[np.asarray(graph.out_idx) == node]] = False
    return others


def read_of(step: PreparedVotes, ballots: Ballots) -> np.ndarray:
    """Return (readers, N, C) scores of one made-up release."""
    size = len(ballots.votes)
    chances = predictions(step.graph)
    released = numpy_generator("audits", "votes strangers", "release").standard_normal((size, CLASSES + 1))
    cast = ballots.ballots(step.labels_that_vote, chances, MASS)
    return np.stack(
        [ballots.scores(chances, ballots.read(released, cast, MASS, NORM, one.shrinkage), one) for one in READERS]
    )


def utilities(step: PreparedVotes, ballots: Ballots) -> np.ndarray:
    """Return (readers,) right predictions on labelled nodes, which a choice would weigh."""
    labels = np.asarray(step.graph.labels)
    right = read_of(step, ballots).argmax(axis=2) == labels
    return np.asarray(right[:, labels >= 0].sum(axis=1))


def compared(graph: Graph, node: int, budget: Mapping[str, Any]) -> dict[str, float]:
    """Return the movement over what is charged, for removal and for null; inf where a covered view moves."""
    step = prepared_votes(graph, 0, **budget)
    stated = step.votes_of.rigorous()
    (null,) = (one for one in step.votes_of.beside() if one.relation is Relation.NODE_NULL)
    ballots, found = step.ballots(), dict[str, float]()
    views = read_of(step, ballots)
    for name, other, scope in (
        ("leaves", without_node(graph, node), stated.scope),
        ("null", null_records(graph, [node]), null.scope),
    ):
        less = prepared_votes(other, 0, **budget)
        rest = less.ballots()
        seen = covered(graph, node, scope)
        same = np.array_equal(views[:, seen], read_of(less, rest)[:, seen])
        found[f"{name}, reads"] = 0.0 if same else math.inf
        if step.votes_of.choice_epsilon and name == "leaves":
            gap = utilities(step, ballots) - utilities(less, rest)
            found["choice"] = math.inf if not ((gap >= 0) & (gap <= 1)).all() else 0.0
        if isinstance(ballots, CappedBallots):
            continue
        # all buckets under null; of removal those of all others
        shown = np.arange(SIZE) != node if name == "leaves" else np.ones(SIZE, dtype=bool)
        chances = np.eye(CLASSES)[np.zeros(SIZE, dtype=int)]
        sums = [
            one.buckets(one.ballots(which.labels_that_vote, chances, MASS))[shown]
            for one, which in ((ballots, step), (rest, less))
        ]
        moved = float(np.linalg.norm(sums[0] - sums[1])) / NORM
        taper = budget["taper"]
        charged = 1.0 if name == "leaves" or taper < 1 / 3 else (1 + taper) ** 2 / (8 * taper)
        found[f"{name}, moves"] = moved / charged
    return found


def own_flag_moves(graph: Graph, node: int) -> bool:
    """Return True if a receiver's record enters its own count of voters, and so its flag, which neighbours see."""
    sides = (graph, null_records(graph, [node]))
    with_it, without = (votes_capped.prepared(one, 0, CAPPED).ballots.received[node] for one in sides)
    return bool(with_it != without)


def votes_strangers(trials: int) -> AuditResult:
    """Audit every node of every graph, for kappa = 0 and 1; with caps, a voter and a receiver."""
    most: dict[str, float] = {}

    def note(found: Mapping[str, float]) -> None:
        for name, value in found.items():
            most[name] = largest(most.get(name, 0.0), value)

    above = count = 0
    for index, graph in enumerate(mutual_graphs(trials)):
        for taper in TAPERS:
            budget = {"variant": "node-remove-strangers", "degree_bound": BOUND, "taper": taper}
            for node in range(0, SIZE, 1 if index < 3 else 4):
                note(compared(graph, node, budget))
    for graph in votes_capped.graphs().values():
        budget = {"variant": CAPPED, "degrees_share": 0.2, "cap_margin": MARGIN, "degree_floor": FLOOR}
        for node in (VOTER, RECEIVER):
            note({f"caps, {name}": value for name, value in compared(graph, node, budget).items()})
            note({f"caps, {name}": value for name, value in votes_capped.moved(graph, node, 0, CAPPED).items()})
        note({"caps, own flag": math.inf if own_flag_moves(graph, RECEIVER) else 0.0})
        one = votes_capped.prepared(graph, 0, CAPPED)
        voters = graph.train_nodes
        above += int((one.ballots.degrees > votes_capped.caps_of(one.ballots))[voters].sum())
        count += len(voters)
    tested = hidden_labels_vote()
    rare = above <= binom.isf(1e-7, count, float(ndtr(-MARGIN)))
    reached = min(most.get("leaves, moves", 0), most.get("null, moves", 0), most.get("caps, degrees", 0)) > 0.97
    worst = max(most, key=lambda name: most[name])
    holds = largest(*most.values()) <= 1 + 1e-6 and reached and rare and not tested
    return AuditResult(
        audit="votes-strangers", title=TITLE, passed=bool(holds),
        claim="a node that leaves moves buckets by at most B (with caps: what is charged) and no reading of a "
        "stranger; a record that becomes null moves them by at most (1 + kappa)^2 / (8 kappa) B, and nobody's reading",
        trials=trials,
        finding=f"most: {worst}, {most[worst]:.4g} of the bound, in {len(most)} comparisons; {above} of {count} above "
        f"their caps; test labels vote: {tested}",
    )  # fmt: skip


def hidden_labels_vote() -> bool:
    """Return True if labels of test nodes vote."""
    graph = next(mutual_graphs(0))
    step = prepared_votes(graph, 0, variant="node-remove-strangers", degree_bound=BOUND, taper=0.0)
    return bool((step.labels_that_vote[np.asarray(graph.split) == TEST] >= 0).any())


AUDITS = {"votes-strangers": Audit(votes_strangers, 6, quick=4)}
