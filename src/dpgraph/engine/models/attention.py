"""Dot-product attention over segments, in the two forms of a GAT layer.

With queries q, keys k_j = K h_j and values v_j = V h_j of one head, segment i gives sum_j alpha_ij v_j, where alpha_i
is the softmax of q_i . k_j / sqrt(d) over its rows j. Where segments share rows, keys and values are formed once for
each row (`attend`). Where every row has one reader, they need not be formed at all: q_i . K h_j = (K^T q_i) . h_j and
sum_j alpha_ij V h_j = V sum_j alpha_ij h_j, so that both maps act once per segment (`attend_states`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpgraph.engine.models.segments import PaddedRuns, Segments, reduce
from dpgraph.engine.models.slot_segments import SlotSegments, joined

CHUNK_ENTRIES_CPU = 2048  # entries whose gathered keys stay in a core's cache
CHUNK_ENTRIES_CUDA = 1 << 18

Context = torch.autograd.function.FunctionCtx


def attend(queries: Tensor, keys: Tensor, values: Tensor, segments: Segments) -> Tensor:
    """Return the heads (n, H, d) of the segments from their queries, and the keys and values (num_rows, H, d) of rows.

    Holds the (m, H) weights of all entries, and gathered keys or values of one chunk of entries.
    """
    queries = queries / queries.shape[2] ** 0.5
    return _Attend.apply(queries, keys, values, segments)  # type: ignore[no-any-return]


def attend_states(queries: Tensor, states: Tensor, segments: Segments, head_width: int) -> Tensor:
    """Return means of states (n, H, D) for queries K^T q (n, H, D); each state (num_rows, D) is read once."""
    return _AttendStates.apply(queries, states, segments, head_width**-0.5)  # type: ignore[no-any-return]


def block_weights(block: PaddedRuns, queries: Tensor, rows: Tensor, scale: float) -> Tensor:
    """Return the softmax (b, H, w) of queries K^T q (b, H, D) over the states (b, w, D); 0 for padding."""
    scores = torch.bmm(queries, rows.mT).mul_(scale)
    if block.missing is not None:
        scores.masked_fill_(block.missing.unsqueeze(1), float("-inf"))
    return torch.softmax(scores, 2)


def block_gradients(weights: Tensor, rows: Tensor, out: Tensor, queries: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return the gradients of scores (b, H, w) before `scale`, and of rows (b, w, D).

    `out` (b, H, D) are the gradients of the means of states.
    """
    scores = torch.bmm(out, rows.mT)
    scores.sub_((weights * scores).sum(2, keepdim=True)).mul_(weights).mul_(scale)
    return scores, torch.bmm(weights.mT, out).baddbmm_(scores.mT, queries)


@dataclass(frozen=True)
class EntryAttention:
    """The attention of `attend`, with queries divided by sqrt(d), and all that its gradients need."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    segments: Segments
    weights: Tensor  # (m, H) of all entries

    @classmethod
    def attend(cls, queries: Tensor, keys: Tensor, values: Tensor, segments: Segments) -> tuple[Tensor, EntryAttention]:
        """Return the heads (n, H, d), and the object that gives their gradients."""
        weights = _softmax(_dot(queries, segments.owners, keys, segments.entries), segments)
        result = _by_head(values, weights, segments.entries, segments.ptr, segments.spare)
        return result, cls(queries, keys, values, segments, weights)

    def pull(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of queries, keys and values from the gradients of the heads."""
        segments, weights, out = self.segments, self.weights, out.contiguous()
        drawn = _dot(out, segments.owners, self.values, segments.entries)
        centre = _total(weights * drawn, segments)
        scores = weights * (drawn - centre[segments.owners])
        ptr, order = segments.readers
        owners = segments.owners[order]
        return (
            _by_head(self.keys, scores, segments.entries, segments.ptr, segments.spare),
            _by_head(self.queries, scores[order], owners, ptr, segments.spare),
            _by_head(out, weights[order], owners, ptr, segments.spare),
        )


