"""Audits of noisy sums over neighbours (Theorem 19), and of learnt vectors of nodes (Theorem 20).

Sums, rows, clipping and noise are those that dp-gap and dp-dgc prepare for their cells. Graphs and noise are the only
random part. The spread of the noise is measured, and movements between neighbouring graphs are compared with what
docs/privacy/aggregates.md states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dpgraph.audits.cases import prepared_of
from dpgraph.audits.graphs import directed_graph, edges_of, null_records, random_edges, with_edges, without_node
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.families.aggregates.embedding import EmbeddingStep, ListEmbedding, PreparedEmbedding, clipped_sums
from dpgraph.families.aggregates.prepared import PreparedAggregates, PreparedEdgeAggregates, Sums

SIZE, CAP, NOISE, WIDTH = 18, 4, 2.0, 5
REACHED, SLACK = 0.97, 1.02  # bounds on found / claimed; the spread of the noise is measured within about 1 %


@dataclass(frozen=True)
class Case:
    """A variant, its neighbouring graphs, and by how many noise stds a sum may move by the theorem."""

    variant: str
    budget: Mapping[str, Any]
    claimed: float
    neighbours: Callable[[Graph], Iterator[tuple[Graph, int | None]]]  # and the node whose own sum is left out


def _nulled(graph: Graph) -> Iterator[tuple[Graph, int | None]]:
    return ((null_records(graph, [node]), node) for node in range(SIZE))


def _removed(graph: Graph) -> Iterator[tuple[Graph, int | None]]:
    return ((without_node(graph, node), node) for node in range(SIZE))


def _edges_less(graph: Graph) -> Iterator[tuple[Graph, int | None]]:
    owners, members = edges_of(graph)
    for one, other in zip(owners.tolist(), members.tolist(), strict=True):
        if one < other:
            kept = ~(((owners == one) & (members == other)) | ((owners == other) & (members == one)))
            yield with_edges(graph, owners[kept], members[kept]), None


CASES = (
    Case("rigorous", {"receivers": CAP}, 1 / NOISE, _nulled),
    Case("node-remove", {"degree_bound": SIZE - 1}, 1 / NOISE, _removed),
    Case("edge", {}, math.sqrt(2) / NOISE, _edges_less),
)


def graphs(trials: int) -> Iterator[Graph]:
    """Yield a star and random graphs."""
    ends = np.arange(1, SIZE)
    yield _graph(np.concatenate([0 * ends, ends]), np.concatenate([ends, 0 * ends]))
    for trial in range(trials):
        yield _graph(*np.nonzero(random_edges(numpy_generator("audits", "sums", trial), SIZE, 0.4)))


def _graph(owners: np.ndarray, members: np.ndarray) -> Graph:
    return directed_graph(owners, members, np.ones((SIZE, 2)), np.arange(SIZE) % 2)


def prepared_sums(graph: Graph, variant: str, budget: Mapping[str, Any]) -> Sums:
    """Prepare the sums of a variant as `make_jobs` does."""
    settings = {
        "method": "dp-gap",
        "model": {"architecture": "mlp", "hops": 0, "width": 3, "aggregations": 1},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "steps": 2, "sampling_rate": 1.0},
        "privacy": {"variant": variant, "noise_multiplier": NOISE, "delta": 1e-3, **budget},
    }
    counts = len(graph.train_nodes), graph.num_nodes
    if variant == "edge":
        return prepared_of(PreparedEdgeAggregates, graph, settings, *counts).sums
    return prepared_of(PreparedAggregates, graph, settings, *counts).sums


def spread(sums: Sums) -> float:
    """Return the std of the added noise."""
    return float(sums.release(np.zeros((SIZE, 2000))).std())


def moved(graph: Graph, case: Case) -> float:
    """Return the most noise stds by which a sum moves between the graph and its neighbours."""
    rows = numpy_generator("audits", "sums", "rows").normal(size=(SIZE, WIDTH)) * 7
    first = prepared_sums(graph, case.variant, case.budget)
    before, most = first.senders.received(rows), 0.0
    for other, own in case.neighbours(graph):
        change = before - prepared_sums(other, case.variant, case.budget).senders.received(rows)
        others = np.arange(SIZE) != (-1 if own is None else own)
        most = largest(most, float(np.linalg.norm(change[others])))
    return most / spread(first)


def refuses_long_lists(graph: Graph) -> bool:
    """Return True if a list that breaks the schema ends the run."""
    try:
        prepared_sums(graph, "node-remove", {"degree_bound": 2}).senders.received(np.ones((SIZE, 1)))
    except UserError:
        return True
    return False


def sums(trials: int) -> AuditResult:
    """Audit every variant on every graph, against all its neighbours."""
    found: dict[str, float] = {}
    for case in CASES:
        found[case.variant] = largest(*(moved(graph, case) / case.claimed for graph in graphs(trials)))
    refused = all(refuses_long_lists(graph) for graph in graphs(1))
    holds = refused and all(REACHED < share < SLACK for share in found.values())
    shown = ", ".join(f"{name} {share:.4g}" for name, share in found.items())
    return AuditResult(
        audit="sums", title="sums over neighbours, and what one record, node or edge moves of them",
        passed=holds, trials=trials,
        claim="1 / noise for a record of D receivers and for a node of degree at most D, sqrt 2 / noise for an edge",
        finding=f"found / claimed: {shown}; " + ("longer lists are refused" if refused else "long lists run"),
    )  # fmt: skip


CLIP_NORM, CLASSES, DRAWN = 0.01, 2, 40_000
RELATED = 0.03  # correlation of two independent noises, measured within about .5 %


def prepared_embedding(graph: Graph) -> PreparedEmbedding:
    """Prepare a run of dp-dgc as `make_jobs` does.

    A step of the vectors is charged 2 D + 1 times one of the classifier.
    """
    settings = {
        "method": "dp-dgc",
        "model": {"architecture": "mlp", "hops": 0, "width": WIDTH},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "steps": 2, "sampling_rate": 1.0},
        "privacy": {"noise_multiplier": NOISE, "delta": 1e-3, "receivers": CAP, "clip_norm": CLIP_NORM},
    }
    return prepared_of(PreparedEmbedding, graph, settings, len(graph.train_nodes), graph.num_nodes)


def gradients(graph: Graph) -> np.ndarray:
    """Return (roots, P) the gradient of every root alone, at one set of parameters."""
    network = ListEmbedding(SIZE, WIDTH, CLASSES, torch.tanh, torch_generator("audits", "embedding"))
    prepared = prepared_embedding(graph)
    step = prepared.embedding_step(network, torch.optim.SGD(network.parameters(), lr=1.0))
    if not isinstance(step, EmbeddingStep):
        raise TypeError("expected a step of vectors")
    parts = [
        clipped_sums(network, step.rows[[root]], step.labels[[root]], step.clip_norm)
        for root in range(len(step.labels))
    ]
    return np.stack([torch.cat([part.flatten() for part in one]).double().numpy() for one in parts])


def noises(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return the noise of steps of the vectors and of the classifier, in units of C."""
    prepared = prepared_embedding(graph)
    drawn = []
    for noise in (prepared.embedding_noise, prepared.noise):
        buffer = [torch.zeros(DRAWN)]
        noise.add(buffer)
        drawn.append(buffer[0].double().numpy() / CLIP_NORM)
    return drawn[0], drawn[1]


