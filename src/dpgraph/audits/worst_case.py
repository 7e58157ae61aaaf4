"""A graph on which one record changes as many roots as the stable sampler allows, with gradients that push apart.

Node 0 is the changed record v. It is listed by K roots w, and lists D nodes u. Each u is also listed by K roots x, so
that when v's list goes, u lets in one x that it had refused. So K + D roots change besides v's own: R = 1 + K + D. The
loss of a root is plus or minus its logits, by the sign of the charges in its tree, so that every clipped gradient of a
changed root is +C e with v and -C e without: the pair that Theorem 2 of docs/privacy.md says is the worst.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.experiments.cell import Model
from dpgraph.models.network import Network
from dpgraph.randomness import torch_generator
from dpgraph.sampling.edge_lists import EdgeLists, stable_edge_lists
from dpgraph.sampling.ego import EgoBatch, EgoTrees, pack_ego_trees
from dpgraph.training.clipping import ClipNorms, clipped_gradient_sum
from dpgraph.training.ghost import Recorder

MAX_DEGREE, LIST_CAP = 3, 4  # R = 8
STRENGTH = 1e6  # of a gradient before clipping, far above every clip norm


def charged_losses(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
    """(B,) plus or minus the sum of a root's logits, by the sign of the labels' sum over its tree."""
    logits = network(batch, features, recorder.on(batch))
    owner = torch.repeat_interleave(torch.arange(batch.num_roots), torch.from_numpy(batch.sizes[-1]))
    charge = torch.zeros(batch.num_roots, dtype=torch.int64).index_add_(0, owner, labels[batch.nodes])
    return STRENGTH * charge.sign() * logits.sum(dim=1)


@dataclass(frozen=True)
class Side:
    """One of the two neighbouring data sets: `trees` of its roots; `affected` are positions of roots that differ."""

    trees: EgoTrees
    affected: np.ndarray


@dataclass(frozen=True)
class WorstCase:
    with_record: Side
    without_record: Side
    features: Tensor  # (N, F)
    charges: Tensor  # (N,) int64, given to the engine as labels
    affected_roots: int  # R

    def network(self) -> Network:
        model = Model(width=3, hops=1)
        return Network(model, self.features.shape[1], 2, torch_generator("audits", "parameters"), torch.float64)

    def gradients(self, side: Side, clip_norms: ClipNorms) -> np.ndarray:
        """(number of affected roots, parameters) clipped gradients, each from the engine."""
        network = self.network()
        rows = []
        for position in side.affected:
            clipped = clipped_gradient_sum(
                network, side.trees, np.array([position]), self.features, self.charges, clip_norms, charged_losses
            )
            rows.append(torch.cat([part.flatten() for part in clipped.sums]).numpy())
        return np.stack(rows)


def worst_case(max_degree: int = MAX_DEGREE, list_cap: int = LIST_CAP) -> WorstCase:
    """The first public key under which all of v's proposals are accepted, and both sides under it."""
    num_nodes = 1 + max_degree + list_cap * (1 + max_degree)
    reach = np.arange(1, 1 + max_degree)
    hubs = np.arange(1 + max_degree, 1 + max_degree + list_cap)
    rivals = np.arange(1 + max_degree + list_cap, num_nodes).reshape(list_cap, max_degree)
    lists: dict[int, list[int]] = {0: hubs.tolist()} | {int(w): [0] for w in reach}
    lists |= {int(x): [int(hub)] for hub, row in zip(hubs, rivals) for x in row}
    before = _graph(num_nodes, lists, without=None, hubs=hubs)
    for key in range(10_000):
        kept = stable_edge_lists(before, before.train_nodes, max_degree, list_cap, key)
        if len(kept.of(0)) == list_cap:
            break
    # pointers to v stay, but it is a null that sends no message: it is out of every list that trees follow
    nulled = {node: [u for u in members if u != 0] for node, members in lists.items() if node != 0}
    after = _graph(num_nodes, nulled, without=0, hubs=hubs)
    other = stable_edge_lists(after, after.train_nodes, max_degree, list_cap, key)
    charges = np.full(num_nodes, -1)
    charges[0], charges[hubs] = 10_000, -100
    charges[rivals.ravel()] = 1
    return WorstCase(
        with_record=_side(kept, before, kept, other),
        without_record=_side(other, after, kept, other),
        features=torch.ones(num_nodes, 2, dtype=torch.float64),
        charges=torch.from_numpy(charges),
        affected_roots=1 + max_degree + list_cap,
    )


def _side(lists: EdgeLists, graph: Graph, before: EdgeLists, after: EdgeLists) -> Side:
    roots = graph.train_nodes
    changed = [v == 0 or 0 in before.of(v) or not np.array_equal(before.of(v), after.of(v)) for v in roots]
    return Side(pack_ego_trees(lists, roots, 1), np.flatnonzero(changed))


def _graph(num_nodes: int, lists: dict[int, list[int]], without: int | None, hubs: np.ndarray) -> Graph:
    """All nodes but hubs, and the nulled one, are roots."""
    lengths = [len(lists.get(node, ())) for node in range(num_nodes)]
    split = np.full(num_nodes, TRAIN, dtype=np.uint8)
    split[hubs] = VALIDATION
    if without is not None:
        split[without] = VALIDATION
    return Graph(
        name="worst case",
        out_ptr=np.concatenate([[0], np.cumsum(lengths)]),
        out_idx=np.array([u for node in range(num_nodes) for u in sorted(lists.get(node, ()))], dtype=np.int32),
        in_ptr=np.zeros(num_nodes + 1, dtype=np.int64),
        in_idx=np.zeros(0, dtype=np.int32),
        features=np.ones((num_nodes, 2), dtype=np.float32),
        labels=np.zeros(num_nodes, dtype=np.int64),
        split=split,
        num_classes=2,
    )
