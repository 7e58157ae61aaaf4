"""Every accountant by name: its parameters, and the statement of its theorem. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpgraph.core.errors import UserError, invalid
from dpgraph.privacy import statements
from dpgraph.privacy.accountants.parameters import PARAMETERS, PREMISES
from dpgraph.privacy.guarantee import Mode
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

Unknown = Literal["noise", "steps", "rate"]


@dataclass(frozen=True)
class Accountant:
    """`rate`, `noise` and `steps` name the parameters that a target can be solved for."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    premises: tuple[str, ...] = ()
    statement: Statement | None = None  # of an epsilon
    noise: str | None = None
    steps: str | None = "steps"
    rate: str | None = None
    units: str | None = "num_train"  # parameter that holds N; delta >= 1 / N is refused when it is given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.required, *self.optional, *self.premises, *((self.units or "",)))))

    def unknown(self, unknown: Unknown) -> str:
        """The parameter to solve for; raises UserError where there is none."""
        parameter = {"noise": self.noise, "steps": self.steps, "rate": self.rate}[unknown]
        if parameter is None:
            known = [name for name in ("noise", "steps", "rate") if getattr(self, name) is not None]
            raise invalid("solve", unknown, f"one of {', '.join(known)}" if known else "a mechanism with noise")
        return parameter

    def checked(self, accountant: str, parameters: Mapping[str, Any], open_: str | None = None) -> dict[str, Any]:
        """Parameters in their types; premises that do not hold, unknown and missing ones raise UserError."""
        known = {name: PARAMETERS[name] for name in self.names if name}
        values = {}
        for name, value in parameters.items():
            if name not in known:
                raise UserError(f"{accountant}: unknown parameter {name}: expected some of {', '.join(sorted(known))}")
            values[name] = known[name].check(name, value)
            if name in self.premises and values[name] != PREMISES[name][0]:
                raise invalid(name, values[name], f"{PREMISES[name][0]}: {PREMISES[name][1]}")
        for name in self.required:
            if name not in values and name != open_:
                raise UserError(f"{accountant}: expected the parameter {name}")
        return {name: value for name, value in values.items() if name not in self.premises}


SGD_PREMISES = ("sampling", "clipping", "groups")
_RELATIONAL = ("nodes", "relations", "max_degree", "negatives", "q", "sigma_over_sensitivity")
_DM = ("affected_roots", "q", "sigma_over_clip", "steps")
_PATE: dict[str, Any] = {
    "required": ("checks", "answers", "sigma_threshold", "sigma_votes"),
    "noise": "sigma_votes",
    "steps": "answers",
}
_POISSON: dict[str, Any] = {"required": ("q", "noise_multiplier", "steps"), "noise": "noise_multiplier", "rate": "q"}


def _own(relation: Relation, sampling: str, *assumptions: str) -> Statement:
    """Of an accountant whose mechanism no method here runs, or whose parts are named one by one."""
    return Statement(method="", relation=relation, sampling=sampling, assumptions=assumptions)


