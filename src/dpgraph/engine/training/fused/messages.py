"""Message-passing layers: outputs, and gradients from closed forms. See `layers` for what the functions give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.engine.models.attention import EntryAttention, SlotAttention
from dpgraph.engine.models.dense import HeadLinear
from dpgraph.engine.models.message_passing import GatLayer, GcnLayer, GinLayer
from dpgraph.engine.models.segments import Segments
from dpgraph.engine.models.slot_segments import SlotSegments
from dpgraph.engine.training.fused.attention import StateAttention
from dpgraph.engine.training.fused.layers import Calls, Pull, dense, per_row
from dpgraph.engine.training.fused.passes import activation_of
from dpgraph.engine.training.fused.shared import IndexedRows
from dpgraph.engine.training.ghost import CallRows, RootRows

# layer, (num_rows, d) states, its segments, (B,) segments and (B,) rows of each root
Message = Callable[..., tuple[Tensor, Pull]]


def convolution(
    layer: GcnLayer, rows: Tensor, segments: Segments, sizes: RootRows, below: RootRows, calls: Calls
) -> tuple[Tensor, Pull]:
    """Return h = m + act(W m + b) with m the mean over the segment, and its pull."""
    mean = segments.mean(rows)
    hidden, pull_hidden = dense(layer.linear, activation_of(layer.activation), mean, sizes, calls)
    runs = segments.indexed_runs if isinstance(segments, Segments) else None

    def pull(gradient: Tensor) -> Tensor | IndexedRows:
        gradient = per_row(gradient)
        given = segments.divided(pull_hidden(gradient, gradient))
        if runs is None:
            return segments.spread(given)
        return IndexedRows(given, np.repeat(np.arange(len(given)), runs))  # for nodes that trees share

    return mean + hidden, pull


def isomorphism(
    layer: GinLayer, rows: Tensor, segments: Segments, sizes: RootRows, below: RootRows, calls: Calls
) -> tuple[Tensor, Pull]:
    """Return h = act(W (sum + eps own) + b), with the sum over the segment and its own row, and its pull."""
    own, epsilon = segments.own(rows), layer.self_weight.epsilon
    total = torch.addcmul(segments.sum(rows), own, epsilon)
    output, pull_output = dense(layer.linear, activation_of(layer.activation), total, sizes, calls)

    def pull(gradient: Tensor) -> Tensor:
        gradient = pull_output(gradient)
        calls.add(layer.self_weight, CallRows.flat(own, gradient, sizes))
        return segments.add_own(segments.spread(gradient), gradient * epsilon)

    return output, pull


def attention(
    layer: GatLayer, rows: Tensor, segments: Segments, sizes: RootRows, below: RootRows, calls: Calls
) -> tuple[Tensor, Pull]:
    """Return h = act(W_o [heads] + b_o) in the form that the segments allow (see `models.attention`), and its pull."""
    own, activation = segments.own(rows), activation_of(layer.activation)
    if segments.alone:
        heads, pull_heads = _alone(layer, own, segments, sizes, calls)
    elif not segments.own_rows or (isinstance(segments, SlotSegments) and rows.device.type in BY_ELEMENT):
        heads, pull_heads = _by_entry(layer, rows, own, segments, sizes, below, calls)
    else:
        heads, pull_heads = _by_state(layer, rows, own, segments, sizes, calls)
    output, pull_output = dense(layer.output, activation, heads.flatten(1), sizes, calls)
    shape = heads.shape

    def pull(gradient: Tensor) -> Tensor:
        return pull_heads(pull_output(gradient).view(shape))

    return output, pull


def _alone(layer: GatLayer, own: Tensor, segments: Segments, sizes: RootRows, calls: Calls) -> tuple[Tensor, Pull]:
    """Return the values: softmax over one row is 1 whatever the scores, which have no gradient."""
    heads, pull_value = _on_states(layer.value, own, sizes, calls)

    def pull(gradient: Tensor) -> Tensor:
        return _to_own(segments, pull_value(gradient))

    return heads, pull


def _by_entry(
    layer: GatLayer, rows: Tensor, own: Tensor, segments: Segments, sizes: RootRows, below: RootRows, calls: Calls
) -> tuple[Tensor, Pull]:
    """Return heads from keys and values of every row, formed once."""
    queries, pull_query = _on_states(layer.query, own, sizes, calls)
    keys, pull_key = _on_states(layer.key, rows, below, calls)
    values, pull_value = _on_states(layer.value, rows, below, calls)
    scale = queries.shape[2] ** -0.5
    attention = SlotAttention if isinstance(segments, SlotSegments) else EntryAttention
    heads, read = attention.attend(queries * scale, keys, values, segments)

    def pull(gradient: Tensor) -> Tensor:
        of_queries, of_keys, of_values = read.pull(gradient)
        of_rows = pull_key(of_keys).add_(pull_value(of_values))
        return segments.add_own(of_rows, pull_query(of_queries.mul_(scale)))

    return heads, pull


def _by_state(
    layer: GatLayer, rows: Tensor, own: Tensor, segments: Segments, sizes: RootRows, calls: Calls
) -> tuple[Tensor, Pull]:
    """Return heads without forming keys and values, as every row has one reader."""
    queries, pull_query = _on_states(layer.query, own, sizes, calls)
    read = StateAttention(layer, queries, rows, segments)

    def pull(gradient: Tensor) -> Tensor:
        of_queries, of_rows = read.pull(gradient)
        calls.attention[layer.value] = calls.attention[layer.key] = read
        return segments.add_own(of_rows, pull_query(of_queries))

    return read.heads, pull


def _to_own(segments: Segments, gradient: Tensor) -> Tensor:
    """Return the gradients of the rows from those (n, d) of each segment's only row."""
    if segments.width == 1:
        return gradient
    return segments.add_own(gradient.new_zeros(segments.num_rows, gradient.shape[1]), gradient)


def _on_states(layer: HeadLinear, rows: Tensor, sizes: RootRows, calls: Calls) -> tuple[Tensor, Pull]:
    """Return all heads on one input: (n, H, d) of rows (n, d_in)."""
    output = rows @ layer.weight.T if layer.bias is None else torch.addmm(layer.bias, rows, layer.weight.T)

    def pull(gradient: Tensor) -> Tensor:
        gradient = gradient.flatten(1)
        calls.add(layer, CallRows.flat(rows, gradient, sizes))
        return gradient @ layer.weight

    return output.unflatten(1, (layer.heads, -1)), pull


BY_ELEMENT = {"cuda"}  # kinds of devices where `SlotAttention` is faster than `StateAttention`
MESSAGES: dict[type[nn.Module], Message] = {GcnLayer: convolution, GinLayer: isomorphism, GatLayer: attention}
INDEXED = (GcnLayer, GinLayer)  # read rows through their segments only, which may have an index
