"""Training on rows of weights: all seeds of a cell side by side, or one after the other where networks are deeper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.experiments.cell import Model
from dpgraph.methods.assembly import Run, fixed_size_sampler, run_loop, set_up
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.pagerank.prepared import PreparedRows, kept_nodes, longest, public_rows, stacked
from dpgraph.methods.together import train_stack
from dpgraph.models.network import Network
from dpgraph.models.power_iteration import PowerIteration
from dpgraph.models.row_stack import RowStack, SeedRows, with_constant
from dpgraph.models.weighted_rows import PaddedRows, WeightedRows
from dpgraph.preparation.base import expected
from dpgraph.problems.node_classification.exposure import Exposure
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import Draws
from dpgraph.training.checkpoint import Generator
from dpgraph.training.loop import Diverged
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.stacked_rows import StackedRowsStep
from dpgraph.training.steps import PlainStep, PrivateStep


@dataclass(frozen=True)
class Reading:
    """What one seed trains on without privacy: (M, N) rows, the (M,) node ids of their roots, and its batches."""

    rows: sp.csr_matrix
    roots: np.ndarray
    length: int  # nodes that a row and its root may be, the same for all seeds
    draws: Draws

    @classmethod
    def of(cls, job: Job, pagerank: Any) -> Reading:
        graph = job.graph
        chosen, roots = kept_nodes(graph, pagerank, numpy_generator(*job.names("kept nodes")))
        rows = public_rows(graph, pagerank, chosen, roots, numpy_generator(*job.names("random rows")))
        if rows is None:
            raise TypeError(f"release={pagerank.release}: expected rows that need no release, without privacy")
        draws = Draws(fixed_size_sampler(job.cell, len(roots)), numpy_generator(*job.names("batches")))
        return cls(rows, roots, longest(pagerank, len(graph.train_nodes)), draws)


def train_rows(jobs: Sequence[Job], observes: Sequence[Observe], pagerank: Any) -> list[Outcome | Diverged]:
    """Jobs of one cell, private if they are prepared; else mean cross-entropy. Inference is power iteration."""
    if stackable(jobs[0].cell.model):
        return _train_stack(jobs, observes, pagerank)
    outcomes: list[Outcome | Diverged] = []
    for job, observe in zip(jobs, observes, strict=True):
        path = job.checkpoint
        if path is not None and len(jobs) > 1:
            job = replace(job, checkpoint=path.with_name(f"{job.seed}.{path.name}"))
        try:
            outcomes.append(train_alone(job, observe, pagerank))
        except Diverged as error:
            outcomes.append(error)
    return outcomes


def stackable(model: Model) -> bool:
    """Whether gradients are known in closed form: one hidden layer, no dropout."""
    return model.encoder_layers == model.decoder_layers == 1 and not model.dropout


def train_alone(job: Job, observe: Observe, pagerank: Any) -> Outcome:
    """One seed by the engine for any network, with the same draws as in a stack. Raises Diverged."""
    bench = set_up(job)
    step: PlainStep | PrivateStep
    generators: dict[str, Generator]
    if job.prepared is not None:
        prepared = expected(job.prepared, PreparedRows)
        step, roots = prepared.alone(bench.network, bench.optimizer), prepared.rows.roots
        draws = prepared.draws
        generators = {"batches": draws.generator, "noise": prepared.noise.generator}
    else:
        reading = Reading.of(job, pagerank)
        weighted, roots, draws = WeightedRows(reading.rows, reading.roots, job.device), reading.roots, reading.draws
        data = (weighted.trees, bench.features, _labels(job), draws.sampler, draws.generator)
        step = PlainStep(bench.network, bench.optimizer, *data, weighted.logits)
        generators = {"batches": draws.generator}
    notes = {"batches": str(draws.sampler.name), "edge_lists": pagerank.release}
    outcome = run_loop(Run(job, bench, step, generators, notes, inference=_inference(job, pagerank)), observe)
    exposed = exposure(bench.network, bench.features, _labels(job), job.graph.train_nodes, roots)
    return replace(outcome, exposure=exposed)


def _labels(job: Job) -> Tensor:
    """(N,) those that training reads."""
    if job.prepared is not None:
        return job.prepared.data.labels
    return torch.from_numpy(np.array(job.graph.labels, dtype=np.int64)).to(job.device)


def _train_stack(jobs: Sequence[Job], observes: Sequence[Observe], pagerank: Any) -> list[Outcome | Diverged]:
    """Raises nothing for seeds that diverge; each is reported separately."""
    first = jobs[0]
    cell, device, graph = first.cell, first.device, first.graph
    networks = [
        Network(cell.model, graph.num_features, graph.num_classes, torch_generator(*job.names("parameters"))).to(device)
        for job in jobs
    ]
    stack = RowStack(networks, cell.model.activation)
    optimizer = make_optimizer([stack.theta], cell.training, fused=True)
    generators: dict[str, Generator] = {}
    if first.prepared is not None:
        prepared = [expected(job.prepared, PreparedRows) for job in jobs]
        step, roots = stacked(prepared, stack, optimizer), [one.rows.roots for one in prepared]
        for job, one in zip(jobs, prepared, strict=True):
            generators[f"noise {job.seed}"] = one.noise.generator
    else:
        readings = [Reading.of(job, pagerank) for job in jobs]
        step, roots = _plain_stack(first, readings, stack, optimizer), [one.roots for one in readings]
    for job, draws in zip(jobs, step.draws, strict=True):
        generators[f"batches {job.seed}"] = draws.generator
    inference = _inference(first, pagerank)
    # cloned: the bits of a dense product depend on its factors' alignment, which NumPy leaves to chance
    features = torch.from_numpy(np.array(graph.features, dtype=np.float32)).clone().to(device)
    labels = _labels(first)

    def logits(_: int) -> list[np.ndarray | None]:
        by_seed: list[np.ndarray | None] = [None] * len(jobs)
        for seed in stack.sound:
            by_seed[seed] = inference.logits(stack.write(seed, networks[seed]), features).cpu().numpy()
        return by_seed

    def notes(index: int) -> dict[str, Any]:
        return {"batches": str(step.draws[index].sampler.name), "edge_lists": pagerank.release}

    outcomes = train_stack(jobs, observes, stack, optimizer, step, generators, logits, notes)
    return [
        outcome
        if isinstance(outcome, Diverged)
        else replace(outcome, exposure=exposure(network, features, labels, graph.train_nodes, mine))
        for outcome, network, mine in zip(outcomes, networks, roots, strict=True)
    ]


def _plain_stack(
    job: Job, readings: Sequence[Reading], stack: RowStack, optimizer: torch.optim.Optimizer
) -> StackedRowsStep:
    """Without privacy, for all seeds."""
    records, labels = np.array(job.graph.features, dtype=np.float32), np.asarray(job.graph.labels)
    with_one = with_constant(records, job.device)
    rows = [
        SeedRows(PaddedRows.of(one.rows, one.roots, one.length), with_one, records, labels, job.device)
        for one in readings
    ]
    return StackedRowsStep(stack, optimizer, rows, [one.draws for one in readings])


def _inference(job: Job, pagerank: Any) -> PowerIteration:
    return PowerIteration(job.graph, pagerank.inference_steps, pagerank.teleport, job.device)


@torch.no_grad()
def exposure(network: Network, features: Tensor, labels: Tensor, candidates: np.ndarray, roots: np.ndarray) -> Exposure:
    """Hidden states of the roots and losses of all training nodes, from each node's own record."""
    network.eval()
    hidden = network.encoder(features[torch.from_numpy(roots)])
    logits = network.decoder(network.encoder(features[torch.from_numpy(candidates)]))
    losses = nn.functional.cross_entropy(
        logits, labels[torch.from_numpy(candidates)], reduction="none", ignore_index=-1
    )
    return Exposure(roots, hidden.float().cpu().numpy(), candidates, losses.float().cpu().numpy())
