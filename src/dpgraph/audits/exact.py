"""Audits without statistics: how many trees one record changes (A4), and sensitivity (A5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.audits.graphs import directed_graph, edges_of, with_edges
from dpgraph.audits.probes import STRENGTH
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.config.cell import Model
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.adjacency import keep_entries
from dpgraph.data.graph import Graph
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import EdgeLists, full_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import EgoBatch, pack_ego_trees
from dpgraph.engine.training.clipping import RootLosses, clipped_gradient_sum, root_losses
from dpgraph.engine.training.ghost import Recorder
from dpgraph.families.trees.mechanism import PoissonTrees

CLIP_NORM = 0.3


def _roots_bound(max_degree: int, list_cap: int, hops: int) -> int:
    """Return R of the mechanism that the accountant reads."""
    return PoissonTrees(
        num_roots=10**6, steps=1, delta=1e-9, noise_multiplier=1.0, sampling_rate=0.5, hops=hops,
        max_degree=max_degree, list_cap=list_cap,
    ).affected_roots  # fmt: skip


def changed_mask(before: EdgeLists, after: EdgeLists, gone: np.ndarray, hops: int) -> np.ndarray:
    """Find the (N,) nodes whose tree of depth `hops` differs, or holds one of the `gone` (N,), whose records change."""
    size = before.num_nodes
    matrices = [sp.csr_matrix((np.ones(len(x.idx)), x.idx, x.ptr), shape=(size, size)) for x in (before, after)]
    differs = np.asarray(abs(matrices[0] - matrices[1]).sum(axis=1)).ravel() > 0
    reads = gone.copy()
    for _ in range(hops):
        below = (matrices[0] @ reads + matrices[1] @ reads) > 0
        reads = differs | below | gone
    return reads


def changed_roots(before: EdgeLists, after: EdgeLists, node: int, hops: int) -> int:
    """Count roots (all nodes) whose tree of depth `hops` differs or holds `node`, whose record changes."""
    return int(changed_mask(before, after, np.arange(before.num_nodes) == node, hops).sum())


def graph_of(lists: list[np.ndarray], name: str = "audit") -> Graph:
    """Return a graph of these lists, which ascend without repeats; all nodes are roots."""
    size = len(lists)
    generator = numpy_generator("audits", "features", name, size)
    members = np.concatenate([*lists, np.zeros(0, dtype=int)])
    features, labels = generator.standard_normal((size, 4)), generator.integers(0, 3, size)
    owners = np.repeat(np.arange(size), [len(one) for one in lists])
    return replace(directed_graph(owners, members, features, labels, classes=3), name=name)


def without_list(graph: Graph, node: int) -> Graph:
    """Return the graph with a node's record null: its own list is gone, and pointers to it bring no message."""
    owners, members = edges_of(graph)
    return with_edges(graph, owners[owners != node], members[owners != node])


def _random(size: int, longest: int, index: int) -> Graph:
    generator = numpy_generator("audits", "graph", size, longest, index)
    scores = generator.random((size, size))
    np.fill_diagonal(scores, np.inf)
    order = np.argsort(scores, axis=1)
    return graph_of([np.sort(order[v, : generator.integers(0, longest + 1)]) for v in range(size)], f"random {index}")


def _shapes() -> list[tuple[Graph, int]]:
    """Return graphs, each with the node whose record goes: fan (a list of many proposers), star, path, random."""
    half = 300
    spokes = np.arange(half, 2 * half)
    fan = [np.array([half + i]) for i in range(half)] + [np.zeros(0, int)] * half + [spokes]
    star = [np.arange(1, 200)] + [np.array([0])] * 199
    path = [np.array([u for u in (v - 1, v + 1) if 0 <= u < 200]) for v in range(200)]
    shapes = [(graph_of(fan, "fan"), 2 * half), (graph_of(star, "star"), 0), (graph_of(path, "path"), 199)]
    return shapes + [(_random(60, 12, index), index) for index in range(12)]


def lists(trials: int) -> AuditResult:
    """Count the roots whose trees change when one record becomes null under the same seed; at most R (audit A4)."""
    worst, where, cases, passed = 0.0, "", 0, True
    for graph, node in _shapes():
        other = without_list(graph, node)
        for degree, cap, hops in ((1, 1, 1), (2, 2, 1), (2, 3, 1), (2, 2, 2)):
            bound = _roots_bound(degree, cap, hops)
            for key in range(trials):
                before, after = (stable_edge_lists(one, one.train_nodes, degree, cap, key) for one in (graph, other))
                changed = changed_roots(before, after, node, hops)
                cases += 1
                passed = passed and changed <= bound
                if changed / bound > worst:
                    worst, where = changed / bound, f"{changed} of at most {bound} on the {graph.name} graph"
    return AuditResult(
        audit="lists", title="trees that one record changes", passed=passed, trials=cases,
        claim="at most R = N(K, r) + D N(K, r - 1)", finding=f"at most {where}",
    )  # fmt: skip


