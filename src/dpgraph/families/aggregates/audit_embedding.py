"""Audit of learnt vectors of nodes: whose gradients one record changes, how large they are, and what noise they get.

Rows, clipping and noise are those that dp-dgc prepares for its cells. Every root's gradient is taken alone, on every
graph against all its neighbours; what is found is compared with docs/privacy.md, Theorem A'.
"""

from __future__ import annotations

import numpy as np
import torch

from dpgraph.audits.cases import prepared_of
from dpgraph.audits.graphs import null_records
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.families.aggregates.audit import CAP, NOISE, SIZE, SLACK, graphs
from dpgraph.families.aggregates.embedding import EmbeddingStep, ListEmbedding, PreparedEmbedding, clipped_sums
from dpgraph.planning.resolve import resolve

CLIP_NORM, WIDTH, CLASSES, DRAWN = 0.01, 5, 2, 40_000
REACHED, RELATED = 0.97, 0.03  # of what is claimed; correlation of two independent noises, measured within about .5 %


def prepared_embedding(graph: Graph) -> PreparedEmbedding:
    """As `make_jobs` prepares it; a step of the vectors is charged 2 D + 1 times one of the classifier."""
    cell = resolve(
        {
            "task": {"dataset": "audit"},
            "method": "dp-dgc",
            "model": {"architecture": "mlp", "hops": 0, "width": WIDTH},
            "training": {"optimizer": "sgd", "learning_rate": 0.1, "steps": 2, "sampling_rate": 1.0},
            "privacy": {"noise_multiplier": NOISE, "delta": 1e-3, "receivers": CAP, "clip_norm": CLIP_NORM},
            "seeds": (0,),
        }
    )
    return prepared_of(PreparedEmbedding, graph, cell, len(graph.train_nodes), graph.num_nodes)


def gradients(graph: Graph) -> np.ndarray:
    """(roots, P) of every root alone, at one set of parameters."""
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
    """Noise of the steps of the vectors, and of the classifier, in units of C."""
    prepared = prepared_embedding(graph)
    drawn = []
    for noise in (prepared.embedding_noise, prepared.noise):
        buffer = [torch.zeros(DRAWN)]
        noise.add(buffer)
        drawn.append(buffer[0].double().numpy() / CLIP_NORM)
    return drawn[0], drawn[1]


def embedding(trials: int) -> AuditResult:
    """Every graph, every record of it."""
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
        finding=f"{roots} roots, norms up to {norms:.4g} C, noise {std:.4g} of what is claimed, "
        f"correlation {related:.2g} with that of the classifier",
    )  # fmt: skip


AUDITS = {
    "embedding": Audit(embedding, 4),
}
