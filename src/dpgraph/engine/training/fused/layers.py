"""Each layer's output, and the function that takes the gradient of its output to that of its input.

Every function here gives `(output, pull)`. `pull` records the rows on which parameters acted, with the gradients of the
loss for what they gave, and returns the gradient for the layer's own input. It may overwrite its argument, and is
called at most once. A gradient for rows (n w, d) may be a view (n, w, d), if all w rows of a segment have the same one,
and one for the rows of nodes that trees share may be `IndexedRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Mlp
from dpgraph.engine.models.slot_segments import SlotRows
from dpgraph.engine.training.fused.attention import HeadGradients, StateAttention
from dpgraph.engine.training.fused.inputs import FirstGradients, FirstRows, SharedGradients, first_dense
from dpgraph.engine.training.fused.passes import Activation, activation_of, affine, pulled
from dpgraph.engine.training.fused.shared import IndexedRows, SharedNodes
from dpgraph.engine.training.ghost import CallRows, RootGradients, RootRows, gradients_of

Pull = Callable[..., Any]


@dataclass
class Calls:
    """The rows and gradients of every layer that was called."""

    rows: dict[nn.Module, tuple[CallRows, ...]] = field(default_factory=dict)
    first: dict[nn.Module, RootGradients] = field(default_factory=dict)  # of the layer that reads records
    attention: dict[nn.Module, StateAttention] = field(default_factory=dict)  # of layers of keys and values

    def add(self, layer: nn.Module, call: CallRows) -> None:
        self.rows[layer] = (*self.rows.get(layer, ()), call)

    def gradients(self) -> dict[nn.Module, RootGradients]:
        """Return the gradients of every layer's parameters."""
        result = dict(self.first)
        for layer, calls in self.rows.items():
            result[layer] = gradients_of(layer, calls)
        for layer, attention in self.attention.items():
            result[layer] = HeadGradients(layer, attention, self.rows.get(layer, ()))  # type: ignore[arg-type]
        return result


@dataclass(frozen=True)
class SlotRecords:
    """The records (n, F) of the deepest rows of a batch in slots."""

    values: Tensor
    sizes: SlotRows
    finite: bool  # True where all records of the graph are


def per_row(gradient: Tensor | IndexedRows) -> Tensor:
    """Return gradients as (rows, d): (n, d) as it is, of (n, w, d) or an index a copy."""
    if isinstance(gradient, IndexedRows):
        return gradient.rows.index_select(0, torch.from_numpy(gradient.index))
    return gradient if gradient.dim() == 2 else gradient.reshape(-1, gradient.shape[2])


def dense(
    layer: nn.Linear, activation: Activation | None, rows: Tensor, sizes: RootRows, calls: Calls
) -> tuple[Tensor, Pull]:
    """Return act(W x + b) of the rows (n, d_in), and its pull; `sizes` (B,) are the rows of each root.

    `pull` may be given another gradient of the input, to which it adds.
    """
    output = affine(layer, activation, rows)

    def pull(gradient: Tensor, addend: Tensor | None = None) -> Tensor:
        below, squares = (per_row(gradient), None) if activation is None else pulled(activation, gradient, output)
        calls.add(layer, CallRows.flat(rows, below, sizes, squares))
        return below @ layer.weight if addend is None else torch.addmm(addend, below, layer.weight)

    return output, pull


def encode(part: Mlp, rows: FirstRows | SlotRecords, calls: Calls) -> tuple[Tensor, Tensor | None, Pull]:
    """Return `perceptron` of records, with an index in the second place: row i's state is `output[index[i]]`."""
    if isinstance(rows, SlotRecords) or rows.shared is None or len(part.layers) > 1:
        output, pull = perceptron(part, rows, rows.sizes, calls)
        return output, None, pull
    return rows.shared.output, rows.index, _shared_pull(rows, calls)


def perceptron(part: Mlp, rows: Tensor | FirstRows | SlotRecords, sizes: RootRows, calls: Calls) -> tuple[Tensor, Pull]:
    """Return the output of an `Mlp` without dropout, on states or on records, and its pull."""
    activation = activation_of(part.activation)
    own = [activation] * len(part.layers)
    if not part.activate_output:
        own[-1] = None
    pulls: list[Pull] = []
    for layer, after in zip(part.layers, own, strict=True):
        if isinstance(rows, FirstRows):
            rows, pull = _on_records(layer, after, rows, calls)  # type: ignore[arg-type]
        elif isinstance(rows, SlotRecords):
            rows, pull = _on_slots(layer, after, rows, calls)  # type: ignore[arg-type]
        else:
            rows, pull = dense(layer, after, rows, sizes, calls)  # type: ignore[arg-type]
        pulls.append(pull)
    return rows, chained(pulls)  # type: ignore[return-value]


def _on_records(layer: nn.Linear, activation: Activation | None, rows: FirstRows, calls: Calls) -> tuple[Tensor, Pull]:
    """Return `dense` of records, which need no gradient: `pull` returns its argument."""
    if rows.shared is not None:
        return rows.shared.output.index_select(0, rows.index), _shared_pull(rows, calls)
    output = first_dense(layer, activation, rows)

    def pull(gradient: Tensor) -> Tensor:
        calls.first[layer] = FirstGradients(layer, activation, rows, output, gradient)
        return gradient

    return output, pull


def _on_slots(layer: nn.Linear, activation: Activation | None, rows: SlotRecords, calls: Calls) -> tuple[Tensor, Pull]:
    """Return `dense` of records in slots, which need no gradient: `pull` returns that of what the layer gave."""
    output = affine(layer, activation, rows.values)

    def pull(gradient: Tensor) -> Tensor:
        below, squares = (gradient, None) if activation is None else pulled(activation, gradient, output)
        calls.add(layer, replace(CallRows.flat(rows.values, below, rows.sizes, squares), finite=rows.finite))
        return below

    return output, pull


def _shared_pull(rows: FirstRows, calls: Calls) -> Pull:
    shared: SharedNodes = rows.shared  # type: ignore[assignment]

    def pull(gradient: Tensor | IndexedRows) -> Tensor | IndexedRows:
        calls.first[shared.layer] = SharedGradients(rows, shared, gradient)
        return gradient

    return pull


def chained(pulls: Sequence[Pull]) -> Pull:
    """Return the pull of functions applied one after the other."""

    def pull(gradient: Tensor) -> Tensor:
        for one in reversed(pulls):
            gradient = one(gradient)
        return gradient

    return pull
