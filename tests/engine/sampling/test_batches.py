from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler, fixed_size_batch, poisson_batch


def test_poisson_batches_have_independent_roots():
    """Sizes are Bin(N, q), each root's count over draws is Bin(draws, q), pairs are uncorrelated."""
    n, q, draws = 40, 0.3, 4000
    generator = numpy_generator("poisson")
    present = np.zeros((draws, n), dtype=bool)
    for i in range(draws):
        present[i, poisson_batch(n, q, generator)] = True
    sizes = present.sum(1)
    low, high = stats.binom.ppf([0.0005, 0.9995], n, q)
    edges = np.arange(low, high + 1)
    expected = stats.binom.pmf(edges, n, q)
    seen = np.array([(sizes == e).sum() for e in edges])
    rest = draws - seen.sum()
    assert stats.chisquare([*seen, rest], [*(draws * expected), draws * (1 - expected.sum())]).pvalue > 1e-4
    assert np.all(stats.binom.sf(present.sum(0), draws, q) > 1e-6)
    assert np.all(stats.binom.cdf(present.sum(0), draws, q) > 1e-6)
    off_diagonal = np.corrcoef(present.T) - np.eye(n)
    assert np.abs(off_diagonal).max() < 5.5 / np.sqrt(draws)


def test_fixed_size_batches_are_uniform_sets():
    """All 10 sets of 2 among 5 are equally likely, and no root comes twice."""
    generator = numpy_generator("fixed")
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(4000):
        chosen = tuple(sorted(fixed_size_batch(5, 2, generator).tolist()))
        assert len(set(chosen)) == 2
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_samplers_state_what_they_are():
    poisson, fixed = PoissonSampler(100, 0.25), FixedSizeSampler(100, 7)
    assert (poisson.name, fixed.name) == ("poisson", "fixed-size without replacement")
    assert np.array_equal(poisson.draw(numpy_generator(1)), poisson_batch(100, 0.25, numpy_generator(1)))
    assert np.array_equal(fixed.draw(numpy_generator(1)), fixed_size_batch(100, 7, numpy_generator(1)))
    assert len(PoissonSampler(100, 1.0).draw(numpy_generator(2))) == 100


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PoissonSampler(10, 0.0), "sampling_rate=0.0: expected a number in (0, 1]"),
        (lambda: PoissonSampler(10, float("nan")), "sampling_rate=nan: expected a number in (0, 1]"),
        (lambda: PoissonSampler(0, 0.5), "num_roots=0: expected an integer >= 1"),
        (
            lambda: FixedSizeSampler(10, 11),
            "batch_size=11: expected an integer in 1..10 (the number of training nodes)",
        ),
    ],
)
def test_user_mistakes(make, message):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value) == message
