"""DP-SGD over lots of records: the paper's Table 5, and what is proved of each variant."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from dpgraph.core.errors import UserError
from dpgraph.families.lots.mechanism import ComponentLots, ShuffledLots
from dpgraph.families.trees.records import PoissonLots
from dpgraph.planning.resolve import calibrate, mechanism_for, resolve
from dpgraph.privacy.accountants.gaussian import gaussian_delta
from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, epsilon_from_rdp
from dpgraph.privacy.accountants.tuning import paid_epsilon
from dpgraph.privacy.calibration import epsilon_of, solve
from dpgraph.privacy.mechanisms.base import mechanism_from

RECORDS, DELTA = 60_000, 1e-5


def poisson(rate=0.01, noise=4.0, steps=10_000, **changes):
    settings = {"num_roots": RECORDS, "delta": DELTA, "sampling_rate": rate, "noise_multiplier": noise, "steps": steps}
    return PoissonLots(**{**settings, **changes})


def shuffled(lot=600, noise=4.0, steps=10_000, **changes):
    settings = {"num_roots": RECORDS, "delta": DELTA, "batch_size": lot, "noise_multiplier": noise, "steps": steps}
    return ShuffledLots(**{**settings, **changes})


def on_components(noise=4.0, components_noise=7.0, **changes):
    fields = {name: value for name, value in dict(poisson(noise=noise, **changes)).items() if name != "kind"}
    return ComponentLots(**fields, components=60, components_noise=components_noise)


# Igamberdiev & Habernal, Table 5, before rounding; its last row prints 0.50
TABLE5 = [(600, 4, 1.2586), (6_000, 4, 4.2445), (60_000, 4, 15.1315), (60_000, 50, 0.9797), (60_000, 100, 0.5248)]


@pytest.mark.parametrize(("lot", "noise", "epsilon"), TABLE5)
def test_published_epsilons_of_table_5(lot, noise, epsilon):
    steps = 100 * RECORDS // lot
    assert shuffled(lot, noise, steps).published().epsilon == pytest.approx(epsilon, abs=5e-5)
    assert poisson(lot / RECORDS, noise, steps).published().epsilon == pytest.approx(epsilon, abs=5e-5)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"), [(0.01, 4, 10_000), (0.1, 4, 1_000), (1.0, 4, 100), (1.0, 100, 100)]
)
def test_poisson_lots_agree_with_the_library(rate, noise, steps):
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.GaussianDpEvent(noise)
    if rate < 1:
        event = dp_accounting.PoissonSampledDpEvent(rate, event)
    accountant.compose(event, steps)
    assert poisson(rate, noise, steps).rigorous().epsilon == pytest.approx(accountant.get_epsilon(DELTA), rel=5e-3)


@pytest.mark.parametrize(("rate", "steps"), [(0.01, 3_000), (1.0, 30)])
def test_the_release_of_components_is_charged(rate, steps):
    """The library's composition of one Gaussian mechanism with the steps."""
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.GaussianDpEvent(7.0))
    event = dp_accounting.GaussianDpEvent(4.0)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, event) if rate < 1 else event, steps)
    mechanism = on_components(rate=rate, steps=steps)
    assert mechanism.rigorous().epsilon == pytest.approx(accountant.get_epsilon(DELTA), rel=5e-3)
    assert mechanism.rigorous().epsilon > poisson(rate=rate, steps=steps).rigorous().epsilon
    assert mechanism.rigorous().relation == "record-remove"
    assert mechanism.published().epsilon is None
    orders = WIDE_ORDERS
    assert epsilon_from_rdp(orders, mechanism.rdp(orders), DELTA) >= mechanism.rigorous().epsilon


def test_predictions_before_the_first_step_read_components_and_are_charged_for_them():
    mechanism = on_components(rate=0.01, steps=3_000)
    released = mechanism.fixed_epsilon("rigorous")
    assert released == pytest.approx(0.502479, rel=1e-5)
    assert released <= mechanism.at_step(0).rigorous.epsilon < mechanism.at_step(100).rigorous.epsilon


def test_components_alone_bound_epsilon_from_below():
    alone = on_components(components_noise=2.0).fixed_epsilon("rigorous")
    assert gaussian_delta(mu=0.5, epsilon=alone) == pytest.approx(DELTA, rel=1e-3)
    assert on_components(components_noise=2.0, noise=1e4).rigorous().epsilon == pytest.approx(alone, rel=1e-2)
    with pytest.raises(UserError, match="epsilon"):
        solve(on_components(components_noise=2.0, noise=None), "rigorous", epsilon=0.9 * alone)


