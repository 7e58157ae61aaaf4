"""Poisson batches in slots: the published generator, independent roots, and a slot for every root or a report."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpgraph.core.errors import UserError
from dpgraph.engine.sampling import slots
from dpgraph.engine.sampling.slots import (
    UNLIKELY,
    SlotClasses,
    fill_slots,
    fixed_size_batches,
    most_drawn,
    philox,
    poisson_masks,
    random_numbers,
    slot_classes,
    threshold,
)

LIKE = torch.zeros(1)
KNOWN = [  # kat_vectors of Random123 for philox4x32 of 10 rounds: counter, key, words
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter, key, words):
    result = philox(tuple(torch.tensor([word]) for word in counter), key[1] << 32 | key[0])
    assert tuple(int(word) for word in result) == words


def masks(roots=1000, rate=0.1, key=7, first=0, steps=400, stream=0):
    return poisson_masks(random_numbers(roots, key, first, steps, stream, LIKE), rate)


def test_sizes_of_batches_are_binomial():
    """Chi-squared over sizes, and each root as often as any other."""
    drawn = masks()
    sizes = drawn.sum(1).numpy()
    cells = stats.binom(1000, 0.1).ppf(np.linspace(0, 1, 11)[1:-1])
    shares = np.diff(stats.binom(1000, 0.1).cdf(np.concatenate([[-1], cells, [1000]])))
    observed = np.bincount(np.searchsorted(cells, sizes), minlength=10)
    assert stats.chisquare(observed, 400 * shares).pvalue > 1e-4
    often = drawn.sum(0).numpy()
    assert (
        stats.kstest(stats.binom(400, 0.1).cdf(often) - stats.binom(400, 0.1).pmf(often) / 2, "uniform").pvalue > 1e-4
    )


@pytest.mark.parametrize(
    "other", [{"key": 8}, {"stream": 1}, {"first": 400}, {"key": 7 + (1 << 32)}], ids=["key", "term", "steps", "upper"]
)
def test_other_batches_are_independent(other):
    """Roots that are in both: as many as by chance."""
    both = (masks() & masks(**other)).sum().item()
    assert abs(both - 4000) < 5 * (4000 * 0.99) ** 0.5


def test_neighbouring_roots_and_steps_are_independent():
    """Two roots share a counter, and steps follow each other."""
    drawn = masks()
    for first, second in ((drawn[:, ::2], drawn[:, 1::2]), (drawn[:-1], drawn[1:])):
        count = first.numel()
        assert abs((first & second).sum().item() - 0.01 * count) < 5 * (0.01 * count) ** 0.5


def test_a_batch_depends_on_key_step_and_root_alone():
    """Not on how many steps are drawn at once, nor on how many roots there are."""
    drawn = masks(steps=5, first=3)
    assert torch.equal(masks(steps=1, first=5), drawn[2:3])
    assert torch.equal(masks(roots=777, steps=5, first=3), drawn[:, :777])


def test_rates_are_never_rounded_up():
    assert masks(rate=1.0).all()
    assert not masks(rate=1e-300).any()
    for rate in (0.1, 1 / 3, 1e-9, 0.999999):
        assert 0 <= rate * 2**62 - threshold(rate) < 1
    with pytest.raises(UserError, match="step"):
        masks(first=2**32)


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
def test_slots_are_a_quantile_of_the_binomial_law(num_roots, rate):
    most, law = most_drawn(num_roots, rate), stats.binom(num_roots, rate)
    assert law.sf(most) <= UNLIKELY
    assert most == 0 or law.sf(most - 1) > UNLIKELY


SIZES = st.lists(st.integers(1, 200), min_size=2, max_size=60).map(sorted)


@given(SIZES, st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from([1, 20, 4096]), st.booleans())
def test_enough_slots_for_the_trees_that_there_are(sizes, rate, class_rows, fixed):
    """Beyond each width no fewer slots than roots that a batch may hold; hubs that are hardly drawn have none."""
    batch = max(1, int(rate * len(sizes)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slots, "CLASS_ROWS", {"cpu": class_rows})
        classes = slot_classes(np.array(sizes), rate, batch if fixed else len(sizes), "cpu")
    assert most_drawn(sum(size > classes.widths[-1] for size in sizes), rate) == 0
    for index in range(len(classes.widths)):
        below = classes.widths[index - 1] if index else 0
        there = sum(size > below for size in sizes)
        assert sum(classes.counts[index:]) >= min(most_drawn(there, rate), batch if fixed else there)
    assert classes.slots <= (batch if fixed else len(sizes))
    assert slot_classes(np.array(sizes), 1e-9, len(sizes), "cpu").slots == 1


def test_hubs_have_few_slots():
    """Slots follow the sizes that there are: one tree of 5,317 rows does not widen 10,000 slots."""
    sizes = np.sort(np.r_[np.random.default_rng(1).integers(1, 12, 90_000), [60] * 40, [900] * 5, 5317])
    classes = slot_classes(sizes, 0.11, len(sizes), "cuda")
    assert classes.widths[-1] == 5317
    assert classes.counts[-1] == 1
    assert classes.rows < 2 * 0.11 * sizes.sum()
    with pytest.raises(UserError, match="slots"):
        SlotClasses((4, 2), (1, 1))


def fixed(size=100, roots=1000, **numbers):
    drawn = random_numbers(roots, **{"key": 7, "first": 0, "steps": 400, "stream": 0, "like": LIKE, **numbers})
    return fixed_size_batches(drawn, size)


def test_batches_of_fixed_size_are_uniform_sets():
    """Ascending, without repeats; each root as often as any other, each pair of roots as often as any other."""
    drawn = fixed()
    assert drawn.shape == (400, 100)
    assert (drawn.diff() > 0).all()
    there = torch.zeros(400, 1000).scatter_(1, drawn, 1.0)
    often = there.sum(0).numpy()
    law = stats.binom(400, 0.1)
    assert stats.kstest(law.cdf(often) - law.pmf(often) / 2, "uniform").pvalue > 1e-4
    pairs = (there[:, ::2] * there[:, 1::2]).sum().item()
    expected = 400 * 500 * 100 * 99 / (1000 * 999)
    assert abs(pairs - expected) < 5 * expected**0.5
    assert torch.equal(fixed(steps=1, first=5), drawn[5:6])
    assert not torch.equal(fixed(stream=1), drawn)
    assert torch.equal(fixed(size=1000, steps=2), torch.arange(1000).expand(2, -1))
