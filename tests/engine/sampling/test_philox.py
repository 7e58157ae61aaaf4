"""Batches from a counter: the published generator, and independent roots with the right probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from dpgraph.core.errors import UserError
from dpgraph.engine.sampling.slots import philox, poisson_masks, threshold

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
    return poisson_masks(roots, rate, key, first, steps, stream, LIKE)


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
