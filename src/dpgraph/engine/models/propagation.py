"""States spread over the edges of the whole graph by a normalised adjacency matrix, with gradients.

S = D^-1/2 A D^-1/2, D the degrees of A, with or without an edge of each node to itself; edges count in both directions.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.core.errors import invalid
from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.data.graph import Graph
from dpgraph.engine.models.sparse import Csr, SparseMatrix


class Spreading:
    """S of a graph on a device. Memory is linear in its edges."""

    def __init__(self, graph: Graph, device: torch.device, own_edges: bool) -> None:
        """`own_edges`: with an edge of each node to itself; without, a node that has no neighbour receives zeros."""
        adjacency = undirected_adjacency(graph).astype(np.float64)
        if own_edges:
            adjacency = sp.csr_matrix(adjacency + sp.eye_array(graph.num_nodes))
        weights = 1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1.0))
        scaled = sp.csr_matrix(sp.diags_array(weights) @ adjacency @ sp.diags_array(weights))
        self.matrix = SparseMatrix.of(Csr.of(scaled), device, symmetric=True)

    def once(self, rows: Tensor) -> Tensor:
        """(N, d) -> S rows."""
        return _Product.apply(rows, self.matrix)  # type: ignore[no-any-return]

    def repeated(self, rows: Tensor, steps: int, teleport: float) -> Tensor:
        """`steps` times Q <- (1 - alpha) S Q + alpha rows, alpha = `teleport`, from Q = rows.

        Raises UserError for steps < 0 and for a teleport outside [0, 1].
        """
        if steps < 0:
            raise invalid("steps", steps, "an integer >= 0")
        if not 0 <= teleport <= 1:
            raise invalid("teleport", teleport, "a number in [0, 1]")
        spread = rows
        for _ in range(steps):
            spread = (1 - teleport) * self.once(spread) + teleport * rows
        return spread


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, rows: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix  # type: ignore[attr-defined]
        return matrix.times(rows.contiguous())

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transposed_times(gradients[0].contiguous()), None  # type: ignore[attr-defined]
