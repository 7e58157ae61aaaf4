from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpgraph.randomness import numpy_generator
from dpgraph.reporting.claims.contrasts import contrast

SAMPLES = st.lists(st.floats(-100, 100), min_size=2, max_size=6).map(np.array)


@given(SAMPLES, SAMPLES)
def test_two_terms_are_welchs_test(one, two):
    if one.std() < 1e-3 or two.std() < 1e-3:
        return  # scipy warns of cancellation there
    difference = contrast([(1.0, "a", one), (-1.0, "b", two)])
    expected = stats.ttest_ind(one, two, equal_var=False, alternative="greater")
    assert difference.p_above(0.0) == pytest.approx(expected.pvalue, abs=1e-9)
    assert difference.degrees == pytest.approx(expected.df, rel=1e-6)
    assert difference.p_above(0.0) + difference.p_below(0.0) == pytest.approx(1)


@given(SAMPLES, SAMPLES, SAMPLES)
def test_equal_names_cancel(low, high, other):
    four = contrast([(1.0, "high", high), (-1.0, "other", other), (-1.0, "low", low), (1.0, "other", other)])
    two = contrast([(1.0, "high", high), (-1.0, "low", low)])
    assert four == two


def test_equal_seeds_decide_without_a_variance():
    same = contrast([(1.0, "a", np.full(3, 60.1)), (-1.0, "b", np.full(3, 50.1))])
    assert (same.p_above(5.0), same.p_below(5.0)) == (0.0, 1.0)
    assert same.p_above(20.0) == 1.0


def test_one_seed_has_no_test():
    single = contrast([(1.0, "a", np.array([1.0])), (-1.0, "b", np.array([0.0, 0.1]))])
    assert single.estimate == pytest.approx(0.95)
    assert single.n == 1
    assert np.isnan(single.p_above(0.0))


def test_level_holds_under_the_null():
    """With no difference, p < 0.05 in about 5 % of draws: unequal variances and sizes, four terms."""
    generator = numpy_generator("test", "contrast level")
    terms = [(1.0, "a", 3, 1.0), (-1.0, "b", 5, 3.0), (-1.0, "c", 4, 1.0), (1.0, "d", 5, 0.5)]
    draws = [
        contrast([(weight, name, generator.normal(0, std, n)) for weight, name, n, std in terms]).p_above(0.0)
        for _ in range(3000)
    ]
    assert 0.035 < np.mean(np.array(draws) < 0.05) < 0.065