@dataclass(frozen=True)
class SlotAttention:
    """`EntryAttention` of roots in slots, element by element: heads are too narrow for a GPU's products of matrices."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    read: list[tuple[PaddedRuns, Tensor]]  # the rows of slots of one width, and their weights (b, w, H)

    @classmethod
    def attend(
        cls, queries: Tensor, keys: Tensor, values: Tensor, segments: SlotSegments
    ) -> tuple[Tensor, SlotAttention]:
        """Return the heads (slots, H, d), and the object that gives their gradients."""
        read, heads = list[tuple[PaddedRuns, Tensor]](), []
        for block in segments.runs():
            scores = (block.take(keys) * queries[block.runs].unsqueeze(1)).sum(3)
            weights = scores.masked_fill_(block.missing.unsqueeze(2), float("-inf")).softmax(1)  # type: ignore[union-attr]
            heads.append((block.take(values) * weights.unsqueeze(3)).sum(1))
            read.append((block, weights))
        return joined(heads), cls(queries, keys, values, read)

    def pull(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of queries, keys and values from the gradients of the heads; 0 for padding."""
        parts = []
        for block, weights in self.read:
            queries, above = self.queries[block.runs].unsqueeze(1), out[block.runs].unsqueeze(1)
            drawn = (block.take(self.values) * above).sum(3)
            scores = (weights * (drawn - (weights * drawn).sum(1, keepdim=True))).unsqueeze(3)
            of_queries = (block.take(self.keys) * scores).sum(1)
            parts.append((of_queries, (queries * scores).flatten(0, 1), (above * weights.unsqueeze(3)).flatten(0, 1)))
        of_queries, of_keys, of_values = map(joined, zip(*parts, strict=True))
        return of_queries, of_keys, of_values


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, queries: Tensor, keys: Tensor, values: Tensor, segments: Segments) -> Tensor:
        result, ctx.attention = EntryAttention.attend(queries, keys, values, segments)  # type: ignore[attr-defined]
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        return *ctx.attention.pull(gradients[0]), None  # type: ignore[attr-defined]


def _dot(left: Tensor, left_index: Tensor, right: Tensor, right_index: Tensor) -> Tensor:
    """Return (m, H) dot products per head of left[left_index[e]] and right[right_index[e]], one chunk at a time."""
    size = min(CHUNK_ENTRIES_CUDA if left.is_cuda else CHUNK_ENTRIES_CPU, len(left_index))
    result = left.new_empty(len(left_index), left.shape[1])
    # Fresh memory for each chunk would cost more than filling it.
    one, other = left.new_empty(2, size, left[0].numel())
    for at_left, at_right, part in zip(
        left_index.split(size), right_index.split(size), result.split(size), strict=True
    ):
        length = len(part)
        torch.index_select(left.flatten(1), 0, at_left, out=one[:length])
        torch.index_select(right.flatten(1), 0, at_right, out=other[:length])
        torch.sum(one[:length].mul_(other[:length]).unflatten(1, left.shape[1:]), 2, out=part)
    return result


def _by_head(rows: Tensor, weights: Tensor, index: Tensor, ptr: Tensor, spare: int) -> Tensor:
    """Return (n, H, d): `reduce` of each head of rows (N, H, d) with its own weights (m, H)."""
    result = rows.new_empty(len(ptr) - 1, *rows.shape[1:])
    for head in range(rows.shape[1]):
        part = reduce(rows[:, head].contiguous(), index, ptr, weights=weights[:, head].contiguous(), spare=spare)
        result[:, head] = part
    return result


def _total(values: Tensor, segments: Segments) -> Tensor:
    """Return the (n, H) sums of values (m, H) over segments."""
    return reduce(values, torch.arange(len(values), device=values.device), segments.ptr, spare=segments.spare)


def _softmax(scores: Tensor, segments: Segments) -> Tensor:
    """Return the (m, H) softmax over the entries of each segment."""
    top = torch.segment_reduce(scores, "max", lengths=segments.ptr.diff().long(), unsafe=True)
    grown = (scores - top[segments.owners]).exp_()
    return grown.div_(_total(grown, segments)[segments.owners])


class _AttendStates(torch.autograd.Function):
    """Autograd of `attend_states`. The scale 1 / sqrt(d) goes to the scores, not to the queries.

    Queries have H times the width of a state, so only they, the result and their gradients are kept at that size.
    """

    @staticmethod
    def forward(ctx: Context, queries: Tensor, states: Tensor, segments: Segments, scale: float) -> Tensor:
        # Not in the queries' own layout, in which blocks could not be written in place.
        result, weights = torch.empty_like(queries, memory_format=torch.contiguous_format), []
        for block in segments.runs():
            rows = block.take(states)
            weights.append(block_weights(block, queries[block.runs], rows, scale))
            block.put(result, weights[-1], rows)
        ctx.save_for_backward(queries, states, *weights)
        ctx.segments, ctx.scale = segments, scale  # type: ignore[attr-defined]
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        queries, states, *saved = ctx.saved_tensors  # type: ignore[attr-defined]
        segments: Segments = ctx.segments  # type: ignore[attr-defined]
        out = gradients[0]
        query_gradient = torch.empty_like(queries, memory_format=torch.contiguous_format)
        state_gradient = states.new_empty(len(states) + 1, states.shape[1])
        for block, weights in zip(segments.runs(), saved, strict=True):
            rows, above, own = block.take(states), out[block.runs], queries[block.runs]
            scores, both = block_gradients(weights, rows, above, own, ctx.scale)  # type: ignore[attr-defined]
            block.put(query_gradient, scores, rows)
            block.write(state_gradient, both)
        return query_gradient, state_gradient[:-1], None, None
