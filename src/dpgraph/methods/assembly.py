"""The parts that the methods share: a network with its data on a device, and the loop around a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import Job, Observation, Observe, Outcome
from dpgraph.models.inference import FullGraph, Inference
from dpgraph.models.network import Network
from dpgraph.privacy.mechanisms import Mechanism
from dpgraph.randomness import entropy, numpy_generator, torch_generator
from dpgraph.sampling.batches import FixedSizeSampler
from dpgraph.sampling.edge_lists import empty_edge_lists, stable_edge_lists
from dpgraph.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.training.checkpoint import Checkpoint, Generator
from dpgraph.training.loop import train
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.steps import ClippedTerm, PrivateStep, Step


@dataclass(frozen=True)
class Bench:
    """Network, optimiser, data and random streams of one seed."""

    network: Network
    optimizer: torch.optim.Optimizer
    features: torch.Tensor  # (N, F)
    labels: torch.Tensor  # (N,)
    batches: np.random.Generator
    noise: torch.Generator
    masks: torch.Generator | None  # of dropout; None: the model has none

    @property
    def generators(self) -> dict[str, Generator]:
        """All that a step draws from: a checkpoint keeps their states."""
        dropout: dict[str, Generator] = {} if self.masks is None else {"masks": self.masks}
        return {"batches": self.batches, "noise": self.noise, **dropout}


def set_up(job: Job) -> Bench:
    """Same initial parameters and batches for every method that agrees in model and sampler: seeds are paired."""
    masks = torch_generator(*job.names("masks"), device=job.device) if job.cell.model.dropout else None
    network = Network(
        job.cell.model,
        job.graph.num_features,
        job.graph.num_classes,
        torch_generator(*job.names("parameters")),
        masks=masks,
    ).to(job.device)
    return Bench(
        network=network,
        optimizer=make_optimizer(network.parameters(), job.cell.training),
        features=torch.from_numpy(np.array(job.graph.features, dtype=np.float32)).to(job.device),
        labels=torch.from_numpy(np.array(job.graph.labels, dtype=np.int64)).to(job.device),
        batches=numpy_generator(*job.names("batches")),
        noise=torch_generator(*job.names("noise"), device=job.device),
        masks=masks,
    )


def fixed_size_sampler(cell: Cell, num_roots: int) -> FixedSizeSampler:
    """m as the cell gives it, or q N rounded."""
    training = cell.training
    size = training.batch_size or max(1, round((training.sampling_rate or 0) * num_roots))
    return FixedSizeSampler(num_roots, size)


def stable_trees(job: Job, hops: int, max_degree: int | None, list_cap: int | None) -> tuple[EgoTrees, str]:
    """Trees of the training nodes over the lists of the stable sampler (none without hops), and the sampler's name."""
    roots = job.graph.train_nodes
    if max_degree is None or list_cap is None:
        return pack_ego_trees(empty_edge_lists(job.graph), roots, hops, job.device), "none"
    key = entropy(*job.names("edge lists")) % 2**63  # public: it depends on names only
    lists = stable_edge_lists(job.graph, roots, max_degree, list_cap, key)
    return pack_ego_trees(lists, roots, hops, job.device), "stable"


def private_step(bench: Bench, terms: list[ClippedTerm], std: float | list[float], divisor: float) -> PrivateStep:
    return PrivateStep(
        bench.network,
        bench.optimizer,
        bench.features,
        bench.labels,
        terms,
        std,
        divisor,
        bench.batches,
        bench.noise,
    )


def noise_over_clip(mechanism: Mechanism) -> float:
    """Noise std over clip norm, the one that the accountant used."""
    value = mechanism.noise_std_over_clip
    if value is None:
        raise invalid("noise_multiplier", None, "a number > 0: calibrate the cell first")
    return value


class Named(Protocol):
    """Where batches come from, as the statement's `batches` calls it."""

    @property
    def name(self) -> str: ...


def run_loop(
    job: Job,
    bench: Bench,
    step: Step,
    observe: Observe,
    sampler: Named,
    last: Callable[[FullGraph], FullGraph] | None = None,
    inference: Inference | None = None,
    **notes: Any,
) -> Outcome:
    """T steps with evaluations on the whole graph, whose neighbourhoods inference reads uncut.

    `inference` may be another one than message passing, and `last` put another one in its place after the last step.
    """
    steps = job.mechanism.steps
    if steps is None:
        raise TypeError("the mechanism's steps are open: calibrate it first")
    usual = inference or FullGraph(job.graph, job.device, own_weight=job.cell.model.inference_own_weight)
    logits = np.zeros(0)

    def seen(done: int, network: Network) -> Observation:
        nonlocal logits
        chosen = last(usual) if last is not None and isinstance(usual, FullGraph) and done == steps else usual
        logits = chosen.logits(network, bench.features).cpu().numpy()
        return observe(done, logits)

    record = train(
        f"{job.cell.slug} seed {job.seed}",
        bench.network,
        bench.optimizer,
        step,
        steps,
        seen,
        job.cell.training.evaluation_steps(steps),
        bench.generators,
        None if job.checkpoint is None else Checkpoint(job.checkpoint, f"{job.cell.identity} {job.seed}"),
    )
    return Outcome(
        logits=logits,
        observations=record.rows,
        statement=job.calibration.statement,
        steps_per_second=record.steps_per_second,
        roots_per_second=record.roots_per_second,
        peak_memory_bytes=record.peak_memory_bytes,
        notes={"batches": sampler.name, "device": record.device, "resumed_at": record.resumed_at, **notes},
    )
