"""Norms and weighted sums of per-root gradients without forming them.

The gradient of one root's loss for a dense layer z = W a + b is G^T A for W and the column sum of G for b, where A
(n, d_in) are the layer's input rows of that root and G (n, d_out) the gradients of the loss for its pre-activations.
Hence its squared norm is sum_ij (a_i . a_j + 1)(g_i . g_j) (a Gram form; the 1 is the bias), and a weighted sum over
roots is (c * G)^T A over the rows of all of them. One backward pass to the pre-activations gives every G at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.sampling.ego import EgoBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH_GROWTH = 1.125  # padded blocks of unequal roots waste at most this factor


@dataclass(frozen=True)
class LayerRows:
    """All rows on which one layer acted; the rows of a root are consecutive."""

    inputs: Tensor  # A (n, d_in)
    gradients: Tensor  # G (n, d_out)
    sizes: np.ndarray  # (B,) rows of each root, host

    def per_row(self, values: Tensor) -> Tensor:
        """(B,) per root -> (n, 1) per row."""
        if len(self.sizes) != len(self.inputs) or np.any(self.sizes != 1):
            counts = torch.from_numpy(self.sizes).to(values.device, non_blocking=True)
            values = torch.repeat_interleave(values, counts, output_size=len(self.inputs))
        return values.unsqueeze(1)


class Recorder:
    """Applies dense layers to a batch without building gradients of parameters, and records rows for `rows`."""

    def __init__(self) -> None:
        self.calls: list[tuple[nn.Linear, Tensor, Tensor, np.ndarray]] = []

    def on(self, batch: EgoBatch) -> BatchRecorder:
        return BatchRecorder(self, batch)

    def rows(self, losses: Tensor) -> dict[nn.Linear, LayerRows]:
        """(B,) losses, one per root and a function of its own rows only -> the rows of every layer that was called."""
        outputs = [output for _, _, output, _ in self.calls]
        gradients = torch.autograd.grad(losses.sum(), outputs)
        calls: dict[nn.Linear, list[LayerRows]] = {}
        for (layer, inputs, _, sizes), gradient in zip(self.calls, gradients, strict=True):
            calls.setdefault(layer, []).append(LayerRows(inputs.detach(), gradient, sizes))
        return {layer: parts[0] if len(parts) == 1 else _interleave(parts) for layer, parts in calls.items()}


@dataclass(frozen=True)
class BatchRecorder:
    """The `Dense` of one batch."""

    recorder: Recorder
    batch: EgoBatch

    def __call__(self, layer: nn.Linear, rows: Tensor, level: int) -> Tensor:
        output = nn.functional.linear(rows, layer.weight.detach(), layer.bias.detach())
        if not output.requires_grad:
            output.requires_grad_()
        self.recorder.calls.append((layer, rows, output, self.batch.sizes[level]))
        return output


def squared_norms(rows: LayerRows) -> tuple[Tensor, Tensor]:
    """(B,) squared norm of each root's gradient of one layer, weight and bias together; (B,) its rounding scale.

    The scale is s_v^2 = (sum_i ||(a_i, 1)|| ||g_i||)^2, a bound of the absolute values that the squared norm sums up:
    where rows cancel, the result is off by a small multiple of the unit roundoff times s_v^2, not times itself.
    """
    a, g = rows.inputs, rows.gradients
    if np.all(rows.sizes == 1):
        result = g.square().sum(1) * (a.square().sum(1) + 1)
        return result, result
    # Gram costs n^2 (d_in + d_out), forming the gradient n d_in d_out.
    gram_limit = a.shape[1] * g.shape[1] / (a.shape[1] + g.shape[1])
    result, scale = g.new_empty(2, len(rows.sizes))
    for roots, block_a, block_g in _blocks(rows):
        form = _gram_form if block_a.shape[1] <= gram_limit else _explicit_form
        result[roots], scale[roots] = form(block_a, block_g)
    return result, scale


def _gram_form(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    gram = torch.bmm(a, a.transpose(1, 2)).add_(1).mul_(torch.bmm(g, g.transpose(1, 2)))
    scale = gram.diagonal(dim1=1, dim2=2).sqrt().sum(1).square()
    return gram.sum((1, 2)).clamp_min_(0), scale


def _explicit_form(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    scale = ((a.square().sum(2) + 1) * g.square().sum(2)).sqrt().sum(1).square()
    return torch.bmm(g.transpose(1, 2), a).square().sum((1, 2)) + g.sum(1).square().sum(1), scale


def _blocks(rows: LayerRows) -> Iterator[tuple[slice | Tensor, Tensor, Tensor]]:
    """(roots, A (b, w, d_in), G (b, w, d_out)) blocks of roots with about w rows each; missing rows have G = 0.

    Runs of roots with exactly w rows are views, others are gathered.
    """
    sizes = rows.sizes
    order = np.argsort(sizes, kind="stable")
    ascending = bool(np.all(np.diff(sizes) >= 0))
    starts = np.cumsum(sizes) - sizes
    ordered = sizes[order]
    cuts = np.flatnonzero(np.diff(_width_class(ordered))) + 1
    for first, last in zip([0, *cuts], [*cuts, len(order)], strict=True):
        roots = order[first:last]
        low, width = int(ordered[first]), int(ordered[last - 1])
        if ascending and low == width:
            begin = int(starts[first])
            block = slice(begin, begin + (last - first) * width)
            yield (
                slice(int(first), int(last)),
                rows.inputs[block].view(-1, width, rows.inputs.shape[1]),
                rows.gradients[block].view(-1, width, rows.gradients.shape[1]),
            )
            continue
        column = np.arange(width)
        # A missing row repeats the root's own last row: no other root's values can leak in, even infinite ones.
        index = starts[roots, None] + np.minimum(column, sizes[roots, None] - 1)
        device = rows.inputs.device
        picked = torch.from_numpy(index).to(device, non_blocking=True)
        gradients = rows.gradients[picked]
        if low != width:
            missing = torch.from_numpy(column >= sizes[roots, None]).to(device, non_blocking=True)
            gradients.masked_fill_(missing.unsqueeze(2), 0)
        yield torch.from_numpy(roots).to(device, non_blocking=True), rows.inputs[picked], gradients


def _width_class(sizes: np.ndarray) -> np.ndarray:
    """Equal for sizes that share a block: each size up to 1 / (growth - 1) has its own, larger ones within a factor."""
    return np.where(sizes <= 8, sizes, 8 + np.ceil(np.log(np.maximum(sizes, 8) / 8) / np.log(WIDTH_GROWTH)))


def _interleave(parts: list[LayerRows]) -> LayerRows:
    """Rows of several calls of one layer, brought together root by root."""
    sizes = np.sum([part.sizes for part in parts], axis=0)
    if np.all(sizes == len(parts)):  # one row of each call for each root
        inputs = torch.stack([part.inputs for part in parts], 1).flatten(0, 1)
        return LayerRows(inputs, torch.stack([part.gradients for part in parts], 1).flatten(0, 1), sizes)
    owners = np.concatenate([np.repeat(np.arange(len(part.sizes)), part.sizes) for part in parts])
    order = torch.from_numpy(np.argsort(owners, kind="stable")).to(parts[0].inputs.device)
    inputs = torch.cat([part.inputs for part in parts])[order]
    return LayerRows(inputs, torch.cat([part.gradients for part in parts])[order], sizes)
