"""Norms and weighted sums of per-root gradients without forming them.

The gradient of one root's loss for a linear map z = W a + b is G^T A for W and the column sum of G for b, where A
(n, d_in) are the map's input rows of that root and G (n, d_out) the gradients of the loss for its outputs. Hence its
squared norm is sum_ij (a_i . a_j + 1)(g_i . g_j) (a Gram form; the 1 is the bias), and a weighted sum over roots is
(c * G)^T A over the rows of all of them. One backward pass to the outputs of all layers gives every G at once. A map
that acts once per root has rank one: ||g||^2 (||a||^2 + 1). The gradient of a scalar weight z = eps a is the number
sum_i g_i . a_i, one copy per root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpgraph.engine.models.dense import KeyLinear, SelfWeight
from dpgraph.engine.models.products import inner_products, squared_lengths
from dpgraph.engine.models.segments import PaddedRuns, blocks
from dpgraph.engine.models.slot_segments import SlotRows, joined
from dpgraph.engine.sampling.ego import EgoBatch, upload
from dpgraph.engine.training.fused.passes import weighed
from dpgraph.engine.training.precision import rank_one, rounding_scale, with_underflow

RootRows = np.ndarray | SlotRows  # the rows of each root: any number (B,), or those of its slot
Sums = dict[Tensor, Tensor]  # by parameter
ByRoot = Tensor | None  # (B,); None: all roots count alike
LAYERS = (nn.Linear, SelfWeight)  # whose gradients are known for each root


class RootGradients(Protocol):
    """The gradients of one layer's parameters for each of B roots, in a form that they can be summed up from."""

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Return the (B,) squared norms of all parameters of the layer together, and their (B,) rounding scales.

        The scale is s_v^2 = (sum_i ||(a_i, 1)|| ||g_i||)^2, a bound of the absolute values that the squared norm sums
        up: where rows cancel, the result is off by a small multiple of the unit roundoff times s_v^2, not times itself.
        `precision.with_underflow` enlarges it.
        """

    def add_weighted(self, sums: Sums, factors: ByRoot, finite: ByRoot) -> None:
        """Add sum_v factors[v] grad_v to the entries of the layer's parameters; roots not `finite` are left out.

        Without `factors` each is 1; without `finite` all are finite.
        """


@dataclass(frozen=True)
class CallRows:
    """The rows on which a call of a layer acted; the rows of a root are consecutive."""

    inputs: Tensor  # A (n, H, d_in): one input, or one for each head of an attention layer
    gradients: Tensor  # G (n, H, d_out); the outputs of all heads together where they share their input
    sizes: RootRows  # (B,) rows of each root, host
    squares: Tensor | None = None  # (n, 1) squared lengths of `gradients`, where known
    finite: bool = False  # True where all inputs are known to be

    @classmethod
    def flat(cls, inputs: Tensor, gradients: Tensor, sizes: RootRows, squares: Tensor | None = None) -> CallRows:
        """Return the rows of (n, d_in) and (n, d_out), with the (n,) squared lengths of the latter where known."""
        own = None if squares is None else squares.unsqueeze(1)
        return cls(inputs.unsqueeze(1), gradients.unsqueeze(1), sizes, own)

    @cached_property
    def once(self) -> bool:
        """True if each root has one row."""
        if isinstance(self.sizes, SlotRows):
            return self.sizes.once
        return len(self.sizes) == len(self.inputs) and bool(np.all(self.sizes == 1))

    def runs(self) -> Iterator[PaddedRuns]:
        """Yield the rows of all roots in blocks."""
        return self.sizes.runs() if isinstance(self.sizes, SlotRows) else blocks(self.sizes, self.inputs.device)

    def per_row(self, values: Tensor) -> Tensor:
        """Return values (B,) of roots as (n, 1, 1) values of rows."""
        if isinstance(self.sizes, SlotRows):
            return self.sizes.per_row(values).view(-1, 1, 1)
        if not self.once:
            values = torch.repeat_interleave(values, upload(self.sizes, values.device), output_size=len(self.inputs))
        return values.view(-1, 1, 1)

    def per_root(self, values: Tensor) -> Tensor:
        """Return the (B,) sums of values (n,) over each root's rows."""
        if isinstance(self.sizes, SlotRows):
            return self.sizes.per_root(values)
        if self.once:
            return values
        return torch.segment_reduce(values, "sum", lengths=upload(self.sizes, values.device), unsafe=True)

    def finite_rows(self, finite: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and gradients with lost roots overwritten, because 0 times infinity is not 0."""
        kept, zero = self.per_row(finite), self.gradients.new_zeros(())
        inputs = self.inputs if self.finite else torch.where(kept, self.inputs, zero)
        return inputs, torch.where(kept, self.gradients, zero)


@dataclass(frozen=True)
class LinearGradients:
    """The gradients of a linear map, from one or several calls of it."""

    layer: nn.Linear
    calls: tuple[CallRows, ...]

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        """Return squared norms and rounding scales, see `RootGradients`."""
        bias = 0.0 if self.layer.bias is None else 1.0
        if all(rows.once for rows in self.calls):
            return _norms_of_single_rows(self.calls, bias)
        rows = self.calls[0] if len(self.calls) == 1 else _interleave(self.calls)
        # Gram costs n^2 (d_in + d_out), forming the gradient n d_in d_out.
        d_in, d_out = rows.inputs.shape[2], rows.gradients.shape[2]
        gram_limit = d_in * d_out / (d_in + d_out)
        result, scale = rows.gradients.new_empty(2, len(rows.sizes))
        for block in rows.runs():
            form = gram_form if block.shape[1] <= gram_limit else explicit_form
            result[block.runs], scale[block.runs] = form(*_by_head(rows, block), bias)
        return result, scale

    def add_weighted(self, sums: Sums, factors: ByRoot, finite: ByRoot) -> None:
        weight, bias = sums[self.layer.weight], self.layer.bias
        for rows in self.calls:
            inputs, gradients = (rows.inputs, rows.gradients) if finite is None else rows.finite_rows(finite)
            scaled = None if factors is None else rows.per_row(factors)
            if scaled is None:
                if bias is not None:
                    sums[bias] += gradients.sum(0).flatten()
            elif inputs.shape[2] < gradients.shape[2]:  # weigh the narrower factor
                inputs = inputs * scaled
                if bias is not None:
                    sums[bias].addmv_(gradients.flatten(1).T, scaled.flatten())
            else:
                flat, total = weighed(gradients.flatten(1), scaled.flatten())
                gradients = flat.view(gradients.shape)
                if bias is not None:
                    sums[bias] += total
            if inputs.shape[1] == 1:
                weight.addmm_(gradients.squeeze(1).T, inputs.squeeze(1))
            else:
                by_head = weight.unflatten(0, (inputs.shape[1], -1))
                by_head += torch.bmm(gradients.permute(1, 2, 0), inputs.transpose(0, 1))


@dataclass(frozen=True)
class ScalarGradients:
    """The gradients of a scalar weight: one number for each root."""

    layer: SelfWeight
    values: Tensor  # (B,)
    scales: Tensor  # (B,) sum_i ||a_i|| ||g_i||

    @classmethod
    def from_calls(cls, layer: SelfWeight, calls: tuple[CallRows, ...]) -> ScalarGradients:
        """Return the gradients from all calls of the layer."""
        values, scales = calls[0].gradients.new_zeros(2, len(calls[0].sizes))
        for rows in calls:
            inputs, gradients = rows.inputs.squeeze(1), rows.gradients.squeeze(1)
            values += rows.per_root(_dot(inputs, gradients))
            scales += rows.per_root((squared_lengths(inputs) * squared_lengths(gradients)).sqrt())
        return cls(layer, values, scales)

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        return self.values.square(), self.scales.square()

    def add_weighted(self, sums: Sums, factors: ByRoot, finite: ByRoot) -> None:
        values = self.values if finite is None else self.values.masked_fill(~finite, 0)
        sums[self.layer.epsilon] += values.sum() if factors is None else torch.dot(values, factors)


def gradients_of(layer: nn.Module, calls: tuple[CallRows, ...]) -> RootGradients:
    """Return the gradients of a layer's parameters from all calls of it."""
    if isinstance(layer, SelfWeight):
        return ScalarGradients.from_calls(layer, calls)
    return LinearGradients(layer, calls)  # type: ignore[arg-type]


class Recorder:
    """A recorder that applies layers to batches and keeps the rows on which they act."""

    def __init__(self) -> None:
        # layer, its rows, its output or the position of that in the graph, rows of each root
        self.calls: list[tuple[nn.Module, Tensor, Tensor | GradientEdge, np.ndarray]] = []

    def on(self, batch: EgoBatch) -> BatchRecorder:
        """Return the function that applies and records the layers of a batch."""
        return BatchRecorder(self, batch)

    def gradients(self, losses: Tensor) -> dict[nn.Module, RootGradients]:
        """Return the gradients of every layer that was called, from one loss for each root of its own rows only."""
        # Parameters are not among the inputs, so that their gradients are not computed.
        output_gradients = torch.autograd.grad(losses.sum(), [output for _, _, output, _ in self.calls])  # type: ignore[arg-type]
        calls: dict[nn.Module, tuple[CallRows, ...]] = {}
        for (layer, inputs, _, sizes), gradient in zip(self.calls, output_gradients, strict=True):
            calls[layer] = (*calls.get(layer, ()), _rows(layer, inputs.detach(), gradient, sizes))
        return {layer: gradients_of(layer, rows) for layer, rows in calls.items()}


@dataclass(frozen=True)
class BatchRecorder:
    """The `Dense` of one batch."""

    recorder: Recorder
    batch: EgoBatch

    def __call__(self, layer: nn.Module, rows: Tensor, level: int) -> Tensor:
        output: Tensor = layer(rows)
        # Not the output itself: it would be held longer than a step without privacy holds it.
        self.recorder.calls.append((layer, rows, get_gradient_edge(output), self.batch.sizes[level]))
        return output


def _rows(layer: nn.Module, inputs: Tensor, gradients: Tensor, sizes: np.ndarray) -> CallRows:
    if inputs.dim() == 2:
        return CallRows(inputs.unsqueeze(1), gradients.flatten(1).unsqueeze(1), sizes)
    if isinstance(layer, KeyLinear):  # applied to queries it is transposed, and so is its gradient
        return CallRows(gradients, inputs, sizes)
    return CallRows(inputs, gradients, sizes)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """Return the dot products (...) of (..., d) and (..., d), summed in float64."""
    return torch.linalg.vecdot(left.double(), right.double()).to(left.dtype)


def _norms_of_single_rows(calls: tuple[CallRows, ...], bias: float) -> tuple[Tensor, Tensor]:
    """Return norms from dot products, where each root has one row in each call."""
    heads = max(rows.inputs.shape[1] for rows in calls)
    if len(calls) == heads == 1:  # rank one
        known = calls[0].squares
        of_gradients = squared_lengths(calls[0].gradients) if known is None else known
        return rank_one(squared_lengths(calls[0].inputs) + bias, of_gradients, bias)
    split = [(rows.inputs, rows.gradients.view(len(rows.inputs), heads, -1)) for rows in calls]
    lengths = [(squared_lengths(a) + bias, squared_lengths(g)) for a, g in split]  # (B, H) each
    squares = [a * g for a, g in lengths]
    result, scale = sum(squares).sum(1), sum(square.sqrt() for square in squares).square().sum(1)  # type: ignore[union-attr]
    for both in lengths:
        scale = with_underflow(scale, *both, bias)
    for (a, g), (b, h) in combinations(split, 2):
        result = result + 2 * ((_dot(a, b) + bias) * _dot(g, h)).sum(1)
    return result.clamp_min_(0), scale


def norms_with_products(products: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Return (b,) squared norms and rounding scales of a linear map whose inputs' products are known.

    `products` (b, w, w) are inner products of each root's w inputs, plus 1 for the bias.
    `gradients` (b, w, d) are 0 for a row that a root lacks.
    """
    if products.shape[1] == 1:
        return rank_one(products.squeeze(2), squared_lengths(gradients), 1.0)
    inner = inner_products(gradients)
    scale = rounding_scale(products.diagonal(dim1=1, dim2=2), inner.diagonal(dim1=1, dim2=2), 1.0)
    return inner.mul_(products).sum((1, 2)).clamp_min_(0).to(gradients.dtype), scale.to(gradients.dtype)


def _by_head(rows: CallRows, block: PaddedRuns) -> tuple[Tensor, Tensor]:
    """Return A (b, H, w, d_in) and G (b, H, w, d_out) of a block; missing rows have G = 0."""
    return block.take(rows.inputs).transpose(1, 2), block.filled(rows.gradients).transpose(1, 2)


def gram_form(a: Tensor, g: Tensor, bias: float) -> tuple[Tensor, Tensor]:
    """Return squared norms and scales from inner products of rows."""
    products, inner = inner_products(a).add_(bias), inner_products(g)
    scale = rounding_scale(products.diagonal(dim1=2, dim2=3), inner.diagonal(dim1=2, dim2=3), bias)
    return products.mul_(inner).sum((1, 2, 3)).clamp_min_(0).to(a.dtype), scale.sum(1).to(a.dtype)


def explicit_form(a: Tensor, g: Tensor, bias: float) -> tuple[Tensor, Tensor]:
    """Return squared norms and scales by forming the gradients."""
    dtype, a, g = a.dtype, a.double(), g.double()
    scale = rounding_scale(a.square().sum(3) + bias, g.square().sum(3), bias)
    squared = torch.matmul(g.mT, a).square().sum((1, 2, 3)) + bias * g.sum(2).square().sum((1, 2))
    return squared.to(dtype), scale.sum(1).to(dtype)


def _interleave(calls: tuple[CallRows, ...]) -> CallRows:
    """Return the rows of several calls of one layer, brought together root by root."""
    slots = [rows.sizes for rows in calls if isinstance(rows.sizes, SlotRows)]
    if slots:
        return _interleaved_slots(calls, slots)
    sizes = [rows.sizes for rows in calls if not isinstance(rows.sizes, SlotRows)]
    owners = np.concatenate([np.repeat(np.arange(len(own)), own) for own in sizes])
    order = upload(np.argsort(owners, kind="stable"), calls[0].inputs.device)
    inputs = torch.cat([rows.inputs for rows in calls])[order]
    gradients = torch.cat([rows.gradients for rows in calls])[order]
    return CallRows(inputs, gradients, np.sum(sizes, axis=0))


def _interleaved_slots(calls: Sequence[CallRows], slots: Sequence[SlotRows]) -> CallRows:
    """Return `_interleave` of rows in slots."""
    inputs, gradients = (
        joined([torch.cat(parts, 1).flatten(0, 1) for parts in zip(*every, strict=True)])
        for every in zip(
            *((own.padded(rows.inputs), own.padded(rows.gradients)) for rows, own in zip(calls, slots, strict=True)),
            strict=True,
        )
    )
    return CallRows(inputs, gradients, SlotRows.side_by_side(slots))


@dataclass
class LayerRows:
    """Inputs and outputs of the trained layers during one pass, by the layers' numbers; each (texts, tokens, size)."""

    inputs: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)

    @contextmanager
    def recorded(self, layers: nn.ModuleList) -> Iterator[None]:
        """Record the layers' inputs and outputs while the context is open."""
        hooks = [layer.register_forward_hook(self._keep(number)) for number, layer in enumerate(layers)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _keep(self, number: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if number in self.inputs:
                raise RuntimeError("a trained layer ran twice in one pass: its gradients would not be whole")
            self.inputs[number], self.outputs[number] = inputs[0].detach(), output

        return hook
