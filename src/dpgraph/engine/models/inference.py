"""Predictions for all nodes from their whole neighbourhoods, without sampling and without clipping.

Only the parameters are private: a prediction also reads the records of the node and of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from dpgraph.data.graph import Graph
from dpgraph.engine.models.dense import Dense, apply_layer
from dpgraph.engine.models.message_passing import GatLayer
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.segments import Segments
from dpgraph.engine.models.sparse import reading

CHUNK_ROWS = 16_384  # 65,536 leave the cache and take 1.5 times as long


class Predictor(Protocol):
    """Predictions for the nodes of a graph by a network."""

    def logits(self, network: Any, features: Tensor) -> Tensor:
        """Return the logits (N, classes) from features (N, F)."""


class FullGraph:
    """The lists of a graph on a device; classifies all nodes layer by layer, in chunks of rows.

    With `own_weight` = alpha, logits are alpha times those without neighbours plus 1 - alpha times those with all
    neighbours. The two err differently, so that their mix is seldom worse than the better one.
    """

    def __init__(
        self, graph: Graph, device: str | torch.device = "cpu", chunk_rows: int = CHUNK_ROWS, own_weight: float = 0.0
    ) -> None:
        self.num_nodes, self.own_weight = graph.num_nodes, own_weight
        bounds = [*range(0, self.num_nodes, chunk_rows), self.num_nodes]
        self.chunks = [slice(a, b) for a, b in pairwise(bounds)]
        self.segments = [_closed_segments(graph, chunk, device) for chunk in self.chunks]
        self._reading: tuple[Tensor, Dense] | None = None  # of these features
        self.alone: FullGraph | None = None
        if own_weight:
            self.alone = FullGraph(Graph.without_edges(graph), device, chunk_rows)

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Return the logits (N, classes) from features (N, F).

        Holds at most three arrays (N, width), with attention five.
        """
        mode = network.training
        network.eval()
        try:
            states = self.encoded(network, features)
            logits = self._logits(network, states)
            if self.alone is not None:
                alone = self.alone._logits(network, states)
                logits = logits.mul_(1 - self.own_weight).add_(alone, alpha=self.own_weight)
            return logits
        finally:
            network.train(mode)

    def encoded(self, network: Network, features: Tensor) -> Tensor:
        """Return the states (N, width) of the encoder."""
        if self._reading is None or self._reading[0] is not features:
            self._reading = features, reading(features)
        dense = self._reading[1]
        if dense is apply_layer:
            return self._by_chunk(lambda i: network.encoder(features[self.chunks[i]]))
        return network.encoder(features, dense=dense)  # type: ignore[no-any-return]

    def _logits(self, network: Network, states: Tensor) -> Tensor:
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


MOST_OF_THE_GRAPH = 0.8  # a larger part saves no time


class PartOfGraph:
    """Logits of some nodes from the nodes within `hops` of them: equal to those of `FullGraph` up to rounding."""

    def __init__(
        self, graph: Graph, nodes: np.ndarray, hops: int, device: str | torch.device = "cpu", own_weight: float = 0.0
    ) -> None:
        """Select the nodes that the predictions of `nodes` (distinct ids) read."""
        lists = csr_matrix(
            (np.ones(graph.num_edges, dtype=np.int8), graph.out_idx, graph.out_ptr), shape=(graph.num_nodes,) * 2
        )
        rows = np.sort(np.asarray(nodes))
        for _ in range(hops):
            rows = np.union1d(rows, lists[rows].indices)
        if len(rows) > MOST_OF_THE_GRAPH * graph.num_nodes:
            rows = np.arange(graph.num_nodes)
        self._rows = torch.from_numpy(rows).to(device)
        self._places = torch.from_numpy(np.searchsorted(rows, nodes)).to(device)
        self._whole = len(rows) == graph.num_nodes
        self._graph = FullGraph(_part(graph, lists, rows), device, own_weight=own_weight)
        self._read: tuple[Tensor, Tensor] | None = None  # features of all nodes, and of the part

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Return the logits (nodes, classes) of the chosen nodes from the features (N, F) of all."""
        if self._read is None or self._read[0] is not features:
            self._read = features, features if self._whole else features.index_select(0, self._rows)
        return self._graph.logits(network, self._read[1])[self._places]


def _part(graph: Graph, lists: csr_matrix, rows: np.ndarray) -> Graph:
    """Return the subgraph of the nodes `rows`, without features."""
    inner = lists[rows][:, rows].tocsr()
    inner.sort_indices()
    turned = inner.T.tocsr()
    turned.sort_indices()
    return replace(
        graph,
        features=np.zeros((len(rows), 0), dtype=np.float32),
        labels=np.asarray(graph.labels)[rows],
        split=np.asarray(graph.split)[rows],
        out_ptr=inner.indptr.astype(np.int64),
        out_idx=inner.indices.astype(np.int32),
        in_ptr=turned.indptr.astype(np.int64),
        in_idx=turned.indices.astype(np.int32),
    )


def _closed_segments(graph: Graph, chunk: slice, device: str | torch.device) -> Segments:
    """Return the segments of a range of nodes over the states of all nodes."""
    ptr = np.asarray(graph.out_ptr[chunk.start : chunk.stop + 1])
    listed = np.asarray(graph.out_idx[ptr[0] : ptr[-1]], dtype=np.int32)
    columns = np.insert(listed, ptr[:-1] - ptr[0], np.arange(chunk.start, chunk.stop, dtype=np.int32))
    closed = (ptr - ptr[0] + np.arange(len(ptr))).astype(np.int32)
    return Segments(torch.from_numpy(closed).to(device), torch.from_numpy(columns).to(device), graph.num_nodes)
