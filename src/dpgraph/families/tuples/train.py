"""Training on tuples with negatives, with a prepared step or without."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import entropy, numpy_generator, torch_generator
from dpgraph.engine.methods.assembly import Bench, SeedRun, fixed_size_sampler, on_device, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome, constant_outcome
from dpgraph.engine.methods.request import batch_size
from dpgraph.engine.models.dense import undrawn
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.sampling.batches import Draws, FixedSizeSampler
from dpgraph.engine.training.captured.dispatch import DEVICES
from dpgraph.engine.training.checkpoint import Generator
from dpgraph.engine.training.optimizers import WarmedUpStep, make_optimizer
from dpgraph.engine.training.steps import BatchStep, Step
from dpgraph.families.tuples.captured import program_of
from dpgraph.families.tuples.heads import Head, HeadModel
from dpgraph.families.tuples.mechanism import MLP, why_not_captured
from dpgraph.families.tuples.prepared import PreparedRelations
from dpgraph.families.tuples.sampling import Negatives, TupleBatches, Tuples, capped_tuples, owned_pairs
from dpgraph.families.tuples.steps import PlainRelationStep, TupleLoss, TupleModel
from dpgraph.families.tuples.towers import Tower, TowerModel, perceptron
from dpgraph.privacy.procedure import Lists
from dpgraph.problems.relations.value import Relations


class EntityStates:
    """The inference of a model on tuples: states of all entities, whatever the loop passes."""

    def __init__(self, model: TupleModel) -> None:
        self.model = model

    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        return self.model.states()


def loss_of(training: Any) -> TupleLoss:
    """Return the loss of the cell's training."""
    return TupleLoss(training.temperature)


def trained(job: Job, model: TupleModel, observe: Observe, notes: Mapping[str, Any] | None = None) -> Outcome:
    """Train a model on tuples, with the prepared step if there is one."""
    capturable = job.device.type in DEVICES
    optimizer = make_optimizer(model.network.parameters(), job.cell.training, capturable=capturable)
    features = torch.zeros(0, device=job.device)
    bench = Bench(model.network, optimizer, features, None)
    step: Any
    generators: Mapping[str, Generator]
    noted: Mapping[str, str] = {}
    training, keys = job.cell.training, None
    if job.prepared is None:
        step, generators = plain(job, model, optimizer)
    else:
        prepared = expected(job.prepared, PreparedRelations)
        step, generators, keys = prepared.step(model, optimizer), prepared.generators, prepared.device_keys
    reason = why_not_captured(job.cell)
    if not reason:
        step, noted = on_device(job, step, keys, program_of)
    elif capturable:
        noted = {"step": f"not captured: {reason}"}
    run = SeedRun(job, bench, step, generators, {**(notes or {}), **noted}, inference=EntityStates(model))
    if training.warm_up is not None:
        warm_up = math.ceil(training.warm_up * run.steps)
        run = replace(run, step=WarmedUpStep(step, optimizer, training.learning_rate, run.steps, warm_up))
    return run_loop(run, observe)


def plain(job: Job, model: TupleModel, optimizer: torch.optim.Optimizer) -> tuple[Step, Mapping[str, Generator]]:
    """Return a step on batches of fixed size, of all training tuples or of capped ones, with negatives."""
    batches, negatives = (numpy_generator(*job.names(role)) for role in ("batches", "negatives"))
    cap = job.cell.training.max_degree
    pairs = owned_pairs(job.graph)
    tuples = Tuples(pairs, Lists.UNBOUNDED, len(pairs))
    if cap is not None:
        tuples = capped_tuples(job.graph, cap, entropy(*job.names("edge lists")) % 2**63)
    draws = Draws(FixedSizeSampler(len(tuples), batch_size(job.cell.training, len(tuples))), batches)
    drawn = TupleBatches(
        tuples, draws, Negatives(np.arange(job.shown.num_private), job.cell.training.negatives, negatives)
    )
    return PlainRelationStep(model, optimizer, drawn, job.device), {"batches": batches, "negatives": negatives}


class RelationHead:
    """A head on the entities' vectors of norm 1, which a public encoder or their features give."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        vectors = nn.functional.normalize(torch.from_numpy(np.array(job.shown.features)), dim=1).to(job.device)
        head = Head(job.cell.model.head, vectors.shape[1]).to(job.device)
        return trained(job, HeadModel(head, vectors, loss_of(job.cell.training)), observe)


class RelationEncoder:
    """The encoder of the entities: one tower for heads, tails and negatives."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        encoder = tower(job)
        return trained(job, TowerModel(encoder, loss_of(job.cell.training)), observe, encoder.counted)


class BaseEncoder:
    """The encoder before its first step, without a head: what fine-tuning starts from."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Return the states before training."""
        return constant_outcome(job, observe, TowerModel(tower(job), TupleLoss()).states().cpu().numpy())


def tower(job: Job) -> Tower:
    """Return the encoder of a job on its device."""
    return tower_of(job.shown, job.cell.model, torch_generator(*job.names("parameters"))).to(job.device)


def tower_of(shown: Relations, settings: Any, generator: torch.Generator) -> Tower:
    """Return the encoder of the entities' texts, or the perceptron. Raise UserError if a part is missing."""
    if settings.encoder == MLP:
        return perceptron(np.array(shown.features), settings.width, settings.unit_states, generator)
    from dpgraph.families.tuples.text_tower import text_tower

    return text_tower(shown.texts(), settings, generator)


def unit_rows(features: np.ndarray) -> np.ndarray:
    """Scale rows (N, F) to norm 1, in float32; rows of zeros stay."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(norms, np.finfo(np.float32).tiny), dtype=np.float32)


class Cosine:
    """Ranking by the entities' features at norm 1: what a score is worth before any training."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Return the features as states."""
        return constant_outcome(job, observe, unit_rows(np.asarray(job.shown.features)))


class States:
    """The inference of a linear map: states of all entities."""

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        return network(features)  # type: ignore[no-any-return]


class LinearRelation:
    """InfoNCE (Huang et al., Eq. 2): each head of a batch of tuples against all its tails, at a temperature.

    One map for heads and tails, at first a random projection, which keeps inner products in expectation.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        features = torch.from_numpy(unit_rows(np.asarray(job.shown.features))).to(job.device)
        tuples = torch.from_numpy(job.shown.tuples_of("train").astype(np.int64)).to(job.device)
        network = undrawn(nn.Linear, features.shape[1], job.cell.model.width, bias=False)
        with torch.no_grad():
            random = torch_generator(*job.names("parameters"))
            network.weight.normal_(std=job.cell.model.width**-0.5, generator=random)
        network = network.to(job.device)
        capturable = job.device.type in DEVICES
        optimizer = make_optimizer(network.parameters(), job.cell.training, capturable=capturable)
        bench = Bench(network, optimizer, features, None)
        sampler, batches = fixed_size_sampler(job.cell, len(tuples)), numpy_generator(*job.names("batches"))
        temperature = job.cell.training.temperature

        def loss(positions: Tensor) -> Tensor:
            heads, tails = (network(features[ids]) for ids in tuples[positions].T)
            scores = heads @ tails.T / temperature
            return nn.functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))

        step, noted = on_device(job, BatchStep(bench.optimizer, sampler, batches, loss, job.device))
        notes = {"batches": str(sampler.name), **noted}
        return run_loop(SeedRun(job, bench, step, {"batches": batches}, notes, inference=States()), observe)
