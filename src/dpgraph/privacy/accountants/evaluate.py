"""Every accountant by name, with its parameters as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from dpgraph.errors import invalid
from dpgraph.privacy.accountants import class_level, pagerank, pate, relational
from dpgraph.privacy.accountants.catalogue import NAMES, NO_RIGOROUS, Unknown, accountant
from dpgraph.privacy.accountants.composition import composed_epsilon
from dpgraph.privacy.accountants.double_mixture import (
    MixturePair,
    affected_roots_pair,
    residual_one_batch_pair,
    residual_pair,
)
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.named_votes import capped_votes, private_votes
from dpgraph.privacy.accountants.parameters import GNN_ORDERS_NAME, LEAST_PRICE, PARAMETERS, RELATIONAL_ORDERS_NAME
from dpgraph.privacy.accountants.quantile import PureDp
from dpgraph.privacy.accountants.renyi import (
    GNN_ORDERS,
    WIDE_ORDERS,
    Orders,
    moments_epsilon,
    theorem1_epsilon,
    theorem1_rdp,
)
from dpgraph.privacy.accountants.trees import tree_size
from dpgraph.privacy.accountants.tuning import repeat_and_select_epsilon
from dpgraph.privacy.cache import Cache
from dpgraph.privacy.guarantee import Guarantee, Mode, remark_on_zero
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.solving import EpsilonAt, shown, solved
from dpgraph.privacy.statements import Statement

Parameters = Mapping[str, Any]
MOST_EVALUATED = 30_000_000  # terms at all orders: about two seconds
ORDERS: dict[str, Orders] = {
    GNN_ORDERS_NAME: GNN_ORDERS,
    "wide": WIDE_ORDERS,
    RELATIONAL_ORDERS_NAME: relational.ORDERS,
}


def _moments(p: Parameters, delta: float) -> float:
    return moments_epsilon(
        rate=p["q"],
        noise_multiplier=p["noise_multiplier"],
        steps=p["steps"],
        delta=delta,
        lambda_max=p.get("lambda_max", 32),
    )


def _gaussian(p: Parameters, delta: float) -> float:
    return gaussian_epsilon(mu=p["sensitivity"] * math.sqrt(p["compositions"]) / p["sigma"], delta=delta)


def _poisson_gaussian(p: Parameters, delta: float) -> float:
    removed = p.get("relation", "add_or_remove_one") == "add_or_remove_one"
    pair = affected_roots_pair(affected_roots=1, rate=p["q"], noise_std=p["noise_multiplier"], own_root_removed=removed)
    return composed_epsilon(pair, steps=p["steps"], delta=delta)


def _theorem1(p: Parameters, orders: Orders) -> dict[str, Any]:
    if p["batch_size"] > p["num_train"]:
        raise invalid("batch_size", p["batch_size"], f"at most num_train = {p['num_train']}")
    affected = tree_size(max_degree=p["max_degree"], hops=p["hops"])
    terms = MOST_EVALUATED // len(orders)
    if min(affected, p["num_train"]) > terms:
        raise invalid("hops", p["hops"], f"a tree of at most {terms} nodes with max_degree = {p['max_degree']}")
    return {
        "num_roots": p["num_train"],
        "batch_size": p["batch_size"],
        "affected_roots": affected,
        "noise_multiplier": p["noise_multiplier"],
        "orders": orders,
    }


def _hypergeometric(p: Parameters, delta: float) -> float:
    orders, conversion = ORDERS[p.get("orders", GNN_ORDERS_NAME)], p.get("conversion", "improved")
    return theorem1_epsilon(**_theorem1(p, orders), steps=p["steps"], delta=delta, conversion=conversion)


def _hypergeometric_rdp(p: Parameters, delta: float) -> float:
    orders = (float(p["order"]),)
    return float(theorem1_rdp(**_theorem1(p, orders))[0])


def _roots_pair(p: Parameters) -> MixturePair:
    return affected_roots_pair(
        affected_roots=p["affected_roots"],
        rate=p["q"],
        noise_std=p["sigma_over_clip"],
        own_root_removed=p.get("own_root_removed", True),
    )


def _double_mixture(p: Parameters, delta: float) -> float:
    return composed_epsilon(_roots_pair(p), steps=p["steps"], delta=delta)


def _private_quantile(p: Parameters, delta: float) -> float:
    return composed_epsilon(_roots_pair(p), steps=p["steps"], delta=delta, once=PureDp(p["eps_quantile"]))


def _paid_tuning(p: Parameters, delta: float) -> float:
    return repeat_and_select_epsilon(
        rate=p["q"],
        noise_multiplier=p["noise_multiplier"],
        steps=p["steps"],
        runs=p["runs"],
        mean_runs=p["mean_runs"],
        delta=delta,
    )


def _residual_clipping(p: Parameters, delta: float) -> float:
    second = p.get("q_neighbour", p["q_self"])
    pair = residual_pair(
        affected_roots=p["affected_roots"],
        self_rate=p["q_self"],
        neighbour_rate=second,
        neighbour_clip=p["neighbour_to_self_clip"],
        noise_std=p["sigma_over_self_clip"],
    )
    return composed_epsilon(pair, steps=p["steps"], delta=delta)


def _residual_one_batch(p: Parameters, delta: float) -> float:
    pair = residual_one_batch_pair(
        affected_roots=p["affected_roots"],
        rate=p["q"],
        neighbour_clip=p["neighbour_to_self_clip"],
        noise_std=p["sigma_over_self_clip"],
    )
    return composed_epsilon(pair, steps=p["steps"], delta=delta)


def _coupled(p: Parameters) -> dict[str, Any]:
    return {
        **{name: p[name] for name in ("nodes", "relations", "max_degree", "negatives")},
        "rate": p["q"],
        "noise": p["sigma_over_sensitivity"],
        "standard_clipping": p.get("standard_clipping", False),
    }


def _relational_coupled(p: Parameters, delta: float) -> float:
    if p.get("orders") == "wide":
        raise invalid("orders", "wide", f"{RELATIONAL_ORDERS_NAME}, as the paper")
    orders = ORDERS[p.get("orders", RELATIONAL_ORDERS_NAME)]
    return relational.coupled_epsilon(**_coupled(p), steps=p["steps"], delta=delta, orders=orders)


def _relational_coupled_rdp(p: Parameters, delta: float) -> float:
    return float(relational.coupled_rdp(**_coupled(p), orders=(float(p["order"]),))[0])


def _relational_static(p: Parameters, delta: float) -> float:
    return relational.static_epsilon(
        nodes=p["nodes"],
        relations=p["relations"],
        max_degree=p["max_degree"],
        refill=p.get("refill", 0),
        negatives=p["negatives"],
        rate=p["q"],
        noise=p["sigma_over_clip"],
        steps=p["steps"],
        delta=delta,
    )


def _pate_published(p: Parameters, delta: float) -> float:
    return pate.published_epsilon(
        checks=p["checks"],
        answers=p["answers"],
        sigma_threshold=p["sigma_threshold"],
        sigma_votes=p["sigma_votes"],
        delta=delta,
    )


def _pate_capped(p: Parameters, delta: float) -> float:
    return pate.capped_epsilon(
        checks=p["checks"],
        answers=p["answers"],
        sigma_threshold=p["sigma_threshold"],
        sigma_votes=p["sigma_votes"],
        delta=delta,
    )


def _class_theorem5(p: Parameters, delta: float) -> float:
    return class_level.theorem5_epsilon(
        rate=p["q"], noise_multiplier=p["noise_multiplier"], steps=p["steps"], delta=delta
    )


def _appr_theorem6(p: Parameters, delta: float) -> float:
    return pagerank.theorem6_epsilon(rows=p["rows"], noise=p["sigma_over_clip"], row_delta=p["row_delta"])


def _appr_theorem7(p: Parameters, delta: float) -> float:
    row_delta = p.get("row_delta", delta / (2 * p["rows"]))
    return pagerank.theorem7_epsilon(
        rows=p["rows"],
        top_k=p["top_k"],
        eps_gumbel=p["eps_gumbel"],
        row_delta=row_delta,
        eps_laplace=p.get("eps_laplace"),
    )


def _appr_exponential(p: Parameters, delta: float) -> float:
    return pagerank.exponential_epsilon(
        rows=p["rows"], top_k=p["top_k"], eps_gumbel=p["eps_gumbel"], delta=delta, eps_laplace=p.get("eps_laplace")
    )


def _appr_theorem8(p: Parameters, delta: float) -> float:
    if p["batch_size"] > p["num_train"]:
        raise invalid("batch_size", p["batch_size"], f"at most num_train = {p['num_train']}")
    rate, noise = p["batch_size"] / p["num_train"], p["noise_multiplier"] / p["column_norm"]
    training = moments_epsilon(
        rate=rate, noise_multiplier=noise, steps=p["steps"], delta=delta, lambda_max=p.get("lambda_max", 32)
    )
    return pagerank.theorem8_epsilon(
        pagerank=p["eps_pagerank"], training=training, sampled_share=p.get("sampled_share", 1.0)
    )


def _appr_training(p: Parameters, delta: float) -> float:
    return pagerank.gaussian_then_training_epsilon(
        rows=p["rows"],
        noise=p["sigma_over_clip"],
        column_support=p["column_support"],
        rate=p["q"],
        sgd_noise=p["noise_multiplier"],
        steps=p["steps"],
        delta=delta,
    )


FUNCTIONS: dict[tuple[str, Mode, str], Callable[[Parameters, float], float]] = {
    ("moments", "published", "epsilon"): _moments,
    ("gaussian", "rigorous", "epsilon"): _gaussian,
    ("poisson_gaussian", "rigorous", "epsilon"): _poisson_gaussian,
    ("hypergeometric", "published", "epsilon"): _hypergeometric,
    ("hypergeometric", "published", "rdp_per_step"): _hypergeometric_rdp,
    ("double_mixture", "rigorous", "epsilon"): _double_mixture,
    ("residual_clipping", "rigorous", "epsilon"): _residual_clipping,
    ("residual_one_batch", "rigorous", "epsilon"): _residual_one_batch,
    ("private_quantile", "rigorous", "epsilon"): _private_quantile,
    ("private_votes", "rigorous", "epsilon"): private_votes,
    ("capped_votes", "rigorous", "epsilon"): capped_votes,
    ("paid_tuning", "rigorous", "epsilon"): _paid_tuning,
    ("relational_coupled", "published", "epsilon"): _relational_coupled,
    ("relational_coupled", "published", "rdp_per_step"): _relational_coupled_rdp,
    ("relational_static", "rigorous", "epsilon"): _relational_static,
    ("pate_confident_gnmax", "published", "epsilon"): _pate_published,
    ("pate_confident_gnmax", "rigorous", "epsilon"): _pate_capped,
    ("class_dp_theorem5", "published", "epsilon"): _class_theorem5,
    ("appr_gaussian_theorem6", "published", "epsilon"): _appr_theorem6,
    ("appr_exponential", "published", "epsilon"): _appr_theorem7,
    ("appr_exponential", "rigorous", "epsilon"): _appr_exponential,
    ("appr_training_theorem8", "published", "epsilon"): _appr_theorem8,
    ("appr_training", "rigorous", "epsilon"): _appr_training,
}
# paper: a value printed in a paper; bug: the true accountant at the numbers of a known mistake; cross-check: another
# library's value for the same mechanism.
MODES: dict[str, Mode] = {
    "published": "published",
    "paper": "published",
    "rigorous": "rigorous",
    "bug": "rigorous",
    "cross-check": "rigorous",
}


def evaluate(name: str, mode: str, parameters: Parameters, delta: float, quantity: str = "epsilon") -> float:
    """One accountant at one setting.

    Raises UserError for what is unknown, out of range, or outside the premises of the accountant's theorem.

    >>> round(evaluate("gaussian", "rigorous", {"sensitivity": 2, "sigma": 26, "compositions": 2000}, 1e-5), 3)
    19.941
    """
    if mode not in MODES:
        raise invalid("mode", mode, f"one of {', '.join(MODES)}")
    kind = MODES[mode]
    values = _checked(name, kind, parameters, delta, quantity)
    return FUNCTIONS[name, kind, quantity](values, delta)


def _checked(
    name: str, mode: Mode, parameters: Parameters, delta: float, quantity: str = "epsilon", open_: str | None = None
) -> dict[str, Any]:
    known = accountant(name, mode, quantity)
    if quantity == "epsilon" and not 0 < delta < 1:
        raise invalid("delta", delta, "a number in (0, 1)")
    values = known.checked(name, parameters, open_)
    units = values.get(known.units or "")
    if mode == "rigorous" and units is not None and delta >= 1 / units:
        raise invalid("delta", delta, f"a number < 1 / {known.units} = {1 / units:.3g}")
    return values


def guarantee(name: str, mode: Mode, parameters: Parameters, delta: float) -> Guarantee:
    """The same with all that it rests on; without an epsilon and with the reason where nothing is guaranteed.

    A mechanism that no paper published has no published epsilon.
    """
    if (name, mode, "epsilon") not in FUNCTIONS and name in NAMES:
        reason = NO_RIGOROUS.get(name) if mode == "rigorous" else "no paper published an accountant for it"
        return Guarantee(mode=mode, accountant=name, sampling="none", epsilon=None, reason=reason, delta=delta)
    known = accountant(name, mode)
    if known.statement is None:
        raise TypeError(f"{name}: expected a statement")
    epsilon = evaluate(name, mode, parameters, delta)
    unchecked: tuple[str, ...] = (
        () if mode == "published" or (known.units or "") in parameters else ("delta < 1/N was not checked",)
    )
    stated = replace(known.statement.filled(), relation=_relation(known.statement, parameters))
    remarks = (*unchecked, *remark_on_zero(epsilon))
    return stated.guarantee(mode, epsilon=epsilon, delta=delta, accountant=name, remarks=remarks)


def _relation(statement: Statement, parameters: Parameters) -> Relation:
    """Of the Poisson-subsampled Gaussian, and of votes, with the requested parameters."""
    if "votes_relation" in parameters:
        return Relation(parameters["votes_relation"])
    return Relation.RECORD_REPLACE if parameters.get("relation") == "replace_one" else statement.relation


def solve_for(
    name: str,
    mode: Mode,
    parameters: Parameters,
    unknown: Unknown,
    *,
    delta: float,
    epsilon: float,
    cache: Cache | None = None,
    show: bool = False,
) -> dict[str, Any]:
    """The parameters with the least noise, the most steps or the highest batch rate that meet `epsilon`.

    The answer's epsilon never exceeds the target. `cache` keeps answers, `show` reports progress. Raises UserError
    where no answer exists.
    """
    open_ = accountant(name, mode).unknown(unknown)
    if not LEAST_PRICE <= epsilon < math.inf:
        raise invalid("epsilon", epsilon, f"a finite number >= {LEAST_PRICE:g}")
    values = _checked(name, mode, {key: value for key, value in parameters.items() if key != open_}, delta, open_=open_)
    question = ["solve", name, mode, values, delta, epsilon, unknown]
    stored = None if cache is None else cache.get(question)
    if isinstance(stored, int | float) and stored > 0:
        return {**values, open_: stored}
    function = FUNCTIONS[name, mode, "epsilon"]

    def epsilon_at(value: float) -> float:
        return function({**values, open_: value}, delta)

    with shown(unknown, epsilon_at) if show else nullcontext[EpsilonAt](epsilon_at) as watched:
        guess = relational.NOISE_GUESS if name.startswith("relational") else None
        answer: float = solved(unknown, watched, target=epsilon, guess=guess)
    if unknown == "noise":  # a target that the least allowed noise meets
        answer = max(answer, PARAMETERS[open_].least or 0.0)
    if cache is not None:
        cache.put(question, answer)
    return {**values, open_: answer}