def embedding(trials: int) -> AuditResult:
    """Audit every record of every graph."""
    roots, norms = 0, 0.0
    for graph in graphs(trials):
        before = gradients(graph)
        norms = largest(norms, float(np.linalg.norm(before, axis=1).max()) / CLIP_NORM)
        for node in range(SIZE):
            changed = (before != gradients(null_records(graph, [node]))).any(axis=1)
            roots = max(roots, int(changed.sum()))
    first, second = noises(graph)
    std, related = float(first.std()) / (NOISE * (2 * CAP + 1)), abs(float(np.corrcoef(first, second)[0, 1]))
    holds = roots == CAP + 1 and REACHED < norms < SLACK and REACHED < std < 2 - REACHED and related < RELATED
    return AuditResult(
        audit="embedding", title="vectors of nodes: roots that one record changes, clipping and noise",
        passed=holds, trials=trials,
        claim=f"D + 1 = {CAP + 1} roots of norm at most C, noise of (2 D + 1) C times the multiplier, of its own",
        finding=f"{roots} roots, norms up to {norms:.4g} C, noise {std:.4g} of the claimed one, "
        f"correlation {related:.2g} with that of the classifier",
    )  # fmt: skip


AUDITS = {"sums": Audit(sums, 4), "embedding": Audit(embedding, 4)}
