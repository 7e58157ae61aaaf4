"""Steps of Kipf's GCN on parts of the training nodes: whose loss, over which edges, clipped and noised how."""

from __future__ import annotations

import math
from types import MethodType
from typing import Any

import numpy as np
import torch

from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork
from dpgraph.engine.preparation.base import Order, PreparedStep, procedure
from dpgraph.engine.sampling.batches import nodes_in_use
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.engine.training.iterates import WatchedNetwork
from dpgraph.families.subgraphs import mechanism as mechanisms
from dpgraph.families.subgraphs import steps
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Loss, NotAsAccounted, Procedure

MASKING = (mechanisms.MaskedSubgraphs, mechanisms.UnclippedSubgraphs, mechanisms.NodeClippedSubgraphs)


class PreparedParts(PreparedStep):
    """Schedule of nodes, clip norm and noise; `source_of` and `privatizer_of` make the parts of a step of them."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, mechanisms.GraphSplits):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over subgraphs")
        graph = order.data.graph
        nodes = nodes_in_use(graph.train_nodes, graph.num_nodes, mechanism.num_roots, order.generator("training share"))
        self.nodes = nodes
        self.schedule: steps.Schedule | None = None
        self.generators: dict[str, Generator] = {}
        if isinstance(mechanism, mechanisms.PoissonSubgraphs):
            generator = order.generator("batches")
            self.schedule = steps.FreshNodes(nodes, mechanism.rate, generator)
            self.generators["batches"] = generator
        elif isinstance(mechanism, mechanisms.CutSubgraphs):
            parts = steps.parts_by_id(nodes, graph.num_nodes, mechanism.num_splits, order.generator("partition"))
            self.schedule = steps.FixedParts(parts, order.names("batches"), Batches.PARTS_BY_ID)
        elif self.masks_the_loss:
            self.schedule = masked_schedule(nodes, mechanism.num_splits, order)
        self.clip_norm = math.inf if isinstance(mechanism, mechanisms.UnclippedSubgraphs) else order.privacy.clip_norm
        self.each_node, self.divisor = isinstance(mechanism, mechanisms.NodeClippedSubgraphs), mechanism.divisor
        self.noise = order.noise(order.noise_std)
        self._source: steps.Source | None = None
        self._privatizer: steps.Privatizer | None = None
        self._watched: WatchedNetwork | None = None

    @property
    def masks_the_loss(self) -> bool:
        """Tell whether messages cross the whole graph."""
        return isinstance(self.mechanism, MASKING)

    def stops(self, watched: WatchedNetwork) -> None:
        """Note what may end the run early; raises NotAsAccounted where the mechanism does not say that it may."""
        if not isinstance(self.mechanism, mechanisms.GraphSplits) or not self.mechanism.stops_early:
            raise NotAsAccounted("the run stops on validation labels, which the mechanism does not state")
        self._watched = watched

    def check(self, resumed_at: int = 0) -> Procedure:
        """Compare what ran with what was accounted for; a run that stopped early counts as many steps as it made."""
        stopped = 0 if self._watched is None else int(self._watched.stopped_at)
        if stopped:
            self.mechanism = self.mechanism.with_steps(stopped)
            resumed_at = min(resumed_at, stopped)
        return super().check(resumed_at)

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, read from the objects that drew, clipped and noised."""
        source, privatizer = self._source, self._privatizer
        if source is None or privatizer is None:
            return procedure(self.mechanism, (), None, 0.0, 0)
        finite = math.isfinite(privatizer.clip_norm)
        clipped = (Clipped.ROOT if privatizer.each_node else Clipped.STEP) if finite else Clipped.NOTHING
        noise = privatizer.noise
        norms = (privatizer.clip_norm,)
        if isinstance(source, steps.NoSource):
            term = ClippedSum(
                loss=Loss.NOTHING, lists=Lists.NONE, batches=Batches.NONE, num_roots=self.mechanism.num_roots,
                clipped=clipped, clip_norms=norms, draws=0,
            )  # fmt: skip
            return procedure(self.mechanism, (term,), noise, privatizer.divisor, resumed_at)
        schedule = source.schedule
        drawn: dict[str, Any] = (
            {"num_roots": len(schedule.candidates), "rate": schedule.rate}
            if isinstance(schedule, steps.FreshNodes)
            else {"num_roots": sum(map(len, schedule.parts)), "num_parts": len(schedule.parts)}
        )
        if privatizer.each_node and isinstance(schedule, steps.FixedParts):
            drawn["batch_size"] = max(map(len, schedule.parts))
        term = ClippedSum(
            lists=lists_of(source, schedule),
            batches=schedule.name,
            **drawn,
            clipped=clipped,
            clip_norms=norms,
            draws=schedule.counts["draws"] + resumed_at,
        )
        return procedure(self.mechanism, (term,), noise, privatizer.divisor, resumed_at)


def masked_schedule(nodes: np.ndarray, num_splits: int, order: Order) -> steps.FixedParts:
    """Return the published schedule: a fixed random partition of the nodes with a loss."""
    parts = [nodes] if num_splits == 1 else steps.equal_parts(nodes, num_splits, order.generator("partition"))
    return steps.FixedParts(parts, order.names("batches"))


def source_of(prepared: PreparedParts, blocks: GraphBlocks) -> steps.Source:
    """Return what the steps read."""
    schedule = prepared.schedule
    present = np.asarray(prepared.data.graph.labels) >= 0
    source: steps.Source
    if schedule is None:
        source = steps.NoSource()
    elif prepared.masks_the_loss:
        source = steps.GraphSource(schedule, steps.BlockCache(blocks.masked).block_of, present)
    else:
        always = isinstance(schedule, steps.FreshNodes) and schedule.rate < 1  # fresh samples do not come back
        source = steps.GraphSource(
            schedule, blocks.induced if always else steps.BlockCache(blocks.induced).block_of, present
        )
    prepared._source = source
    return source


def privatizer_of(prepared: PreparedParts, network: KipfNetwork) -> steps.Privatizer:
    """Return what clips and noises the steps of a network."""
    buffer = torch.zeros_like(network.theta.data)
    clip_norm, each_node = prepared.clip_norm, prepared.each_node
    prepared.trains(network)
    privatizer = steps.Privatizer(clip_norm, prepared.noise, network.size, buffer, each_node, prepared.divisor)
    prepared._privatizer = privatizer
    return privatizer


def lists_of(source: steps.GraphSource, schedule: steps.Schedule) -> Lists:
    """Return over which edges a source builds its blocks."""
    build = source.block
    if isinstance(build, MethodType) and isinstance(build.__self__, steps.BlockCache):
        build = build.__self__.build
    function = build.__func__ if isinstance(build, MethodType) else build
    if function is GraphBlocks.masked:
        return Lists.WHOLE_GRAPH
    if function is not GraphBlocks.induced:
        return Lists.UNBOUNDED
    return Lists.INDUCED if isinstance(schedule, steps.FreshNodes) else Lists.CUT
