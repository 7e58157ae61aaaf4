"""Another library's epsilon for the same mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpgraph.core.errors import UserError, invalid
from dpgraph.engine.training import opacus_engine


def prv_epsilon(parameters: Mapping[str, Any], delta: float) -> float:
    """Opacus' accountant by privacy random variables (Gopi et al. 2021): Poisson-subsampled Gaussian, add or remove.

    Parameters: q, noise_multiplier, steps. Its answer is an upper end of an interval about 1 % wide.
    """
    relation = parameters.get("relation", "add_or_remove_one")
    if relation != "add_or_remove_one":
        raise invalid("relation", relation, "add_or_remove_one, the only one of the PRV accountant")
    try:
        rate, noise, steps = parameters["q"], parameters["noise_multiplier"], parameters["steps"]
    except KeyError as error:
        raise UserError(f"prv: expected the parameter {error.args[0]}") from None
    return opacus_engine.prv_epsilon(rate, noise, steps, delta)
