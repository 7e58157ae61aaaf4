"""The two-layer graph attention network of Velickovic et al. (2018), on a whole graph, without privacy.

The private networks' attention is by dot products (`models.gat`); this is the literature's, with its dropout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.data.graph import Graph
from dpgraph.engine.models.dropout import Dropout
from dpgraph.engine.models.sparse import Bags

SLOPE = 0.2  # of LeakyReLU below zero


@dataclass(frozen=True)
class ClosedLists:
    """Every node's neighbours, edges taken in both directions, and itself: m entries by the node that reads them."""

    readers: Tensor  # (m,) int64, ascending
    read: Tensor  # (m,)
    num_nodes: int

    @classmethod
    def of(cls, graph: Graph, device: torch.device) -> ClosedLists:
        adjacency = sp.coo_array(undirected_adjacency(graph) + sp.eye_array(graph.num_nodes))
        order = np.lexsort((adjacency.col, adjacency.row))
        readers, read = (
            torch.from_numpy(ids[order].astype(np.int64)).to(device) for ids in (adjacency.row, adjacency.col)
        )
        return cls(readers, read, graph.num_nodes)

    def softmax(self, scores: Tensor) -> Tensor:
        """(m, H) over the entries of each reader."""
        index = self.readers.unsqueeze(1).expand_as(scores)
        top = scores.new_full((self.num_nodes, scores.shape[1]), -torch.inf)
        top = top.scatter_reduce(0, index, scores.detach(), "amax")
        grown = torch.exp(scores - top[self.readers])
        return grown / self.sums(grown)[self.readers]

    def sums(self, rows: Tensor) -> Tensor:
        """(m, ...) -> (N, ...) by reader."""
        return rows.new_zeros(self.num_nodes, *rows.shape[1:]).index_add(0, self.readers, rows)


class AdditiveLayer(nn.Module):
    """h'_u = sum_j alpha_uj W h_j of each head, side by side or their mean, plus b.

    alpha_u is the softmax over j of LeakyReLU(a . [W h_u, W h_j]) (Eq. 3), dropped in training. Weights are Glorot
    uniform, b is zero.
    """

    def __init__(
        self, inputs: int, width: int, heads: int, mean: bool, generator: torch.Generator, drop: Dropout
    ) -> None:
        super().__init__()
        self.heads, self.width, self.mean, self.drop = heads, width, mean, drop
        self.weight = _glorot((inputs, heads * width), inputs + heads * width, generator)
        self.own, self.other = (_glorot((heads, width), 2 * width + 1, generator) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(width if mean else heads * width))

    def forward(self, rows: Tensor, lists: ClosedLists) -> Tensor:
        """(N, inputs) -> (N, H width), or (N, width) where heads are averaged."""
        return self.attend(rows @ self.weight, lists)

    def attend(self, products: Tensor, lists: ClosedLists) -> Tensor:
        """From the products W h (N, H width)."""
        states = products.view(-1, self.heads, self.width)
        own, other = ((states * part).sum(dim=2) for part in (self.own, self.other))
        scores = nn.functional.leaky_relu(own[lists.readers] + other[lists.read], SLOPE)
        weights = self.drop(lists.softmax(scores))
        received = lists.sums(weights.unsqueeze(2) * states[lists.read])
        return (received.mean(dim=1) if self.mean else received.flatten(1)) + self.bias


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

    def forward(self, features: Tensor, lists: ClosedLists, words: Bags | None = None) -> Tensor:
        """(N, F) of all nodes -> (N, classes). With `words`, the same rows kept sparse, they are read instead: what is
        zero stays zero when it is dropped."""
        if words is None:
            products = self.drop(features) @ self.first.weight
        else:
            products = replace(words, values=self.drop(words.values)).sums(self.first.weight)
        states = nn.functional.elu(self.first.attend(products, lists))
        return self.second(self.drop(states), lists)  # type: ignore[no-any-return]


def _glorot(shape: tuple[int, ...], fans: int, generator: torch.Generator) -> nn.Parameter:
    bound = math.sqrt(6 / fans)
    return nn.Parameter(torch.rand(shape, generator=generator).mul_(2 * bound).sub_(bound))
