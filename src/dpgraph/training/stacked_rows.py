"""Training of all seeds of DP-APPR in one process: perceptrons over rows of weights, clipped root by root.

The guarantees are those of `training.clipping`: a root's gradient depends on the records that its row names, its label
and the parameters; a contribution never exceeds the clip norm, as norms are enlarged by more than their rounding error;
a root whose gradient is not finite contributes exactly 0. A seed draws from generators of its own and its products read
its own parameters only, so it ends with the same bits as when it is trained alone (on one device and number of threads).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.errors import invalid
from dpgraph.models.row_stack import RowBatch, RowStack, SeedRows
from dpgraph.models.segments import reduce
from dpgraph.sampling.batches import Sampler
from dpgraph.training.clipping import ROUNDING
from dpgraph.training.loop import Diverged


@torch.no_grad()
def write_gradient(stack: RowStack, seed: int, batch: RowBatch, clip_norm: float | None, into: Tensor) -> None:
    """The sum over the roots of their clipped gradients, or without `clip_norm` their mean, to a row of gradients.

    With m = sum_u pi_u (h_u, 1), g = softmax(D m) - onehot and delta_u = pi_u (D' g) act'(h_u), a root's gradient is
    g m' for D and sum_u delta_u (x_u, 1)' for E. Their squared norms are |g|^2 |m|^2 and
    sum_uw (x_u . x_w + 1) (delta_u . delta_w), so that no gradient of a single root is formed.
    """
    encoder, decoder = stack.layers(stack.theta.data[seed])
    roots, length = batch.weights.shape
    hidden = stack.activation(batch.records.times(encoder))
    mixed = hidden.new_empty(roots, hidden.shape[1] + 1)
    mixed[:, :-1] = reduce(hidden, batch.places, batch.ptr, weights=batch.weights.flatten())
    torch.sum(batch.weights, dim=1, out=mixed[:, -1])
    error = torch.softmax(mixed @ decoder.T, dim=1)
    error[batch.count, batch.labels] -= 1
    delta = stack.slope(hidden).index_select(0, batch.places).view(roots, length, -1)
    delta.mul_((error @ decoder[:, :-1]).unsqueeze(1)).mul_(batch.weights.unsqueeze(2))
    if clip_norm is None:
        error /= roots
        delta /= roots
    else:
        factors, finite = _clip_factors(batch.gram, delta, error, mixed, clip_norm)
        error.mul_(factors.unsqueeze(1))
        delta.mul_(factors[:, None, None])
        if finite.is_cuda or not bool(finite.all()):  # 0 times infinity is not 0
            lost = ~finite
            error.masked_fill_(lost.unsqueeze(1), 0)
            mixed.masked_fill_(lost.unsqueeze(1), 0)
            delta.masked_fill_(lost[:, None, None], 0)
    to_encoder, to_decoder = stack.layers(into)
    torch.mm(error.T, mixed, out=to_decoder)
    to_encoder.copy_(batch.records.transposed_times(reduce(delta.flatten(0, 1), batch.readers, batch.readers_ptr)))


def _clip_factors(gram: Tensor, delta: Tensor, error: Tensor, mixed: Tensor, clip_norm: float) -> tuple[Tensor, Tensor]:
    """(b,) min(1, C / n_v), 0 where n_v is not finite; (b,) whether it is. See `training.clipping` for n_v."""
    inner = torch.bmm(delta, delta.mT)
    scale = (gram.diagonal(dim1=1, dim2=2) * inner.diagonal(dim1=1, dim2=2)).sqrt_().sum(1).square_()
    squared = inner.mul_(gram).flatten(1).sum(1).clamp_min_(0)
    last = error.square().sum(1).mul_(mixed.square().sum(1))
    squared += last
    scale += last
    enlarged = squared.add_(scale, alpha=ROUNDING * torch.finfo(squared.dtype).eps)
    finite = torch.isfinite(enlarged)
    return torch.clamp_max(clip_norm / enlarged.sqrt(), 1).masked_fill_(~finite, 0), finite


class RowPrivatizer:
    """Clip norm C, noise of std `noise_std` (not a multiplier) on each sum, and the public divisor of the noisy sum.

    Noise is drawn as for a network's own parameters, so that a seed has the noise that any other engine would give it.
    """

    def __init__(
        self, stack: RowStack, clip_norm: float, noise_std: float, divisor: float, generators: Sequence[torch.Generator]
    ) -> None:
        for name, value in (("clip_norm", clip_norm), ("divisor", divisor)):
            if not 0 < value < math.inf:
                raise invalid(name, value, "a finite number > 0")
        if not 0 <= noise_std < math.inf:
            raise invalid("noise std", noise_std, "a finite number >= 0")
        self.stack, self.clip_norm, self.noise_std, self.divisor = stack, clip_norm, noise_std, divisor
        self.generators = generators
        # drawn here: large new tensors cost page faults
        self._noise = [part.new_empty(part.shape) for part in stack.parts(stack.theta.data[0])]

    def add_noise(self, seed: int, row: Tensor) -> None:
        """To the seed's sum, in place, and divides it."""
        for part, noise in zip(self.stack.parts(row), self._noise, strict=True):
            part.add_(noise.normal_(generator=self.generators[seed]), alpha=self.noise_std)
        row.div_(self.divisor)


@dataclass
class StackedRowsStep:
    """One step of every seed that still runs; `privatizer` None: mean cross-entropy of a batch, without privacy."""

    stack: RowStack
    optimizer: torch.optim.Optimizer
    rows: Sequence[SeedRows]
    sampler: Sampler
    batches: Sequence[np.random.Generator]
    privatizer: RowPrivatizer | None = None

    def __post_init__(self) -> None:
        self.gradients = torch.zeros_like(self.stack.theta.data)
        self._running: list[int] | None = None

    def __call__(self) -> int:
        if self._running is None:
            self._running = self.stack.sound
        clip_norm = None if self.privatizer is None else self.privatizer.clip_norm
        read = 0
        for seed in self._running:
            positions, row = self.sampler.draw(self.batches[seed]), self.gradients[seed]
            if len(positions):
                write_gradient(self.stack, seed, self.rows[seed].batch(positions), clip_norm, row)
            else:
                row.zero_()
            if self.privatizer is not None:
                self.privatizer.add_noise(seed, row)
            read += len(positions)
        self.stack.theta.grad = self.gradients
        self.optimizer.step()
        return read

    def check(self, done: int) -> None:
        """Notes seeds whose parameters are not finite, which fail alone; raises Diverged when all have."""
        at = self.stack.diverged_at
        bad = ~torch.isfinite(self.stack.theta.data).all(dim=1) & (at == 0)
        at.copy_(torch.where(bad, done, at))
        self._running = None
        if bool((at > 0).all()):
            raise Diverged(int(at.max()))
