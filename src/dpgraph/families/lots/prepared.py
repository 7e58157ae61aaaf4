"""Steps over shuffled lots: one clipped (or unclipped) mean gradient a lot."""

from __future__ import annotations

import math

import torch

from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import Order, PreparedStep, procedure
from dpgraph.engine.sampling.edge_lists import empty_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.families.lots.mechanism import ShuffledLots, UnclippedLots
from dpgraph.families.lots.steps import LotSchedule, LotStep
from dpgraph.privacy.procedure import Clipped, ClippedSum, Procedure


class PreparedLots(PreparedStep):
    """Lots, clip norm and noise; `step` adds the network."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, ShuffledLots | UnclippedLots):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over shuffled lots")
        graph = order.data.graph
        self.lots = LotSchedule(len(graph.train_nodes), mechanism.batch_size, order.names("lots"))
        self.records = pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, 0, order.device)
        self.clip_norm = order.privacy.clip_norm if isinstance(mechanism, ShuffledLots) else math.inf
        self.noise = order.noise(order.noise_std)
        self._step: LotStep | None = None

    def step(self, network: Network, optimizer: torch.optim.Optimizer) -> LotStep:
        data = self.data
        self.trains(network)
        self._step = LotStep(
            network, optimizer, data.features, data.labels, self.records, self.lots, self.clip_norm, self.noise
        )
        return self._step

    def ran(self, resumed_at: int = 0) -> Procedure:
        step = self._step
        if step is None:
            return procedure(self.mechanism, (), None, 0.0, 0)
        lots, lists = step.lots, step.records.lists
        term = ClippedSum(
            lists=lists.kind,
            max_degree=lists.max_degree,
            list_cap=lists.list_cap,
            batches=lots.name,
            num_roots=lots.num_records,
            batch_size=lots.size,
            clipped=Clipped.STEP if math.isfinite(step.clip_norm) else Clipped.NOTHING,
            clip_norms=(step.clip_norm,),
            draws=lots.counts["draws"] + resumed_at,
        )
        return procedure(self.mechanism, (term,), step.noise, 1.0, resumed_at)