def _task(index: int, scale: float) -> tuple[Graph, Network, torch.Tensor, torch.Tensor]:
    graph = _random(30, 6, index)
    network = Network(Model(width=3, hops=1), 4, 3, torch_generator("audits", "exact", index), torch.float64)
    return graph, network, scale * torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)


def _sum(
    network: Network,
    lists_: EdgeLists,
    roots: np.ndarray,
    x: torch.Tensor,
    y: torch.Tensor,
    losses: RootLosses = root_losses,
) -> torch.Tensor:
    """Return the sum of the roots' clipped gradients."""
    trees = pack_ego_trees(lists_, roots, 1)
    sums = clipped_gradient_sum(network, trees, np.arange(len(roots)), x, y, CLIP_NORM, losses).sums
    return torch.cat([part.flatten() for part in sums])


def charged_losses(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
    """Return (B,) plus or minus the sum of a root's logits, by the sign of the labels' sum over its tree."""
    logits = network(batch, features, recorder.on(batch))
    owner = torch.repeat_interleave(torch.arange(batch.num_roots), torch.from_numpy(batch.sizes[-1]))
    charge = torch.zeros(batch.num_roots, dtype=torch.int64).index_add_(0, owner, labels[batch.nodes])
    return STRENGTH * charge.sign() * logits.sum(dim=1)


def _relations() -> float:
    """Return the change of the sum over tuples, relative to K C, when a node's K = 5 tuples leave the batch.

    Each tuple holds the node, a partner and four negatives, each of which is in one more tuple; the node's gradients
    oppose the others.
    """
    own, others = 5, 25
    size = own + others + 1 + others  # roots are the tuples; then the node and its 25 partners
    partners = np.arange(own + others + 1, size)
    members = [np.append(own + others, part) for part in np.split(partners, own)] + [np.array([p]) for p in partners]
    graph = graph_of([*members, *[np.zeros(0, int)] * (1 + others)], "tuples")
    tuples = full_edge_lists(graph, graph.train_nodes)
    network = Network(Model(width=3, hops=1), 2, 2, torch_generator("audits", "tuples"), torch.float64)
    x, y = torch.ones(size, 2, dtype=torch.float64), torch.zeros(size, dtype=torch.int64)
    y[:own], y[own : own + others] = -1, 1
    roots = np.arange(own + others)
    gap = _sum(network, tuples, roots, x, y, charged_losses) - _sum(network, tuples, roots[own:], x, y, charged_losses)
    return float(gap.norm()) / (own * CLIP_NORM)


def sensitivity(trials: int) -> AuditResult:
    """Compare the change of a batch's clipped sum with its bound when a record becomes null (audit A5).

    The bound is (2 R - 1) C, and 2 C per changed root. Lists come from the stable sampler, gradients from the engine,
    and all roots of a random graph are in the batch. The changed record has features a thousand times larger than the
    others, so that clipping matters. K tuples of a relation that leave a batch move the sum by at most K C.
    """
    degree, cap, worst = 2, 2, _relations()
    for index in range(trials):
        graph, network, x, y = _task(index, 30.0)
        node = index % graph.num_nodes
        x[node] *= 1000
        sides = (graph, without_list(graph, node))
        before, after = (stable_edge_lists(side, side.train_nodes, degree, cap, index) for side in sides)
        without = EdgeLists(*keep_entries(after.ptr, after.idx, after.idx != node))  # a null node brings no message
        roots = np.setdiff1d(graph.train_nodes, [node])
        gap = _sum(network, before, graph.train_nodes, x, y) - _sum(network, without, roots, x, y)
        changed = changed_roots(before, after, node, 1)
        worst = largest(worst, float(gap.norm()) / ((2 * changed - 1) * CLIP_NORM))
    return AuditResult(
        audit="sensitivity", title="change of a whole batch's clipped sum", passed=worst <= 1 + 1e-9,
        claim="at most (2 c - 1) C for c <= R changed roots, K C for K tuples that leave",
        finding=f"at most {worst:.3g} of it", trials=trials,
    )  # fmt: skip


AUDITS = {"lists": Audit(lists, 5), "sensitivity": Audit(sensitivity, 60, quick=20)}
