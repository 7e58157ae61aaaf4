"""Audits of DP-SGD on one clipped gradient per subgraph: composed steps, and what a step may read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.data.graph import TRAIN, Graph
from dpgraph.experiments.cell import Cell, Model, Privacy, Task, Training
from dpgraph.methods.base import Job
from dpgraph.methods.dp_subgraph import cut_parts, fresh_subgraphs
from dpgraph.methods.kipf_gcn import SplitRun, masked_parts
from dpgraph.models.kipf import GraphBlocks, KipfStack, Read
from dpgraph.privacy.auditing import joint_errors, profile_test
from dpgraph.privacy.composition import composed_delta, composed_epsilon
from dpgraph.privacy.for_cell import calibrate
from dpgraph.privacy.mechanisms import PoissonSubgraphs
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.graph_splits import FixedParts, FreshNodes, Schedule
from dpgraph.training.stacked import GraphSource, Privatizer, SeedStates, StackedStep

CPU = torch.device("cpu")
CLIP_NORM, DELTA = 0.5, 1e-3
PARTS, EPOCHS, NOISE = 8, 4, 2.0
WIDTH = 3
KEY = 158  # of initial parameters for which the gradients of `_opposed_gradients` have cosine -0.999


class PerTensor(Privatizer):
    """A planted bug: each of the four tensors is clipped to C by itself."""

    def apply(self, gradients: Tensor) -> None:
        _clip_each_tensor(gradients, self.clip_norm)
        Privatizer(np.inf, self.noise_std, self.size, self.generators, self.noise).apply(gradients)


def _clip_each_tensor(gradients: Tensor, clip_norm: float) -> None:
    network = _network(1)
    for part in gradients[:, : network.size].split(network.sizes, dim=1):
        part.mul_((clip_norm / part.norm(dim=1, keepdim=True)).clamp(max=1.0))


def _network(num_seeds: int) -> KipfStack:
    """Two features, two classes; the same parameters for every seed."""
    return KipfStack(2, WIDTH, 2, [torch_generator("audits", "kipf", KEY) for _ in range(num_seeds)], CPU)


STEPS_BUGS: dict[str, str] = {
    "fixed parts for fresh samples": "schedule",
    "clipping per tensor": "tensor",
    "no clipping": "none",
    "sensitivity C for 2C": "doubled",
}
STEPS = "composed steps on fresh subgraphs"


def steps(trials: int, planted: str | None = None) -> AuditResult:
    """32 steps at rate 1/8, noise 2 C, accounted as Poisson sampling of nodes with sensitivity 2 C.

    The node, of huge features and unlike label, turns every gradient around: -C e without it, +C e with it. Both come
    from the engine, once; each trial is a seed of the stack whose node is drawn by the schedule and whose gradient the
    trainer clips and noises. One attacker looks at the steps of a known schedule, one mixes over all.
    """
    bug = STEPS_BUGS.get(planted or "", "")
    count = 2 * trials
    mechanism = PoissonSubgraphs(
        num_roots=100, steps=PARTS * EPOCHS, delta=DELTA, noise_multiplier=NOISE, num_splits=PARTS
    )
    absent, present = _opposed_gradients()
    place = np.arange(count)
    parts = [place[place % PARTS == part] for part in range(PARTS)]
    schedule: Schedule = FreshNodes(place, mechanism.rate, numpy_generator("audits", "fresh", planted or ""))
    if bug == "schedule":
        schedule = FixedParts(parts, ("audits", "fixed"))
    order = FixedParts(parts, ("audits", "fixed"))
    generators = [torch_generator("audits", "subgraph noise", planted or "", trial) for trial in range(count)]
    clip = {"none": np.inf, "doubled": 2 * CLIP_NORM}.get(bug, CLIP_NORM)
    kind = PerTensor if bug == "tensor" else Privatizer
    scratch = torch.zeros(count, len(absent))
    size = _network(1).size
    privatizer = kind(clip, (mechanism.noise_std_over_clip or 0.0) * CLIP_NORM, size, generators, scratch)
    direction = present / present.norm()
    with_node = place // PARTS % 2 == 0  # half of each part
    known, mixed = np.zeros((2, count))
    pair = mechanism.dominating_pair
    for step in range(PARTS * EPOCHS):
        drawn = schedule.nodes(step)
        gradients = absent.repeat(count, 1)
        gradients[drawn[with_node[drawn]]] = present
        privatizer.apply(gradients)
        moved = (gradients @ direction).double().numpy() / (2 * CLIP_NORM) + 0.5  # 0 without, 1 with the node
        mixed += pair.log_ratio(moved)
        due = order.nodes(step)
        known[due] += moved[due]
    errors = joint_errors([(score[with_node], score[~with_node]) for score in (known, mixed)])
    total = PARTS * EPOCHS
    claim = f"epsilon {composed_epsilon(pair, total, DELTA):.2f} at delta {DELTA:g}, Poisson rate 1/{PARTS}"
    test = profile_test(errors, lambda epsilons: composed_delta(pair, total, epsilons))
    return statistical_result("subgraph-steps", STEPS, planted, claim, trials, errors, test, DELTA)


def _opposed_gradients() -> tuple[Tensor, Tensor]:
    """Rows: gradients of the mean loss of five nodes without the sixth, and with it."""
    features = np.array([[16.0, 16.0]] * 5 + [[1e6, 1e6]], dtype=np.float32)
    labels = np.array([0] * 5 + [1])
    graph = _graph(np.zeros((6, 6), dtype=bool), features, labels)
    network, blocks = _network(1), GraphBlocks(graph, CPU)
    rows = []
    for nodes in (np.arange(5), np.arange(6)):
        found = torch.zeros_like(network.theta.data)
        network.gradients({0: Read(blocks.induced(nodes))}, found)
        rows.append(found[0])
    return rows[0], rows[1]


LOCALITY_BUGS: dict[str, str] = {
    "edges across parts kept": "edges",
    "clipping per tensor": "tensor",
    "no clipping": "none",
}


def locality(trials: int, planted: str | None = None) -> AuditResult:
    """One node's record changes wholly, its edges, too: steps that do not draw it keep every bit, others move by 2 C.

    Fixed parts without the edges between them, and fresh samples, in turn; the planted bug keeps the edges.
    """
    bug = LOCALITY_BUGS.get(planted or "", "")
    moved, widest, read = 0, 0.0, 0
    for index in range(trials):
        before, after, node = _neighbours(index)
        prepare: Callable[..., SplitRun] = cut_parts if index % 2 else partial(fresh_subgraphs, rate=0.25)
        first, second = (_clipped_gradients(graph, prepare, bug, index) for graph in (before, after))
        for (nodes, left), (_, right) in zip(first, second, strict=True):
            if node in nodes:
                read += 1
                widest = max(widest, float((left - right).norm()) / (2 * CLIP_NORM))
            else:
                moved += not torch.equal(left, right)
    return AuditResult(
        audit="subgraph-locality", title="reach of a node beyond the subgraphs that hold it", planted=planted,
        passed=moved == 0 and widest <= 1 + 1e-6, trials=trials,
        claim="steps without the node keep every bit, steps with it move by at most 2 C",
        finding=f"{moved} steps without it moved; {read} steps with it, by at most {widest:.3g} of 2 C",
    )  # fmt: skip


def whole_graph_reach(index: int) -> int:
    """Steps that do not draw the changed node and move all the same when only the loss is masked, as published."""
    before, after, node = _neighbours(index)
    first, second = (_clipped_gradients(graph, masked_parts, "", index) for graph in (before, after))
    return sum(
        not torch.equal(left, right) for (nodes, left), (_, right) in zip(first, second) if node not in nodes
    )  # fmt: skip


def _clipped_gradients(
    graph: Graph, prepare: Callable[[Sequence[Job], GraphBlocks], SplitRun], bug: str, index: int
) -> list[tuple[np.ndarray, Tensor]]:
    """Nodes read and clipped gradient of the eight steps of two epochs, without noise, at fixed parameters."""
    cell = Cell(
        task=Task(dataset="audit"),
        method="dp-subgraph",
        model=Model(architecture="kipf", hops=2, width=WIDTH),
        training=Training(optimizer="sgd", learning_rate=1.0, num_splits=4, steps=8),
        privacy=Privacy(variant="cut", noise_multiplier=1.0, delta=DELTA),
        seeds=(index,),
    )
    job = Job(graph, cell, index, calibrate(cell, len(graph.train_nodes)), CPU)
    blocks = GraphBlocks(graph, CPU)
    source = prepare([job], blocks).source
    if not isinstance(source, GraphSource):
        raise TypeError("the audited methods read nodes")
    nodes_read: list[np.ndarray] = []

    def build(nodes: np.ndarray):  # type: ignore[no-untyped-def]
        nodes_read[-1] = nodes
        return blocks.masked(nodes) if bug == "edges" else source.block(nodes)

    states = SeedStates(_network(1))
    kind = PerTensor if bug == "tensor" else Privatizer
    scratch = torch.zeros_like(states.network.theta.data)
    clip = np.inf if bug == "none" else CLIP_NORM
    noise = [torch_generator("audits", "no noise")]
    privatizer = kind(clip, 0.0, states.network.size, noise, scratch)
    still = torch.optim.SGD([states.network.theta], lr=0.0)
    step = StackedStep(states, still, GraphSource(source.schedules, build), 0.0, [], privatizer)
    found = []
    for _ in range(8):
        nodes_read.append(np.zeros(0, dtype=np.int64))
        step()
        found.append((nodes_read[-1], step.gradients[0].clone()))
    return found


def _neighbours(index: int) -> tuple[Graph, Graph, int]:
    """A random graph of 16 nodes, the same with another record of one node, and that node."""
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
    return _graph(edges, features, labels), _graph(other_edges, other_features, other_labels), node


def _graph(edges: np.ndarray, features: np.ndarray, labels: np.ndarray) -> Graph:
    """Undirected; all nodes are training nodes."""
    ptr = np.concatenate([[0], np.cumsum(edges.sum(axis=1))])
    idx = np.nonzero(edges)[1].astype(np.int32)
    split = np.full(len(edges), TRAIN, dtype=np.uint8)
    return Graph("subgraphs", ptr, idx, ptr, idx, features, labels, split, 2)
