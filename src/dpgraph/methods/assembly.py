"""The parts that the methods share: a network with its data on a device, and the loop around a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


def set_up(job: Job, beside: Bench | None = None) -> Bench:
    """Same initial parameters and batches for every method that agrees in model and sampler: seeds are paired.

    The data lies on the device once for seeds that are trained `beside` each other.
    """
    masks = torch_generator(*job.names("masks"), device=job.device) if job.cell.model.dropout else None
    network = Network(
        job.cell.model,
        job.graph.num_features,
        job.graph.num_classes,
        torch_generator(*job.names("parameters")),
        masks=masks,
    ).to(job.device)
    if beside is not None:
        features, labels = beside.features, beside.labels
    else:
        features = torch.from_numpy(np.array(job.graph.features, dtype=np.float32)).to(job.device)
        labels = torch.from_numpy(np.array(job.graph.labels, dtype=np.int64)).to(job.device)
    return Bench(
        network=network,
        optimizer=make_optimizer(network.parameters(), job.cell.training),
        features=features,
        labels=labels,
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


@dataclass(frozen=True)
class Run:
    """A seed ready to be trained. Inference reads the neighbourhoods of the whole graph uncut.

    `inference` may be another one than message passing, and `last` put another one in its place after the last step.
    """

    job: Job
    bench: Bench
    step: Step
    sampler: Named
    notes: Mapping[str, Any] = field(default_factory=dict)
    last: Callable[[FullGraph], FullGraph] | None = None
    inference: Inference | None = None
    late_notes: Callable[[], Mapping[str, Any]] | None = None  # known after the last step

    @property
    def steps(self) -> int:
        found = self.job.mechanism.steps
        if found is None:
            raise TypeError("the mechanism's steps are open: calibrate it first")
        return found

    def whole(self) -> Inference:
        """The usual inference; seeds of one cell may share it."""
        job = self.job
        return self.inference or FullGraph(job.graph, job.device, own_weight=job.cell.model.inference_own_weight)

    def logits(self, usual: Inference, done: int) -> np.ndarray:
        """(N, classes) after `done` steps, by the inference that is due then."""
        chosen = usual
        if self.last is not None and isinstance(usual, FullGraph) and done == self.steps:
            chosen = self.last(usual)
        return chosen.logits(self.bench.network, self.bench.features).cpu().numpy()

    def all_notes(self) -> dict[str, Any]:
        late = self.late_notes() if self.late_notes is not None else {}
        return {"batches": self.sampler.name, **self.notes, **late}


def run_loop(run: Run, observe: Observe) -> Outcome:
    """T steps of one seed, with evaluations on the whole graph."""
    job, bench = run.job, run.bench
    usual = run.whole()
    logits = np.zeros(0)

    def seen(done: int, network: Network) -> Observation:
        nonlocal logits
        logits = run.logits(usual, done)
        return observe(done, logits)

    record = train(
        f"{job.cell.slug} seed {job.seed}",
        bench.network,
        bench.optimizer,
        run.step,
        run.steps,
        seen,
        job.cell.training.evaluation_steps(run.steps),
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
        notes={"device": record.device, "resumed_at": record.resumed_at, **run.all_notes()},
    )
