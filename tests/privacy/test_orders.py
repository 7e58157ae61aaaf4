"""Few orders of Renyi divergences give the least bound of all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from dpgraph.families.aggregates.epsilon import embedded_epsilon, node_level_epsilon
from dpgraph.families.tuples import epsilon as relational
from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, epsilon_from_rdp, poisson_gaussian_rdp

ORDERS = np.asarray(WIDE_ORDERS)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "sums_noise"),
    [
        (0.01, 0.6, 100, 5.0),
        (0.1, 1.0, 100, 0.7),  # the least is at one of the first orders
        (0.5, 30.0, 100, 0.7),  # there the library's series converge at few orders
        (0.5, 30.0, 1, 0.7),
        (1.0, 4.0, 100, 100.0),
        (0.01, 30.0, 1, 100.0),  # at one of the last
    ],
)
def test_published_epsilons_are_the_least_over_all_orders(rate, noise, steps, sums_noise):
    trained = steps * poisson_gaussian_rdp(rate=rate, noise_multiplier=noise, orders=WIDE_ORDERS)
    sums = ORDERS / (2 * sums_noise**2)
    found = node_level_epsilon(
        rate=rate, noise_multiplier=noise, steps=steps, aggregations=4, sums_noise=sums_noise, delta=1e-3
    )
    assert found == epsilon_from_rdp(WIDE_ORDERS, trained + 4 * sums, 1e-3)
    found = embedded_epsilon(
        rate=rate,
        embedding_steps=0,
        embedding_noise=1.0,
        sums_noise=sums_noise,
        steps=steps,
        noise_multiplier=noise,
        delta=1e-6,
    )
    assert found == epsilon_from_rdp(WIDE_ORDERS, trained + sums, 1e-6)


def test_sums_of_exponentials_are_those_of_scipy():
    exponents = np.random.Generator(np.random.PCG64(3)).normal(0, 300, (40, 7))
    exponents[:, 2] = -np.inf
    expected = logsumexp(exponents, axis=1)
    np.testing.assert_allclose(relational._log_sums(exponents.copy()), expected, rtol=1e-14)
