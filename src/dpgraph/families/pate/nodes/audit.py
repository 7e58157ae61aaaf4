"""Audits of PATE on a graph: which teachers a training node moves with its record and all its edges, and the release.

Teachers, parts and the release are those that the method prepares for its cells.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dpgraph.audits.cases import NODE_TEACHER_KINDS, Kind, prepared_of
from dpgraph.audits.graphs import directed_graph, random_edges
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.families.pate.audit import CLASSES, TEACHERS, budget_of, judged, released
from dpgraph.families.pate.nodes.prepared import PreparedNodeTeachers, votes_of

RECORDS, PUBLIC, FEATURES, SHARE = 60, 30, 6, 0.25  # training nodes, public ones; share of all pairs that are edges
READS = ("own", "means")
TITLE = "which teachers a training node moves with all its edges; noise and caps of the release of their votes"


def graph_of(public: int, edges: np.ndarray | None = None) -> Graph:
    """Return a graph of `RECORDS` training nodes, `public` public ones and one test node.

    Args:
        public: Number of public nodes.
        edges: (N, N) bool adjacency; None: no edges.
    """
    random, size = numpy_generator("audits", "node teachers"), RECORDS + public + 1
    split = np.array([TRAIN] * RECORDS + [VALIDATION] * public + [TEST], dtype=np.uint8)
    owners, found = np.nonzero(np.zeros((size, size), dtype=bool) if edges is None else edges)
    features = random.random((size, FEATURES), dtype=np.float32)
    return directed_graph(owners, found, features, np.arange(size) % CLASSES, split, CLASSES)


def prepared(kind: Kind, value: Graph, reads: str, seed: int, caps: tuple[int, int]) -> PreparedNodeTeachers:
    """Return the prepared step of a cell with `TEACHERS` teachers that read `reads` and these caps."""
    settings = {
        "method": kind.method,
        "model": {"components": 4},
        "training": {"learning_rate": 0.1, "steps": 1, "teachers": TEACHERS, "teacher_reads": reads},
        "privacy": budget_of(kind, caps),
    }
    return prepared_of(PreparedNodeTeachers, value, settings, RECORDS, seed=seed)


def moved(kind: Kind, reads: str) -> int:
    """Return the most teachers whose votes one training node moves.

    The graph is dense, so that each node has neighbours in all parts and among the public nodes. A node gets another
    record and all its edges are inverted, or it leaves.
    """
    size, most = RECORDS + PUBLIC + 1, 0
    edges = random_edges(numpy_generator("audits", "node teachers", "edges"), size, SHARE)
    value = graph_of(PUBLIC, edges)
    before = _votes(kind, value, reads)
    for node in range(0, RECORDS, 5):
        turned, gone = edges.copy(), edges.copy()
        turned[node], turned[:, node] = ~edges[node], ~edges[:, node]
        turned[node, node] = False
        gone[node], gone[:, node] = False, False
        for other, content, label in ((turned, 9.0, (node + 1) % CLASSES), (gone, 0.0, -1)):
            features, labels = value.features.copy(), value.labels.copy()
            features[node], labels[node] = content, label
            after = _votes(kind, replace(graph_of(PUBLIC, other), features=features, labels=labels), reads)
            most = max(most, int((before != after).any(axis=1).sum()))
    return most


def _votes(kind: Kind, value: Graph, reads: str) -> np.ndarray:
    step = prepared(kind, value, reads, 0, (20, 10))
    return votes_of(step.data.graph, step.data.features, step.plan)


def _release(kind: Kind, public: int, seed: int, caps: tuple[int, int]) -> PreparedNodeTeachers:
    return prepared(kind, graph_of(public), "own", seed, caps)


def node_teachers(trials: int) -> AuditResult:
    """Test that a training node with all its edges moves one teacher's votes, and the noise and caps of the release."""
    broken: list[str] = []
    for name, kind in NODE_TEACHER_KINDS.items():
        for reads in READS:
            if (count := moved(kind, reads)) != 1:
                broken.append(f"{name}, {reads}: a node moves {count} teachers")
        broken += released(name, partial(_release, kind), trials)
    claim = f"as Theorem 27 wants, of {len(NODE_TEACHER_KINDS) * len(READS)} kinds of teachers"
    return judged("node-teachers", TITLE, claim, broken, trials)


AUDITS = {"node-teachers": Audit(node_teachers, 10_000)}
