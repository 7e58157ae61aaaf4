"""DP-APPR: the thesis' formulas, what is proved, their composition and calibration, refusals."""

import math

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.families.pagerank.accountant import appr_training
from dpgraph.families.pagerank.epsilon import exponential_epsilon, release_noise, theorem6_epsilon, theorem7_epsilon
from dpgraph.families.pagerank.mechanism import FixedBatchPagerank, PoissonPagerank
from dpgraph.families.pagerank.variants import kept_and_roots
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.planning.resolve import calibrate, mechanism_for, resolve
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.renyi import REAL_ORDERS, epsilon_from_rdp, theorem1_rdp
from dpgraph.privacy.accountants.steps import moments
from dpgraph.privacy.accountants.tuning import paid_epsilon
from dpgraph.privacy.calibration import solve
from dpgraph.privacy.mechanisms.base import mechanism_from
from tests.contract.cells import changed

CORA = {"num_roots": 70, "steps": 400, "delta": 2e-3, "top_k": 4}


def poisson(release="gaussian", noise=7.42, **changes):
    values = {**CORA, "release": release, "noise_multiplier": noise, "sampling_rate": 0.25, "column_cap": 1}
    if release == "gaussian":
        values["release_noise"] = math.sqrt(140) / 0.5
    if release.startswith("exponential"):
        values["release_noise"] = 0.05
    if release == "exponential-values":
        values["values_epsilon"] = 0.1
    return PoissonPagerank(**{**values, **changes})


def fixed(release="gaussian", noise=5.917, **changes):
    values = {**CORA, "release": release, "noise_multiplier": noise, "batch_size": 60, "sampled_nodes": 216}
    values["node_share"] = 0.09
    if release == "gaussian":
        values["release_noise"] = 59.2
    if release.startswith("exponential"):
        values["release_noise"] = 0.0104
    if release == "exponential-values":
        values["values_epsilon"] = 0.04
    return FixedBatchPagerank(**{**values, **changes})


def cell(release="gaussian", variant="rigorous", epsilon=8.0, **pagerank):
    private = release in ("gaussian", "exponential", "exponential-values")
    rows = {"release": release, "num_rows": 70, **({"clip": 0.01, "epsilon_share": 0.5} if private else {}), **pagerank}
    value = {
        "task": {"dataset": "cora-ml", "setting": "disjoint", "split": "random-80-0-20"},
        "method": "dp-appr",
        "model": {"architecture": "mlp", "hops": 0},
        "training": {"learning_rate": 0.005, "batch_size": 60, "steps": 400},
        "privacy": {"variant": variant, "epsilon": epsilon, "delta": 2e-3},
        "pagerank": rows,
        "seeds": [0],
    }
    return resolve(value)


def plain(release, model=(), **pagerank):
    value = cell("identity").model_dump()
    value["model"] |= dict(model)
    return resolve({**value, "method": "appr", "privacy": None, "pagerank": {"release": release, **pagerank}})


@pytest.mark.parametrize(("cap", "noise"), [(1, 7.42), (4, 22.2)])
def test_rigorous_example(cap, noise):
    """M = 70, mu_pr = .5, q = .25, T = 400, delta = 1e-3: epsilon 8 in all."""
    mechanism = poisson(noise=noise, column_cap=cap, delta=1e-3)
    assert mechanism.rigorous().epsilon == pytest.approx(8, rel=3e-3)
    expected = appr_training(
        rows=70,
        sigma_over_clip=math.sqrt(140) / 0.5,
        column_support=cap,
        q=0.25,
        noise_multiplier=noise,
        steps=400,
        delta=1e-3,
    )
    assert mechanism.rigorous().epsilon == pytest.approx(expected, rel=1e-9)


