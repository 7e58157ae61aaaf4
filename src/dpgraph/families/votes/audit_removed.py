"""Audit of votes under node-remove: how far a node that leaves with all its edges moves what all others see.

Nothing is random but the graphs: the sums before noise are compared, and what is read of one and the same release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpgraph.audits.graphs import directed_graph, with_edges, without_node
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.families.votes.audit import CLASSES, MASS, NORM, predictions, prepared_votes
from dpgraph.families.votes.readers import READERS

BOUND, TAPERS = 9, (0.0, 1.0)
SIZE = 16
REACHED = 0.99  # of the bound, or the graphs show nothing


def graphs(trials: int) -> Iterator[Graph]:
    """A star, a clique, a windmill, lists that name two nodes who name nobody, and random ones; degrees up to D.

    Labels agree where what moves has to add up; in a windmill its centre has another one than its vanes.
    """
    star, pairs, windmill = crowded_edges()
    named = np.array([(a, b) for a in range(2, SIZE) for b in (0, 1)])
    for edges, centre in ((star, 0), (pairs, 0), (named, 0), (windmill, 1)):
        yield graph_of(edges[:, 0], edges[:, 1], centre)
    for trial in range(trials):
        random = numpy_generator("audits", "votes removed", trial)
        owners, members = bounded_edges(random, 0.6)
        yield graph_of(owners, members, int(random.integers(CLASSES)))


def crowded_edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges of a star, a clique and a windmill, in both directions."""
    everyone = np.arange(BOUND + 1)
    pairs = np.array([(a, b) for a in everyone for b in everyone if a != b])
    star = pairs[(pairs == 0).any(axis=1)]
    vanes = np.array([(a, a + 1) for a in range(1, BOUND, 2)])
    return star, pairs, np.concatenate([star[star.max(axis=1) < BOUND], vanes, vanes[:, ::-1]])


def bounded_edges(random: np.random.Generator, densest: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw an undirected graph of `SIZE` nodes; return its edges in both directions, with degrees up to `BOUND`."""
    upper = np.triu(random.random((SIZE, SIZE)) < random.uniform(0.1, densest), 1)
    both = upper | upper.T
    while (crowded := both.sum(axis=1) > BOUND).any():
        node = int(np.flatnonzero(crowded)[0])
        other = int(np.flatnonzero(both[node])[-1])
        both[node, other] = both[other, node] = False
    owners, members = np.nonzero(both)
    return owners, members


def graph_of(owners: np.ndarray, members: np.ndarray, centre: int = 0) -> Graph:
    """Return a graph all of whose nodes but node 0 are of class 0."""
    split = np.where(np.arange(SIZE) % 4 < 3, TRAIN, TEST)
    labels = np.where(np.arange(SIZE) == 0, centre, 0)
    graph = directed_graph([], [], np.ones((SIZE, 2)), labels, split, CLASSES)
    return with_edges(graph, owners, members)


def moved(graph: Graph, node: int, taper: float) -> tuple[float, float]:
    """By how many B the buckets of all others move when `node` leaves; inf where others read one release otherwise."""
    chances = predictions(graph)
    chances[:] = np.eye(CLASSES)[0]
    release = numpy_generator("audits", "votes removed", "release").standard_normal((SIZE, CLASSES + 1))
    others = np.arange(SIZE) != node
    sums, scores = [], []
    for one in (graph, without_node(graph, node)):
        step = prepared_votes(one, 0, variant="node-remove", degree_bound=BOUND, taper=taper)
        ballots = step.ballots()
        cast = ballots.ballots(step.labels_that_vote, chances, MASS)
        sums.append(ballots.buckets(cast)[others])
        read = [ballots.read(release, cast, MASS, NORM, one.shrinkage) for one in READERS]
        scores.append([ballots.scores(chances, part, one)[others] for part, one in zip(read, READERS, strict=True)])
    looked = 0.0 if np.array_equal(scores[0], scores[1]) else math.inf
    return float(np.linalg.norm(sums[0] - sums[1])) / NORM, looked


def votes_removed(trials: int) -> AuditResult:
    """Every node of every graph leaves in turn, for kappa = 0 and 1."""
    most, looked, count = 0.0, 0, 0
    for index, graph in enumerate(graphs(trials)):
        for taper in TAPERS:
            for node in range(0, SIZE, 1 if index < 4 else 3):
                by, elsewhere = moved(graph, node, taper)
                most, looked, count = largest(most, by), looked + (elsewhere > 0), count + 1
    holds = REACHED < most <= 1 + 1e-6 and not looked
    return AuditResult(
        audit="votes-removed", title="votes when a node leaves with all its edges", passed=holds,
        claim="all other buckets move by at most B, whatever the degree; nobody reads a list", trials=trials,
        finding=f"at most {most:.4g} B in {count} removals; others read one release otherwise in {looked}",
    )  # fmt: skip


AUDITS = {
    "votes-removed": Audit(votes_removed, 12, quick=4),
}
