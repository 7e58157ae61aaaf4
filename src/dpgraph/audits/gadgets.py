"""Copies of the graph on which one record changes as many trees as Theorem 3 of docs/privacy/trees.md allows, in one
run.

Of each copy: v is the record that changes. K roots w list it, each listed by K roots z where there are two hops. v
lists D hubs u, each of which K rivals x list, too, so that without v's list the hub lets in one x that it had refused
(with two hops, K roots y list each x). The prepared step's own sampler decides in which copies R roots change.

The adversary's loss pushes the copy's coordinate, up or down by the sign of the charges in a root's tree: every changed
root adds +C e with v's record and -C e without, its own no longer then. What reads a root is zero elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dpgraph.audits.cases import Kind, Settings, prepared_step
from dpgraph.audits.exact import changed_mask
from dpgraph.audits.graphs import directed_graph, null_records
from dpgraph.audits.probes import STRENGTH, pushed_units
from dpgraph.config.cell import Model
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import EdgeLists
from dpgraph.engine.sampling.ego import EgoBatch
from dpgraph.engine.training.ghost import Recorder
from dpgraph.families.trees.mechanism import ResidualTrees
from dpgraph.families.trees.prepared import Losses, PreparedTrees

V, W, Z, HUB, X, Y = range(6)
CHARGES = np.array([1e4, -1.0, -1.0, -100.0, 1.0, 1.0], dtype=np.float32)


@dataclass(frozen=True)
class Gadgets:
    """`roles` and `copy` (N,) of each node; `graph` has every v's record, and neither features nor labels yet."""

    graph: Graph
    roles: np.ndarray
    copy: np.ndarray

    @classmethod
    def copied(cls, copies: int, degree: int, cap: int, hops: int, spare: int = 0) -> Gadgets:
        """Return copies with `spare` more competitors than K and D let in.

        A sampler that ignores a cap then changes more roots than R.
        """
        followers, hubs, rivals = degree + spare, cap + spare, degree + spare
        roles: list[int] = []
        edges: list[tuple[int, int]] = []

        def add(role: int) -> int:
            roles.append(role)
            return len(roles) - 1

        v = add(V)
        for _ in range(followers):
            w = add(W)
            edges.append((w, v))
            edges += [(add(Z), w) for _ in range(degree if hops == 2 else 0)]
        for _ in range(hubs):
            hub = add(HUB)
            edges.append((v, hub))
            for _ in range(rivals):
                x = add(X)
                edges.append((x, hub))
                edges += [(add(Y), x) for _ in range(degree if hops == 2 else 0)]
        size = len(roles)
        shifts = (size * np.arange(copies))[:, None]
        owners, members = ((np.array(edges)[:, side] + shifts).ravel() for side in (0, 1))
        role = np.tile(roles, copies)
        split = np.where(role == HUB, VALIDATION, TRAIN)
        graph = directed_graph(owners, members, np.zeros((size * copies, 1)), np.zeros(size * copies), split, classes=2)
        return cls(graph, role, np.repeat(np.arange(copies), size))

    def changed(self, kind: Kind, settings: Settings) -> np.ndarray:
        """Find the (N,) roots whose trees hold v or differ without v's record, by the lists of the prepared step."""

        def lists(graph: Graph) -> EdgeLists:
            return prepared_step(PreparedTrees, kind, settings, graph).terms[-1].trees.lists

        nulled = null_records(self.graph, np.flatnonzero(self.roles == V))
        return changed_mask(lists(self.graph), lists(nulled), self.roles == V, kind.hops) & (self.roles != HUB)


@dataclass(frozen=True)
class Worst:
    """Copies in which `roots` = R roots change, with the features and labels that push their coordinates."""

    gadgets: Gadgets
    changed: np.ndarray  # (N,) bool, of the chosen copies
    place: np.ndarray  # (copies,) coordinate of each copy, -1: not chosen

    @classmethod
    def chosen(cls, gadgets: Gadgets, changed: np.ndarray, roots: int) -> Worst:
        """Choose the copies in which `roots` roots change."""
        counts = np.bincount(gadgets.copy[changed], minlength=gadgets.copy[-1] + 1)
        chosen = counts >= roots
        place = np.where(chosen, np.cumsum(chosen) - 1, -1)
        return cls(gadgets, changed & chosen[gadgets.copy], place)

    @property
    def count(self) -> int:
        return int(self.place.max()) + 1

    @property
    def width(self) -> int:
        return max(1, math.ceil(math.sqrt(self.count)))

    @cached_property
    def graph(self) -> Graph:
        """Features: where the root's neighbour (or only) term pushes, where its self term does, its charge."""
        gadgets, width = self.gadgets, self.width
        size = gadgets.graph.num_nodes
        features = np.zeros((size, 2 * width + 1), dtype=np.float32)
        nodes = np.flatnonzero(self.changed)
        place = self.place[gadgets.copy[nodes]]
        features[nodes, place // width] = STRENGTH
        chosen = self.place[gadgets.copy] >= 0
        features[chosen, 2 * width] = CHARGES[gadgets.roles[chosen]]
        own = nodes[gadgets.roles[nodes] == V]
        features[own, width + self.place[gadgets.copy[own]] // width] = STRENGTH
        labels = np.zeros(size, dtype=np.int64)
        labels[nodes] = place % width
        return replace(gadgets.graph, features=features, labels=labels, num_classes=width)

    def run(self, kind: Kind, settings: Settings, present: np.ndarray) -> WorstRun:
        """Return the run in which the copies `present` (count,) have v's record."""
        place = self.place[self.gadgets.copy]
        gone = np.flatnonzero((self.gadgets.roles == V) & (place >= 0) & ~present[place])
        return WorstRun(prepared_step(PreparedTrees, kind, settings, null_records(self.graph, gone)), self)


class WorstRun:
    """The prepared step with the adversary's network and losses; every step starts at the same parameters."""

    def __init__(self, prepared: PreparedTrees, worst: Worst) -> None:
        width = worst.width
        self.prepared, self.worst = prepared, worst
        model = Model(architecture="mlp", hops=0, width=width)
        self.network = Network(model, width, max(2, width), torch_generator("audits", "gadgets"))
        optimizer = torch.optim.SGD(self.network.parameters(), lr=1.0)
        losses = _losses(width, isinstance(prepared.mechanism, ResidualTrees))
        self._step = prepared.step(self.network, optimizer, losses)

    def step(self) -> np.ndarray:
        """Take a step and return the (count,) sums along each copy's coordinate, in units of C, with noise."""
        width, place = self.worst.width, np.arange(self.worst.count)
        weight = self.network.encoder.layers[0].weight  # type: ignore[union-attr]
        with torch.no_grad():
            weight.zero_()  # type: ignore[operator]
        self._step()
        clip = self.prepared.public_clip_norms[0]
        moved = weight.detach().double().numpy() * self.prepared.divisor / clip  # type: ignore[union-attr, operator]
        return np.asarray(moved[place % width, place // width])


def _losses(width: int, residual: bool) -> Losses:
    def neighbours(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
        owner = torch.repeat_interleave(torch.arange(batch.num_roots), torch.from_numpy(batch.sizes[-1]))
        charge = torch.zeros(batch.num_roots).index_add_(0, owner, features[batch.nodes, 2 * width])
        pushed = pushed_units(network, batch, features[batch.roots, :width], labels[batch.roots], recorder)
        return -charge.sign() * pushed

    def own(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
        rows = features[batch.roots, width : 2 * width]
        return -pushed_units(network, batch, rows, labels[batch.roots], recorder)

    return Losses(root=own if residual else neighbours, neighbours=neighbours)
