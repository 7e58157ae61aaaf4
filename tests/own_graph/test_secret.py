"""Noise for a release: the distribution, the grid, and that nothing of it comes from a seed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, norm

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.own_graph import secret
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.secret import (
    SecretGenerator,
    SecretOrder,
    SecretReleases,
    check_slack,
    exponentially_chosen,
    grid_of,
    noised,
    rounded_gaussian,
)
from dpgraph.privacy.choice import bounded_choice
from tests.own_graph.test_fit import small


def test_large_scales_are_normal():
    drawn = rounded_gaussian(50_000, 2.0**30) / 2.0**30
    assert kstest(drawn, "norm").pvalue > 1e-6


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
def test_small_scales_have_the_probabilities_of_a_rounded_gaussian(scale):
    count = 100_000
    drawn = rounded_gaussian(count, scale)
    for value in range(-3, 4):
        share = norm.cdf((value + 0.5) / scale) - norm.cdf((value - 0.5) / scale)
        assert abs((drawn == value).mean() - share) < 6 * np.sqrt(share / count) + 1e-4


@pytest.mark.parametrize("tail", [0, 1, 12345, 2**63 - 1, 2**62])
def test_what_is_open_is_resolved_with_more_digits(tail):
    value = secret._resolved(tail, 100.0)
    low, high = norm.isf((tail + 1) / 2**64), norm.isf(max(tail, 1e-30) / 2**64)
    assert round(100 * low) - 1 <= value <= round(100 * high) + 1


def test_ties_are_resolved(monkeypatch):
    """At a boundary between two integers the first 64 bits leave both possible."""
    tail = int(norm.sf(0.5) * 2**64)
    monkeypatch.setattr(secret, "RELATIVE", 1e-6)
    asked = []
    resolved = secret._resolved
    monkeypatch.setattr(secret, "_resolved", lambda *given: asked.append(given) or resolved(*given))
    monkeypatch.setattr(secret, "words", lambda count: np.full(count, 2 * tail, dtype=np.uint64))
    assert rounded_gaussian(1, 1.0)[0] in (0.0, 1.0)
    assert asked


def test_sums_and_noise_are_on_one_grid():
    grid = grid_of(3.7)
    values = np.random.default_rng(0).normal(size=1000) * 50
    whole = noised(values, 3.7, grid) / grid
    assert (whole == np.rint(whole)).all()
    assert np.log2(grid) == np.rint(np.log2(grid))


def test_sums_beyond_the_exact_range_are_refused():
    with pytest.raises(UserError, match="exact"):
        noised(np.array([2.0**60]), 1.0, grid_of(1.0))
    check_slack(roots=100_000, parameters=10_000, noise_over_clip=20.0)
    with pytest.raises(UserError, match=r"nodes=10000000: expected at most 1482910, .*: give a part of the graph"):
        check_slack(roots=10_000_000, parameters=0, noise_over_clip=20.0)
    check_slack(roots=1_482_910, parameters=0, noise_over_clip=20.0)
    with pytest.raises(UserError, match="fewer features"):
        check_slack(roots=2, parameters=10**10, noise_over_clip=20.0)


@pytest.mark.parametrize("classes", [["0", "1"], None])
def test_what_public_numbers_refuse_is_not_charged(classes, tmp_path, monkeypatch):
    monkeypatch.setattr("dpgraph.own_graph.secret.RAISED", 2.0**-38)  # as if 200 nodes were two million
    own = replace(small(), classes_given=classes is not None)
    with pytest.raises(UserError, match=r"nodes=200: expected at most \d+"):
        fit(own, 8.0, releases=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_afford_refuses_what_fit_refuses(capsys):
    asked = ["afford", "--classes", "2", "--labelled", "1000", "--epsilon", "1", "--nodes"]
    assert main([*asked, "2000000"]) == 2
    assert "--nodes=2000000: expected at most 14" in capsys.readouterr().err
    assert main([*asked, "1400000"]) == 0


def test_a_choice_has_the_probabilities_of_the_exponential_mechanism():
    utilities, count = [1000, 1003, 998, 1003], 3000
    drawn = [
        bounded_choice(utilities=utilities, epsilon=0.4, generator=SecretGenerator()).place for _ in range(count // 20)
    ]
    drawn += [exponentially_chosen(utilities, 0.4) for _ in range(count - len(drawn))]
    weights = np.exp(0.4 * (np.array(utilities) - 1003))
    wanted = count * weights / weights.sum()
    assert chisquare(np.bincount(drawn, minlength=4), wanted).pvalue > 1e-6


def test_a_choice_at_a_boundary_asks_for_more_bits(monkeypatch):
    """Of two equal utilities the boundary is 1 / 2: 2^63 / 2^64 begins at it."""
    assert exponentially_chosen([0, 10**9], 1.0) == 1  # weights beyond any float
    for first, later, place in ((2**63, 7, 1), (2**63 - 1, 2**64 - 2, 0), (0, 0, 0)):
        given = iter([first, later, later, later])
        monkeypatch.setattr(secret, "words", lambda count, given=given: np.array([next(given)], dtype=np.uint64))
        assert exponentially_chosen([5, 5], 1.0) == place


def test_a_release_takes_no_seed_and_no_sum_off_the_grid():
    order = SecretOrder(None, None, 0, None, None)
    assert isinstance(order.generator("batches"), SecretGenerator)
    for role in ("votes", "mean of the rows", "degrees", "edge lists"):
        with pytest.raises(TypeError, match="no part of a release may come from a seed"):
            order.generator(role)
    releases = order.release_noise("votes")
    assert isinstance(releases, SecretReleases)
    with pytest.raises(TypeError, match="no multiples"):
        releases.on(np.array([0.1]), 1.0, 2.0**-30)
    with pytest.raises(TypeError, match="without noise"):
        releases.on(np.array([1.0]), 0.0, 1.0)
    assert not np.array_equal(releases.on(np.zeros(3), 1.0, 1.0), releases.on(np.zeros(3), 1.0, 1.0))
