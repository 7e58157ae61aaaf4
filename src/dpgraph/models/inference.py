"""Predictions for all nodes over their whole neighbourhoods: no sampling, no clipping, no guarantee of its own.

What is private is the parameters: a prediction also reads the records of the node and of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.data.graph import Graph
from dpgraph.models.gat import GatLayer
from dpgraph.models.network import Network
from dpgraph.models.segments import Segments

CHUNK_ROWS = 16_384  # 65,536 leave the cache and take 1.5 times as long


class Inference(Protocol):
    """Predictions for all nodes of a graph."""

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """(N, F) features -> (N, classes) logits."""


class FullGraph:
    """A graph's lists on a device; classifies all nodes layer by layer, rows in chunks."""

    def __init__(self, graph: Graph, device: str | torch.device = "cpu", chunk_rows: int = CHUNK_ROWS) -> None:
        self.num_nodes = graph.num_nodes
        bounds = [*range(0, self.num_nodes, chunk_rows), self.num_nodes]
        self.chunks = [slice(a, b) for a, b in pairwise(bounds)]
        self.segments = [_closed_segments(graph, chunk, device) for chunk in self.chunks]

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """(N, F) features -> (N, classes) logits; holds at most two (N, width) arrays, with attention four."""
        mode = network.training
        network.eval()
        try:
            return self._logits(network, features)
        finally:
            network.train(mode)

    def _logits(self, network: Network, features: Tensor) -> Tensor:
        states = self._by_chunk(lambda i: network.encoder(features[self.chunks[i]]))
        for layer in network.aggregation:
            if isinstance(layer, GatLayer):
                states = self._by_chunk(self._attention(layer, states))
            else:
                states = self._by_chunk(self._layer(layer, states))
        return self._by_chunk(lambda i: network.decoder(states[self.chunks[i]]))

    def _layer(self, layer: nn.Module, states: Tensor) -> Callable[[int], Tensor]:
        return lambda i: layer(states, self.segments[i])

    def _attention(self, layer: GatLayer, states: Tensor) -> Callable[[int], Tensor]:
        keys = self._by_chunk(lambda i: layer.key(states[self.chunks[i]]))
        values = self._by_chunk(lambda i: layer.value(states[self.chunks[i]]))
        return lambda i: layer.receive(states[self.chunks[i]], keys, values, self.segments[i])

    def _by_chunk(self, rows_of: Callable[[int], Tensor]) -> Tensor:
        first = rows_of(0)
        result = first.new_empty(self.num_nodes, *first.shape[1:])
        result[self.chunks[0]] = first
        for i in range(1, len(self.chunks)):
            result[self.chunks[i]] = rows_of(i)
        return result


def _closed_segments(graph: Graph, chunk: slice, device: str | torch.device) -> Segments:
    """Segments of a range of nodes over the states of all nodes."""
    ptr = np.asarray(graph.out_ptr[chunk.start : chunk.stop + 1])
    listed = np.asarray(graph.out_idx[ptr[0] : ptr[-1]], dtype=np.int32)
    columns = np.insert(listed, ptr[:-1] - ptr[0], np.arange(chunk.start, chunk.stop, dtype=np.int32))
    closed = (ptr - ptr[0] + np.arange(len(ptr))).astype(np.int32)
    return Segments(torch.from_numpy(closed).to(device), torch.from_numpy(columns).to(device), graph.num_nodes)
