"""Kipf and Welling's GCN on parts of a graph, without privacy or private (Igamberdiev and Habernal, 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import VALIDATION
from dpgraph.engine.methods.assembly import Bench, SeedRun, run_loop, used_nodes
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.kipf import GraphBlocks, KipfBlock, KipfNetwork
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.captured.dispatch import DEVICES
from dpgraph.engine.training.captured.replay import Replay
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.engine.training.iterates import StoppingStep, WatchedNetwork
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.subgraphs import steps
from dpgraph.families.subgraphs.prepared import PreparedParts, privatizer_of, source_of


class KipfGcn:
    """Kipf and Welling's two-layer GCN without privacy, on the whole graph or on parts of its loss."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        return run_loop(prepared_run(job), observe)


class DpSubgraph(KipfGcn):
    """DP-SGD or DP-Adam on subgraphs; the variant states which subgraph a step reads and what is clipped.

    `rigorous`: a fresh Poisson sample of training nodes and the edges among them. `cut`: fixed parts of the training
    nodes by id, without the edges between parts. Both train on training nodes with a loss only. `published`: fixed
    parts mask the loss, messages cross the whole graph, nodes outside of training included. `released`: the same
    without clipping, as the authors' code runs. In these the clipped vector is the gradient of the mean loss. Its
    divisor, the number of nodes that the step reads, is inside of it.

    `per-node`: Eq. 5 with a node for x_i. Parts are as in `published`; the gradient of the loss of each of their nodes
    is clipped, the noisy sum divided by L = N / s.

    With `patience` these three stop on validation nodes; no budget pays for it, so no epsilon is proved.
    """


class DpPureNoise(DpSubgraph):
    """A control: the updates of dp-subgraph with the gradient set to zero, so that a run learns noise alone.

    The variants are `published` and `per-node`, whose noise is divided by L.
    """


@dataclass(frozen=True)
class WholeGraph:
    """Inference on all nodes and edges."""

    block: KipfBlock

    def logits(self, network: Any, features: Tensor) -> Tensor:
        """Return the (N, classes) logits of a `KipfNetwork`; the block has the features."""
        logits: Tensor = network.logits(self.block)
        return logits


def prepared_run(job: Job) -> SeedRun:
    """Return the run of a job, private if the job is."""
    cell, device = job.cell, job.device
    prepared = None if job.prepared is None else expected(job.prepared, PreparedParts)
    graph = job.graph if prepared is None else prepared.data.graph
    used = used_nodes(job) if prepared is None else prepared.nodes
    # a share of the training nodes is the training graph: the others send no messages
    blocks = GraphBlocks(graph, device, np.setdiff1d(graph.train_nodes, used))
    initial = torch_generator(*job.names("parameters"))
    network = KipfNetwork(job.graph.num_features, cell.model.width, job.graph.num_classes, initial, device)
    optimizer = make_optimizer(
        [network.theta], cell.training, fused=True, weight_decay=getattr(cell.training, "weight_decay", 0.0),
        capturable=device.type in DEVICES,
    )  # fmt: skip
    masks = job.masks("dropout")
    source: steps.Source
    generators: dict[str, Generator] = {}
    notes: Mapping[str, Any] = {}
    if prepared is None:
        source, privatizer, notes = plain_source(job, used, blocks), None, {"batches": "fixed parts of the loss"}
    else:
        source, privatizer = source_of(prepared, blocks), privatizer_of(prepared, network)
        generators = {"noise": prepared.noise.generator, **prepared.generators}
    step = steps.KipfStep(network, optimizer, source, cell.model.dropout, masks, privatizer)
    if device.type in DEVICES:
        fresh = isinstance(source, steps.GraphSource) and isinstance(source.schedule, steps.FreshNodes)
        if not fresh:
            step.replay = Replay(device, [masks, *([] if privatizer is None else [privatizer.noise.generator])])
        notes = {**notes, "step": "not captured: each step reads a part of its own" if fresh else "captured"}
    bench = Bench(network, optimizer, network.theta.new_empty(0), masks)
    run = SeedRun(job, bench, step, generators, notes, inference=WholeGraph(blocks.whole()))
    return _stopping(run, graph, blocks, prepared)


def plain_source(job: Job, nodes: np.ndarray, blocks: GraphBlocks) -> steps.GraphSource:
    """Return a fixed random partition, without privacy: it masks the loss, messages cross the whole graph."""
    count = job.cell.training.num_splits
    if count > len(nodes):
        raise invalid("num_splits", count, f"an integer from 1 to the {len(nodes)} training nodes with a loss")
    parts = [nodes] if count == 1 else steps.equal_parts(nodes, count, numpy_generator(*job.names("partition")))
    return steps.GraphSource(steps.FixedParts(parts, job.names("batches")), steps.BlockCache(blocks.masked).block_of)


def _stopping(run: SeedRun, graph: Graph, blocks: GraphBlocks, prepared: PreparedParts | None) -> SeedRun:
    """Return the run with early stopping, if its cell has any: the last parameters count, not the best."""
    job, network = run.job, run.bench.network
    patience = getattr(job.cell.training, "patience", None)
    if patience is None:
        return run
    nodes = np.flatnonzero((graph.split == VALIDATION) & (np.asarray(graph.labels) >= 0))
    if not len(nodes):
        raise invalid("patience", patience, "null: the split has no validation nodes")
    validation, watched = blocks.masked(nodes), WatchedNetwork(network, None)
    if prepared is not None:
        prepared.stops(watched)

    def scores() -> tuple[float, float]:
        return -float(network.loss(validation)), 0.0

    step = StoppingStep(run.step, watched, scores, patience, job.cell.training.num_splits)
    return replace(run, step=step, watched=watched)
