"""Every accountant by name, with its parameters as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.families.pagerank import accountant as pagerank
from dpgraph.families.pate import accountant as pate
from dpgraph.families.trees.accountant import tree_size
from dpgraph.families.tuples import accountant as relational
from dpgraph.families.units import accountant as class_level
from dpgraph.families.votes.named_accountants import capped_votes, private_votes
from dpgraph.privacy.accountants import renyi
from dpgraph.privacy.accountants.catalogue import NAMES, NO_RIGOROUS, Unknown, accountant
from dpgraph.privacy.accountants.composition import Pair, composed_epsilon
from dpgraph.privacy.accountants.double_mixture import (
    affected_roots_pair,
    residual_one_batch_pair,
    residual_pair,
)
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
from dpgraph.privacy.accountants.parameters import GNN_ORDERS_NAME, LEAST_PRICE, PARAMETERS, RELATIONAL_ORDERS_NAME
from dpgraph.privacy.accountants.quantile import PureDp
from dpgraph.privacy.accountants.tuning import repeat_and_select_epsilon
from dpgraph.privacy.cache import Cache
from dpgraph.privacy.guarantee import Guarantee, Mode, remark_on_zero
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.solving import EpsilonAt, shown, solved
from dpgraph.privacy.statements import MOST_MOMENTS, Statement

Parameters = Mapping[str, Any]
Evaluated = Callable[[Parameters, float], float]  # at a delta
MOST_EVALUATED = 30_000_000  # terms at all orders: about two seconds
ORDERS: dict[str, renyi.Orders] = {
    GNN_ORDERS_NAME: renyi.GNN_ORDERS,
    "wide": renyi.WIDE_ORDERS,
    RELATIONAL_ORDERS_NAME: relational.ORDERS,
}


def _named(function: Callable[..., float], **names: str) -> Evaluated:
    """`function` at parameters of the same names; `names`: its own name of a parameter that is called otherwise."""
    return lambda p, delta: float(function(**{names.get(name, name): value for name, value in p.items()}, delta=delta))


def _composed(pair: Callable[[Parameters], Pair]) -> Evaluated:
    """T steps of a dominating pair, and a choice where it has a price."""

    def epsilon(p: Parameters, delta: float) -> float:
        once = PureDp(p["eps_quantile"]) if "eps_quantile" in p else None
        return composed_epsilon(pair(p), steps=p["steps"], delta=delta, once=once)

    return epsilon


def _gaussian(p: Parameters, delta: float) -> float:
    return gaussian_epsilon(mu=p["sensitivity"] * math.sqrt(p["compositions"]) / p["sigma"], delta=delta)


def _record_pair(p: Parameters) -> Pair:
    removed = p.get("relation", "add_or_remove_one") == "add_or_remove_one"
    return affected_roots_pair(affected_roots=1, rate=p["q"], noise_std=p["noise_multiplier"], own_root_removed=removed)


def _roots_pair(p: Parameters) -> Pair:
    removed = p.get("own_root_removed", True)
    return affected_roots_pair(
        affected_roots=p["affected_roots"], rate=p["q"], noise_std=p["sigma_over_clip"], own_root_removed=removed
    )


def _residual_pair(p: Parameters) -> Pair:
    return residual_pair(
        affected_roots=p["affected_roots"],
        self_rate=p["q_self"],
        neighbour_rate=p.get("q_neighbour", p["q_self"]),
        neighbour_clip=p["neighbour_to_self_clip"],
        noise_std=p["sigma_over_self_clip"],
    )


def _one_batch_pair(p: Parameters) -> Pair:
    return residual_one_batch_pair(
        affected_roots=p["affected_roots"],
        rate=p["q"],
        neighbour_clip=p["neighbour_to_self_clip"],
        noise_std=p["sigma_over_self_clip"],
    )


def _check_batch(p: Parameters) -> None:
    if p["batch_size"] > p["num_train"]:
        raise invalid("batch_size", p["batch_size"], f"at most num_train = {p['num_train']}")


def _theorem1(p: Parameters, orders: renyi.Orders) -> dict[str, Any]:
    _check_batch(p)
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
    return renyi.theorem1_epsilon(**_theorem1(p, orders), steps=p["steps"], delta=delta, conversion=conversion)


def _hypergeometric_rdp(p: Parameters, delta: float) -> float:
    return float(renyi.theorem1_rdp(**_theorem1(p, (float(p["order"]),)))[0])


def _relations(p: Parameters, noise: str) -> dict[str, Any]:
    counts = {name: p[name] for name in ("nodes", "relations", "max_degree", "negatives")}
    return {**counts, "rate": p["q"], "noise": p[noise]}


def _coupled(p: Parameters) -> dict[str, Any]:
    return _relations(p, "sigma_over_sensitivity") | {"standard_clipping": p.get("standard_clipping", False)}


def _relational_coupled(p: Parameters, delta: float) -> float:
    if p.get("orders") == "wide":
        raise invalid("orders", "wide", f"{RELATIONAL_ORDERS_NAME}, as the paper")
    orders = ORDERS[p.get("orders", RELATIONAL_ORDERS_NAME)]
    return relational.coupled_epsilon(**_coupled(p), steps=p["steps"], delta=delta, orders=orders)


def _relational_coupled_rdp(p: Parameters, delta: float) -> float:
    return float(relational.coupled_rdp(**_coupled(p), orders=(float(p["order"]),))[0])


def _static_pair(p: Parameters) -> Pair:
    return relational.static_pair(**_relations(p, "sigma_over_clip"), refill=p.get("refill", 0))


def _appr_theorem6(p: Parameters, delta: float) -> float:
    return pagerank.theorem6_epsilon(rows=p["rows"], noise=p["sigma_over_clip"], row_delta=p["row_delta"])


def _appr_theorem7(p: Parameters, delta: float) -> float:
    return pagerank.theorem7_epsilon(**{"row_delta": delta / (2 * p["rows"]), **p})


def _appr_theorem8(p: Parameters, delta: float) -> float:
    _check_batch(p)
    rate, noise = p["batch_size"] / p["num_train"], p["noise_multiplier"] / p["column_norm"]
    training = renyi.moments_epsilon(
        rate=rate, noise_multiplier=noise, steps=p["steps"], delta=delta, lambda_max=p.get("lambda_max", MOST_MOMENTS)
    )
    return pagerank.theorem8_epsilon(
        pagerank=p["eps_pagerank"], training=training, sampled_share=p.get("sampled_share", 1.0)
    )


FUNCTIONS: dict[tuple[str, Mode, str], Evaluated] = {
    ("moments", "published", "epsilon"): _named(renyi.moments_epsilon, q="rate"),
    ("gaussian", "rigorous", "epsilon"): _gaussian,
    ("poisson_gaussian", "rigorous", "epsilon"): _composed(_record_pair),
    ("hypergeometric", "published", "epsilon"): _hypergeometric,
    ("hypergeometric", "published", "rdp_per_step"): _hypergeometric_rdp,
    ("double_mixture", "rigorous", "epsilon"): _composed(_roots_pair),
    ("residual_clipping", "rigorous", "epsilon"): _composed(_residual_pair),
    ("residual_one_batch", "rigorous", "epsilon"): _composed(_one_batch_pair),
    ("private_quantile", "rigorous", "epsilon"): _composed(_roots_pair),
    ("private_votes", "rigorous", "epsilon"): private_votes,
    ("capped_votes", "rigorous", "epsilon"): capped_votes,
    ("paid_tuning", "rigorous", "epsilon"): _named(repeat_and_select_epsilon, q="rate"),
    ("relational_coupled", "published", "epsilon"): _relational_coupled,
    ("relational_coupled", "published", "rdp_per_step"): _relational_coupled_rdp,
    ("relational_static", "rigorous", "epsilon"): _composed(_static_pair),
    ("pate_confident_gnmax", "published", "epsilon"): _named(pate.published_epsilon),
    ("pate_confident_gnmax", "rigorous", "epsilon"): _named(pate.capped_epsilon),
    ("class_dp_theorem5", "published", "epsilon"): _named(class_level.theorem5_epsilon, q="rate"),
    ("appr_gaussian_theorem6", "published", "epsilon"): _appr_theorem6,
    ("appr_exponential", "published", "epsilon"): _appr_theorem7,
    ("appr_exponential", "rigorous", "epsilon"): _named(pagerank.exponential_epsilon),
    ("appr_training_theorem8", "published", "epsilon"): _appr_theorem8,
    ("appr_training", "rigorous", "epsilon"): _named(
        pagerank.gaussian_then_training_epsilon, q="rate", sigma_over_clip="noise", noise_multiplier="sgd_noise"
    ),
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
    return _function(name, kind, quantity)(values, delta)


def _function(name: str, mode: Mode, quantity: str = "epsilon") -> Evaluated:
    """It is given what it needs; the number of protected units is there to check delta."""
    known, function = accountant(name, mode, quantity), FUNCTIONS[name, mode, quantity]
    taken = {*known.required, *known.optional}
    return lambda values, delta: function({key: one for key, one in values.items() if key in taken}, delta)


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
    function = _function(name, mode)

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