def test_published_parts_add_up():
    """Theorem 6 at 2 M delta_row = delta / 2, and the moments accountant at q = B / N, delta / 2."""
    mechanism = fixed()
    rows = theorem6_epsilon(rows=70, noise=59.2, row_delta=1e-3 / 140)
    training = moments(q=60 / 216, noise_multiplier=5.917, steps=400, delta=1e-3)
    assert mechanism.published().epsilon == pytest.approx(rows + training, rel=1e-12)
    assert (rows, training) == (pytest.approx(4, rel=1e-3), pytest.approx(4, rel=1e-3))
    assert "times q' = 0.09 the thesis claims 0.72; sampling once would give 5.59" in " ".join(
        mechanism.published().assumptions
    )


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("release", ["gaussian", "exponential", "exponential-values"])
@pytest.mark.parametrize("epsilon", [0.25, 4.0, 60.0])
def test_release_noise_is_the_inverse_of_the_theorems(release, epsilon, published):
    noise, values = release_noise(release, epsilon=epsilon, rows=70, top_k=4, delta=1e-3, published=published)
    row_delta = 1e-3 / 140
    if release == "gaussian":
        cost = (
            theorem6_epsilon(rows=70, noise=noise, row_delta=row_delta)
            if published
            else gaussian_epsilon(mu=math.sqrt(140) / noise, delta=1e-3)
        )
        assert values is None
    else:
        assert (values is None) == (release == "exponential")
        cost = (
            theorem7_epsilon(rows=70, top_k=4, eps_gumbel=noise, row_delta=row_delta, eps_laplace=values)
            if published
            else exponential_epsilon(rows=70, top_k=4, eps_gumbel=noise, delta=1e-3, eps_laplace=values)
        )
    assert epsilon * (1 - 1e-6) < cost <= epsilon


def test_all_roots_may_change_under_the_published_mechanism():
    """Batches of B, all of whose gradients move by 2 C: a Gaussian of mu = 2 B sqrt(T) / sigma, and the rows' mu."""
    mechanism = fixed()
    mu = math.hypot(2 * 60 * math.sqrt(400) / 5.917, math.sqrt(140) / 59.2)
    expected = epsilon_from_rdp(REAL_ORDERS, mu**2 / 2 * np.asarray(REAL_ORDERS), 2e-3)
    assert mechanism.rigorous().epsilon == pytest.approx(expected, rel=1e-9)
    assert mechanism.rigorous().epsilon > 1e4


def test_roots_without_a_row_join_the_batches_and_not_the_release():
    """N = 216 losses, of which M = 70 read released rows: one node is in all of these and in its own."""
    few, every = fixed(), fixed(num_roots=216, num_rows=70)
    assert every.affected_roots == 71
    assert few.affected_roots == 70
    assert every.release_mu == few.release_mu
    assert every.releases == few.releases
    assert every.published().epsilon == few.published().epsilon  # q = B / N as printed
    orders = REAL_ORDERS
    step = (every.rdp(orders) - every.release_rdp(orders)) / every.steps
    expected = theorem1_rdp(
        num_roots=216, batch_size=60, affected_roots=71, noise_multiplier=5.917 / 142, orders=orders
    )  # fmt: skip
    assert step == pytest.approx(expected)
    capped = poisson(num_roots=216, num_rows=70)
    assert capped.affected_roots == poisson().affected_roots == 2
    assert capped.release_mu == poisson().release_mu
    for rows in (216, 300):
        with pytest.raises(UserError, match="num_rows"):
            fixed(num_roots=216, num_rows=rows)


def test_dpsgd_pays_for_the_whole_batch():
    """Eq. 5.5: std = sigma B C, every gradient of the batch moves by 2 C, so mu = 2 sqrt(T) / sigma."""
    mechanism = fixed("exact", 3.181)
    assert mechanism.noise_std_over_clip == pytest.approx(3.181 * 60)
    assert mechanism.published().epsilon == moments(q=60 / 216, noise_multiplier=3.181, steps=400, delta=2e-3)
    mu = 2 * math.sqrt(400) / 3.181
    expected = epsilon_from_rdp(REAL_ORDERS, mu**2 / 2 * np.asarray(REAL_ORDERS), 2e-3)
    assert mechanism.rigorous().epsilon == pytest.approx(expected, rel=1e-9)
    assert mechanism.rigorous().epsilon >= gaussian_epsilon(mu=mu, delta=2e-3)


