"""States or logits spread over the edges of the whole graph; edges count in both directions.

`Spreading` multiplies with S = D^-1/2 A D^-1/2, D the degrees of A, with or without an edge of each node to itself, and
has gradients. `PowerIteration` is an inference with D^-1 A.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.core.errors import invalid
from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.data.graph import Graph
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.segments import reduce
from dpgraph.engine.models.sparse import Csr, SparseMatrix


class Spreading:
    """The matrix S of a graph on a device. Memory is linear in its edges."""

    def __init__(self, graph: Graph, device: torch.device, own_edges: bool) -> None:
        """Make S with an edge of each node to itself, or without: then a node without neighbours receives zeros."""
        adjacency = undirected_adjacency(graph).astype(np.float64)
        if own_edges:
            adjacency = sp.csr_matrix(adjacency + sp.eye_array(graph.num_nodes))
        weights = 1 / np.sqrt(np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1.0))
        scaled = sp.csr_matrix(sp.diags_array(weights) @ adjacency @ sp.diags_array(weights))
        self.matrix = SparseMatrix.from_csr(Csr.from_scipy(scaled), device, symmetric=True)

    def once(self, rows: Tensor) -> Tensor:
        """Return S rows, (N, d)."""
        return _Product.apply(rows, self.matrix)  # type: ignore[no-any-return]

    def repeated(self, rows: Tensor, steps: int, teleport: float) -> Tensor:
        """Return `steps` times Q <- (1 - alpha) S Q + alpha rows, alpha = `teleport`, from Q = rows.

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


class PowerIteration:
    """Inference Q^(0) = H, Q^(p) = (1 - alpha) D^-1 A Q^(p-1) + alpha H, with logits Q^(P) (Zhang 2021, Eq. 5.19).

    H are the network's logits of each node's own record, P = `steps`, alpha = `teleport`. A node without neighbours
    keeps its H. The thesis' graph of test nodes alone is the setting `disjoint`. Like `FullGraph`, it gives no
    guarantee of its own.
    """

    def __init__(self, graph: Graph, steps: int, teleport: float, device: str | torch.device = "cpu") -> None:
        """Raise UserError for steps < 0 and for a teleport outside (0, 1]."""
        if steps < 0:
            raise invalid("steps", steps, "an integer >= 0")
        if not 0 < teleport <= 1:
            raise invalid("teleport", teleport, "a number in (0, 1]")
        self.num_nodes, self.steps, self.teleport = graph.num_nodes, steps, teleport
        self.own_records = FullGraph(Graph.without_edges(graph), device)
        adjacency = undirected_adjacency(graph)
        self.neighbours = torch.from_numpy(adjacency.indices).to(device)
        self.ptr = torch.from_numpy(adjacency.indptr).to(device)
        self.isolated = (self.ptr.diff() == 0).unsqueeze(1)

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Return the logits (N, classes). Raise UserError for a network that passes messages."""
        if network.hops:
            raise invalid("hops", network.hops, "0: power iteration spreads the logits of an MLP")
        own = self.own_records.logits(network, features)
        spread = own
        for _ in range(self.steps):
            received = reduce(spread, self.neighbours, self.ptr, "mean")
            spread = torch.where(self.isolated, own, (1 - self.teleport) * received + self.teleport * own)
        return spread
