"""Selection of the best of a random number of runs against the library, quadrature by hand, and its limits."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import UserError
from dpgraph.families.pagerank.mechanism import PoissonPagerank
from dpgraph.families.subgraphs.mechanism import CutSubgraphs
from dpgraph.families.trees.mechanism import FixedSizeStableTrees, PoissonTrees, ResidualTrees
from dpgraph.families.trees.published import FixedBatchTrees
from dpgraph.privacy.accountants.composition import pair_rdp
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair, residual_pair
from dpgraph.privacy.accountants.renyi import theorem1_rdp
from dpgraph.privacy.accountants.tuning import ORDERS, SHAPES, paid_epsilon
from dpgraph.privacy.mechanisms.none import NonPrivate

MLP = PoissonTrees(num_roots=1000, sampling_rate=0.05, steps=200, hops=0, delta=1e-5, noise_multiplier=3.0)
TREES: dict[str, Any] = {
    "num_roots": 1000, "steps": 50, "delta": 1e-5, "hops": 1, "max_degree": 3, "list_cap": 3,
}  # fmt: skip
POISSON = PoissonTrees(**TREES, sampling_rate=0.1, noise_multiplier=20.0)
RESIDUAL = ResidualTrees(**TREES, sampling_rate=0.1, neighbour_rate=0.2, neighbour_clip=0.1, noise_multiplier=4.0)
FIXED = FixedSizeStableTrees(**TREES, batch_size=100, noise_multiplier=2.0)


def library_epsilon(distribution: str, mean: float, delta: float = 1e-5) -> float:
    run = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(3.0)), 200
    )
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(run, mean, SHAPES[distribution]))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize("distribution", SHAPES)
@pytest.mark.parametrize("mean", [1, 3, 10, 50.5])
def test_one_affected_root_is_the_librarys_repeat_and_select(distribution: str, mean: float) -> None:
    """Its orders differ from ours, so the best of them differ a little."""
    assert paid_epsilon(MLP, distribution, mean_runs=mean, delta=1e-5) == pytest.approx(
        library_epsilon(distribution, mean), rel=0.01
    )


def by_quadrature(near: list[tuple[float, float]], far: list[tuple[float, float]], order: float) -> float:
    """ln integral P^alpha Q^(1 - alpha) / (alpha - 1) on a fine grid; (weight, mean) in units of the noise."""
    x = np.linspace(-40, 60, 400_001)

    def density(terms: list[tuple[float, float]]) -> np.ndarray:
        return sum(w * np.exp(-((x - m) ** 2) / 2) for w, m in terms) / math.sqrt(2 * math.pi)  # type: ignore[return-value]

    p, q = density(near), density(far)
    kept = (p > 0) & (q > 0)
    values = np.exp(order * np.log(p[kept]) + (1 - order) * np.log(q[kept]))
    return math.log(values.sum() * (x[1] - x[0])) / (order - 1)


@pytest.mark.parametrize("order", [1.3, 2.0, 5.5, 12.0])
def test_divergences_of_residual_clipping_by_hand(order: float) -> None:
    """R = 2, q1 = .3, q2 = .2, C_n = .5 C_s, noise 1.25 C_s: shifts written out."""
    own, second, noise = 0.3, 0.2, 1.25
    neighbours = {0: (1 - second) ** 2, 1: 2 * second * (1 - second), 2: second**2}
    left = [(w * (own if x else 1 - own), (x + 0.5 * y) / noise) for y, w in neighbours.items() for x in (0, 1)]
    right = [(1 - second, 0.0), (second, -0.5 / noise)]
    expected = max(by_quadrature(left, right, order), by_quadrature(right, left, order))
    assert pair_rdp(
        residual_pair(affected_roots=2, self_rate=own, neighbour_rate=second, neighbour_clip=0.5, noise_std=noise),
        (order,),
    )[0] == pytest.approx(expected, rel=1e-6)


def test_the_gaussian_mechanism_in_closed_form() -> None:
    """At rate 1 one root shifts by its clip norm: alpha / (2 s^2), from tiny to huge."""
    orders = (1.01, 1.5, 2.0, 30.0, 700.0)
    for noise in (0.3, 4.0, 1e3):
        expected = np.asarray(orders) / (2 * noise**2)
        rdp = pair_rdp(affected_roots_pair(affected_roots=1, rate=1.0, noise_std=noise), orders)
        assert np.all((np.abs(rdp / expected - 1) < 1e-5) | np.isinf(rdp))
        assert np.isfinite(rdp[:3]).all()


@pytest.mark.parametrize("mechanism", [MLP, POISSON, RESIDUAL, FIXED])
def test_tuning_costs_more_than_one_run_and_more_runs_cost_more(mechanism: Any) -> None:
    single = mechanism.rigorous().epsilon
    for distribution in SHAPES:
        few, many = (paid_epsilon(mechanism, distribution, mean_runs=mean, delta=mechanism.delta) for mean in (2, 40))
        assert single < few < many
        assert distribution != "geometric" or many < 3.5 * single  # about 3 single runs, however many are tried


def test_the_price_of_a_fixed_size_run_is_theorem_2_over_theorem_1() -> None:
    """Papernot & Steinke, Theorem 2, geometric law (eta = 1, gamma = 1 / mean), written out at integer orders."""
    orders = np.arange(2.0, 200.0)
    rdp = FIXED.steps * theorem1_rdp(
        num_roots=1000, batch_size=100, affected_roots=7, noise_multiplier=2.0, orders=tuple(orders.tolist())
    )  # type: ignore[operator]
    extra = 2 * np.min((1 - 1 / orders) * rdp + math.log(10) / orders)
    paid = rdp + math.log(10) / (orders - 1) + extra
    epsilon = np.min(paid + np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1))
    assert paid_epsilon(FIXED, "geometric", mean_runs=10, delta=1e-5) == pytest.approx(epsilon, rel=0.01)


def test_several_mechanisms_cost_at_least_the_dearest_and_equal_ones_nothing_more() -> None:
    dearer = POISSON.with_noise(10.0)
    alone = paid_epsilon(dearer, "geometric", mean_runs=5, delta=1e-5)
    assert paid_epsilon([POISSON, dearer], "geometric", mean_runs=5, delta=1e-5) == alone
    assert paid_epsilon([dearer, dearer], "geometric", mean_runs=5, delta=1e-5) == alone
    long = POISSON.with_steps(1).with_noise(3.0)  # other orders are worst for it
    both = paid_epsilon([POISSON, long], "poisson", mean_runs=5, delta=1e-5)
    assert both >= max(paid_epsilon(one, "poisson", mean_runs=5, delta=1e-5) for one in (POISSON, long))


def selected(rdp: np.ndarray, mean: float, delta: float) -> float:
    """Papernot & Steinke, Theorem 2, geometric law (eta = 1, gamma = 1 / mean), over divergences at `ORDERS`."""
    orders = np.array(ORDERS)
    extra = 2 * np.min((1 - 1 / orders) * rdp + math.log(mean) / orders)
    paid = rdp + math.log(mean) / (orders - 1) + extra
    return float(np.min(paid + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)))


# What a run pays once: the release of all rows, two epochs of two parts for three steps.
RANKED = PoissonPagerank(
    num_roots=70, steps=40, delta=2e-3, top_k=4, release="gaussian", release_noise=math.sqrt(140) / 0.5,
    noise_multiplier=7.42, sampling_rate=0.25, column_cap=1,
)  # fmt: skip
CUT = CutSubgraphs(num_roots=100, num_splits=2, steps=3, delta=1e-5, noise_multiplier=10.0)


def of_rows() -> np.ndarray:
    """Gaussian, sensitivity sqrt(2 M) C1: order * (0.5)^2 / 2. Then 40 steps, two affected roots."""
    return np.array(ORDERS) * 0.5**2 / 2 + 40 * pair_rdp(
        affected_roots_pair(affected_roots=2, rate=0.25, noise_std=7.42), ORDERS
    )


def of_parts() -> np.ndarray:
    """Two epochs, each Gaussian of sensitivity 2 C."""
    return np.array(ORDERS) * 2 * (2 / 10.0) ** 2 / 2


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize(("mechanism", "one_run"), [(RANKED, of_rows), (CUT, of_parts)])
def test_seeds_are_whole_runs(mechanism: Any, one_run: Any, seeds: int) -> None:
    """S times the divergences of one run, one-off costs too: more than one run with S times the steps."""
    paid = paid_epsilon(mechanism, "geometric", mean_runs=10, delta=mechanism.delta, repeats=seeds)
    assert paid == pytest.approx(selected(seeds * one_run(), 10, mechanism.delta), rel=1e-6)
    longer = paid_epsilon(
        mechanism.with_steps(seeds * mechanism.steps), "geometric", mean_runs=10, delta=mechanism.delta
    )
    assert paid > 1.005 * longer if seeds > 1 else paid == longer


def test_without_one_off_costs_seeds_are_as_many_more_steps() -> None:
    assert paid_epsilon(POISSON, "poisson", mean_runs=5, delta=1e-5, repeats=3) == pytest.approx(
        paid_epsilon(POISSON.with_steps(150), "poisson", mean_runs=5, delta=1e-5), rel=1e-9
    )


@settings(max_examples=10, deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.3, 30.0), st.floats(1.1, 60.0))
def test_divergences_are_at_most_those_of_whole_batches(rate: float, noise: float, order: float) -> None:
    """A random batch tells less than all roots drawn: (2R - 1) shifts of the Gaussian, alpha mu^2 / 2."""
    rdp = pair_rdp(affected_roots_pair(affected_roots=4, rate=rate, noise_std=noise), (order,))[0]
    assert 0 < rdp <= order * (7 / noise) ** 2 / 2 * (1 + 1e-6) or math.isinf(rdp)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: paid_epsilon(MLP, "fixed", mean_runs=3, delta=1e-5),
            "^distribution=fixed: expected one of geometric, poisson$"),
        (lambda: paid_epsilon(MLP, "poisson", mean_runs=0.5, delta=1e-5),
 "^mean_runs=0.5: expected a finite number >= 1$"),
        (lambda: paid_epsilon(MLP, "poisson", mean_runs=math.nan, delta=1e-5), "^mean_runs=nan"),
        (lambda: paid_epsilon(MLP, "poisson", mean_runs=2, delta=0.0), "^delta=0.0"),
        (lambda: paid_epsilon(MLP, "poisson", mean_runs=2, delta=1e-5, repeats=0),
 "^repeats=0: expected an integer >= 1$"),
        (lambda: paid_epsilon([], "poisson", mean_runs=2, delta=1e-5), "^mechanism=none"),
        (lambda: paid_epsilon(NonPrivate(steps=3), "poisson", mean_runs=2, delta=1e-5), "^mechanism=non-private"),
        (lambda: paid_epsilon(MLP.model_copy(update={"steps": None}), "poisson", mean_runs=2, delta=1e-5),
 "^steps=None"),
        (
            lambda: paid_epsilon(
                FixedBatchTrees(
                    num_roots=9, batch_size=3, steps=2, hops=0, groups=2, delta=1e-3, noise_multiplier=3.0
                ),
                "poisson", mean_runs=2, delta=1e-5,
            ),
            "^mechanism=fixed-batch-trees: nothing is guaranteed: the clip norms",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_paid_is_refused_in_one_line(call: Any, line: str) -> None:
    with pytest.raises(UserError, match=line) as caught:
        call()
    assert "\n" not in str(caught.value)