def test_own_records_cost_what_dp_mlp_costs():
    delta = 1e-3
    mlp = PoissonTrees(num_roots=70, steps=400, delta=delta, noise_multiplier=5.0, hops=0, sampling_rate=0.25)
    mechanism = poisson("identity", 5.0, delta=delta)
    assert mechanism.rigorous().epsilon == mlp.rigorous().epsilon
    assert mechanism.published().epsilon == mlp.published().epsilon


def test_draws_compose_by_the_better_of_two_bounds():
    mechanism = poisson("exponential", 30.0)
    rows = epsilon_from_rdp(REAL_ORDERS, mechanism.release_rdp(REAL_ORDERS), 1e-3)
    alone = poisson("random", 30.0, delta=1e-3).rigorous().epsilon
    epsilon = mechanism.rigorous().epsilon
    assert max(alone, rows) < epsilon <= (rows + alone) * 1.01
    both = epsilon_from_rdp(REAL_ORDERS, mechanism.rdp(REAL_ORDERS), 2e-3)
    assert epsilon <= both
    assert mechanism.release_rdp((2.0,))[0] == pytest.approx(2 * 70 * 4 * 0.05**2 / 2)
    assert poisson("exponential-values").release_rdp((2.0,))[0] == pytest.approx(70 * (4 * 0.05**2 + 0.1**2))


@pytest.mark.parametrize("change", [{"column_cap": 3}, {"sampling_rate": 0.5}, {"steps": 800}, {"release_noise": 10.0}])
def test_more_of_anything_costs_more(change):
    assert poisson(**change).rigorous().epsilon > poisson().rigorous().epsilon


def test_calibration_hits_the_target():
    for release in ("gaussian", "exponential", "exponential-values", "random", "identity"):
        calibration = calibrate(cell(release), 2396)
        assert isinstance(calibration.mechanism, PoissonPagerank)
        assert 7.9 < calibration.statement.rigorous.epsilon <= 8
        calibration = calibrate(cell(release, "published", node_share=0.09), 2396)
        assert 7.9 < calibration.statement.published.epsilon <= 8
        assert calibration.mechanism.sampled_nodes == 216
        assert mechanism_from(FixedBatchPagerank, calibration.mechanism.model_dump()) == calibration.mechanism
    alone = gaussian_epsilon(mu=calibrate(cell(), 2396).mechanism.release_mu, delta=1e-3)
    assert alone == pytest.approx(4, rel=1e-6)


def test_training_epsilon_leaves_the_rest_to_the_release():
    mechanism = mechanism_for(cell("gaussian", "published", epsilon_share=None, training_epsilon=3.0), 2396)
    assert theorem6_epsilon(rows=70, noise=mechanism.release_noise, row_delta=1e-3 / 140) == pytest.approx(5, rel=1e-6)


@pytest.mark.parametrize("variant", ["published", "rigorous"])
@pytest.mark.parametrize("release", ["gaussian", "exponential", "exponential-values"])
def test_a_release_may_cost_nearly_all(release, variant):
    """Then doubling the noise of the steps hardly lowers the whole epsilon: no reason to refuse the target."""
    share = 0.95 if variant == "published" else 0.8
    calibration = calibrate(cell(release, variant, 9.0, node_share=0.09, epsilon_share=share), 2396)
    epsilon = getattr(calibration.statement, variant).epsilon
    assert 8.9 < epsilon <= 9
    with pytest.raises(UserError, match=r"epsilon=5.0: expected a number > .*, what the run costs at any noise"):
        solve(calibration.mechanism, variant, "noise", epsilon=5.0)