@pytest.mark.parametrize(("lot", "noise", "steps"), [(lot, noise, 100 * RECORDS // lot) for lot, noise, _ in TABLE5])
def test_shuffled_lots_cost_one_step_of_2c_per_epoch(lot, noise, steps):
    mechanism = shuffled(lot, noise, steps)
    assert mechanism.epochs == 100
    guarantee = mechanism.rigorous()
    assert gaussian_delta(mu=2 * math.sqrt(100) / noise, epsilon=guarantee.epsilon) == pytest.approx(DELTA, rel=1e-3)
    assert guarantee.epsilon > mechanism.published().epsilon


def test_an_epoch_that_has_begun_counts():
    assert [shuffled(steps=steps).epochs for steps in (1, 100, 101)] == [1, 1, 2]
    assert shuffled(lot=7, num_roots=20, delta=1e-3).lots_per_epoch == 3


def test_one_epoch_of_two_lots_by_brute_force():
    """Two records, lots of one: the permutation decides which step the changed record is in; both laws in closed form.

    The clipped vectors are +1 and -1 for the changed record and 0 for the other. Outputs of an epoch are (x, y).
    """
    noise = 1.3
    mechanism = shuffled(lot=1, noise=noise, steps=2, num_roots=2, delta=1e-2)
    grid = np.linspace(-9, 9, 601)
    x, y = np.meshgrid(grid, grid)

    def density(shift):
        def gauss(value, mean):
            return np.exp(-(((value - mean) / noise) ** 2) / 2) / noise / math.sqrt(2 * math.pi)

        return (gauss(x, shift) * gauss(y, 0) + gauss(x, 0) * gauss(y, shift)) / 2

    epsilon = mechanism.rigorous().epsilon
    area = (grid[1] - grid[0]) ** 2
    assert density(1).sum() * area == pytest.approx(1, abs=1e-6)
    for one, other in ((1, -1), (-1, 1)):
        hockey_stick = np.maximum(density(one) - math.exp(epsilon) * density(other), 0).sum() * area
        assert 0 < hockey_stick <= 1e-2


@pytest.mark.parametrize("make", [poisson, shuffled])
def test_monotone_and_read_back(make):
    mechanism = make()
    assert mechanism_from(type(mechanism), mechanism.model_dump(mode="json")) == mechanism
    for mode in ("published", "rigorous"):
        here = epsilon_of(mechanism, mode)
        assert epsilon_of(make(noise=8.0), mode) < here < epsilon_of(make(steps=20_000), mode)
        solved = solve(make(noise=None), mode, epsilon=3.0)
        assert 2.95 < epsilon_of(solved, mode) <= 3.0
    assert mechanism.statement().noise_std_over_clip == 4.0


def test_impossible_settings_are_one_line():
    for build, message in [
        (lambda: poisson(rate=0.0), r"sampling_rate=0.0: expected a number in \(0, 1\]"),
        (lambda: on_components(components_noise=0.0), "components_noise=0.0: expected a number from"),
        (lambda: shuffled(lot=60_001), "batch_size=60001: expected an integer from 1 to num_roots = 60000"),
        (lambda: poisson(delta=1e-4), r"delta=0.0001: expected a number < 1 / num_roots = 1.67e-05"),
        (lambda: shuffled().with_rate(0.1), "sampling_rate=0.1: expected None for batches of fixed size"),
        (lambda: shuffled(noise=None).rigorous(), "noise_multiplier=None: expected a number"),
    ]:
        with pytest.raises(UserError, match=message):
            build()


def cell(variant, hops=0, **training):
    return resolve(
        {
            "task": {"dataset": "mnist"},
            "method": "dp-lots",
            "model": {"architecture": "mlp" if hops == 0 else "gcn", "hops": hops, "width": 512, "dropout": 0.0},
            "training": {"learning_rate": 0.01, "batch_size": 600, "steps": 10_000, **training},
            "privacy": {"variant": variant, "noise_multiplier": 4.0, "delta": DELTA},
            "seeds": [0],
        }
    )


def test_mechanism_of_a_cell():
    joint = {"inference": "its own record"}
    assert mechanism_for(cell("published"), RECORDS) == shuffled().model_copy(update=joint)
    assert mechanism_for(cell("rigorous"), RECORDS) == poisson().model_copy(update=joint)
    rated = mechanism_for(cell("rigorous", batch_size=None, sampling_rate=0.01), RECORDS)
    assert rated == poisson().model_copy(update=joint)
    assert rated.rigorous().scope == "joint"
    assert calibrate(cell("published"), RECORDS).statement.published.text == "1.26"
    released = mechanism_for(cell("released"), RECORDS)
    assert released.published().epsilon == shuffled().published().epsilon
    assert released.rigorous().epsilon is None
    assert "nothing is clipped" in released.rigorous().reason
    assert math.isinf(paid_epsilon(released, "geometric", mean_runs=2, delta=DELTA))
    with pytest.raises(
        UserError, match="variant=rigorous-fixed-size: expected 'rigorous', 'components', 'published' or"
    ):
        cell("rigorous-fixed-size")
    with pytest.raises(UserError, match="architecture=gcn: expected 'mlp'"):
        cell("rigorous", hops=1)


@pytest.mark.parametrize("mechanism", [poisson(), shuffled()])
def test_the_best_of_several_runs_costs_more(mechanism):
    epsilon = mechanism.rigorous().epsilon
    rdp = mechanism.rdp(WIDE_ORDERS)
    assert epsilon <= epsilon_from_rdp(WIDE_ORDERS, rdp, DELTA) <= 1.3 * epsilon
    assert paid_epsilon(mechanism, "geometric", mean_runs=4, delta=DELTA) > 1.15 * epsilon
