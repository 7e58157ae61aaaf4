"""Sums, means and attention over segments against loops, backward passes against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.randomness import torch_generator
from dpgraph.engine.models.attention import attend, attend_states
from dpgraph.engine.models.segments import FEW_BLOCKS, FEW_ROWS, PADDED_ROWS, Segments, blocks
from dpgraph.engine.sampling.edge_lists import EdgeLists
from dpgraph.engine.sampling.ego import pack_ego_trees

LISTS = {
    "shared": [[0, 1, 2, 3], [3], [1, 0], [4, 1, 0]],  # row 5 has no reader
    "runs": [[0], [1, 2, 3], [4, 5]],
    "alone": [[2], [0], [1]],
    "rows themselves": [[0], [1], [2], [3], [4], [5]],
}
RUNS = {"runs", "rows themselves"}


def segments_of(lists: list[list[int]], num_rows: int, runs: bool) -> Segments:
    lengths = np.array([len(entries) for entries in lists])
    ptr = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    columns = None if runs else torch.tensor([j for entries in lists for j in entries])
    return Segments(ptr, columns, num_rows, lengths if runs else None)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch_generator("segments", *shape), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("case", LISTS)
def test_reductions(case):
    lists, rows = LISTS[case], draw(6, 3)
    segments = segments_of(lists, 6, case in RUNS)
    torch.testing.assert_close(segments.sum(rows), torch.stack([rows[e].sum(0) for e in lists]))
    torch.testing.assert_close(segments.mean(rows), torch.stack([rows[e].mean(0) for e in lists]))
    assert torch.equal(segments.own(rows), rows[[e[0] for e in lists]])
    assert segments.alone == (case in {"alone", "rows themselves"})
    assert torch.autograd.gradcheck(segments.sum, rows)
    assert torch.autograd.gradcheck(segments.mean, rows)
    assert torch.autograd.gradcheck(segments.own, rows)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_root_without_a_list_reads_its_row_as_it_is(hops):
    """The values of the operators, without their copies: own records are half of residual clipping."""
    trees = pack_ego_trees(EdgeLists(np.zeros(5, np.int64), np.zeros(0, np.int32)), np.arange(4), hops)
    segments, rows = Segments.of_level(trees.batch(np.array([2, 0, 3])), hops - 1), draw(3, 2)
    assert segments.mean(rows) is segments.sum(rows) is segments.own(rows) is rows


def naive_attention(queries, keys, values, lists):
    """Loops over segments; queries (n, H, d), keys and values (N, H, d)."""
    out = []
    for query, entries in zip(queries, lists, strict=True):
        weights = torch.einsum("hd,ehd->he", query, keys[entries]).softmax(1)
        out.append(torch.einsum("he,ehd->hd", weights, values[entries]))
    return torch.stack(out)


@pytest.mark.parametrize("case", LISTS)
def test_attention_over_shared_rows(case):
    lists, segments = LISTS[case], segments_of(LISTS[case], 6, False)
    queries, keys, values = draw(len(lists), 2, 4), draw(6, 2, 4), draw(6, 2, 4) + 1
    values = values.detach().requires_grad_()
    expected = naive_attention(queries / 2, keys, values, lists)
    torch.testing.assert_close(attend(queries, keys, values, segments), expected, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, segments), (queries, keys, values))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 14), min_size=1, max_size=6), st.booleans())
def test_attention_over_runs(lengths, many):
    """Blocks of any lengths, in any order: 9 and 10 share a padded block where there are many."""
    lengths = lengths + [10, 9] * (FEW_ROWS // 10 if many else 0)
    stop = np.cumsum(lengths)
    lists = [list(range(s - n, s)) for s, n in zip(stop, lengths, strict=True)]
    segments = segments_of(lists, int(stop[-1]), True)
    queries, states = draw(len(lists), 2, 3), draw(int(stop[-1]), 3)
    shared = states.unsqueeze(1).expand(-1, 2, -1)
    expected = naive_attention(queries / 5**0.5, shared, shared, lists)
    actual = attend_states(queries, states, segments, head_width=5)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    towards = draw(*actual.shape).detach()
    gradients = torch.autograd.grad(actual, (queries, states), towards)
    wanted = torch.autograd.grad(expected, (queries, states), towards)
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=3 * FEW_BLOCKS))
def test_blocks_hold_every_row_once(lengths):
    """A short batch is one block; of a long one, padding wastes little."""
    sizes = np.array(lengths)
    short = len(sizes) * sizes.max() <= FEW_ROWS
    rows, runs = [], []
    each, each_run = torch.arange(sizes.sum()), torch.arange(len(sizes))
    for block in blocks(sizes, torch.device("cpu")):
        taken = block.take(each)
        assert taken.shape == block.shape
        padding = 0 if block.missing is None else int(block.missing.sum())
        assert short or padding <= PADDED_ROWS or block.shape[1] <= 1.125 * sizes[block.runs].min() + 1
        assert torch.equal(each_run[block.places], each_run[block.runs])
        rows.append(taken.flatten() if block.missing is None else taken[~block.missing])
        runs.append(torch.arange(len(sizes))[block.runs])
    assert torch.equal(torch.cat(rows).sort().values, each)
    assert torch.equal(torch.cat(runs).sort().values, torch.arange(len(sizes)))