ACCOUNTANTS: dict[tuple[str, Mode, str], Accountant] = {
    ("moments", "published", "epsilon"): Accountant(
        **_POISSON,
        optional=("lambda_max",),
        statement=statements.MOMENTS.also("sensitivity C although a (sub)graph's gradient moves 2C"),
    ),
    ("gaussian", "rigorous", "epsilon"): Accountant(
        ("sensitivity", "sigma", "compositions"),
        statement=statements.GAUSSIAN,
        noise="sigma",
        steps="compositions",
    ),
    ("poisson_gaussian", "rigorous", "epsilon"): Accountant(
        **_POISSON,
        optional=("relation", "method"),
        premises=SGD_PREMISES,
        statement=statements.POISSON_GAUSSIAN,
    ),
    ("hypergeometric", "published", "epsilon"): Accountant(
        ("num_train", "batch_size", "max_degree", "hops", "noise_multiplier", "steps"),
        optional=("orders", "conversion"),
        statement=statements.HYPERGEOMETRIC.also(statements.ONE_MULTIPLIER),
        noise="noise_multiplier",
    ),
    ("hypergeometric", "published", "rdp_per_step"): Accountant(
        ("num_train", "batch_size", "max_degree", "hops", "noise_multiplier", "order")
    ),
    ("double_mixture", "rigorous", "epsilon"): Accountant(
        _DM,
        optional=("own_root_removed",),
        premises=(*SGD_PREMISES, "sampler"),
        statement=statements.DOUBLE_MIXTURE,
        noise="sigma_over_clip",
        rate="q",
    ),
    ("residual_clipping", "rigorous", "epsilon"): Accountant(
        ("affected_roots", "q_self", "neighbour_to_self_clip", "sigma_over_self_clip", "steps"),
        optional=("q_neighbour",),
        premises=(*SGD_PREMISES, "sampler", "batches"),
        statement=statements.RESIDUAL_CLIPPING,
        noise="sigma_over_self_clip",
        rate="q_self",
    ),
    ("residual_one_batch", "rigorous", "epsilon"): Accountant(
        ("affected_roots", "q", "neighbour_to_self_clip", "sigma_over_self_clip", "steps"),
        premises=(*SGD_PREMISES, "sampler"),
        statement=statements.RESIDUAL_ONE_BATCH,
        noise="sigma_over_self_clip",
        rate="q",
    ),
    ("private_votes", "rigorous", "epsilon"): Accountant(
        (*_POISSON["required"], "sigma_votes_over_norm", "mass", "degree_floor", "eps_choice"),
        optional=("sigma_mean", "votes_relation", "sigma_reader", "reader_steps"),
        premises=SGD_PREMISES,
        statement=statements.VOTES,
        noise="noise_multiplier",
        rate="q",
    ),
    ("capped_votes", "rigorous", "epsilon"): Accountant(
        (
            *_POISSON["required"],
            "sigma_votes_over_norm",
            "sigma_degrees",
            "cap_margin",
            "degree_floor",
            "most_voters",
            "most_receivers",
            "eps_choice",
        ),
        optional=("sigma_mean", "sigma_hubs", "hub_limit"),
        premises=SGD_PREMISES,
        statement=statements.CAPPED_VOTES,
        noise="noise_multiplier",
        rate="q",
    ),
    ("private_quantile", "rigorous", "epsilon"): Accountant(
        (*_DM, "eps_quantile"),
        optional=("own_root_removed",),
        premises=("sampling", "groups", "sampler"),
        statement=statements.PRIVATE_QUANTILE,
        noise="sigma_over_clip",
        rate="q",
    ),
    ("paid_tuning", "rigorous", "epsilon"): Accountant(
        (*_POISSON["required"], "runs", "mean_runs"),
        premises=SGD_PREMISES,
        statement=replace(
            statements.POISSON_GAUSSIAN,
            assumptions=(
                "the number of runs is drawn before and hidden, and only the best run is released",
                "the score that chooses is part of each run's guarantee",
            ),
            not_covered=(),
        ),
        noise="noise_multiplier",
        rate="q",
    ),
    ("relational_coupled", "published", "epsilon"): Accountant(
        (*_RELATIONAL, "steps"),
        optional=("orders", "standard_clipping"),
        statement=_own(
            Relation.ENTITY,
            "Poisson over relations, coupled negatives",
            "Proposition 4.1's sensitivity, which is false for adaptive clipping",
        ),
        noise="sigma_over_sensitivity",
        rate="q",
        units="nodes",
    ),
    ("relational_coupled", "published", "rdp_per_step"): Accountant(
        (*_RELATIONAL, "order"), optional=("standard_clipping",), units="nodes"
    ),
    ("relational_static", "rigorous", "epsilon"): Accountant(
        ("nodes", "relations", "max_degree", "negatives", "q", "sigma_over_clip", "steps"),
        optional=("refill",),
        premises=(*SGD_PREMISES, "sampler"),
        statement=_own(
            Relation.ENTITY,
            "Poisson over relations; one uniform ordered sample of negatives",
            "degrees at most K, by schema or with D = refill",
            "every tuple is clipped at a public norm",
        ),
        noise="sigma_over_clip",
        rate="q",
        units="nodes",
    ),
    ("pate_confident_gnmax", "published", "epsilon"): Accountant(
        **_PATE, statement=_own(Relation.VOTE, "none", "charges the realised number of answers, which is private")
    ),
    ("pate_confident_gnmax", "rigorous", "epsilon"): Accountant(
        **_PATE, statement=_own(Relation.VOTE, "none", "public caps on checks and answers stop the run")
    ),
    ("class_dp_theorem5", "published", "epsilon"): Accountant(
        **_POISSON,
        statement=_own(Relation.CLASS, "Poisson over classes", "its own condition is q < 1 / (16 sigma)"),
    ),
    ("appr_gaussian_theorem6", "published", "epsilon"): Accountant(
        ("rows", "sigma_over_clip", "row_delta"),
        statement=_own(
            statements.THEOREMS_6_TO_8.relation,
            "none",
            "row sensitivity C1, although two clipped rows differ by up to sqrt(2) C1",
        ),
        noise="sigma_over_clip",
        steps=None,
    ),
    ("appr_exponential", "published", "epsilon"): Accountant(
        ("rows", "top_k", "eps_gumbel"),
        optional=("row_delta", "eps_laplace"),
        statement=_own(statements.THEOREMS_6_TO_8.relation, "none"),
        steps=None,
    ),
    ("appr_exponential", "rigorous", "epsilon"): Accountant(
        ("rows", "top_k", "eps_gumbel"),
        optional=("eps_laplace",),
        statement=statements.PAGERANK_DRAWS,
        steps=None,
    ),
    ("appr_training_theorem8", "published", "epsilon"): Accountant(
        ("num_train", "batch_size", "noise_multiplier", "column_norm", "steps", "eps_pagerank"),
        optional=("sampled_share", "lambda_max"),
        statement=statements.THEOREMS_6_TO_8.also(
            "a capped column norm bounds a node's effect on training",
            "sampling a share q' once multiplies epsilon by q'",
        ),
        noise="noise_multiplier",
    ),
    ("appr_training", "rigorous", "epsilon"): Accountant(
        ("rows", "sigma_over_clip", "column_support", "q", "noise_multiplier", "steps"),
        premises=SGD_PREMISES,
        statement=statements.PAGERANK_TRAINING.also(
            "column support capped on the released matrix", "rows non-negative and clipped"
        ),
        noise="noise_multiplier",
        rate="q",
    ),
}  # fmt: skip