def test_kept_nodes_and_roots():
    assert kept_and_roots(cell(node_share=0.09).pagerank, 2396) == (216, 70)
    assert kept_and_roots(cell("identity", num_rows=None).pagerank, 2396) == (2396, 2396)
    with pytest.raises(UserError, match="num_rows=70: expected at most the number of training nodes that are kept, 24"):
        kept_and_roots(cell(node_share=0.01).pagerank, 2396)


def test_a_search_pays_for_the_release_of_each_run():
    assert paid_epsilon(poisson(), "geometric", mean_runs=3, delta=1e-3) > paid_epsilon(
        poisson("random"), "geometric", mean_runs=3, delta=1e-3
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: poisson("exact"), "release=exact: expected another one: rows that are not released"),
        (lambda: poisson(column_cap=0), "column_cap=0: expected an integer >= 1"),
        (lambda: poisson(sampling_rate=1.5), r"sampling_rate=1.5: expected a number in \(0, 1\]"),
        (lambda: poisson(release_noise=None), "release_noise=None: expected a finite number > 0 for release=gaussian"),
        (lambda: poisson("random", release_noise=2.0), "release_noise=2.0: expected None for release=random"),
        (lambda: fixed(batch_size=71), "batch_size=71: expected an integer from 1 to num_roots = 70"),
        (lambda: fixed(sampled_nodes=60), "sampled_nodes=60: expected an integer >= num_roots = 70"),
        (lambda: fixed(column_norm=0), "column_norm=0.0: expected a finite number > 0"),
        (lambda: cell(epsilon_share=None), "expected one of the two, and epsilon, exactly for private releases"),
        (lambda: cell(clip=None), "release=gaussian, clip=None: expected a clip exactly for private releases"),
        (lambda: cell("random", clip=1.0), "release=random, clip=1.0: expected a clip exactly"),
        (lambda: cell(epsilon_share=None, training_epsilon=9.0), "expected a number < epsilon = 8"),
        (lambda: cell(variant="cut"), "^cell: privacy.variant=cut: expected 'rigorous' or 'published'$"),
        (lambda: resolve({**cell().model_dump(), "pagerank": None}), "^cell: pagerank=None: expected a valid dict"),
        (lambda: resolve({**cell().model_dump(exclude={"pagerank"})}), "^cell: pagerank: missing$"),
        (
            lambda: resolve({**cell().model_dump(), "method": "dp-mlp"}),
            r"^cell: pagerank={.*}: unknown key.*: dp-mlp has task, method, ",
        ),
        (lambda: plain("gaussian", clip=0.1), "^cell: pagerank.release=gaussian: expected 'exact', 'identity' or 'ran"),
        (lambda: plain("exact", model={"architecture": "gcn", "hops": 1}), "^cell: model.architecture=gcn: expected"),
        (lambda: plain("exact", epsilon_share=0.5), r"^cell: pagerank\.epsilon_share=0\.5: expected None$"),
        (lambda: plain("random", training_epsilon=1.0), r"^cell: pagerank\.training_epsilon=1\.0: expected None$"),
        (lambda: plain("exact", model={"dropout": 0.5}), "^cell: model.dropout=0.5: expected less than or equal to 0"),
        (lambda: mechanism_for(cell(num_rows=50), 2396), "batch_size=60: expected at most the number of roots, 50"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("variant", ["rigorous", "published"])
def test_sums_by_record_have_full_precision(variant):
    """A product whose rounded operands are sums over roots: one more root moved it by 1.9 C."""
    with pytest.raises(UserError, match=r"training.precision=bf16: expected 'float32'$"):
        changed(f"dp-appr-gaussian-{variant}", training={"precision": "bf16"})


@pytest.mark.parametrize("release", ["gaussian", "exponential", "identity"])
def test_rows_are_charged_before_the_first_step(release):
    mechanism = poisson(release)
    before, first = (mechanism.at_step(step).rigorous.epsilon for step in (0, 1))
    assert before == (0 if release == "identity" else first)
