"""Banded matrices: what records may move of C G by enumeration, the matrix's error, and what steps are charged."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpgraph.errors import UserError
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.accountants.composition import composed_delta
from dpgraph.privacy.accountants.double_mixture import affected_roots_pair
from dpgraph.privacy.accountants.votes import votes_epsilon
from dpgraph.privacy.banded import BandedMatrix, best_matrix, iterates, released_row, squared_error
from dpgraph.privacy.mechanisms.votes import BoundedVotes, PoissonVotes

MECHANISM: dict[str, Any] = {
    "num_roots": 100, "num_protected": 200, "steps": 7, "delta": 1e-4, "noise_multiplier": 3.0, "sampling_rate": 0.2,
    "mean_ratio": 2.0, "votes_ratio": 1.5, "mass": 0.3, "degree_floor": 8, "inference": "its own record",
}  # fmt: skip
IDENTITY = BandedMatrix(np.ones((100, 1)))


@pytest.mark.parametrize(("steps", "bands"), [(6, 2), (7, 3), (5, 5), (4, 1)])
def test_a_record_moves_each_block_by_at_most_one_whenever_it_takes_part(steps: int, bands: int) -> None:
    """Every pattern of a cyclic sampler, gradients of norm 1 in any direction: k steps move C G by at most sqrt k."""
    matrix = best_matrix(steps=steps, bands=bands, momentum=0.5, averaged_share=0.5)
    dense, random = matrix.dense, np.random.default_rng(steps)
    assert np.allclose(np.triu(dense, 1), 0)
    assert np.allclose(np.tril(dense, -bands), 0)
    assert np.linalg.norm(dense, axis=0).max() <= 1 + 1e-12
    reached = 0.0
    for group in range(bands):
        own = range(group, steps, bands)
        for pattern in itertools.product((0, 1), repeat=len(own)):
            taken = [step for step, there in zip(own, pattern, strict=True) if there]
            for _ in range(5):
                gradients = np.zeros((steps, 3))
                for step in taken:
                    way = random.standard_normal(3)
                    gradients[step] = way / np.linalg.norm(way)
                moved = float(np.square(dense @ gradients).sum())
                assert moved <= len(taken) + 1e-9
                reached = max(reached, moved / max(len(taken), 1))
    assert reached > 0.999
    if bands > 1:  # and why records have to take turns
        ones = np.ones((steps, 1))
        assert np.square(dense @ ones).sum() > 1.1 * steps


def test_the_matrix_has_less_error_than_independent_noise_and_than_others_near_it() -> None:
    matrix = best_matrix(steps=40, bands=4, momentum=0.9, averaged_share=0.5)
    plain = squared_error(BandedMatrix(np.ones((40, 1))), momentum=0.9, averaged_share=0.5)
    found = squared_error(matrix, momentum=0.9, averaged_share=0.5)
    inverse = np.linalg.inv(matrix.dense)
    assert found[0] == pytest.approx(np.square(iterates(steps=40, momentum=0.9) @ inverse).sum() / 40)
    assert found[1] == pytest.approx(
        np.square(released_row(steps=40, momentum=0.9, averaged_share=0.5) @ inverse).sum()
    )
    # what a group's rate of 4 q costs where batches do not amplify is a factor of two in noise, which bands win back
    assert all(one < other / 3.5 for one, other in zip(found, plain, strict=True))
    total, random = sum(one / other for one, other in zip(found, plain, strict=True)), np.random.default_rng(0)
    for _ in range(30):
        other = matrix.columns * (1 + 0.05 * random.standard_normal(matrix.columns.shape))
        other = BandedMatrix(other / np.linalg.norm(other, axis=1, keepdims=True))
        there = squared_error(other, momentum=0.9, averaged_share=0.5)
        assert sum(a / b for a, b in zip(there, plain, strict=True)) > total * (1 - 1e-3)


def test_iterates_are_those_of_sgd_with_momentum() -> None:
    gradients, speed, at = np.random.default_rng(0).standard_normal(9), 0.0, [0.0]
    for one in gradients:
        speed = 0.7 * speed + one
        at.append(at[-1] + speed)
    assert np.allclose(iterates(steps=9, momentum=0.7) @ gradients, at[1:])
    assert released_row(steps=9, momentum=0.7, averaged_share=0.5) @ gradients == pytest.approx(np.mean(at[-5:]))
    assert released_row(steps=9, momentum=0.7, averaged_share=0.0) @ gradients == pytest.approx(at[-1])


def test_noise_falls_as_published() -> None:
    """q = 0.1, T = 100, four bands at epsilon 8: -15 % in the noise of prefix sums (a mean over all iterates)."""
    matrix = best_matrix(steps=100, bands=4, momentum=0.0, averaged_share=0.0)
    gain = math.sqrt(
        squared_error(matrix, momentum=0.0, averaged_share=0.0)[0]
        / squared_error(IDENTITY, momentum=0.0, averaged_share=0.0)[0]
    )
    multipliers = 0.936, 1.443  # least noise multipliers of the two rates at delta 1e-5
    for noise, rate, steps in zip(multipliers, (0.1, 0.4), (100, 25), strict=True):
        assert epsilon_of(rate, noise, steps) == pytest.approx(8, rel=2e-3)
    assert multipliers[1] / multipliers[0] * gain == pytest.approx(0.85, abs=0.01)


def epsilon_of(rate: float, noise: float, steps: int, delta: float = 1e-5, **others: Any) -> float:
    nothing = {"mean_mu": 0.0, "votes_mu": 0.0, "choice_epsilon": 0.0, "mass": 0.3, "degree_floor": 8}
    return votes_epsilon(rate=rate, noise_multiplier=noise, steps=steps, delta=delta, **{**nothing, **others})


def test_what_a_group_is_charged_is_no_less_than_what_the_whole_output_shows() -> None:
    """Against the law of all T rows at once: a mixture over every pattern of participation, in both directions."""
    steps, bands, rate, noise, count = 5, 2, 0.6, 0.9, 200_000
    dense = best_matrix(steps=steps, bands=bands, momentum=0.5, averaged_share=0.0).dense
    random, epsilons = np.random.default_rng(3), np.array([0.25, 1.0, 2.0])
    pair = affected_roots_pair(affected_roots=1, rate=rate, noise_std=noise)
    claimed = composed_delta(pair, steps=3, epsilons=epsilons)
    for group, exact in ((0, True), (1, False)):  # three steps, and two
        own = np.arange(group, steps, bands)
        patterns = np.array(list(itertools.product((0, 1), repeat=len(own))))
        weights = np.prod(np.where(patterns, rate, 1 - rate), axis=1)
        means = patterns @ dense[:, own].T
        with_ = means[random.choice(len(weights), count, p=weights)] + noise * random.standard_normal((count, steps))
        without = noise * random.standard_normal((count, steps))
        for sign, seen in ((1, with_), (-1, without)):
            logs = (seen @ means.T - np.square(means).sum(axis=1) / 2) / noise**2
            loss = sign * np.log(np.exp(logs) @ weights)
            shown = np.maximum(0, 1 - np.exp(epsilons[:, None] - loss))
            error = 4 * shown.std(axis=1) / math.sqrt(count)
            assert (shown.mean(axis=1) <= claimed + error).all()
            if exact and sign == 1:
                assert np.allclose(shown.mean(axis=1), claimed, atol=float(error.max()) + 1e-3)


def test_steps_are_charged_at_the_rate_of_their_group_and_as_often_as_it_comes() -> None:
    banded = PoissonVotes(**MECHANISM, bands=3)
    plain = PoissonVotes(**{**MECHANISM, "steps": 3, "sampling_rate": 3 * 0.2})
    assert banded.rigorous().epsilon == plain.rigorous().epsilon
    assert banded.rigorous().epsilon == epsilon_of(
        3 * 0.2, 3.0, 3, 1e-4, mean_mu=1 / 6, votes_mu=1 / 4.5
    )  # ceil(7 / 3) of them
    assert [one.epsilon for one in banded.beside()] == [one.epsilon for one in plain.beside()]
    orders = (1.5, 2.0, 8.0)
    assert np.array_equal(banded.rdp(orders), plain.rdp(orders))
    assert banded.rigorous().epsilon > PoissonVotes(**MECHANISM).rigorous().epsilon
    assert "3 groups" in banded.rigorous().sampling
    full = PoissonVotes(**{**MECHANISM, "sampling_rate": 1 / 3}, bands=3)  # every record in every step of its group
    assert full.charged.sampling_rate == 1
    assert full.procedure((1.0,)).terms[0].rate == 1


def test_early_steps_cost_no_less_than_one_turn_of_all_groups() -> None:
    banded = PoissonVotes(**{**MECHANISM, "mean_ratio": None, "votes_ratio": None}, bands=3)
    found = {step: banded.at_step(step) for step in (0, 1, 3, 4, 7)}
    epsilons = {step: one.rigorous.epsilon for step, one in found.items()}
    assert {step: one.steps for step, one in found.items()} == {0: 0, 1: 1, 3: 3, 4: 4, 7: 7}
    assert epsilons[0] == 0 < epsilons[1] == epsilons[3] < epsilons[4] < epsilons[7]
    mean_first = PoissonVotes(**MECHANISM, bands=3).at_step(0).rigorous.epsilon
    assert mean_first is not None
    assert mean_first > 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bands": 6}, "bands=6: expected an integer <= 1 / sampling_rate = 5"),
        ({"bands": 0}, "bands=0: expected an integer >= 1"),
        ({"bands": 4, "steps": 3}, "bands=4: expected an integer from 1 to steps = 3"),
        ({"bands": 2, "steps": None}, "steps='?max'?: expected a number"),
    ],
)
def test_nothing_else_is_accounted_for(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PoissonVotes(**{**MECHANISM, **changed})


def test_bands_are_stated_under_node_null_only() -> None:
    fields = {key: value for key, value in MECHANISM.items() if key != "degree_floor"}
    with pytest.raises(UserError, match="bands=2: expected 1: nothing else is stated under"):
        BoundedVotes(**fields, degree_bound=9, taper=1.0, bands=2)


def cell(privacy: dict[str, Any] | None = None, **training: Any) -> Any:
    return resolve(
        {
            "task": {"dataset": "toy"},
            "method": "dp-votes",
            "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
            "training": {"learning_rate": 0.1, "steps": 8, "sampling_rate": 0.25, "bands": 4, **training},
            "privacy": {"epsilon": 4.0, **(privacy or {})},
            "seeds": (0,),
        }
    )


@pytest.mark.parametrize(
    ("training", "privacy", "message"),
    [
        ({"bands": 5}, {}, "bands=5, sampling_rate=0.25: expected a product <= 1"),
        ({"steps": 3}, {}, "bands=4, steps=3: expected from bands to 1000 steps"),
        ({"steps": 1001}, {}, "bands=4, steps=1001: expected from bands to 1000 steps"),
        (
            {},
            {"variant": "node-remove", "degree_bound": 9, "taper": 1.0},
            "bands=4: expected 1 for variant node-remove",
        ),
    ],
)
def test_settings_that_are_refused(training: dict[str, Any], privacy: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cell(privacy, **training)


def test_batches_of_a_number_of_roots_are_refused_where_groups_are_smaller() -> None:
    with pytest.raises(UserError, match="bands=4: expected an integer <= 1 / sampling_rate = 2"):
        calibrate(cell(batch_size=50, sampling_rate=None), 100)


def test_shares_are_of_the_mu_that_groups_have() -> None:
    """Half of the squared mu for votes: with every record in every step of its group that is exact."""
    mechanism = calibrate(cell(), 100).mechanism
    assert isinstance(mechanism, PoissonVotes)
    _, noise = mechanism.closed()
    assert mechanism.votes_mu == pytest.approx(math.sqrt(2) / noise)  # 8 / 4 steps at rate 1