# Why a published accountant has no rigorous twin under its own name, and which accountant to use instead.
NO_RIGOROUS = {
    "moments": f"{statements.ONE_VECTOR}, and a fixed partition amplifies nothing: see gaussian with sensitivity 2, or "
    "poisson_gaussian with half the multiplier for fresh subgraphs",
    "hypergeometric": f"{statements.UNSTABLE_LISTS}; {statements.UNPAID_PERCENTILES}: see double_mixture",
    "relational_coupled": "Proposition 4.1 is false for adaptive clipping: see relational_static",
    "class_dp_theorem5": "the proof of Theorem 5 bounds e^x - 1 by x: see poisson_gaussian with relation=replace_one",
    "appr_training_theorem8": "after softmax and clipping a column's norm bounds nothing, and batches come from the M "
    "rows: see appr_training",
    "appr_gaussian_theorem6": "rows differ by up to sqrt(2) C1: see gaussian with sensitivity sqrt(2 M)",
}
NAMES = tuple(dict.fromkeys(name for name, _, quantity in ACCOUNTANTS if quantity == "epsilon"))


def accountant(name: str, mode: Mode, quantity: str = "epsilon") -> Accountant:
    """Raises UserError for an unknown name, and with the reason for a mode that the mechanism has not."""
    known_one = ACCOUNTANTS.get((name, mode, quantity))
    if known_one is not None:
        return known_one
    if name in NO_RIGOROUS and mode == "rigorous":
        raise UserError(f"accountant={name} (rigorous, {quantity}): nothing is guaranteed: {NO_RIGOROUS[name]}")
    known = sorted({f"{name} ({kind}, {what})" for name, kind, what in ACCOUNTANTS})
    raise invalid("accountant", f"{name} ({mode}, {quantity})", f"one of {'; '.join(known)}")
