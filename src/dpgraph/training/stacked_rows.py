"""Training of all seeds of DP-APPR in one process: perceptrons over rows of weights, clipped root by root.

The guarantees are those of `training.clipping`: a root's gradient depends on the records that its row names, its label
and the parameters; a contribution never exceeds the clip norm, as norms are enlarged by more than their rounding;
a root whose gradient is not finite contributes exactly 0. A seed draws from generators of its own and its products read
its own parameters only, so it ends with the bits that it has when trained alone (on one device and number of threads).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.errors import invalid
from dpgraph.models.row_stack import RowBatch, RowStack, SeedRows
from dpgraph.models.segments import reduce
from dpgraph.sampling.batches import Draws
from dpgraph.training.loop import note_diverged
from dpgraph.training.noise import GaussianNoise
from dpgraph.training.precision import enlarged_norms

TOGETHER = 1024  # places of a seed's roots: up to there calls cost more than what they compute
VECTOR = 16  # bits of a product depend on where it and its factors are in memory: with so many roots at 64 bytes each


@torch.no_grad()
def write_gradients(
    stack: RowStack, seeds: slice, batch: RowBatch, share: Tensor, clip_norm: float | None, into: Tensor
) -> None:
    """Writes sum_v share_v c_v grad_v over the roots of each of `seeds` into rows of gradients.

    `share` (G, R) is 0 for roots that are not read; c_v is the clip factor, without `clip_norm` 1. With
    m = sum_u pi_u (h_u, 1), g = softmax(D m) - onehot and delta_u = pi_u (D' g) act'(h_u), a root's gradient is g m'
    for D and sum_u (x_u, 1) delta_u' for E. Their squared norms are |g|^2 |m|^2 and
    sum_uw (x_u . x_w + 1) (delta_u . delta_w), so that no gradient of a single root is formed.
    """
    (encoders, decoders), (to_encoders, to_decoders) = stack.layers(stack.theta.data[seeds]), stack.layers(into[seeds])
    products = [records.times(encoder) for records, encoder in zip(batch.records, encoders, strict=True)]
    hidden = stack.activation(torch.cat(products))
    groups, roots, length = batch.weights.shape
    mixed = hidden.new_empty(groups, roots, hidden.shape[1] + 1)
    read = reduce(hidden, batch.places, batch.ptr, weights=batch.weights.flatten())
    mixed[..., :-1], mixed[..., -1] = read.view(groups, roots, -1), batch.totals
    error = torch.softmax(torch.bmm(mixed, decoders.mT), dim=2)
    error.view(groups * roots, -1)[batch.count, batch.labels] -= 1
    unlabelled = batch.labels < 0  # null records, whose -1 named the last class: no loss
    error.view(groups * roots, -1).masked_fill_(unlabelled.unsqueeze(1), 0)
    delta = stack.slope(hidden).index_select(0, batch.places).view(groups, roots, length, -1)
    delta.mul_(torch.bmm(error, decoders[..., :-1]).unsqueeze(2)).mul_(batch.weights.unsqueeze(3))
    if clip_norm is not None:
        factors = _clip_factors(batch.gram, delta, error, mixed, clip_norm)
        if factors.is_cuda or not bool(factors.all()):  # 0 times infinity is not 0
            lost = factors == 0
            for tensor in (error, mixed, delta.flatten(2)):
                tensor.masked_fill_(lost.unsqueeze(2), 0)
        share = share * factors
    error.mul_(share.unsqueeze(2))
    delta.mul_(share[:, :, None, None])
    received = reduce(delta.flatten(0, 2), batch.readers, batch.readers_ptr).split(batch.counts)
    for seed, records in enumerate(batch.records):  # products that begin where VECTOR does not reach: one by one
        to_encoders[seed].copy_(records.transposed_times(received[seed].clone()))
        to_decoders[seed].copy_(error[seed].T @ mixed[seed])


def _clip_factors(gram: Tensor, delta: Tensor, error: Tensor, mixed: Tensor, clip_norm: float) -> Tensor:
    """(G, R) min(1, C / n_v), 0 where n_v is not finite. See `training.clipping` for n_v.

    A factor is 0 for no other reason: n_v is at most the root of the largest number.
    """
    rows = delta.flatten(0, 1)
    inner = torch.bmm(rows, rows.mT)
    scale = (gram.diagonal(dim1=1, dim2=2) * inner.diagonal(dim1=1, dim2=2)).sqrt_().sum(1).square_()
    squared = inner.mul_(gram).flatten(1).sum(1).clamp_min_(0)
    last = (error.square().sum(2) * mixed.square().sum(2)).flatten()
    squared += last
    scale += last
    enlarged = enlarged_norms(squared, scale)
    factors = torch.clamp_max(clip_norm / enlarged, 1).masked_fill_(~torch.isfinite(enlarged), 0)
    return factors.view(mixed.shape[:2])


class RowPrivatizer:
    """Clip norm C, each seed's noise on its sum, and the public divisor of the noisy sum.

    Noise is drawn as for a network's own parameters, so that a seed has the noise that any other engine would give it.
    """

    def __init__(self, stack: RowStack, clip_norm: float, noises: Sequence[GaussianNoise], divisor: float) -> None:
        for name, value in (("clip_norm", clip_norm), ("divisor", divisor)):
            if not 0 < value < math.inf:
                raise invalid(name, value, "a finite number > 0")
        self.stack, self.clip_norm, self.noises, self.divisor = stack, clip_norm, noises, divisor
        # drawn here: large new tensors cost page faults
        self._noise = [part.new_empty(part.shape) for part in stack.parts(stack.theta.data[0])]

    def add_noise(self, seed: int, row: Tensor) -> None:
        """To the seed's sum, which is already divided, in place."""
        std = self.noises[seed].fill(self._noise) / self.divisor
        for part, noise in zip(self.stack.parts(row), self._noise, strict=True):
            part.add_(noise, alpha=std)


@dataclass
class StackedRowsStep:
    """One step of every seed that still runs; `privatizer` None: mean cross-entropy of a batch, without privacy.

    Few roots are all computed at once, for all seeds, those outside of the batch for nothing; of many, each seed's
    batch separately.
    """

    stack: RowStack
    optimizer: torch.optim.Optimizer
    rows: Sequence[SeedRows]
    draws: Sequence[Draws]  # one for each seed
    privatizer: RowPrivatizer | None = None

    def __post_init__(self) -> None:
        self.gradients = torch.zeros_like(self.stack.theta.data)
        self._running: list[int] | None = None
        every = np.arange(self.draws[0].sampler.num_roots)
        filled = np.pad(every, (0, -len(every) % VECTOR))  # the first root again, which is then not read
        together = self.rows[0].num_places <= TOGETHER
        self._all = RowBatch.joined([rows.batch(filled) for rows in self.rows]) if together else None

    def __call__(self) -> int:
        if self._running is None:
            self._running = self.stack.sound
        drawn = {seed: self.draws[seed].next() for seed in self._running}
        if self._all is None:
            self._one_by_one(drawn)
        else:
            self._together(self._all, drawn)
        if self.privatizer is not None:
            for seed in self._running:
                self.privatizer.add_noise(seed, self.gradients[seed])
        self.stack.theta.grad = self.gradients
        self.optimizer.step()
        return sum(len(positions) for positions in drawn.values())

    def _together(self, batch: RowBatch, drawn: Mapping[int, np.ndarray]) -> None:
        share = np.zeros((self.stack.num_seeds, batch.num_roots))
        for seed, positions in drawn.items():
            share[seed, positions] = self._share(len(positions))
        self._write(slice(None), batch, share)

    def _one_by_one(self, drawn: Mapping[int, np.ndarray]) -> None:
        for seed, positions in drawn.items():
            if len(positions):
                share = np.full((1, len(positions)), self._share(len(positions)))
                self._write(slice(seed, seed + 1), self.rows[seed].batch(positions), share)
            else:
                self.gradients[seed].zero_()

    def _write(self, seeds: slice, batch: RowBatch, share: np.ndarray) -> None:
        clip_norm = None if self.privatizer is None else self.privatizer.clip_norm
        shares = torch.from_numpy(share).to(self.gradients.device, self.gradients.dtype, non_blocking=True)
        write_gradients(self.stack, seeds, batch, shares, clip_norm, self.gradients)

    def _share(self, size: int) -> float:
        return 1 / (self.privatizer.divisor if self.privatizer is not None else max(1, size))

    def check(self, done: int) -> None:
        """Notes seeds whose parameters are not finite, which fail alone; raises Diverged when all have."""
        self._running = None
        note_diverged(self.stack.diverged_at, ~torch.isfinite(self.stack.theta.data).all(dim=1), done)
