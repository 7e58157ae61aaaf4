"""DP-SGD over lots of independent records: the MNIST baseline of Igamberdiev and Habernal, App. F."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Privacy
from dpgraph.methods.assembly import Bench, Run, noise_over_clip, private_step, run_loop, set_up, stable_trees
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.privacy.mechanisms import PoissonLots, ShuffledLots, UnclippedLots
from dpgraph.randomness import Name, numpy_generator
from dpgraph.sampling.batches import PoissonSampler
from dpgraph.sampling.ego import EgoTrees
from dpgraph.training.noise import add_gaussian_noise
from dpgraph.training.optimizers import apply_gradient
from dpgraph.training.steps import ClippedTerm


class DpLots:
    """DP-SGD of an MLP on records without neighbours, in lots; the cell's variant says what is clipped.

    `rigorous`: Poisson lots, the gradient of each record clipped to C, sums divided by q N (Abadi et al., Algorithm 1).
    `published`: what the paper's released code is meant to do: disjoint lots of a shuffle, the mean gradient of a lot
    clipped to C as one vector, noise of std C noise_multiplier on that mean, not divided by the lot size. `released`:
    the same without clipping, which is what that code does.
    """

    private = True

    def run(self, job: Job, observe: Observe) -> Outcome:
        privacy = job.cell.privacy
        if privacy is None:
            raise invalid("privacy", None, f"a budget for the method {job.cell.method}")
        if isinstance(job.mechanism, PoissonLots):
            return self._rigorous(job, observe, job.mechanism, privacy)
        if isinstance(job.mechanism, ShuffledLots | UnclippedLots):
            return self._published(job, observe, job.mechanism, privacy)
        raise invalid("mechanism", job.mechanism.kind, "poisson-lots, shuffled-lots or unclipped-lots")

    def _rigorous(self, job: Job, observe: Observe, mechanism: PoissonLots, privacy: Privacy) -> Outcome:
        bench = set_up(job)
        records, ran = stable_trees(job, 0, None, None)
        sampler = PoissonSampler(len(job.graph.train_nodes), mechanism.sampling_rate)
        divisor = mechanism.sampling_rate * mechanism.num_roots  # N as it was made public
        term = ClippedTerm(records, sampler, privacy.clip_norm)
        step = private_step(bench, [term], noise_over_clip(mechanism) * privacy.clip_norm, divisor)
        notes = {"edge_lists": ran, "clip_norm": privacy.clip_norm}
        return run_loop(Run(job, bench, step, sampler, notes), observe)

    def _published(
        self, job: Job, observe: Observe, mechanism: ShuffledLots | UnclippedLots, privacy: Privacy
    ) -> Outcome:
        bench = set_up(job)
        records, ran = stable_trees(job, 0, None, None)
        lots = LotSchedule(len(job.graph.train_nodes), mechanism.batch_size, job.names("lots"))
        clip_norm = math.inf if isinstance(mechanism, UnclippedLots) else privacy.clip_norm
        step = LotStep(bench, records, lots, clip_norm, noise_over_clip(mechanism) * privacy.clip_norm)
        notes = {"edge_lists": ran, "clip_norm": privacy.clip_norm}
        return run_loop(Run(job, bench, step, lots, notes), observe)


@dataclass(frozen=True)
class LotSchedule:
    """Each epoch cuts a fresh permutation of all records into lots of `size`, the last one maybe smaller.

    A function of names and step alone: a resumed run goes on in the middle of its epoch.
    """

    num_records: int
    size: int
    names: tuple[Name, ...]
    name: str = "shuffled lots of fixed size"
    _permutations: dict[int, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def per_epoch(self) -> int:
        return math.ceil(self.num_records / self.size)

    def lot(self, step: int) -> np.ndarray:
        """Positions of the records of step 0, 1, ..."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch not in self._permutations:
            self._permutations.clear()
            self._permutations[epoch] = numpy_generator(*self.names, epoch).permutation(self.num_records)
        return self._permutations[epoch][place * self.size : (place + 1) * self.size]


@dataclass
class LotStep:
    """One noisy, clipped mean gradient of a lot; `noise_std` is the standard deviation on that mean."""

    bench: Bench
    records: EgoTrees
    lots: LotSchedule
    clip_norm: float
    noise_std: float
    done: int = 0

    def start_at(self, step: int) -> None:
        self.done = step

    def __call__(self) -> int:
        positions = self.lots.lot(self.done)
        self.done += 1
        gradient = clipped(self._mean_gradient(positions), self.clip_norm)
        add_gaussian_noise(gradient, self.noise_std, self.bench.noise)
        apply_gradient(self.bench.optimizer, gradient, 1.0)
        return len(positions)

    def _mean_gradient(self, positions: np.ndarray) -> list[Tensor]:
        bench, parameters = self.bench, list(self.bench.network.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for batch in self.records.chunks(positions):
            logits = bench.network(batch, bench.features)
            loss = nn.functional.cross_entropy(logits, bench.labels[batch.roots], reduction="sum") / len(positions)
            for part, gradient in zip(total, torch.autograd.grad(loss, parameters), strict=True):
                part += gradient
        return total


def clipped(gradient: list[Tensor], clip_norm: float) -> list[Tensor]:
    """All tensors as one vector of norm at most `clip_norm`; zero where any entry is not finite."""
    norm = torch.stack([torch.linalg.vector_norm(part, dtype=torch.float64) for part in gradient]).norm()
    factor = torch.clamp_max(clip_norm / norm, 1).to(gradient[0].dtype)
    return [torch.where(torch.isfinite(norm), part * factor, 0) for part in gradient]


METHODS: dict[str, Method] = {"dp-lots": DpLots()}
