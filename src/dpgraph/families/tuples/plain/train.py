"""Relation prediction from fixed features."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.methods.assembly import Bench, SeedRun, fixed_size_sampler, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome, constant_outcome
from dpgraph.engine.models.dense import undrawn
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import BatchStep


def unit_rows(features: np.ndarray) -> np.ndarray:
    """(N, F) float32 rows of norm 1; rows of zeros stay."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(norms, np.finfo(np.float32).tiny), dtype=np.float32)


class Cosine:
    """States are the entities' features at norm 1: what a score is worth before any training."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        return constant_outcome(job, observe, unit_rows(np.asarray(job.shown.features)))


class States:
    """States of all entities."""

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        return network(features)  # type: ignore[no-any-return]


class LinearRelation:
    """InfoNCE (Huang et al., Eq. 2): each head of a batch of tuples against all its tails, at a temperature.

    One map for heads and tails, at first a random projection, which keeps inner products in expectation.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        features = torch.from_numpy(unit_rows(np.asarray(job.shown.features))).to(job.device)
        tuples = torch.from_numpy(job.shown.tuples_of("train").astype(np.int64)).to(job.device)
        network = undrawn(nn.Linear, features.shape[1], job.cell.model.width, bias=False)
        with torch.no_grad():
            random = torch_generator(*job.names("parameters"))
            network.weight.normal_(std=job.cell.model.width**-0.5, generator=random)
        network = network.to(job.device)
        bench = Bench(network, make_optimizer(network.parameters(), job.cell.training), features, None)
        sampler, batches = fixed_size_sampler(job.cell, len(tuples)), numpy_generator(*job.names("batches"))
        temperature = job.cell.training.temperature

        def loss(positions: Tensor) -> Tensor:
            heads, tails = (network(features[ids]) for ids in tuples[positions].T)
            scores = heads @ tails.T / temperature
            return nn.functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))

        step = BatchStep(bench.optimizer, sampler, batches, loss, job.device)
        notes = {"batches": str(sampler.name)}
        return run_loop(SeedRun(job, bench, step, {"batches": batches}, notes, inference=States()), observe)
