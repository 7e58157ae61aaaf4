"""Audits of DP-SGD on one clipped gradient per subgraph: composed steps, and what a step may read.

Schedules, blocks, clip norm and noise are those that dp-subgraph prepares for its cells.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dpgraph.audits.cases import CLIP_NORM, CPU, KINDS, Settings, prepared_steps
from dpgraph.audits.graphs import directed_graph, without_node
from dpgraph.audits.result import Audit, AuditResult, largest, statistical_result
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork, Read
from dpgraph.engine.preparation.base import expected
from dpgraph.families.subgraphs.mechanism import PoissonSubgraphs
from dpgraph.families.subgraphs.prepared import PreparedParts, privatizer_of, source_of
from dpgraph.families.subgraphs.steps import GraphSource, KipfStep
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.auditing import joint_errors, profile_test

DELTA = 1e-3
PARTS, EPOCHS, NOISE = 4, 2, 2.0
WIDTH = 3
KEY = 158  # of initial parameters for which one node turns gradients around: cosine -0.999
OTHERS, SEEDS = 30, 100  # nodes besides the one that changes; seeds of each side


def _network() -> KipfNetwork:
    """Return a network of two features and two classes, always with the same parameters."""
    return KipfNetwork(2, WIDTH, 2, torch_generator("audits", "kipf", KEY), CPU)


STEPS = "composed steps on fresh subgraphs"


def steps(trials: int) -> AuditResult:
    """Attack 8 steps of dp-subgraph at rate 1/4 and noise 2 C: Poisson sampling of nodes with sensitivity 2 C.

    The node has huge features and the other label, so it turns every gradient around: -C e without it, +C e with it.
    Schedules and privatizers are those prepared for many seeds, whose long runs are cut into trials; parameters do not
    change. One attacker uses the steps of a known schedule, one mixes over all.
    """
    settings = Settings(noise=NOISE, rate=1 / PARTS, steps=PARTS * EPOCHS)
    total = PARTS * EPOCHS
    mechanism, scores = None, []
    rounds = math.ceil(trials / SEEDS)
    for present in (True, False):
        prepared = _prepared(crowd(present), settings, range(SEEDS) if present else range(SEEDS, 2 * SEEDS))
        mechanism = prepared[0].mechanism
        if not isinstance(mechanism, PoissonSubgraphs):
            raise TypeError("the audited mechanism is poisson-subgraphs")
        known, mixed = np.zeros((2, rounds, SEEDS))
        run = Positions(prepared, crowd(present))
        for step in range(rounds * total):
            moved = run.step(step)
            mixed[step // total] += mechanism.dominating_pair.log_ratio(moved)
            if run.due(step):
                known[step // total] += moved
        scores.append((known.ravel()[:trials], mixed.ravel()[:trials]))
    errors = joint_errors(list(zip(*scores)))
    pair = mechanism.dominating_pair  # type: ignore[union-attr]
    claim = f"epsilon {composed_epsilon(pair, steps=total, delta=DELTA):.2f} at delta {DELTA:g}, Poisson rate 1/{PARTS}"
    test = profile_test(errors, lambda epsilons: composed_delta(pair, steps=total, epsilons=epsilons))
    return statistical_result("subgraph-steps", STEPS, claim, trials, errors, test, DELTA)


class Positions:
    """Steps of all seeds on `crowd` at parameters that do not change, from "without" node 0 (0) to "with" it (1)."""

    def __init__(self, prepared: list[PreparedParts], graph: Graph) -> None:
        self.network = _network()
        self.graph, blocks = graph, GraphBlocks(graph, CPU)
        self.sources = [_source(one, blocks) for one in prepared]
        self.privatizers = [privatizer_of(one, self.network) for one in prepared]
        self._found: dict[tuple[int, bool], Tensor] = {}
        self.direction = -self._of(np.arange(1, 8))
        self.direction /= self.direction.norm()

    def step(self, step: int) -> np.ndarray:
        """Take one step of every seed and return the (S,) positions."""
        moved = np.zeros(len(self.sources))
        for seed, (source, privatizer) in enumerate(zip(self.sources, self.privatizers, strict=True)):
            nodes = source.schedule.nodes(step)
            gradient = self._of(nodes).clone()
            privatizer.apply(gradient)
            moved[seed] = float(gradient @ self.direction)
        return moved / (2 * CLIP_NORM) + 0.5

    def due(self, step: int) -> bool:
        """Tell whether a schedule of parts in a known order would read the node."""
        epoch, place = divmod(step, PARTS)
        return bool(numpy_generator("audits", "fixed", epoch).permutation(PARTS)[place] == 0)

    def _of(self, nodes: np.ndarray) -> Tensor:
        """Return the gradient of a batch.

        All nodes but the first are alike: it depends on their number and on the first.
        """
        key = len(nodes), bool(len(nodes)) and bool(nodes[0] == 0)
        if key not in self._found:
            row = torch.zeros_like(self.network.theta.data)
            if len(nodes):
                self.network.gradient(Read(self.sources[0].block(nodes)), row)
            self._found[key] = row
        return self._found[key]


def _source(prepared: PreparedParts, blocks: GraphBlocks) -> GraphSource:
    source = source_of(prepared, blocks)
    if not isinstance(source, GraphSource):
        raise TypeError("the audited methods read nodes")
    return source


def crowd(present: bool) -> Graph:
    """Return a graph without edges: node 0 of huge features and label 1, or absent, and equal nodes of label 0."""
    features = np.full((1 + OTHERS, 2), 16.0, dtype=np.float32)
    features[0] = 1e6
    labels = np.zeros(1 + OTHERS, dtype=np.int64)
    labels[0] = 1
    graph = directed_graph([], [], features, labels)
    return graph if present else without_node(graph, 0)


def _prepared(graph: Graph, settings: Settings, seeds: range, variant: str = "dp-subgraph") -> list[PreparedParts]:
    return [expected(one, PreparedParts) for one in prepared_steps(KINDS[variant], settings, graph, seeds)]


def locality(trials: int) -> AuditResult:
    """Test that steps without a node keep every bit when its record and its edges change; others move by 2 C at most.

    Odd trials use fixed parts without the edges between them, even ones fresh samples.
    """
    moved, widest, read = 0, 0.0, 0
    for index in range(trials):
        before, after, node = _neighbours(index)
        variant = "dp-subgraph cut" if index % 2 else "dp-subgraph"
        first, second = (_clipped_gradients(graph, variant, index) for graph in (before, after))
        for (nodes, left), (_, right) in zip(first, second, strict=True):
            if node in nodes:
                read += 1
                widest = largest(widest, float((left - right).norm()) / (2 * CLIP_NORM))
            else:
                moved += not torch.equal(left, right)
    return AuditResult(
        audit="subgraph-locality", title="reach of a node beyond the subgraphs that hold it",
        passed=moved == 0 and widest <= 1 + 1e-6, trials=trials,
        claim="steps without the node keep every bit, steps with it move by at most 2 C",
        finding=f"{moved} steps without it moved; {read} steps with it, by at most {widest:.3g} of 2 C",
    )  # fmt: skip


def _clipped_gradients(graph: Graph, variant: str, index: int) -> list[tuple[np.ndarray, Tensor]]:
    """Return nodes and clipped gradient of the eight steps of two epochs, without noise, at fixed parameters."""
    (prepared,) = _prepared(graph, Settings(rate=0.25), range(index, index + 1), variant)
    prepared.noise.std = 0.0
    blocks, network = GraphBlocks(graph, CPU), _network()
    source = _source(prepared, blocks)
    nodes_read: list[np.ndarray] = []

    def build(nodes: np.ndarray):  # type: ignore[no-untyped-def]
        nodes_read[-1] = nodes
        return source.block(nodes)

    still = torch.optim.SGD([network.theta], lr=0.0)
    step = KipfStep(network, still, replace(source, block=build), privatizer=privatizer_of(prepared, network))
    gradients = []
    for _ in range(8):
        nodes_read.append(np.zeros(0, dtype=np.int64))
        step()
        gradients.append((nodes_read[-1], step.gradient.clone()))
    return gradients


def _neighbours(index: int) -> tuple[Graph, Graph, int]:
    """Return a random graph of 16 nodes, the same with another record of one node, and that node."""
    random = numpy_generator("audits", "subgraphs", index)
    size = 16
    upper = np.triu(random.random((size, size)) < 0.3, 1)
    edges = upper | upper.T
    features = random.normal(size=(size, 2)).astype(np.float32) * 20
    labels = random.integers(0, 2, size)
    node = index % size
    other_edges, other_features, other_labels = edges.copy(), features.copy(), labels.copy()
    mine = random.random(size) < 0.5
    mine[node] = False
    other_edges[node], other_edges[:, node] = mine, mine
    other_features[node] *= -50
    other_labels[node] = 1 - labels[node]
    (owners, members), (other_owners, other_members) = np.nonzero(edges), np.nonzero(other_edges)
    before = directed_graph(owners, members, features, labels)
    return before, directed_graph(other_owners, other_members, other_features, other_labels), node


AUDITS = {"subgraph-steps": Audit(steps, 6000, quick=1000), "subgraph-locality": Audit(locality, 30)}
