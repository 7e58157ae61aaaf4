"""Predictions for all nodes over their whole neighbourhoods: no sampling, no clipping, no guarantee of its own.

What is private is the parameters: a prediction also reads the records of the node and of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.data.graph import Graph
from dpgraph.models.network import Network

CHUNK_ROWS = 16_384  # 65,536 leave the cache and take 1.5 times as long


class FullGraph:
    """A graph's lists on a device; classifies all nodes layer by layer, rows in chunks."""

    def __init__(self, graph: Graph, device: str | torch.device = "cpu", chunk_rows: int = CHUNK_ROWS) -> None:
        self.num_nodes = graph.num_nodes
        bounds = [*range(0, self.num_nodes, chunk_rows), self.num_nodes]
        self.chunks = [slice(a, b) for a, b in pairwise(bounds)]
        entries = [slice(int(graph.out_ptr[c.start]), int(graph.out_ptr[c.stop])) for c in self.chunks]
        columns = torch.from_numpy(np.array(graph.out_idx, dtype=np.int32)).to(device)
        ptr = torch.from_numpy(np.array(graph.out_ptr, dtype=np.int64)).to(device)
        self.columns = [columns[e] for e in entries]
        self.ptr = [(ptr[c.start : c.stop + 1] - e.start).int() for c, e in zip(self.chunks, entries, strict=True)]

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """(N, F) features -> (N, classes) logits; holds at most two (N, width) arrays."""
        states = self._by_chunk(lambda i: network.encoder(features[self.chunks[i]]))
        for layer in network.aggregation:
            states = self._by_chunk(self._layer(layer, states))
        return self._by_chunk(lambda i: network.decoder(states[self.chunks[i]]))

    def _layer(self, layer: nn.Module, states: Tensor) -> Callable[[int], Tensor]:
        def rows_of(i: int) -> Tensor:
            received = nn.functional.embedding_bag(
                self.columns[i], states, self.ptr[i], mode="sum", include_last_offset=True
            )
            size = self.ptr[i].diff().to(states.dtype).unsqueeze(1) + 1
            return layer.update((received + states[self.chunks[i]]) / size)  # type: ignore[operator]

        return rows_of

    def _by_chunk(self, rows_of: Callable[[int], Tensor]) -> Tensor:
        first = rows_of(0)
        result = first.new_empty(self.num_nodes, first.shape[1])
        result[self.chunks[0]] = first
        for i in range(1, len(self.chunks)):
            result[self.chunks[i]] = rows_of(i)
        return result
