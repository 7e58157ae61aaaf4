"""Training on rows of weights: all seeds of a cell side by side, or one after the other where networks are deeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.experiments.cell import Model, Pagerank
from dpgraph.methods.assembly import Run, private_step, run_loop, set_up
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.exposure import Exposure
from dpgraph.methods.together import train_stack
from dpgraph.models.network import Network
from dpgraph.models.power_iteration import PowerIteration
from dpgraph.models.row_stack import RowStack, SeedRows, with_constant
from dpgraph.models.weighted_rows import PaddedRows, WeightedRows
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import Sampler
from dpgraph.sampling.ego import EgoBatch
from dpgraph.training.checkpoint import Generator
from dpgraph.training.ghost import Recorder
from dpgraph.training.loop import Diverged
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.stacked_rows import RowPrivatizer, StackedRowsStep
from dpgraph.training.steps import ClippedTerm, PlainStep, PrivateStep


@dataclass(frozen=True)
class NoisySum:
    """How the gradients of a private batch are added up; the noise std is not a multiplier."""

    clip_norm: float
    noise_std: float
    divisor: float  # public


@dataclass(frozen=True)
class Reading:
    """What one seed trains on: (M, N) rows, the (M,) node ids of their roots, and how batches of these are drawn."""

    rows: sp.csr_matrix
    roots: np.ndarray
    length: int  # nodes that a row and its root may be, the same for all seeds
    sampler: Sampler


def train_rows(
    jobs: Sequence[Job],
    observes: Sequence[Observe],
    pagerank: Pagerank,
    reading: Callable[[Job], Reading],
    noisy_sum: NoisySum | None,
) -> list[Outcome | Diverged]:
    """Jobs of one cell; `noisy_sum` None: mean cross-entropy, without privacy. Inference is power iteration."""
    readings = [reading(job) for job in jobs]
    if stackable(jobs[0].cell.model):
        return _train_stack(jobs, observes, pagerank, readings, noisy_sum)
    outcomes: list[Outcome | Diverged] = []
    for job, observe, found in zip(jobs, observes, readings, strict=True):
        path = job.checkpoint
        if path is not None and len(jobs) > 1:
            job = replace(job, checkpoint=path.with_name(f"{job.seed}.{path.name}"))
        try:
            outcomes.append(train_alone(job, observe, pagerank, found, noisy_sum))
        except Diverged as error:
            outcomes.append(error)
    return outcomes


def stackable(model: Model) -> bool:
    """Whether gradients are known in closed form: one hidden layer, no dropout."""
    return model.encoder_layers == model.decoder_layers == 1 and not model.dropout


def train_alone(
    job: Job, observe: Observe, pagerank: Pagerank, reading: Reading, noisy_sum: NoisySum | None
) -> Outcome:
    """One seed by the engine for any network, with the same draws as in a stack. Raises Diverged."""
    bench = set_up(job)
    weighted = WeightedRows(reading.rows, reading.roots, job.device)

    def losses(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
        logits = weighted.logits(network, batch, features, recorder.on(batch))
        return nn.functional.cross_entropy(logits, labels[batch.roots], reduction="none")

    step: PlainStep | PrivateStep
    if noisy_sum is None:
        data = (weighted.trees, bench.features, bench.labels, reading.sampler, bench.batches)
        step = PlainStep(bench.network, bench.optimizer, *data, weighted.logits)
    else:
        term = ClippedTerm(weighted.trees, reading.sampler, noisy_sum.clip_norm, losses)
        step = private_step(bench, [term], noisy_sum.noise_std, noisy_sum.divisor)
    notes = {"edge_lists": pagerank.release}
    run = Run(job, bench, step, reading.sampler, notes, inference=_inference(job, pagerank))
    outcome = run_loop(run, observe)
    exposed = exposure(bench.network, bench.features, bench.labels, job.graph.train_nodes, reading.roots)
    return replace(outcome, exposure=exposed)


def _train_stack(
    jobs: Sequence[Job],
    observes: Sequence[Observe],
    pagerank: Pagerank,
    readings: Sequence[Reading],
    noisy_sum: NoisySum | None,
) -> list[Outcome | Diverged]:
    """Raises nothing for seeds that diverge; each is reported by itself."""
    first = jobs[0]
    cell, device, graph = first.cell, first.device, first.graph
    records, truth = np.array(graph.features, dtype=np.float32), np.array(graph.labels, dtype=np.int64)
    networks = [
        Network(cell.model, graph.num_features, graph.num_classes, torch_generator(*job.names("parameters"))).to(device)
        for job in jobs
    ]
    stack = RowStack(networks, cell.model.activation)
    optimizer = make_optimizer([stack.theta], cell.training, fused=True)
    batches = [numpy_generator(*job.names("batches")) for job in jobs]
    noise = [torch_generator(*job.names("noise"), device=device) for job in jobs]
    with_one = with_constant(records, device)
    step = StackedRowsStep(
        stack,
        optimizer,
        [
            SeedRows(PaddedRows.of(one.rows, one.roots, one.length), with_one, records, truth, device)
            for one in readings
        ],
        readings[0].sampler,
        batches,
        None if noisy_sum is None else RowPrivatizer(stack, **vars(noisy_sum), generators=noise),
    )
    generators: dict[str, Generator] = {}
    for job, of_batches, of_noise in zip(jobs, batches, noise, strict=True):
        generators |= {f"batches {job.seed}": of_batches, f"noise {job.seed}": of_noise}
    inference = _inference(first, pagerank)
    # cloned: the bits of a dense product depend on its factors' alignment, which NumPy leaves to chance
    features, labels = torch.from_numpy(records).clone().to(device), torch.from_numpy(truth).to(device)

    def logits(_: int) -> list[np.ndarray | None]:
        found: list[np.ndarray | None] = [None] * len(jobs)
        for seed in stack.sound:
            found[seed] = inference.logits(stack.write(seed, networks[seed]), features).cpu().numpy()
        return found

    def notes(index: int) -> dict[str, Any]:
        return {"batches": readings[index].sampler.name, "edge_lists": pagerank.release}

    outcomes = train_stack(jobs, observes, stack, optimizer, step, generators, logits, notes)
    return [
        outcome
        if isinstance(outcome, Diverged)
        else replace(outcome, exposure=exposure(network, features, labels, graph.train_nodes, reading.roots))
        for outcome, network, reading in zip(outcomes, networks, readings, strict=True)
    ]


def _inference(job: Job, pagerank: Pagerank) -> PowerIteration:
    return PowerIteration(job.graph, pagerank.inference_steps, pagerank.teleport, job.device)


@torch.no_grad()
def exposure(network: Network, features: Tensor, labels: Tensor, candidates: np.ndarray, roots: np.ndarray) -> Exposure:
    """Hidden states of the roots and losses of all training nodes, from each node's own record."""
    network.eval()
    hidden = network.encoder(features[torch.from_numpy(roots)])
    logits = network.decoder(network.encoder(features[torch.from_numpy(candidates)]))
    losses = nn.functional.cross_entropy(logits, labels[torch.from_numpy(candidates)], reduction="none")
    return Exposure(roots, hidden.float().cpu().numpy(), candidates, losses.float().cpu().numpy())
