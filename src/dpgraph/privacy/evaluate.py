"""Every accountant by name, with its parameters as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dpgraph.errors import UserError, invalid
from dpgraph.privacy import class_level, pagerank, pate, relational
from dpgraph.privacy.composition import composed_epsilon
from dpgraph.privacy.double_mixture import affected_roots_pair, residual_pair
from dpgraph.privacy.gaussian import gaussian_epsilon
from dpgraph.privacy.renyi import (
    GNN_ORDERS,
    WIDE_ORDERS,
    Orders,
    moments_epsilon,
    theorem1_epsilon,
    theorem1_rdp,
)
from dpgraph.privacy.trees import tree_size

Parameters = Mapping[str, Any]
ORDERS: dict[str, Orders] = {
    "1.1..9.9 step 0.1": GNN_ORDERS,
    "wide": WIDE_ORDERS,
    "1.1..10.9 step 0.1 and 12..63": relational.ORDERS,
}


def _orders(parameters: Parameters, default: str) -> Orders:
    name = parameters.get("orders", default)
    if name not in ORDERS:
        raise invalid("orders", name, f"one of {'; '.join(ORDERS)}")
    return ORDERS[name]


def _moments(p: Parameters, delta: float) -> float:
    return moments_epsilon(p["q"], p["noise_multiplier"], p["steps"], delta, p.get("lambda_max", 32))


def _gaussian(p: Parameters, delta: float) -> float:
    return gaussian_epsilon(p["sensitivity"] * math.sqrt(p["compositions"]) / p["sigma"], delta)


def _poisson_gaussian(p: Parameters, delta: float) -> float:
    relation = p.get("relation", "add_or_remove_one")
    if relation not in ("add_or_remove_one", "replace_one"):
        raise invalid("relation", relation, "add_or_remove_one or replace_one")
    pair = affected_roots_pair(1, p["q"], p["noise_multiplier"], relation == "add_or_remove_one")
    return composed_epsilon(pair, p["steps"], delta)


def _hypergeometric(p: Parameters, delta: float) -> float:
    roots = tree_size(p["max_degree"], p["hops"])
    orders, conversion = _orders(p, "1.1..9.9 step 0.1"), p.get("conversion", "improved")
    return theorem1_epsilon(
        p["num_train"], p["batch_size"], roots, p["noise_multiplier"], p["steps"], delta, orders, conversion
    )


def _hypergeometric_rdp(p: Parameters, delta: float) -> float:
    roots = tree_size(p["max_degree"], p["hops"])
    rdp = theorem1_rdp(p["num_train"], p["batch_size"], roots, p["noise_multiplier"], (float(p["order"]),))
    return float(rdp[0])


def _double_mixture(p: Parameters, delta: float) -> float:
    own = p.get("own_root_removed", True)
    return composed_epsilon(
        affected_roots_pair(p["affected_roots"], p["q"], p["sigma_over_clip"], own), p["steps"], delta
    )


def _residual_clipping(p: Parameters, delta: float) -> float:
    if p.get("batches", 2) != 2:
        raise invalid("batches", p["batches"], "2: with one batch for both terms the pair is false")
    pair = residual_pair(
        p["affected_roots"], p["q_self"], p["q_neighbour"], p["neighbour_to_self_clip"], p["sigma_over_self_clip"]
    )
    return composed_epsilon(pair, p["steps"], delta)


def _relational(p: Parameters) -> tuple[float, float, int, int, float, float]:
    return p["nodes"], p["relations"], p["max_degree"], p["negatives"], p["q"], p["sigma_over_sensitivity"]


def _relational_coupled(p: Parameters, delta: float) -> float:
    orders = _orders(p, "1.1..10.9 step 0.1 and 12..63")
    return relational.coupled_epsilon(*_relational(p), p["steps"], delta, orders)


def _relational_coupled_rdp(p: Parameters, delta: float) -> float:
    return float(relational.coupled_rdp(*_relational(p), (float(p["order"]),))[0])


def _relational_static(p: Parameters, delta: float) -> float:
    return relational.static_epsilon(
        p["nodes"],
        p["relations"],
        p["max_degree"],
        p.get("refill", 0),
        p["negatives"],
        p["q"],
        p["sigma_over_clip"],
        p["steps"],
        delta,
    )


def _pate_published(p: Parameters, delta: float) -> float:
    return pate.published_epsilon(p["checks"], p["answers"], p["sigma_threshold"], p["sigma_votes"], delta)


def _pate_capped(p: Parameters, delta: float) -> float:
    return pate.capped_epsilon(p["checks"], p["answers"], p["sigma_threshold"], p["sigma_votes"], delta)


def _class_theorem5(p: Parameters, delta: float) -> float:
    return class_level.theorem5_epsilon(p["q"], p["noise_multiplier"], p["steps"], delta)


def _appr_theorem6(p: Parameters, delta: float) -> float:
    return pagerank.theorem6_epsilon(p["rows"], p["sigma_over_clip"], p["row_delta"])


def _appr_theorem7(p: Parameters, delta: float) -> float:
    row_delta = p.get("row_delta", delta / (2 * p["rows"]))
    return pagerank.theorem7_epsilon(p["rows"], p["top_k"], p["eps_gumbel"], row_delta, p.get("eps_laplace"))


def _appr_exponential(p: Parameters, delta: float) -> float:
    return pagerank.exponential_epsilon(p["rows"], p["top_k"], p["eps_gumbel"], delta, p.get("eps_laplace"))


# (accountant, published or rigorous, quantity)
ACCOUNTANTS: dict[tuple[str, str, str], Callable[[Parameters, float], float]] = {
    ("moments", "published", "epsilon"): _moments,
    ("gaussian", "rigorous", "epsilon"): _gaussian,
    ("poisson_gaussian", "rigorous", "epsilon"): _poisson_gaussian,
    ("hypergeometric", "published", "epsilon"): _hypergeometric,
    ("hypergeometric", "published", "rdp_per_step"): _hypergeometric_rdp,
    ("double_mixture", "rigorous", "epsilon"): _double_mixture,
    ("residual_clipping", "rigorous", "epsilon"): _residual_clipping,
    ("relational_coupled", "published", "epsilon"): _relational_coupled,
    ("relational_coupled", "published", "rdp_per_step"): _relational_coupled_rdp,
    ("relational_static", "rigorous", "epsilon"): _relational_static,
    ("pate_confident_gnmax", "published", "epsilon"): _pate_published,
    ("pate_confident_gnmax", "rigorous", "epsilon"): _pate_capped,
    ("class_dp_theorem5", "published", "epsilon"): _class_theorem5,
    ("appr_gaussian_theorem6", "published", "epsilon"): _appr_theorem6,
    ("appr_exponential", "published", "epsilon"): _appr_theorem7,
    ("appr_exponential", "rigorous", "epsilon"): _appr_exponential,
}
# paper: a value printed in a paper; bug: the true accountant at the numbers of a known mistake; cross-check: another
# library's value for the same mechanism.
MODES = {
    "published": ("published",),
    "paper": ("published",),
    "rigorous": ("rigorous",),
    "bug": ("rigorous",),
    "cross-check": ("rigorous",),
}


def evaluate(accountant: str, mode: str, parameters: Parameters, delta: float, quantity: str = "epsilon") -> float:
    """One accountant at one setting.

    >>> round(evaluate("gaussian", "rigorous", {"sensitivity": 2, "sigma": 26, "compositions": 2000}, 1e-5), 3)
    19.941
    """
    if mode not in MODES:
        raise invalid("mode", mode, f"one of {', '.join(MODES)}")
    for kind in MODES[mode]:
        function = ACCOUNTANTS.get((accountant, kind, quantity))
        if function is not None:
            try:
                return function(parameters, delta)
            except KeyError as error:
                raise UserError(f"{accountant}: expected the parameter {error.args[0]}") from error
    known = sorted({f"{name} ({kind}, {what})" for name, kind, what in ACCOUNTANTS})
    raise invalid("accountant", f"{accountant} ({mode}, {quantity})", f"one of {'; '.join(known)}")
