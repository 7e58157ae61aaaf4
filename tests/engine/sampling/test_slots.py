"""Slots of a batch: every drawn root has one, in a class that its tree fits, or the overflow is reported."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpgraph.core.errors import UserError
from dpgraph.engine.sampling.slots import UNLIKELY, SlotClasses, fill_slots, most_drawn, public_classes


@st.composite
def batches(draw):
    widths = sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=4)))
    counts = [draw(st.integers(1, 6)) for _ in widths]
    sizes = sorted(draw(st.lists(st.integers(1, widths[-1]), min_size=1, max_size=20)))
    masks = draw(st.lists(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)), min_size=1, max_size=3))
    return SlotClasses(tuple(widths), tuple(counts)), np.array(sizes), torch.tensor(masks)


def by_hand(classes, sizes, mask):
    """(slots taken by class, whether one root has none): each root in the first class that fits it and has a slot."""
    taken, index, lost = [[] for _ in classes.widths], 0, False
    for root in np.flatnonzero(mask):
        index = max(index, int(np.searchsorted(classes.widths, sizes[root])))
        while index < len(taken) and len(taken[index]) == classes.counts[index]:
            index += 1
        if index == len(taken):
            lost = True
            break
        taken[index].append(int(root))
    return taken, lost


@given(batches())
def test_every_root_has_a_slot_or_the_overflow_is_reported(batch):
    classes, sizes, masks = batch
    ends = torch.from_numpy(np.searchsorted(sizes, classes.widths, side="right"))
    result = fill_slots(masks, ends, classes)
    assert result.ranks.shape == (len(masks), classes.slots)
    assert result.sizes.tolist() == masks.sum(1).tolist()
    for mask, ranks, over in zip(masks.numpy(), result.ranks, result.overflow, strict=True):
        taken, lost = by_hand(classes, sizes, mask)
        assert bool(over) == lost
        parts = ranks.split(list(classes.counts))
        assert [sorted(part[part < len(sizes)].tolist()) for part in parts] == taken
        if not lost:
            assert sorted(ranks[ranks < len(sizes)].tolist()) == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(("num_roots", "rate"), [(10, 0.5), (1000, 0.01), (1000, 1.0), (90_000, 0.11), (100, 1e-6)])
def test_bernstein_bounds_the_binomial(num_roots, rate):
    most = most_drawn(num_roots, rate)
    assert stats.binom(num_roots, rate).sf(most) <= UNLIKELY
    assert most <= num_roots * rate + 9 * (num_roots * rate) ** 0.5 + 15


@given(st.lists(st.integers(0, 20), min_size=2, max_size=60), st.sampled_from([0.05, 0.3, 1.0]), st.integers(1, 6))
def test_enough_slots_for_any_lists_within_the_bounds(lengths, rate, max_degree):
    """Whatever the lengths, if at most K M entries: beyond each width no more roots than it was computed for."""
    nodes = max(1, -(-sum(lengths) // max_degree))
    classes = public_classes(
        num_roots=len(lengths), rate=rate, num_nodes=nodes, max_degree=max_degree, list_cap=max(1, *lengths)
    )
    assert classes.widths[-1] == 1 + max(1, *lengths)
    for index in range(len(classes.widths)):
        below = classes.widths[index - 1] if index else 0
        there = sum(length + 1 > below for length in lengths)
        assert sum(classes.counts[index:]) >= most_drawn(there, rate)


def test_public_numbers_decide_alone():
    usual = {"num_roots": 90_941, "rate": 0.11, "num_nodes": 169_343, "max_degree": 7}
    assert public_classes(**usual, list_cap=7).widths == (8,)
    long = public_classes(**usual, list_cap=100)
    assert long.widths[-1] == 101
    assert long.rows < 0.6 * 101 * long.slots
    assert public_classes(**{**usual, "max_degree": None}, list_cap=None).widths == (1,)
    with pytest.raises(UserError, match="slots"):
        SlotClasses((4, 2), (1, 1))
