"""Size and power of claims: against noncentral t distributions and against claims that are decided again and again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nct, t

from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.contrasts import LEVEL, Above, Strength, contrast, strength, together
from dpgraph.reporting.quantities import quantity

SLACK = 0.02  # of 4,000 draws


def sample(n: int, std: float, name: str) -> pd.Series:
    """Residuals whose standard deviation is exactly `std`."""
    drawn = numpy_generator("test", "power", name).standard_normal(n)
    drawn -= drawn.mean()
    return pd.Series(drawn * std / drawn.std(ddof=1))


def part(n: int, std: float, margin: float = 0.0, printed: float | None = None, name: str = "a") -> Above:
    value = contrast([(1.0, name, sample(n, std, name))])
    object.__setattr__(value, "printed", printed)
    return Above(value, margin)


def analytic(n: int, effect_over_std: float) -> float:
    return float(nct.sf(t.isf(LEVEL, n - 1), n - 1, effect_over_std * np.sqrt(n)))


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("std", [0.3, 1.0, 4.0])
def test_one_comparison_is_a_t_test(n: int, std: float) -> None:
    found = strength([((part(n, std),),)])
    assert found is not None
    assert found.size == pytest.approx(LEVEL, abs=SLACK)
    assert found.power == pytest.approx(analytic(n, 1 / std), abs=SLACK)  # an effect of 1 point


@pytest.mark.parametrize("contrasts", [2, 4, 20])
@pytest.mark.parametrize("several", ["ways", "comparisons", "in one way"])
def test_the_size_is_never_above_the_level(contrasts: int, several: str) -> None:
    """The largest of many simulated rates would be: 6 % of a claim on ranges, whose ways are many."""
    parts = [part(6, 1.0, name=str(index)) for index in range(contrasts)]
    match several:
        case "ways":
            tested = [tuple((one,) for one in parts)]
        case "comparisons":
            tested = [((one,),) for one in parts]
        case _:
            tested = [(tuple(parts),)]
    found = strength(tested)
    assert found is not None
    assert LEVEL - 0.02 < found.size <= LEVEL


def test_what_is_printed_of_steps_that_may_not_fall_is_their_effect() -> None:
    """0 where a step may be flat; a printed rise where there is one; a level has no zero to be equal to."""
    assert part(5, 1.0, -0.5, printed=2.0).effect == 2.0
    assert part(5, 1.0, -0.5, printed=-0.2).effect == 0.0
    level = part(5, 1.0, -80.0, printed=-70.0)
    object.__setattr__(level.contrast, "difference", False)
    assert level.effect == -70.0
    object.__setattr__(level.contrast, "printed", None)
    assert level.effect == -79.0


@pytest.mark.parametrize(
    ("margin", "printed", "effect"),
    [(0.0, 3.0, 3.0), (0.0, None, 1.0), (0.0, -3.0, 1.0), (5.0, 7.5, 2.5), (5.0, 4.0, 1.0), (-2.0, None, 2.0)],
)
def test_the_effect_is_the_printed_one_where_it_agrees(margin: float, printed: float | None, effect: float) -> None:
    found = strength([((part(5, 2.0, margin, printed),),)])
    assert found is not None
    assert found.power == pytest.approx(analytic(5, effect / 2), abs=SLACK)


@pytest.mark.parametrize(
    ("metric", "point"), [("accuracy/test", 1), ("silhouette/train", 0.02), ("degree_rmse/train", 1)]
)
def test_the_effect_is_a_hundredth_of_the_range(metric: str, point: float) -> None:
    of = dataclasses.replace(part(5, 0.02).contrast, point=quantity(metric).point)
    assert Above(of, 0.5).effect == 0.5 + point
    assert strength([((Above(of, 0.0),),)]).power == pytest.approx(analytic(5, point / 0.02), abs=SLACK)


def test_all_comparisons_must_hold() -> None:
    """Two contrasts with one and the same spread over seeds are as good as one; independent ones multiply."""
    one = strength([((part(10, 1.0, name="a"),),)])
    same = strength([((part(10, 1.0, name="a"),),)] * 3)
    assert one is not None
    assert same is not None
    assert same.power == pytest.approx(one.power, abs=SLACK)
    other = strength([((part(30, 2.0, name=name),),) for name in "ab"])
    assert other is not None
    assert other.power == pytest.approx(analytic(30, 0.5) ** 2, abs=3 * SLACK)


def test_ways_share_the_level() -> None:
    """Best of k that is picked: at the margin, all k independent, at most one in twenty is called above it.

    Where one of the four is above, it is found less easily than alone.
    """
    ways = tuple((part(12, 1.0, name=str(index)),) for index in range(4))
    found = strength([ways])
    assert found is not None
    assert found.size <= LEVEL + SLACK
    single = strength([(ways[0],)])
    assert single is not None
    assert found.power < single.power
    quarter = float(nct.sf(t.isf(LEVEL / 4, 11), 11, np.sqrt(12)))
    assert found.power == pytest.approx(quarter, abs=SLACK)


def test_the_size_is_that_of_the_least_favourable_null() -> None:
    """One contrast at its margin and the other beyond doubt: not both at their margins, which is found more rarely."""
    both = strength([(tuple(part(8, 1.0, name=name) for name in "ab"),)])
    assert both is not None
    assert both.size == pytest.approx(LEVEL, abs=SLACK)
    random = numpy_generator("test", "least favourable")
    called = []
    for _ in range(2000):
        at, beyond = random.standard_normal((2, 8))
        called.append(
            contrast([(1.0, "a", pd.Series(at))]).p_above(0) < LEVEL
            and contrast([(1.0, "b", pd.Series(beyond + 100))]).p_above(0) < LEVEL
        )
    assert both.size == pytest.approx(np.mean(called), abs=SLACK)


def test_spread_is_pooled_over_the_claim() -> None:
    """A contrast that three seeds happen to agree on is not taken to be known exactly."""
    sure = strength([((part(3, 1e-9, name="a"),),)])
    beside = strength([((part(3, std, name=name),),) for name, std in (("a", 1e-9), ("b", 4.0))])
    assert sure is not None
    assert beside is not None
    assert sure.power == 1
    assert beside.power < analytic(3, 1 / 4.0) + SLACK


def test_equal_values_are_a_sign_test() -> None:
    found = strength([((part(4, 0.0),),)])
    assert found == Strength(0.0, 0.0)  # p = 1 / 16 at best
    assert strength([((part(5, 0.0),),)]) == Strength(0.0, 1.0)


def test_without_a_test_there_is_no_power() -> None:
    assert strength([]) is None
    one_seed = strength([((Above(contrast([(1.0, "a", pd.Series([1.0]))]), 0.0),),)])
    assert one_seed is not None
    assert np.isnan(one_seed.power)
    assert together(Strength(0.05, 0.5), [Strength(0.04, 0.5)]) == Strength(0.05, 0.25)


def test_power_is_how_often_a_claim_is_reproduced() -> None:
    """Draw results with the covariance that was measured, decide each with the t tests of claims, and count."""
    random = numpy_generator("test", "claims again and again")
    n, effect = 6, 1.0
    factor = np.array([[1.0, 0.0], [0.8, 0.6]])  # of the residuals of two contrasts, each of standard deviation 1
    centred = random.standard_normal((n, 2))
    exact = np.linalg.qr(centred - centred.mean(axis=0))[0] * np.sqrt(n - 1) @ factor.T
    found = strength([(tuple(Above(contrast([(1.0, "a", pd.Series(exact[:, i]))]), 0.0) for i in (0, 1)),)])
    assert found is not None
    wins = []
    for _ in range(1000):
        seeds = random.standard_normal((n, 2)) @ factor.T + effect
        wins.append(all(contrast([(1.0, "a", pd.Series(seeds[:, i]))]).p_above(0) < LEVEL for i in (0, 1)))
    assert found.power == pytest.approx(np.mean(wins), abs=0.05)


def test_power_of_unlike_seeds_is_that_of_welchs_test() -> None:
    """Each sample counts by its own number of seeds, not by the smallest."""
    sizes, stds, effect = (5, 60), (0.3, 3.0), 1.0
    sums = [sample(n, std, str(n)).set_axis(range(100 * n, 100 * n + n)) for n, std in zip(sizes, stds, strict=True)]
    value = contrast([(1.0, str(len(each)), each) for each in sums])
    found = strength([((Above(value, 0.0),),)])
    assert found is not None
    random = numpy_generator("test", "unlike seeds")
    wins = []
    for _ in range(2000):
        drawn = [pd.Series(random.standard_normal(n) * std) for n, std in zip(sizes, stds, strict=True)]
        terms = [(1.0, str(i), each.set_axis(range(100 * i, 100 * i + len(each)))) for i, each in enumerate(drawn)]
        wins.append(contrast(terms).p_above(-effect) < LEVEL)
    assert 0.6 < found.power == pytest.approx(np.mean(wins), abs=2 * SLACK)


def test_each_comparison_has_its_own_number_of_seeds() -> None:
    many, few = part(60, 3.0, name="many"), part(5, 0.1, name="few")
    found = strength([((many,),), ((few,),)])
    assert found is not None
    assert found.power == pytest.approx(analytic(60, 1 / 3.0), abs=2 * SLACK)
