"""Steps over rows of weights by closed forms: perceptrons of one hidden layer, clipped root by root.

The guarantees are those of `training.clipping`: a root's gradient depends on the records that its row names, its label
and the parameters; a contribution never exceeds the clip norm, as norms are enlarged by more than their rounding;
a root whose gradient is not finite contributes exactly 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.config.cell import LEAST_CLIP_NORM
from dpgraph.core.errors import invalid
from dpgraph.engine.models.products import inner_products
from dpgraph.engine.models.segments import reduce
from dpgraph.engine.models.weighted_rows import RowBatch, RowNetwork, RowTable
from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.training.clipping import may_lose
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.precision import enlarged_norms, rank_one, rounding_scale

ALL_PLACES = 1024  # places of all roots: up to there taking a batch apart costs more than computing all of them
VECTOR = 16  # roots, of which the numbers of each place begin at 64 bytes


@torch.no_grad()
def write_gradient(network: RowNetwork, batch: RowBatch, share: Tensor, clip_norm: float | None, into: Tensor) -> None:
    """Write sum_v share_v c_v grad_v over the roots to a vector like `theta`.

    `share` (R,) is 0 for roots that are not in the batch; c_v is the clip factor, without `clip_norm` 1. With m = sum_u
    pi_u (h_u, 1), g = softmax(D m) - onehot and delta_u = pi_u (D' g) act'(h_u), a root's gradient is g m' for D and
    sum_u (x_u, 1) delta_u' for E. Their squared norms are |g|^2 |m|^2 and sum_uw (x_u . x_w + 1) (delta_u . delta_w),
    so that no gradient of a single root is formed.
    """
    (encoder, decoder), (to_encoder, to_decoder) = network.layers(network.theta.data), network.layers(into)
    hidden = network.activation(batch.records.times(encoder))
    roots, length = batch.weights.shape
    mixed = hidden.new_empty(roots, hidden.shape[1] + 1)
    mixed[:, :-1] = reduce(hidden, batch.places, batch.ptr, weights=batch.weights.flatten())
    mixed[:, -1] = batch.totals
    error = torch.softmax(mixed @ decoder.T, dim=1)
    error[batch.count, batch.labels] -= 1
    error.masked_fill_((batch.labels < 0).unsqueeze(1), 0)  # null records, whose -1 named the last class: no loss
    delta = network.slope(hidden).index_select(0, batch.places).view(roots, length, -1)
    delta.mul_((error @ decoder[:, :-1]).unsqueeze(1)).mul_(batch.weights.unsqueeze(2))
    if clip_norm is not None:
        factors = _clip_factors(batch.gram, delta, error, mixed, clip_norm)
        lost = factors == 0
        if may_lose(~lost):  # 0 times infinity is not 0
            for tensor in (error, mixed, delta.flatten(1)):
                tensor.masked_fill_(lost.unsqueeze(1), 0)
        share = share * factors
    error.mul_(share.unsqueeze(1))
    delta.mul_(share[:, None, None])
    received = reduce(delta.flatten(0, 1), batch.readers, batch.readers_ptr)
    to_encoder.copy_(batch.records.transposed_times(received))
    to_decoder.copy_(error.T @ mixed)


def _clip_factors(gram: Tensor, delta: Tensor, error: Tensor, mixed: Tensor, clip_norm: float) -> Tensor:
    """Return (R,) factors min(1, C / n_v), 0 where n_v is not finite; `training.clipping` defines n_v.

    A factor is 0 for no other reason: n_v is at most the root of the largest number.
    """
    inner = inner_products(delta)
    scale = rounding_scale(gram.diagonal(dim1=1, dim2=2), inner.diagonal(dim1=1, dim2=2), 1.0)
    squared = inner.mul_(gram).flatten(1).sum(1).clamp_min_(0)
    last, reach = rank_one(mixed.square().sum(1, keepdim=True), error.square().sum(1, keepdim=True))
    enlarged = enlarged_norms((squared + last).to(delta.dtype), (scale + reach).to(delta.dtype))
    return torch.clamp_max(clip_norm / enlarged, 1).masked_fill_(~torch.isfinite(enlarged), 0)


class RowPrivatizer:
    """Clip norm C, the noise on the sum, and the public divisor of the noisy sum.

    The noise is drawn as for a network's own parameters, so that it equals the noise of any other engine.
    """

    def __init__(self, network: RowNetwork, clip_norm: float, noise: GaussianNoise, divisor: float) -> None:
        for name, value in (("clip_norm", clip_norm), ("divisor", divisor)):
            if not LEAST_CLIP_NORM <= value < math.inf:
                raise invalid(name, value, f"a finite number >= {LEAST_CLIP_NORM:g}")
        self.network, self.clip_norm, self.noise, self.divisor = network, clip_norm, noise, divisor
        # drawn here: large new tensors cost page faults
        self._drawn = [part.new_empty(part.shape) for part in network.parts(network.theta.data)]

    def add_noise(self, vector: Tensor) -> None:
        """Add noise in place to the sum, which is already divided."""
        std = self.noise.fill(self._drawn) / self.divisor
        for part, noise in zip(self.network.parts(vector), self._drawn, strict=True):
            part.add_(noise, alpha=std)


@dataclass
class RowStep:
    """One step; without `privatizer` on the mean cross-entropy of a batch, without privacy.

    Where there are few roots, all are computed, and those outside of the batch have share 0.
    """

    network: RowNetwork
    optimizer: torch.optim.Optimizer
    rows: RowTable
    draws: Draws
    privatizer: RowPrivatizer | None = None

    def __post_init__(self) -> None:
        self.gradient = torch.zeros_like(self.network.theta.data)
        self._all = self.every_root() if self.rows.num_places <= ALL_PLACES else None

    def every_root(self) -> RowBatch:
        """Return all roots, and the first one again up to whole vectors, where it is not read."""
        every = np.arange(self.draws.sampler.num_roots)
        return self.rows.batch(np.pad(every, (0, -len(every) % VECTOR)))

    def __call__(self) -> int:
        positions = self.draws.next()
        one = 1 / (self.privatizer.divisor if self.privatizer is not None else max(1, len(positions)))
        if self._all is not None:
            share = np.zeros(self._all.num_roots)
            share[positions] = one
            self.write(self._all, self._uploaded(share))
        elif len(positions):
            self.write(self.rows.batch(positions), self._uploaded(np.full(len(positions), one)))
        else:
            self.gradient.zero_()
        self.update()
        return len(positions)

    def update(self) -> None:
        """Add noise to the gradient, if the step is private, and move the parameters."""
        if self.privatizer is not None:
            self.privatizer.add_noise(self.gradient)
        self.network.theta.grad = self.gradient
        self.optimizer.step()

    def write(self, batch: RowBatch, share: Tensor) -> None:
        """Write the gradient of a batch whose roots have these shares (R,)."""
        clip_norm = None if self.privatizer is None else self.privatizer.clip_norm
        write_gradient(self.network, batch, share, clip_norm, self.gradient)

    def _uploaded(self, share: np.ndarray) -> Tensor:
        return torch.from_numpy(share).to(self.gradient.device, self.gradient.dtype, non_blocking=True)
