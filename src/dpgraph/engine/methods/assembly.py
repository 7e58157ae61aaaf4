"""The parts that all methods share: a network with its data on a device, and the loop around a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.records import VALIDATION
from dpgraph.engine.methods.base import Job, Observation, Observe, Outcome, evaluation_steps
from dpgraph.engine.methods.request import batch_size
from dpgraph.engine.models.inference import FullGraph, Predictor
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.batches import FixedSizeSampler, nodes_in_use
from dpgraph.engine.training.captured.dispatch import DEVICES, captured, runs_as_program, why_not_captured
from dpgraph.engine.training.captured.program import CapturedProgram
from dpgraph.engine.training.checkpoint import Checkpoint, Generator
from dpgraph.engine.training.iterates import AveragedNetwork, Scores, StoppingStep, WatchedNetwork, validation_scores
from dpgraph.engine.training.loop import train
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import Step
from dpgraph.privacy.public_numbers import nodes_with_loss


@dataclass(frozen=True)
class Bench:
    """Network, optimiser and features of one seed."""

    network: Any  # of a method on nodes a `Network`
    optimizer: torch.optim.Optimizer
    features: torch.Tensor  # (N, F)
    masks: torch.Generator | None  # of dropout; None: the model has none

    @property
    def all_masks(self) -> tuple[torch.Generator, ...]:
        """The generators of dropout masks."""
        return () if self.masks is None else (self.masks,)

    @property
    def generators(self) -> dict[str, Generator]:
        """The generators that the network draws from; a checkpoint keeps their states."""
        return {} if self.masks is None else {"masks": self.masks}


def on_device(
    job: Job,
    step: Step,
    key: Callable[[], Any] | None = None,
    own: Callable[[Any, Any], CapturedProgram] | None = None,
) -> tuple[Step, dict[str, str]]:
    """Return the step as one program where the job's device has them, else the step itself; and a note.

    Args:
        job: The seed to train.
        step: The step that runs on a CPU.
        key: Opens the streams of the batches of a private step; others draw those of the step.
        own: Makes the program of a family's own step from the step and `key`.

    Returns:
        The step that runs, and for the record `captured`, `captured and compiled`, `compiled` (on a CPU), or why it
        is not captured.
    """
    if not runs_as_program(step, job.device):
        return step, {}
    captures = job.device.type in DEVICES
    if own is None and (reason := why_not_captured(step, captures)):
        return step, {"step": f"not captured: {reason}"}
    program = captured(step, key, captures) if own is None else own(step, key)
    return program, {"step": " and ".join(["captured"] * captures + ["compiled"] * program.is_compiled)}


def set_up(job: Job, build: Callable[[Job, int, torch.Generator | None], Any] | None = None) -> Bench:
    """Return network, optimiser and features of one seed.

    Initial parameters are the same for all methods with the same model, so that methods can be compared seed by seed.

    Args:
        job: The seed to train.
        build: Makes another network than `Network` from the job, F and the generator of dropout masks.

    Returns:
        Network, optimiser, features (N, F) on the job's device, and the generator of masks.
    """
    masks = job.masks() if job.cell.model.dropout else None
    features = features_of(job)
    network = (build or initial_network)(job, features.shape[1], masks)
    return Bench(
        network=network,
        optimizer=make_optimizer(
            network.parameters(),
            job.cell.training,
            weight_decay=getattr(job.cell.training, "weight_decay", 0.0),
            capturable=job.device.type in DEVICES,
        ),
        features=features,
        masks=masks,
    )


def features_of(job: Job) -> torch.Tensor:
    """Return the features (N, F) of the prepared step, or of the data without privacy, on the job's device."""
    if job.prepared is not None:
        return job.prepared.data.features
    return torch.from_numpy(np.array(job.graph.features, dtype=np.float32)).to(job.device)


def initial_network(job: Job, num_features: int, masks: torch.Generator | None = None) -> Network:
    """Return a `Network` whose initial parameters depend on the names of the job's stream only."""
    generator = torch_generator(*job.names("parameters"))
    return Network(job.cell.model, num_features, job.graph.num_classes, generator, masks=masks).to(job.device)


def fixed_size_sampler(cell: Any, num_roots: int) -> FixedSizeSampler:
    """Return a sampler of batches of the cell's size."""
    return FixedSizeSampler(num_roots, batch_size(cell.training, num_roots))


@dataclass(frozen=True)
class RowInference:
    """Inference that classifies each row by itself, `rows` of them at a time."""

    rows: int

    @torch.no_grad()
    def logits(self, network: torch.nn.Module, features: torch.Tensor) -> torch.Tensor:
        return torch.cat([network(part) for part in features.split(self.rows)])


