"""Kipf and Welling's GCN on parts of a graph, all seeds side by side (Igamberdiev and Habernal)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dpgraph.data.records import VALIDATION
from dpgraph.errors import invalid
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.together import train_stack
from dpgraph.methods.used_nodes import used_nodes
from dpgraph.models.kipf import GraphBlocks, KipfStack
from dpgraph.preparation.base import expected
from dpgraph.preparation.parts import PreparedParts, privatizer_of, source_of
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.graph_splits import FixedParts, Schedule, equal_parts
from dpgraph.training.checkpoint import Generator
from dpgraph.training.loop import Diverged
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.stacked import (
    BlockCache,
    EarlyStopping,
    GraphSource,
    SeedStates,
    Source,
    StackedStep,
)


def splits_of(cell: Any, num_used: int) -> int:
    count: int = cell.training.num_splits
    if count > num_used:
        raise invalid("num_splits", count, f"an integer from 1 to the {num_used} training nodes with a loss")
    return count


def plain_source(jobs: Sequence[Job], blocks: GraphBlocks) -> GraphSource:
    """Without privacy: a fixed random partition masks the loss, messages cross the whole graph."""
    schedules: list[Schedule] = []
    for job in jobs:
        nodes = used_nodes(job)
        count = splits_of(job.cell, len(nodes))
        parts = [nodes] if count == 1 else equal_parts(nodes, count, numpy_generator(*job.names("partition")))
        schedules.append(FixedParts(parts, job.names("batches")))
    return GraphSource(schedules, BlockCache(blocks.masked).of)


def run_stack(jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
    """All seeds side by side, private if their jobs are. Raises Diverged only where no seed is left."""
    first = jobs[0]
    cell, device = first.cell, first.device
    prepared = [] if first.prepared is None else [expected(job.prepared, PreparedParts) for job in jobs]
    blocks = GraphBlocks(prepared[0].data.graph if prepared else first.graph, device)
    whole = blocks.whole()
    source: Source = source_of(prepared, blocks) if prepared else plain_source(jobs, blocks)
    initial = [torch_generator(*job.names("parameters")) for job in jobs]
    network = KipfStack(first.graph.num_features, cell.model.width, first.graph.num_classes, initial, device)
    states = SeedStates(network)
    dropout = [torch_generator(*job.names("dropout"), device=device) for job in jobs]
    optimizer = make_optimizer(
        [network.theta], cell.training, fused=True, weight_decay=getattr(cell.training, "weight_decay", 0.0)
    )
    privatizer = privatizer_of(prepared, network.size, torch.zeros_like(network.theta.data)) if prepared else None
    stopping = _early_stopping(first, blocks, states)
    step = StackedStep(states, optimizer, source, cell.model.dropout, dropout, privatizer, stopping)
    generators: dict[str, Generator] = {
        f"dropout {job.seed}": generator for job, generator in zip(jobs, dropout, strict=True)
    }
    for job, one in zip(jobs, prepared):
        generators[f"noise {job.seed}"] = one.noise.generator
        generators |= {f"{name} {job.seed}": generator for name, generator in one.generators.items()}

    def logits(_: int) -> list[np.ndarray | None]:
        sound = [seed for seed, at in enumerate(states.diverged_at.tolist()) if at == 0]
        rows = states.released()
        by_seed: list[np.ndarray | None] = [None] * len(jobs)
        for seed, one in zip(sound, network.logits([rows[seed] for seed in sound], whole), strict=True):
            by_seed[seed] = one.cpu().numpy()
        return by_seed

    def notes(index: int) -> dict[str, Any]:
        stopped_at = int(states.stopped_at[index])
        said = prepared[index].notes() if prepared else {"batches": "fixed parts of the loss"}
        return {**({"stopped_at": stopped_at} if stopped_at else {}), **said}

    return train_stack(jobs, observes, states, optimizer, step, generators, logits, notes)


def _early_stopping(job: Job, blocks: GraphBlocks, states: SeedStates) -> EarlyStopping | None:
    patience = getattr(job.cell.training, "patience", None)
    if patience is None:
        return None
    nodes = np.flatnonzero((job.graph.split == VALIDATION) & (np.asarray(job.graph.labels) >= 0))
    if not len(nodes):
        raise invalid("patience", patience, "null: the split has no validation nodes")
    return EarlyStopping(states, blocks.masked(nodes), patience, job.cell.training.num_splits or 1)
