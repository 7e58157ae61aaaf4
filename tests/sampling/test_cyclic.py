"""Cyclic batches: turns, rates, and groups that no record decides."""

import numpy as np
import pytest

from dpgraph.errors import UserError
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import Draws, PoissonSampler
from dpgraph.sampling.cyclic import CyclicDraws, CyclicSampler, public_groups


def draws(rate=0.4, bands=3, roots=50):
    return CyclicDraws(CyclicSampler(public_groups(roots, bands, 7), bands, rate), numpy_generator("cyclic"))


def test_groups_take_turns_at_their_rate():
    found, drawn = draws(), np.zeros((3000, 50), dtype=bool)
    for step in range(len(drawn)):
        drawn[step, found.next()] = True
    groups = found.sampler.groups
    assert np.array_equal(np.sort(np.bincount(groups)), [16, 17, 17])
    for step in range(len(drawn)):
        assert not drawn[step, groups != step % 3].any()
    for group in range(3):
        own = drawn[group::3][:, groups == group]
        assert own.mean() == pytest.approx(0.4, abs=5 * np.sqrt(0.24 / own.size))
        centred = own - 0.4
        assert abs((centred[1:] * centred[:-1]).mean()) < 5 * 0.24 / np.sqrt(own.size)
    assert found.apart == 3
    assert found.count == 3000
    assert found.sampler.expected_size == pytest.approx(0.4 * 50 / 3)


def test_a_resumed_run_goes_on_with_its_group():
    first, again = draws(rate=1.0), draws(rate=1.0)
    batches = [first.next() for _ in range(5)]
    again.start_at(4)
    assert np.array_equal(again.next(), batches[4])
    assert again.apart is None


def test_what_is_no_cyclic_batch_is_refused():
    with pytest.raises(TypeError, match="draw it with CyclicDraws"):
        Draws(draws().sampler, numpy_generator("x")).next()
    with pytest.raises(TypeError, match="expected cyclic batches"):
        CyclicDraws(PoissonSampler(5, 0.5), numpy_generator("x")).next()
    with pytest.raises(UserError, match=r"sampling_rate=1\.5"):
        draws(rate=1.5)
    assert np.array_equal(public_groups(9, 2, 1), public_groups(9, 2, 1))
    assert not np.array_equal(public_groups(90, 2, 1), public_groups(90, 2, 2))