@dataclass(frozen=True)
class SeedRun:
    """A seed that is ready to be trained.

    Inference reads the whole neighbourhoods in the graph. `inference` replaces message passing, and `last` replaces the
    inference after the last step.
    """

    job: Job
    bench: Bench
    step: Step
    generators: Mapping[str, Generator]  # all that the step draws from besides the network
    notes: Mapping[str, Any] = field(default_factory=dict)
    last: Callable[[FullGraph], Predictor] | None = None
    inference: Predictor | None = None
    late_notes: Callable[[], Mapping[str, Any]] | None = None  # known after the last step
    watched: WatchedNetwork | AveragedNetwork | None = (
        None  # the network that is released, of a step that stops early or averages
    )

    @property
    def steps(self) -> int:
        steps = self.job.mechanism.steps
        if steps is None:
            raise TypeError("the mechanism's steps are open: calibrate it first")
        return steps

    @property
    def all_generators(self) -> dict[str, Generator]:
        return {**self.generators, **self.bench.generators}

    def share_of_steps(self, resumed_at: int) -> float:
        """Return which share of the steps after `resumed_at` ran: the steps after an early stop take no time."""
        due = self.steps - resumed_at
        if self.watched is None or not due:
            return 1.0
        return max(int(self.watched.done) - resumed_at, 0) / due

    def whole(self) -> Predictor:
        """Return the usual inference; seeds of one cell may share it."""
        job = self.job
        return self.inference or FullGraph(job.graph, job.device, own_weight=job.cell.model.inference_own_weight)

    def logits(self, usual: Predictor, done: int) -> np.ndarray:
        """Return the logits (N, classes) after `done` steps, by the inference of that step."""
        chosen = usual
        if self.last is not None and isinstance(usual, FullGraph) and done == self.steps:
            chosen = self.last(usual)
        network = self.bench.network if self.watched is None else self.watched.released
        return chosen.logits(network, self.bench.features).cpu().numpy()

    def all_notes(self) -> dict[str, Any]:
        """Return everything that the record notes about this seed."""
        prepared = {} if self.job.prepared is None else self.job.prepared.notes()
        late = self.late_notes() if self.late_notes is not None else {}
        stopped = self.watched.notes() if self.watched is not None else {}
        return {**prepared, **self.notes, **late, **stopped}


class TreeMethod:
    """Private training on ego trees; a method adds its model to a prepared step."""

    def prepare(self, job: Job) -> SeedRun:
        """Return the run of one seed."""
        raise NotImplementedError

    def run(self, job: Job, observe: Observe) -> Outcome:
        return run_loop(self.prepare(job), observe)


def run_loop(run: SeedRun, observe: Observe) -> Outcome:
    """Train one seed for T steps and evaluate it on the whole graph.

    Args:
        run: The seed, with its step and its generators.
        observe: Called with the number of finished steps and the logits (N, classes) at each evaluation point.

    Returns:
        Logits after the last step, the observations, and measurements.

    Raises:
        NotAsAccounted: A checkpoint would not keep a generator that private steps draw from.
    """
    job, bench = run.job, run.bench
    if job.prepared is not None and job.checkpoint is not None:
        job.prepared.check_kept(run.all_generators.values())
    usual = run.whole()
    logits = np.zeros(0)

    def seen(done: int, _: torch.nn.Module) -> Observation:
        nonlocal logits
        logits = run.logits(usual, done)
        return observe(done, logits)

    record = train(
        job.doing or f"{job.cell.slug} seed {job.seed}",
        bench.network if run.watched is None else run.watched,
        bench.optimizer,
        run.step,
        run.steps,
        seen,
        evaluation_steps(job.cell.training.evaluations, run.steps),
        run.all_generators,
        None if job.checkpoint is None else Checkpoint(job.checkpoint, f"{job.cell.identity} {job.seed}"),
    )
    return Outcome(
        logits=logits,
        observations=record.rows,
        steps_per_second=record.steps_per_second * run.share_of_steps(record.resumed_at),
        peak_memory_bytes=record.peak_memory_bytes,
        resumed_at=record.resumed_at,
        notes={"device": record.device, "resumed_at": record.resumed_at, **run.all_notes()},
    )


def used_nodes(job: Job) -> np.ndarray:
    """Return the ids of the training nodes that have a loss, ascending."""
    graph = job.graph
    count = nodes_with_loss(num_train=len(graph.train_nodes), train_share=job.cell.training.train_share)
    return nodes_in_use(graph.train_nodes, graph.num_nodes, count, numpy_generator(*job.names("training share")))


def stopping(run: SeedRun, kept: nn.Module, epoch: int, reader: Callable[[np.ndarray], Predictor]) -> SeedRun:
    """Return the run with early stopping, if the cell has a patience; else the run itself.

    Args:
        run: A run without privacy: its score reads validation labels.
        kept: Another network of the same shape, which keeps the best parameters.
        epoch: Steps between two looks at the validation score.
        reader: Makes the inference that predicts the given nodes.

    Returns:
        A run that releases the parameters with the best score.

    Raises:
        UserError: No validation node has a label.
    """
    job, graph = run.job, run.job.graph
    patience = job.cell.training.patience
    if patience is None:
        return run
    nodes = np.flatnonzero((graph.split == VALIDATION) & (np.asarray(graph.labels) >= 0))
    if not len(nodes):
        raise invalid("patience", patience, "null: the split has no validation nodes")
    labels = torch.from_numpy(np.asarray(graph.labels, dtype=np.int64)[nodes]).to(job.device)
    looked_at = reader(nodes)

    def scores() -> Scores:
        logits = looked_at.logits(run.bench.network, run.bench.features)
        return validation_scores(logits, labels, job.cell.training.stop_on)

    watched = WatchedNetwork(run.bench.network, kept)
    return replace(run, step=StoppingStep(run.step, watched, scores, patience, min(epoch, run.steps)), watched=watched)
