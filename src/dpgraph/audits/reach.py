"""Audit of what one record can do to one step: prepared steps of every method, on a data set and its neighbour.

Both sides are prepared for the same cell and seed, so that batches and noise are the same and the difference of the
parameters is that of the clipped sums. Every root is drawn. Graph, data and losses are the adversary's, and reach the
bound that the proof needs. Reaching more is a broken premise, much less an attack that has lost its strength.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from dpgraph.audits import theory
from dpgraph.audits.cases import CLIP_NORM, CPU, KINDS, Kind, Settings, of_each, prepared_step
from dpgraph.audits.gadgets import Gadgets, Worst
from dpgraph.audits.graphs import directed_graph, null_records, without_node
from dpgraph.audits.probes import HUGE, flat, open_first_unit, public_divisor
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.config.cell import Model
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.weighted_rows import RowNetwork
from dpgraph.families.lots.prepared import PreparedComponents, PreparedLots
from dpgraph.families.pagerank.prepared import PreparedRows
from dpgraph.families.subgraphs.audit import KEY, OTHERS, WIDTH, crowd
from dpgraph.families.subgraphs.prepared import PreparedParts, privatizer_of, source_of
from dpgraph.families.subgraphs.steps import KipfStep

COPIES, SPARE = 40, 2
NOISE = 1e-3
SLACK, LEAST = 1e-3, 0.95  # of the bound: rounding of sums that cancel; what an attack has to reach
DEGREES = {0: (1, 1), 1: (2, 1), 2: (1, 1)}  # K, D by hops
ROWS, COLUMN_CAP = 150, 2
VALUES_SEEN = ("gaussian", "exponential-values")  # releases of rows whose values can be attacked


@dataclass(frozen=True)
class Reach:
    """The move of a step when a record changed, and its bound, in units of C."""

    moved: float
    bound: float

    @property
    def share(self) -> float:
        """Return the move over its bound."""
        return self.moved / self.bound

    @property
    def holds(self) -> bool:
        """Tell whether the move is within the bound and near it."""
        return LEAST <= self.share <= 1 + SLACK


def reach_of(kind: Kind) -> Reach:
    """Attack the step of one kind."""
    if kind.ego_trees:
        return _trees(kind)
    if kind.release is not None:
        return _rows(kind)
    return _nodes(kind) if kind.each_node else _vector(kind)


def _trees(kind: Kind) -> Reach:
    """Attack ego trees on copies in which R roots change."""
    degree, cap = DEGREES[kind.hops]
    gadgets = Gadgets.copied(COPIES, degree, cap, kind.hops, SPARE)
    size = len(gadgets.graph.train_nodes)
    settings = Settings(noise=NOISE, rate=1.0, batch_size=size if kind.fixed_size else None)
    settings = replace(settings, max_degree=degree, list_cap=cap)
    roots = theory.affected_roots(degree, cap, kind.hops if kind.neighbours else 0, size)
    worst = Worst.chosen(gadgets, gadgets.changed(kind, settings), roots)
    sides = [worst.run(kind, settings, np.full(worst.count, side)).step() for side in (True, False)]
    bound = 2.0 * roots - 1
    if kind.residual:
        bound = 1 + (settings.ratio * bound if kind.neighbours else 0.0)
    return Reach(float(np.abs(sides[0] - sides[1]).max()), bound)


def _vector(kind: Kind) -> Reach:
    """Attack one clipped vector: of a lot, or of a subgraph."""
    if kind.lots:
        features = np.full((8, 1), HUGE, dtype=np.float32)
        features[0] *= 1e6
        graph = directed_graph([], [], features, [1, 0, 0, 0, 0, 0, 0, 0])
        settings = Settings(noise=NOISE, batch_size=8, learning_rate=1.0)
        sides = [_lot(kind, settings, one) for one in (graph, null_records(graph, [0]))]
    else:
        settings = Settings(noise=NOISE, rate=1.0, learning_rate=1.0)
        sides = [_subgraph(kind, settings, one) for one in (crowd(True), without_node(crowd(True), 0))]
    return Reach(float((sides[0] - sides[1]).norm()) / CLIP_NORM, 2.0)


def _nodes(kind: Kind) -> Reach:
    """Attack each node's clipped gradient: node 0, a neighbour of all others, turns all of them around, or is absent.

    The bound is that for any other graph, 2 C for each of the n nodes. The node's own term only vanishes, which leaves
    (2 n - 1) C.
    """
    settings, size = Settings(noise=NOISE, rate=1.0, learning_rate=1.0), 1 + OTHERS
    features = np.full((size, 2), HUGE, dtype=np.float32)
    features[0] *= -1e4
    leaves = np.arange(1, size)
    owners, members = np.concatenate([0 * leaves, leaves]), np.concatenate([leaves, 0 * leaves])
    hub = directed_graph(owners, members, features, np.zeros(size))
    sides = [_subgraph(kind, settings, one) for one in (hub, without_node(hub, 0))]
    undo = public_divisor(kind, settings, size) / settings.learning_rate
    return Reach(float((sides[0] - sides[1]).norm()) * undo / CLIP_NORM, 2.0 * size)


def _lot(kind: Kind, settings: Settings, graph: Graph) -> torch.Tensor:
    network = Network(Model(architecture="mlp", hops=0, width=1), 1, 2, torch_generator("audits", "lot"))
    optimizer = torch.optim.SGD(network.parameters(), lr=settings.learning_rate)
    step = prepared_step(PreparedLots, kind, settings, graph).step(network, optimizer)
    flat(list(network.parameters()))
    before = [parameter.detach().clone() for parameter in network.parameters()]
    step()
    moved = [parameter.detach() - old for parameter, old in zip(network.parameters(), before)]
    return torch.cat([part.flatten() for part in moved])


def _subgraph(kind: Kind, settings: Settings, graph: Graph) -> torch.Tensor:
    prepared = prepared_step(PreparedParts, kind, settings, graph)
    network = KipfNetwork(2, WIDTH, 2, torch_generator("audits", "kipf", KEY), CPU)
    source = source_of(prepared, GraphBlocks(graph, CPU))
    if kind.each_node:
        open_first_unit(network)
    privatizer = privatizer_of(prepared, network)
    optimizer = torch.optim.SGD([network.theta], lr=settings.learning_rate)
    before = network.theta.data.clone()
    KipfStep(network, optimizer, source, privatizer=privatizer)()
    return network.theta.data - before


def _rows(kind: Kind) -> Reach:
    """Attack rows: v is in as many as the cap lets it, and each of their roots turns around when its record is null.

    Under the decoder of `flat` a root's gradient for the first layer is the weighted sum of the features that it reads,
    with its label's sign. v's features outweigh a root's own, and point the other way.
    """
    settings = Settings(
        noise=NOISE, rate=1.0, batch_size=ROWS, num_rows=ROWS, own_weight=0.3, top_k=2, column_cap=COLUMN_CAP,
        release_noise=1.0, values_epsilon=1.0,
    )  # fmt: skip
    blank = directed_graph([], [], np.zeros((ROWS, 1)), np.full(ROWS, -1))
    prepared = prepared_step(PreparedRows, kind, settings, blank)
    roots, weights = prepared.rows.roots, np.asarray(prepared.weights.todense())
    named = weights.copy()
    named[np.arange(ROWS), roots] = 0
    v = int((named != 0).sum(axis=0).argmax())
    readers = np.flatnonzero(named[:, v])
    own = weights[readers, roots[readers]]
    features, labels = np.zeros((ROWS, 1), dtype=np.float32), np.full(ROWS, -1)
    # with v: - sign(label) weight_v 1000 < 0; without: sign(label) own > 0; of v itself: negative, with label 0
    signs = np.sign(named[readers, v])
    labels[roots[readers]] = np.where(signs > 0, 0, 1)
    features[roots[readers], 0] = HUGE * signs * np.sign(own)
    features[v], labels[v] = -1000 * HUGE, 0
    graph = directed_graph([], [], features, labels)
    sides = [_row_sum(kind, settings, one) for one in (graph, null_records(graph, [v]))]
    named_by = 0 if kind.release == "identity" else COLUMN_CAP if kind.variant == "rigorous" else len(readers)
    return Reach(float(np.linalg.norm(sides[0] - sides[1])) / CLIP_NORM, 2.0 * named_by + 1)


def release_reach(kind: Kind) -> Reach:
    """Attack the released rows of PageRank with almost no noise: v's list names all nodes, or is empty.

    Gaussian: all rows together move by sqrt(2 M) C1. Exponential: an entry moves by C2.
    """
    size, clip, gaussian = 60, 0.01, kind.release == "gaussian"
    settings = Settings(
        top_k=size, column_cap=size, clip=clip, teleport=0.01, release_noise=1e-9 if gaussian else 1e9,
        values_epsilon=1e9,
    )  # fmt: skip
    star = directed_graph(np.zeros(size - 1, dtype=int), np.arange(1, size), np.ones((size, 1)), np.zeros(size))
    sides = [prepared_step(PreparedRows, kind, settings, one) for one in (star, null_records(star, [0]))]
    gap = np.abs(np.subtract(*(side.weights.toarray() for side in sides)))
    if gaussian:
        return Reach(float(np.linalg.norm(gap)), float(np.sqrt(2 * size)) * clip)
    return Reach(float(gap.max()), clip)


def component_reach(kind: Kind) -> Reach:
    """Attack the matrix of second moments with almost no noise: a record that becomes null moves it by 1."""
    records = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    records[0] *= 1e6
    graph = directed_graph([], [], records, np.zeros(40))
    settings = Settings(components_noise=1e-6)
    sides = [prepared_step(PreparedComponents, kind, settings, one) for one in (graph, null_records(graph, [0]))]
    return Reach(float(np.linalg.norm(sides[0].matrix - sides[1].matrix)), 1.0)


def _row_sum(kind: Kind, settings: Settings, graph: Graph) -> np.ndarray:
    model = Model(architecture="mlp", hops=0, width=1)
    initial = Network(model, graph.num_features, 2, torch_generator("audits", "rows"))
    network = RowNetwork(initial, model.activation)
    optimizer = torch.optim.SGD([network.theta], lr=settings.learning_rate)
    step = prepared_step(PreparedRows, kind, settings, graph).closed(network, optimizer)
    flat(network.parts(network.theta.data))
    before = network.theta.data.clone()
    step()
    undo = public_divisor(kind, settings, graph.num_nodes) / settings.learning_rate
    return (network.theta.data - before).double().numpy() * undo


def reach(trials: int) -> AuditResult:
    """Attack steps with a proved sensitivity, and releases of rows.

    `trials` is not used, since the attacks draw no random number.
    """
    kinds = {name: kind for name, kind in KINDS.items() if kind.clipped}
    reached = of_each(lambda kind: reach_of(kind) if kind.clipped else None)
    reaches = {name: one for name, one in reached.items() if one is not None}
    reaches |= {f"{name}: rows": release_reach(kind) for name, kind in kinds.items() if kind.release in VALUES_SEEN}
    reaches |= {f"{name}: matrix": component_reach(kind) for name, kind in kinds.items() if kind.components}
    broken = [name for name, one in reaches.items() if not one.holds]
    name, one = max(reaches.items(), key=lambda item: item[1].share)
    seen = f"broken for {', '.join(broken)}; " if broken else ""
    return AuditResult(
        audit="reach", title="what one record does to a prepared step",
        passed=not broken, trials=len(reaches),
        claim=f"between {LEAST:g} and {1 + SLACK:g} of the theorem's bound",
        finding=f"{seen}most: {one.share:.5g} of {one.bound:g} C ({name})",
    )  # fmt: skip


AUDITS = {"reach": Audit(reach, 4)}
