"""Attention whose keys and values are not formed (`models.attention.attend_states`), for a few roots at a time.

A query that is mapped back by the keys' weights, and a mean of states, have a state's width for each head. Kept for all
roots they would not fit a core's cache, and reading them would cost more than computing them again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.engine.models.attention import block_gradients, block_weights
from dpgraph.engine.models.dense import HeadLinear
from dpgraph.engine.models.message_passing import GatLayer
from dpgraph.engine.models.segments import PaddedRuns, Segments
from dpgraph.engine.training.ghost import CallRows, LinearGradients

CACHED = 1 << 19  # numbers that stay in a core's cache
CACHED_CUDA = 1 << 26


@dataclass
class RootReads:
    """The rows that a few roots read, with their weights."""

    block: PaddedRuns
    weights: Tensor  # (b, H, w)
    scores: Tensor | None = None  # (b, H, w) gradients of the dot products of states and mapped queries


class StateAttention:
    """Heads (B, H, d) of roots that read each of their rows once; `queries` (B, H, d), `states` (n, D)."""

    def __init__(self, layer: GatLayer, queries: Tensor, states: Tensor, segments: Segments) -> None:
        self.layer, self.queries, self.states = layer, queries, states
        self.scale = layer.head_width**-0.5
        most = max(1, (CACHED_CUDA if states.is_cuda else CACHED) // (layer.query.heads * states.shape[1]))
        self.heads = torch.empty_like(queries)
        self.above: Tensor | None = None  # gradients of the heads
        self.read: list[RootReads] = []
        for whole in segments.runs():
            for block in whole.split(most):
                rows = block.take(states)
                self.read.append(one := RootReads(block, block_weights(block, self._mapped(block), rows, self.scale)))
                received = torch.bmm(one.weights, rows)
                self.heads[block.runs] = _each_head(received, layer.value.by_head.mT)
        self.heads += layer.value.bias.view(layer.value.heads, -1)

    def _mapped(self, block: PaddedRuns) -> Tensor:
        """Return (b, H, D) queries mapped by the transposed weights of the keys."""
        return _each_head(self.queries[block.runs], self.layer.key.by_head)

    def pull(self, above: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of queries and states from those of the heads."""
        self.above = above
        of_queries = torch.empty_like(self.queries)
        of_states = self.states.new_empty(len(self.states) + 1, self.states.shape[1])
        for one in self.read:
            block, rows = one.block, one.block.take(self.states)
            of_received = _each_head(above[block.runs], self.layer.value.by_head)
            one.scores, both = block_gradients(one.weights, rows, of_received, self._mapped(block), self.scale)
            of_queries[block.runs] = _each_head(torch.bmm(one.scores, rows), self.layer.key.by_head.mT)
            block.write(of_states, both)
        return of_queries, of_states[:-1]

    def value_rows(self, one: RootReads) -> CallRows:
        """Return the rows on which the values' layer acted."""
        received = torch.bmm(one.weights, one.block.take(self.states))
        return CallRows(received, self.above[one.block.runs], _once(received))  # type: ignore[index]

    def key_rows(self, one: RootReads) -> CallRows:
        """Return the rows on which the keys' layer acted; applied to queries it and its gradient are transposed."""
        of_mapped = torch.bmm(one.scores, one.block.take(self.states))  # type: ignore[arg-type]
        return CallRows(of_mapped, self.queries[one.block.runs], _once(of_mapped))


@dataclass(frozen=True)
class HeadGradients:
    """The gradients of the layer of the keys or of the values, formed for a few roots at a time."""

    layer: HeadLinear
    attention: StateAttention
    calls: tuple[CallRows, ...] = ()  # further ones, of one row for each root

    def squared_norms(self) -> tuple[Tensor, Tensor]:
        result, scale = self.attention.states.new_empty(2, len(self.attention.queries))
        for one in self.attention.read:
            result[one.block.runs], scale[one.block.runs] = self._gradients(one).squared_norms()
        return result, scale

    def add_weighted(self, sums: dict[Tensor, Tensor], factors: Tensor | None, finite: Tensor | None) -> None:
        for one in self.attention.read:
            some = [None if values is None else values[one.block.runs] for values in (factors, finite)]
            self._gradients(one).add_weighted(sums, *some)

    def _gradients(self, one: RootReads) -> LinearGradients:
        own = self.attention.key_rows if self.layer is self.attention.layer.key else self.attention.value_rows
        runs = one.block.runs
        others = (CallRows(call.inputs[runs], call.gradients[runs], _once(call.inputs[runs])) for call in self.calls)
        return LinearGradients(self.layer, (own(one), *others))


def _each_head(rows: Tensor, maps: Tensor) -> Tensor:
    """Return rows (b, H, d) mapped by (H, d, k), as (b, H, k)."""
    return torch.bmm(rows.transpose(0, 1), maps).transpose(0, 1)


def _once(rows: Tensor) -> np.ndarray:
    return np.ones(len(rows), dtype=np.int64)
