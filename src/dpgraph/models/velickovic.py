"""Graph attention as Velickovic et al. (2018) have it: additive scores, dropout of inputs and of attention weights.

Own code because masks come from a named generator and PyTorch Geometric's GATConv draws them from the global one; tests
compare with GATConv. Nothing private trains this network: `models.gat` is the one that the clipped engine knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.data.graph import Graph
from dpgraph.models.dropout import Dropout
from dpgraph.models.inference import closed_segments, neighbourhood
from dpgraph.models.segments import Segments
from dpgraph.models.sparse import Affine, SparseMatrix, sparse_rows

SLOPE = 0.2  # of LeakyReLU for scores below 0 (section 2.1)


class AdditiveAttention(nn.Module):
    """(n, H, d) rows W h -> (n, H, d): sum_j alpha_uj W h_j over j in {u} and E_u (Eq. 1 to 4).

    alpha_u is the softmax over j of LeakyReLU(a . [W h_u, W h_j]), each head with its own a.
    """

    def __init__(self, heads: int, width: int, drop: Dropout, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.own, self.other = (nn.Parameter(_glorot(heads, width, generator, dtype)) for _ in range(2))
        self.drop = drop

    def forward(self, rows: Tensor, segments: Segments) -> Tensor:
        owners, read = segments.owners, segments.entries
        scores = (rows * self.own).sum(2)[owners] + (rows * self.other).sum(2)[read]
        weights = self.drop(_softmax(nn.functional.leaky_relu(scores, SLOPE), segments))
        return torch.zeros_like(rows).index_add(0, owners, weights.unsqueeze(2) * rows[read])


class VelickovicGat(nn.Module):
    """Logits = mean of heads of attention over W2 ELU(concatenated heads of attention over W1 x + b1), + b2.

    Dropout of one rate acts on the inputs of both layers and on all attention weights. Weights are Glorot's.
    """

    def __init__(
        self,
        model: Any,
        num_features: int,
        num_classes: int,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        masks: torch.Generator | None = None,
    ) -> None:
        """model: its `width`, `heads`, `output_heads` and `dropout`; `masks` is on the device of the features."""
        super().__init__()
        self.drop = drop = Dropout(model.dropout, masks)
        self.shapes = (model.heads, model.width), (model.output_heads, num_classes)
        hidden = model.heads * model.width
        self.first = nn.Parameter(_glorot(hidden, num_features, generator, dtype))
        self.first_attention = AdditiveAttention(*self.shapes[0], drop, generator, dtype)
        self.first_bias = nn.Parameter(torch.zeros(hidden, dtype=dtype))
        self.second = nn.Parameter(_glorot(model.output_heads * num_classes, hidden, generator, dtype))
        self.second_attention = AdditiveAttention(*self.shapes[1], drop, generator, dtype)
        self.second_bias = nn.Parameter(torch.zeros(num_classes, dtype=dtype))

    def forward(self, records: DroppedRecords, segments: Segments) -> Tensor:
        """(n, F) records of the nodes of closed lists -> (n, classes)."""
        rows = records.times(self.first, self.drop).unflatten(1, self.shapes[0])
        hidden = nn.functional.elu(self.first_attention(rows, segments).flatten(1) + self.first_bias)
        rows = nn.functional.linear(self.drop(hidden), self.second).unflatten(1, self.shapes[1])
        return self.second_attention(rows, segments).mean(1) + self.second_bias  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DroppedRecords:
    """Constant (n, F) records; sparse ones are multiplied, and dropped, entry by entry: dropping a 0 does nothing."""

    rows: Tensor

    def times(self, weight: Tensor, drop: Dropout) -> Tensor:
        """(k, F) -> (n, k): records with dropout times the transposed weight."""
        if self._sparse is None:
            return nn.functional.linear(drop(self.rows), weight)
        matrix, places = self._sparse
        values = drop(matrix.rows.values)
        dropped = SparseMatrix(
            replace(matrix.rows, values=values), replace(matrix.columns, values=values.index_select(0, places))
        )
        return Affine.apply(dropped, weight, weight.new_zeros(len(weight)))  # type: ignore[no-any-return]

    @cached_property
    def _sparse(self) -> tuple[SparseMatrix, Tensor] | None:
        """The matrix, and for each entry of its transpose its place among the entries of the rows."""
        rows = sparse_rows(self.rows)
        if rows is None:
            return None
        numbered = sp.csr_matrix((np.arange(len(rows.columns)), rows.columns, rows.ptr), (len(self.rows), rows.width))
        return SparseMatrix.of(rows, self.rows.device), torch.from_numpy(numbered.tocsc().data)


class NodesInReach:
    """Some nodes of a graph, with all that their logits depend on: the nodes within two hops."""

    def __init__(self, graph: Graph, features: Tensor, nodes: np.ndarray | None = None) -> None:
        """`features` (N, F) of all nodes; `nodes` are ids, each once. None: all of them."""
        part, device = graph, features.device
        self.chosen: Tensor | None = None
        if nodes is not None:
            rows, part = neighbourhood(graph, nodes, hops=2)
            self.chosen = torch.from_numpy(np.searchsorted(rows, nodes)).to(device)
            features = features[torch.from_numpy(rows).to(device)]
        self.segments = closed_segments(part, slice(0, part.num_nodes), device)
        self.records = DroppedRecords(features)

    def __call__(self, network: nn.Module) -> Tensor:
        """(n, classes) logits of the nodes; with dropout in training."""
        logits = network(self.records, self.segments)
        return logits if self.chosen is None else logits[self.chosen]  # type: ignore[no-any-return]

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor | None = None) -> Tensor:
        """As predictions: without dropout, on the features that it was made with."""
        mode = network.training
        network.eval()
        try:
            return self(network)
        finally:
            network.train(mode)


def _glorot(rows: int, columns: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Drawn on the CPU in float32, so that devices and types agree."""
    return nn.init.xavier_uniform_(torch.empty(rows, columns), generator=generator).to(dtype)


def _softmax(scores: Tensor, segments: Segments) -> Tensor:
    """(m, H) over the entries of each segment; no segment is empty, since each has its own node."""
    top = torch.segment_reduce(scores.detach(), "max", lengths=segments.ptr.diff().long(), unsafe=True)
    grown = (scores - top[segments.owners]).exp()
    total = torch.zeros_like(top).index_add(0, segments.owners, grown)
    return grown / total[segments.owners]
