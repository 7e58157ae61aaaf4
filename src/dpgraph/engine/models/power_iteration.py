"""Inference by power iteration: each node's own logits, spread over the graph (Zhang's thesis, 2021, Eq. 5.19)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.errors import invalid
from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.data.graph import Graph
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.segments import reduce


class PowerIteration:
    """Classifies all nodes: Q^(0) = H, Q^(p) = (1 - alpha) D^-1 A Q^(p-1) + alpha H, and the logits are Q^(P).

    H are the network's logits of each node's own record, P = `steps`, alpha = `teleport`; edges count in both
    directions, and a node without neighbours keeps its H. The thesis' graph of test nodes alone is the setting
    `disjoint`. Like `FullGraph`, this gives no guarantee of its own.
    Raises UserError for steps < 0 and for a teleport outside (0, 1].
    """

    def __init__(self, graph: Graph, steps: int, teleport: float, device: str | torch.device = "cpu") -> None:
        if steps < 0:
            raise invalid("steps", steps, "an integer >= 0")
        if not 0 < teleport <= 1:
            raise invalid("teleport", teleport, "a number in (0, 1]")
        self.num_nodes, self.steps, self.teleport = graph.num_nodes, steps, teleport
        nothing = np.zeros_like(graph.out_ptr), np.zeros(0, dtype=np.int32)
        self.own_records = FullGraph(replace(graph, out_ptr=nothing[0], out_idx=nothing[1]), device)
        adjacency = undirected_adjacency(graph)
        self.neighbours = torch.from_numpy(adjacency.indices).to(device)
        self.ptr = torch.from_numpy(adjacency.indptr).to(device)
        self.isolated = (self.ptr.diff() == 0).unsqueeze(1)

    @torch.no_grad()
    def logits(self, network: Network, features: Tensor) -> Tensor:
        """(N, F) features -> (N, classes) logits. Raises UserError for a network that passes messages."""
        if network.hops:
            raise invalid("hops", network.hops, "0: power iteration spreads the logits of an MLP")
        own = self.own_records.logits(network, features)
        spread = own
        for _ in range(self.steps):
            received = reduce(spread, self.neighbours, self.ptr, "mean")
            spread = torch.where(self.isolated, own, (1 - self.teleport) * received + self.teleport * own)
        return spread
