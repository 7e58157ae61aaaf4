"""Kipf and Welling's GCN without privacy, and what its private siblings share with it (Igamberdiev and Habernal)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dpgraph.data.graph import VALIDATION
from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.methods.together import only, train_stack
from dpgraph.models.kipf import GraphBlocks, KipfStack
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.graph_splits import FixedParts, Schedule, equal_parts, nodes_in_use
from dpgraph.training.checkpoint import Generator
from dpgraph.training.loop import Diverged
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.stacked import (
    BlockCache,
    EarlyStopping,
    GraphSource,
    Privatizer,
    SeedStates,
    Source,
    StackedStep,
)


@dataclass(frozen=True)
class SplitRun:
    """What the methods on graph splits differ in. `generators` are all that `source` draws from, by name."""

    source: Source
    generators: dict[str, Generator]
    notes: dict[str, Any]


Prepare = Callable[[Sequence[Job], GraphBlocks], SplitRun]


class KipfGcn:
    """Kipf and Welling's two-layer GCN without privacy, on the whole graph or on parts of its loss."""

    private = False

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return run_stack(jobs, observes, masked_parts)


def used_nodes(job: Job) -> np.ndarray:
    """Training nodes that have a loss, ascending."""
    graph, share = job.graph, job.cell.training.train_share
    generator = numpy_generator(*job.names("training share"))
    return nodes_in_use(graph.train_nodes, graph.num_nodes, share, generator)


def splits_of(cell: Cell, num_used: int) -> int:
    found = cell.training.num_splits
    if found is None or found > num_used:
        raise invalid("num_splits", found, f"an integer from 1 to the {num_used} training nodes with a loss")
    return found


def masked_parts(jobs: Sequence[Job], blocks: GraphBlocks) -> SplitRun:
    """As published: a fixed random partition masks the loss, messages cross the whole graph."""
    schedules: list[Schedule] = []
    for job in jobs:
        nodes = used_nodes(job)
        count = splits_of(job.cell, len(nodes))
        parts = [nodes] if count == 1 else equal_parts(nodes, count, numpy_generator(*job.names("partition")))
        schedules.append(FixedParts(parts, job.names("batches")))
    source = GraphSource(schedules, BlockCache(blocks.masked).of)
    return SplitRun(source, {}, {"batches": schedules[0].name, "edge_lists": "none"})


def run_stack(
    jobs: Sequence[Job],
    observes: Sequence[Observe],
    prepare: Prepare,
    clip_norm: float | None = None,
    noise_std: float = 0.0,
) -> list[Outcome | Diverged]:
    """All seeds side by side. Raises Diverged only where no seed is left."""
    first = jobs[0]
    cell, device = first.cell, first.device
    seeds = [job.seed for job in jobs]
    blocks = GraphBlocks(first.graph, device)
    whole = blocks.whole()
    run = prepare(jobs, blocks)
    initial = [torch_generator(*job.names("parameters")) for job in jobs]
    network = KipfStack(first.graph.num_features, cell.model.width, first.graph.num_classes, initial, device)
    states = SeedStates(network)
    noise = [torch_generator(*job.names("noise"), device=device) for job in jobs]
    dropout = [torch_generator(*job.names("dropout"), device=device) for job in jobs]
    scratch = torch.zeros_like(network.theta.data)
    optimizer = make_optimizer([network.theta], cell.training, fused=True)
    step = StackedStep(
        states,
        optimizer,
        run.source,
        cell.model.dropout,
        dropout,
        None if clip_norm is None else Privatizer(clip_norm, noise_std, network.size, noise, scratch),
        _early_stopping(first, blocks, states),
    )
    generators: dict[str, Generator] = dict(run.generators)
    generators |= {f"noise {seed}": generator for seed, generator in zip(seeds, noise, strict=True)}
    generators |= {f"dropout {seed}": generator for seed, generator in zip(seeds, dropout, strict=True)}

    def logits(_: int) -> list[np.ndarray | None]:
        sound = [seed for seed, at in enumerate(states.diverged_at.tolist()) if at == 0]
        rows = states.released()
        found: list[np.ndarray | None] = [None] * len(jobs)
        for seed, one in zip(sound, network.logits([rows[seed] for seed in sound], whole), strict=True):
            found[seed] = one.cpu().numpy()
        return found

    def notes(index: int) -> dict[str, Any]:
        stopped_at = int(states.stopped_at[index])
        return {**({"stopped_at": stopped_at} if stopped_at else {}), **run.notes}

    return train_stack(jobs, observes, states, optimizer, step, generators, logits, notes)


def _early_stopping(job: Job, blocks: GraphBlocks, states: SeedStates) -> EarlyStopping | None:
    patience = job.cell.training.patience
    if patience is None:
        return None
    nodes = np.flatnonzero((job.graph.split == VALIDATION) & (np.asarray(job.graph.labels) >= 0))
    if not len(nodes):
        raise invalid("patience", patience, "null: the split has no validation nodes")
    return EarlyStopping(states, blocks.masked(nodes), patience, job.cell.training.num_splits or 1)


METHODS: dict[str, Method] = {"kipf-gcn": KipfGcn()}
