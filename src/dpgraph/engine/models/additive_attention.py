"""The two-layer graph attention network of Velickovic et al. (2018), on a whole graph, without privacy.

The private networks' attention is by dot products (`models.gat`); this is the literature's, PyTorch Geometric's GATConv
with dropout and initial parameters by named generators.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv

from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.data.graph import Graph
from dpgraph.engine.models.dense import Dropout
from dpgraph.engine.models.sparse import Bags


def closed_edges(graph: Graph, device: torch.device) -> Tensor:
    """Return (2, m) senders and receivers, ascending: neighbours in both directions, and each node itself."""
    adjacency = sp.csr_array(undirected_adjacency(graph) + sp.eye_array(graph.num_nodes)).tocoo()
    return torch.from_numpy(np.stack([adjacency.col, adjacency.row]).astype(np.int64)).to(device)


class AdditiveLayer(GATConv):
    """GATConv on products X W, whose edge weights are dropped with a generator of the layer's own.

    Weights are Glorot uniform, the bias is zero.
    """

    def __init__(
        self, inputs: int, width: int, heads: int, mean: bool, generator: torch.Generator, drop: Dropout
    ) -> None:
        with torch.device("meta"):  # it would draw parameters from the global generator
            super().__init__(inputs, width, heads, concat=not mean, add_self_loops=False)
        self.lin, self.drop = nn.Identity(), drop
        self.weight = _glorot((inputs, heads * width), inputs + heads * width, generator)
        self.att_dst, self.att_src = (_glorot((1, heads, width), 2 * width + 1, generator) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(width if mean else heads * width))

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor | None,
        edge_attr: Tensor | None,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int | None,
    ) -> Tensor:
        """Return the softmax over the edges of each reader, dropped in training."""
        return self.drop(super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size))  # type: ignore[no-any-return]


class AttentionNetwork(nn.Module):
    """logits = attend(ELU(attend(X))), inputs of both layers dropped in training (section 3.3)."""

    def __init__(
        self,
        num_features: int,
        width: int,
        heads: int,
        output_heads: int,
        num_classes: int,
        generator: torch.Generator,
        drop: Dropout,
    ) -> None:
        super().__init__()
        self.drop = drop
        self.first = AdditiveLayer(num_features, width, heads, False, generator, drop)
        self.second = AdditiveLayer(heads * width, num_classes, output_heads, True, generator, drop)

    def forward(self, features: Tensor, edges: Tensor, words: Bags | None = None) -> Tensor:
        """Return the logits (N, classes) of all nodes from their features (N, F).

        With `words`, the same rows kept sparse, those are read instead: a zero stays zero when it is dropped.
        """
        if words is None:
            products = self.drop(features) @ self.first.weight
        else:
            products = replace(words, values=self.drop(words.values)).sums(self.first.weight)
        states = nn.functional.elu(self.first(products, edges))
        return self.second(self.drop(states) @ self.second.weight, edges)  # type: ignore[no-any-return]


def _glorot(shape: tuple[int, ...], fans: int, generator: torch.Generator) -> nn.Parameter:
    bound = math.sqrt(6 / fans)
    return nn.Parameter(torch.rand(shape, generator=generator).mul_(2 * bound).sub_(bound))
