from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.contrasts import contrast

SAMPLES = st.lists(st.floats(-100, 100), min_size=2, max_size=6).map(pd.Series)
PAIRS = st.lists(st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=2, max_size=6)


def other_seeds(values):
    return values.set_axis(range(100, 100 + len(values)))


@given(SAMPLES, SAMPLES)
def test_other_seeds_are_welchs_test(one, two):
    if one.std() < 1e-3 or two.std() < 1e-3:
        return  # scipy warns of cancellation there
    difference = contrast([(1.0, "a", one), (-1.0, "b", other_seeds(two))])
    expected = stats.ttest_ind(one, two, equal_var=False, alternative="greater")
    assert difference.p_above(0.0) == pytest.approx(expected.pvalue, abs=1e-9)
    assert difference.degrees == pytest.approx(expected.df, rel=1e-6)
    assert difference.p_above(0.0) + difference.p_below(0.0) == pytest.approx(1)


@given(PAIRS)
def test_the_same_seeds_are_the_paired_test(pairs):
    one, two = (pd.Series(values) for values in zip(*pairs, strict=True))
    if (one - two).std() < 1e-3:
        return
    difference = contrast([(1.0, "a", one), (-1.0, "b", two)])
    expected = stats.ttest_rel(one, two, alternative="greater")
    assert difference.p_above(0.0) == pytest.approx(expected.pvalue, abs=1e-9)
    assert difference.degrees == pytest.approx(len(pairs) - 1)


@given(PAIRS, PAIRS)
def test_cells_of_one_graph_stay_paired_where_another_has_more_seeds(first, second):
    (one, two), (three, four) = (
        [pd.Series(values) for values in zip(*pairs, strict=True)] for pairs in (first, second)
    )
    at_first, at_second = one - two, three - four
    if at_first.std() < 1e-3 or at_second.std() < 1e-3:
        return
    elsewhere = [(1.0, "c", other_seeds(three)), (-1.0, "d", other_seeds(four))]
    found = contrast([(1.0, "a", one), (-1.0, "b", two), *elsewhere])
    expected = stats.ttest_ind(at_first, -at_second, equal_var=False, alternative="greater")
    assert found.p_above(0.0) == pytest.approx(expected.pvalue, abs=1e-9)


@given(SAMPLES, SAMPLES, SAMPLES)
def test_equal_names_cancel(low, high, other):
    four = contrast([(1.0, "high", high), (-1.0, "other", other), (-1.0, "low", low), (1.0, "other", other)])
    two = contrast([(1.0, "high", high), (-1.0, "low", low)])
    assert four == two


@pytest.mark.parametrize("seeds", [lambda values: values, other_seeds])
def test_equal_values_are_as_good_as_their_number(seeds):
    """Five times the same difference has no t value; by chance five signs agree in one of 32 cases."""
    for n, p in ((3, 1 / 8), (5, 1 / 32)):
        same = contrast([(1.0, "a", pd.Series(np.full(n, 60.1))), (-1.0, "b", seeds(pd.Series(np.full(n, 50.1))))])
        assert (same.p_above(5.0), same.p_below(5.0)) == (p, 1.0)
        assert same.p_above(20.0) == 1.0


def test_one_seed_has_no_test():
    single = contrast([(1.0, "a", pd.Series([1.0])), (-1.0, "b", pd.Series([0.0, 0.1]))])
    assert single.estimate == pytest.approx(0.95)
    assert single.n == 1
    assert np.isnan(single.p_above(0.0))


def test_level_holds_under_the_null():
    """With no difference, p < 0.05 in about 5 % of draws: unequal variances and sizes, four terms."""
    generator = numpy_generator("test", "contrast level")
    terms = [(1.0, "a", 3, 1.0), (-1.0, "b", 5, 3.0), (-1.0, "c", 4, 1.0), (1.0, "d", 5, 0.5)]
    draws = [
        contrast([(weight, name, pd.Series(generator.normal(0, std, n))) for weight, name, n, std in terms]).p_above(
            0.0
        )
        for _ in range(3000)
    ]
    assert 0.035 < np.mean(np.array(draws) < 0.05) < 0.065


@pytest.mark.parametrize(("gain", "low", "high"), [(0.0, 0.035, 0.065), (1.0, 0.9, 1.0)])
def test_what_a_split_does_to_all_cells_is_no_difference(gain, low, high):
    """Five seeds whose splits move both cells by far more than they differ: size 5 %, and power."""
    generator = numpy_generator("test", "contrast of splits")
    found = []
    for _ in range(2000):
        split = generator.normal(60, 5, 5)
        one, two = (pd.Series(split + shift + generator.normal(0, 0.3, 5)) for shift in (gain, 0.0))
        found.append(contrast([(1.0, "a", one), (-1.0, "b", two)]).p_above(0.0) < 0.05)
    assert low < np.mean(found) <= high
