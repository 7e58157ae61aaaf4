"""Every accountant by name at extreme settings: a number or one line, soon, and nothing else."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpgraph.errors import UserError
from dpgraph.privacy.catalogue import ACCOUNTANTS
from dpgraph.privacy.composition import composed_epsilon, gaussian_pair
from dpgraph.privacy.evaluate import evaluate
from dpgraph.privacy.gaussian import gaussian_epsilon
from dpgraph.privacy.parameters import PARAMETERS, PREMISES

SECONDS = 240.0  # of the processor, however busy the machine: no setting may hang
VALUES: dict[str, tuple[Any, ...]] = {
    "affected_roots": (1, 2, 15, 1000), "answers": (0, 1, 2200, 10**6), "checks": (0, 1, 10**7),
    "batch_size": (1, 100, 10000), "column_norm": (1e-3, 1, 50), "eps_pagerank": (0, 4),
    "sampled_share": (1e-6, 0.1, 1), "column_support": (1, 4, 500), "compositions": (1, 100.0, 1e6),
    "eps_gumbel": (1e-6, 0.01, 1, 50), "eps_laplace": (1e-6, 0.1, 20), "eps_quantile": (1e-6, 0.1, 100),
    "hops": (0, 1, 2.0), "lambda_max": (1, 32, 255.0), "max_degree": (1, 3, 100), "mean_runs": (1, 1.5, 1e4),
    "negatives": (1, 4, 20), "neighbour_to_self_clip": (0, 1e-6, 0.1, 1, 100), "nodes": (10, 1000, 1e6),
    "num_train": (1000, 90941, 1e9), "order": (1.001, 2, 64, 1000), "q": (1e-9, 1e-5, 0.01, 0.5, 1),
    "q_neighbour": (1e-9, 0.05, 1), "q_self": (1e-9, 0.1, 1.0), "refill": (0, 5), "relations": (1, 1000, 5e6),
    "row_delta": (1e-12, 1e-5, 0.5), "rows": (1, 70, 3000), "sensitivity": (1e-6, 1, 1e6), "sigma": (1e-6, 1, 1e8),
    "steps": (1, 10, 500.0, 10**5), "top_k": (1, 4, 100),
}  # fmt: skip
NOISE = (1e-3, 0.02, 0.5, 4, 100, 1e5)


def allowed(name: str) -> tuple[Any, ...]:
    if name in PREMISES:
        return (PREMISES[name][0],)
    parameter = PARAMETERS[name]
    if parameter.kind is bool:
        return (True, False)
    if name == "noise_multiplier" or name.startswith("sigma_"):
        return NOISE
    return VALUES.get(name) or parameter.choices


@pytest.mark.parametrize("key", ACCOUNTANTS, ids="-".join)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_number_or_one_line(key: tuple[Any, Any, str], data: st.DataObject) -> None:
    known = ACCOUNTANTS[key]
    chosen = {name: data.draw(st.sampled_from(allowed(name)), name) for name in known.required}
    for name in (*known.optional, *known.premises, *(name for name in (known.units,) if name)):
        if name not in chosen and data.draw(st.booleans(), f"give {name}"):
            chosen[name] = data.draw(st.sampled_from(allowed(name)), name)
    delta = data.draw(st.sampled_from([1e-12, 1e-9, 1e-5, 1e-3, 0.1]), "delta")
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = evaluate(*key[:2], chosen, delta, key[2])
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 500  # noqa: PT017
        else:
            assert found >= 0
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(("steps", "delta"), [(10, 1e-12), (1000, 1e-12), (10**5, 1e-10)])
@pytest.mark.parametrize("mu", [1e-3, 0.03, 0.3])
def test_rounding_does_not_reach_the_smallest_allowed_delta(steps: int, delta: float, mu: float) -> None:
    """Exact Gaussian DP, never understated beyond the grid's own tolerance."""
    exact = gaussian_epsilon(mu * math.sqrt(steps), delta)
    assert exact * (1 - 1e-4) <= composed_epsilon(gaussian_pair(mu), steps, delta) <= exact * 1.005


def test_a_delta_that_rounding_reaches_is_refused() -> None:
    with pytest.raises(UserError, match=r"^delta=1e-11: expected a number >= 1e-10 for 100000 steps: rounding"):
        composed_epsilon(gaussian_pair(0.001), 10**5, 1e-11)


def test_without_any_protection_the_bound_is_crude_but_above_the_truth() -> None:
    """Full batches at noise 1e-3 C: mu = 1000 sqrt(T)."""
    crude = evaluate("poisson_gaussian", "rigorous", {"q": 1, "noise_multiplier": 1e-3, "steps": 20}, 1e-5)
    exact = gaussian_epsilon(1e3 * math.sqrt(20), 1e-5)
    assert exact <= crude < 1.1 * exact
