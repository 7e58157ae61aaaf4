"""PyTorch Geometric as a peer: ego graphs in one batch without edges between them, its convolutions on their levels.

It forms no gradients of single graphs by itself. Hooks keep what its linear layers read and the gradients of what they
gave; rows of a graph are put side by side by its `to_dense_batch`, and gradients are formed, clipped and added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.peers_problem import Gradients, PeersProblem
from bench.peers_torch import add_clipped
from dpgraph.engine.models.message_passing import GatLayer, GinLayer
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.ego import EgoBatch

ROOTS = 100  # of a batch of graphs, the fastest of 25, 50, 100, ... on a one-layer GCN


@dataclass(frozen=True)
class Level:
    """Which rows of the next level each row of a level reads, and whose they are."""

    edges: Tensor  # (2, m) row below -> row, without a row's own
    closed: Tensor  # (2, m + n) with it
    own: Tensor  # (n,) each row's own row below
    graph: Tensor  # (n,)


@dataclass(frozen=True)
class Graphs:
    nodes: Tensor  # of the deepest rows
    graph: Tensor  # of the deepest rows
    levels: tuple[Level, ...]
    labels: Tensor
    count: int


@dataclass
class Call:
    """A call of a linear layer: what it read and what it gave."""

    inputs: Tensor
    outputs: Tensor
    graph: Tensor


def graphs_of(batch: EgoBatch, labels: Tensor) -> Graphs:
    owner = [torch.from_numpy(np.repeat(np.arange(batch.num_roots), sizes)) for sizes in batch.sizes]
    levels = []
    for level, hop in enumerate(batch.hops):
        columns = torch.arange(len(owner[level + 1])) if hop.columns is None else hop.columns
        rows = torch.repeat_interleave(torch.arange(len(owner[level])), hop.ptr.diff())
        closed = torch.stack([columns, rows])
        listed = torch.ones(len(columns), dtype=torch.bool)
        listed[hop.ptr[:-1]] = False  # a closed list starts with its owner
        levels.append(Level(closed[:, listed], closed, columns[hop.ptr[:-1]], owner[level]))
    return Graphs(batch.nodes, owner[-1], tuple(levels), labels[batch.roots], batch.num_roots)


def pyg(problem: PeersProblem) -> Gradients:
    parts = [graphs_of(problem.trees.batch(positions), problem.labels) for positions in problem.pieces(ROOTS)]
    run = _Run(problem.network)

    def sums() -> list[Tensor]:
        totals = [torch.zeros_like(parameter) for parameter in problem.network.parameters()]
        for part in parts:
            add_clipped(totals, run.gradients(part, problem.features[part.nodes]), problem.limit)
        return totals

    return sums


class _Run:
    """The network with PyTorch Geometric's convolutions, whose parameters are those of the network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.convolutions = [_convolution(layer) for layer in network.aggregation]
        self.calls: dict[nn.Module, Call] = {}

    def gradients(self, graphs: Graphs, rows: Tensor) -> list[Tensor]:
        """Return (count, *shape) of each parameter, in the network's order."""
        self.calls, own = {}, {}
        for linear in self.network.encoder.layers:
            rows = self._act(self._apply(linear, rows, graphs.graph))
        for layer, convolution, level in zip(self.network.aggregation, self.convolutions, reversed(graphs.levels)):
            own[layer] = rows[level.own]
            below = graphs.graph if level is graphs.levels[-1] else graphs.levels[1].graph
            rows = self._message(layer, convolution, rows, own[layer], level, below)
        *hidden, last = self.network.decoder.layers
        alone = torch.arange(graphs.count)
        for linear in hidden:
            rows = self._act(self._apply(linear, rows, alone))
        logits = self._apply(last, rows, alone)
        loss = nn.functional.cross_entropy(logits, graphs.labels, reduction="sum")
        given = torch.autograd.grad(loss, [call.outputs for call in self.calls.values()])
        formed: dict[Tensor, Tensor] = {}
        owner: Any
        for (owner, call), gradient in zip(self.calls.items(), given):
            a, g = self._beside(call.inputs.detach(), call, graphs), self._beside(gradient, call, graphs)
            formed[owner.weight] = torch.bmm(g.mT, a)
            if owner.bias is not None:
                formed[owner.bias] = g.sum(1)
        by_layer = dict(zip(self.calls, given))
        for layer in self.network.aggregation:
            if isinstance(layer, GinLayer):
                values = ((by_layer[layer.linear] @ layer.linear.weight) * own[layer]).sum(1).detach()
                total = values.new_zeros(graphs.count)
                formed[layer.self_weight.epsilon] = total.index_add_(0, self.calls[layer.linear].graph, values)
        return [formed[parameter] for parameter in self.network.parameters()]

    def _act(self, rows: Tensor) -> Tensor:
        return self.network.encoder.activation(rows)

    def _apply(self, linear: nn.Module, rows: Tensor, graph: Tensor) -> Tensor:
        outputs: Tensor = linear(rows)
        self.calls[linear] = Call(rows, outputs, graph)
        return outputs

    def _message(self, layer: Any, convolution: Any, rows: Tensor, own: Tensor, level: Level, below: Tensor) -> Tensor:
        if isinstance(layer, GinLayer):
            total = convolution((rows, own), level.edges)
            return self._act(self._apply(layer.linear, total, level.graph))
        if isinstance(layer, GatLayer):
            maps = ((layer.query, convolution.lin_query, level.graph), (layer.key, convolution.lin_key, below),
                    (layer.value, convolution.lin_value, below))  # fmt: skip
            kept = [theirs.register_forward_hook(self._keep(ours, graph)) for ours, theirs, graph in maps]
            received = convolution((rows, own), level.closed)
            for hook in kept:
                hook.remove()
            return self._act(self._apply(layer.output, received, level.graph))
        mean = convolution((rows, own), level.closed)
        return mean + self._act(self._apply(layer.linear, mean, level.graph))

    def _keep(self, ours: nn.Module, graph: Tensor) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor) -> None:
            self.calls[ours] = Call(inputs[0], outputs, graph)

        return hook

    @staticmethod
    def _beside(rows: Tensor, call: Call, graphs: Graphs) -> Tensor:
        """Pad (n, d) to (count, w, d), with 0 where a graph has fewer rows."""
        from torch_geometric.utils import to_dense_batch

        if len(rows) == graphs.count:
            return rows.unsqueeze(1)
        dense: Tensor = to_dense_batch(rows, call.graph, batch_size=graphs.count)[0]
        return dense


def _convolution(layer: nn.Module) -> nn.Module:
    from torch_geometric.nn import GINConv, SimpleConv, TransformerConv

    if isinstance(layer, GinLayer):
        convolution = GINConv(nn.Identity(), train_eps=True)
        convolution.eps = layer.self_weight.epsilon
        return convolution  # type: ignore[no-any-return]
    if isinstance(layer, GatLayer):
        width = layer.query.in_features
        convolution = TransformerConv((width, width), layer.head_width, heads=layer.query.heads, root_weight=False)
        for name, ours in (("lin_query", layer.query), ("lin_key", layer.key), ("lin_value", layer.value)):
            theirs = getattr(convolution, name)
            theirs.weight, theirs.bias = ours.weight, ours.bias
        return convolution  # type: ignore[no-any-return]
    return SimpleConv(aggr="mean")  # type: ignore[no-any-return]
