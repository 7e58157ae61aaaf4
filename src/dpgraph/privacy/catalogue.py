"""Every accountant by name: its parameters with their ranges, and what its theorem presumes. Imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpgraph.errors import UserError, invalid
from dpgraph.privacy.guarantee import Mode

Unknown = Literal["noise", "steps", "rate"]
MOST_TERMS = 20_000  # of a mixture; more would take minutes
GNN_ORDERS_NAME, RELATIONAL_ORDERS_NAME = "1.1..9.9 step 0.1", "1.1..10.9 step 0.1 and 12..63"


@dataclass(frozen=True)
class Parameter:
    """A plain value; `above` is an open lower end, `least` a closed one."""

    text: str
    kind: type = float
    above: float | None = None
    least: float | None = None
    most: float = math.inf
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if self.choices:
            return "one of " + "; ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        kind = "an integer" if self.kind is int else "a finite number"
        low = (
            f" > {self.above:g}" if self.above is not None else f" >= {self.least:g}" if self.least is not None else ""
        )
        return kind + low + ("" if self.most == math.inf else f" and <= {self.most:g}")

    def check(self, name: str, value: Any) -> Any:
        """The value in its type; raises UserError in one line. A count may be written as a float (1e6)."""
        if self.choices:
            good = value in self.choices
        elif self.kind is bool:
            good = isinstance(value, bool)
        else:
            good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            good = good and (self.kind is float or float(value).is_integer())
            good = good and (self.above is None or value > self.above) and (self.least is None or value >= self.least)
            good = good and value <= self.most
        if not good:
            raise invalid(name, value, self.allowed)
        return self.kind(value)


def _rate(text: str) -> Parameter:
    return Parameter(text, above=0, most=1)


def _count(text: str, least: int = 1, most: float = math.inf) -> Parameter:
    return Parameter(text, int, least=least, most=most)


def _noise(text: str) -> Parameter:
    return Parameter(text, above=0)


def _choice(text: str, *choices: str) -> Parameter:
    return Parameter(text, str, choices=choices)


PARAMETERS: dict[str, Parameter] = {
    "affected_roots": _count("R: loss terms that one record changes, its own included", most=MOST_TERMS),
    "answers": _count("answered queries; rigorous: their enforced public cap", 0),
    "batch_size": _count("m, drawn without replacement"),
    "batches": _count("independent batches per step"),
    "checks": _count("threshold checks; rigorous: their enforced public cap", 0),
    "clipping": _choice("how the clip norm is found", "public", "adaptive", "private percentile"),
    "column_support": _count("rows of the released matrix that may name one node", most=MOST_TERMS),
    "compositions": _count("T"),
    "conversion": _choice("from RDP", "classic", "improved"),
    "eps_gumbel": _noise("Gumbel scale is C2 / eps_gumbel"),
    "eps_laplace": _noise("option 2 adds Laplace(K C2 / eps_laplace)"),
    "eps_quantile": _noise("price of the privately chosen clip norm, pure DP"),
    "groups": _count("parameter groups that are clipped and noised separately, one multiplier each"),
    "hops": _count("r", 0, 3),
    "lambda_max": _count("largest moment", most=1000),
    "max_degree": _count("K", most=100),
    "mean_runs": Parameter("mean number of training runs that are tried", least=1),
    "method": _choice("numerics; another one only for cross-checks", "pld"),
    "negatives": _count("k, negatives per positive"),
    "neighbour_to_self_clip": Parameter("C_n / C_s", least=0),
    "nodes": _count("n"),
    "noise_multiplier": _noise("noise std / clip norm; hypergeometric: the paper's lambda"),
    "num_train": _count("N, public"),
    "order": Parameter("Renyi order", above=1),
    "orders": _choice("of Renyi", GNN_ORDERS_NAME, "wide", RELATIONAL_ORDERS_NAME),
    "own_root_removed": Parameter("the record's own term vanishes (node-null); false: it is replaced", bool),
    "q": _rate("Poisson rate per step"),
    "q_neighbour": _rate("Poisson rate of the neighbour terms (default: q_self)"),
    "q_self": _rate("Poisson rate of the self terms"),
    "refill": _count("D, relations that the stable sampler lets in", 0, MOST_TERMS),
    "relation": _choice("adjacency", "add_or_remove_one", "replace_one"),
    "relations": _count("m"),
    "row_delta": Parameter("delta of one row", above=0, most=1),
    "rows": _count("M"),
    "runs": _choice("law of the number of runs", "geometric", "poisson"),
    "sampler": _choice("how neighbourhoods are bounded", "stable", "algorithm-1", "greedy"),
    "sampling": _choice("of batches", "poisson", "without replacement", "fixed partition"),
    "sensitivity": _noise("of one release, in the unit of sigma"),
    "sigma": _noise("noise std"),
    "sigma_over_clip": _noise("noise std / clip norm"),
    "sigma_over_self_clip": _noise("noise std / C_s"),
    "sigma_over_sensitivity": Parameter("noise std / sensitivity", least=0.02),
    "sigma_threshold": _noise("noise std of a check"),
    "sigma_votes": _noise("noise std of an answer"),
    "steps": _count("T", most=10**6),
    "top_k": _count("K: entries per row"),
}

# What a theorem presumes and a caller may state otherwise, with the reason of the refusal (docs/privacy.md).
PREMISES: dict[str, tuple[Any, str]] = {
    "sampling": (
        "poisson",
        "in a batch of fixed size an affected root displaces another, and a fixed partition uses every root each epoch",
    ),
    "sampler": ("stable", "one record changes an unbounded number of lists under any other sampler"),
    "clipping": (
        "public",
        "adaptive thresholds depend on other nodes' records, and a private percentile costs eps_quantile: see "
        "private_quantile",
    ),
    "groups": (1, "with L groups the joint multiplier is (sum (C_l / sigma_l)^2)^(-1/2): pass that as the noise"),
    "batches": (
        2,
        "with one batch for both terms the self terms tell which affected roots were drawn: see residual_one_batch",
    ),
}


@dataclass(frozen=True)
class Accountant:
    """`rate`, `noise` and `steps` name the parameters that a target can be solved for."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    premises: tuple[str, ...] = ()
    adjacency: str = ""
    sampling: str = ""
    assumptions: tuple[str, ...] = ()
    noise: str | None = None
    steps: str | None = "steps"
    rate: str | None = None
    units: str | None = "num_train"  # parameter that holds N; delta >= 1 / N is refused when it is given

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.required, *self.optional, *self.premises, *((self.units or "",)))))

    def unknown(self, unknown: Unknown) -> str:
        """The parameter to solve for; raises UserError where there is none."""
        found = {"noise": self.noise, "steps": self.steps, "rate": self.rate}[unknown]
        if found is None:
            known = [name for name in ("noise", "steps", "rate") if getattr(self, name) is not None]
            raise invalid("solve", unknown, f"one of {', '.join(known)}" if known else "a mechanism with noise")
        return found

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
NODE_NULL = "node-null: one node's record becomes null"
PUBLIC = "public clip norm and hyper-parameters, not tuned on the private data"
_RELATIONAL = ("nodes", "relations", "max_degree", "negatives", "q", "sigma_over_sensitivity")
_DM = ("affected_roots", "q", "sigma_over_clip", "steps")
_PATE: dict[str, Any] = {
    "required": ("checks", "answers", "sigma_threshold", "sigma_votes"),
    "adjacency": "one teacher's vote",
    "noise": "sigma_votes",
    "steps": "answers",
}
_POISSON: dict[str, Any] = {"required": ("q", "noise_multiplier", "steps"), "noise": "noise_multiplier", "rate": "q"}

ACCOUNTANTS: dict[tuple[str, Mode, str], Accountant] = {
    ("moments", "published", "epsilon"): Accountant(
        **_POISSON,
        optional=("lambda_max",),
        adjacency="one node, as claimed",
        sampling="Poisson, as claimed",
        assumptions=("integer moments up to lambda_max", "sensitivity C although a (sub)graph's gradient moves 2C"),
    ),
    ("gaussian", "rigorous", "epsilon"): Accountant(
        ("sensitivity", "sigma", "compositions"),
        adjacency="whichever the sensitivity is for",
        sampling="none",
        assumptions=("T releases of L2 sensitivity at most `sensitivity`",),
        noise="sigma",
        steps="compositions",
    ),
    ("poisson_gaussian", "rigorous", "epsilon"): Accountant(
        **_POISSON,
        optional=("relation", "method"),
        premises=SGD_PREMISES,
        adjacency="one record added, removed or (relation=replace_one) replaced",
        sampling="Poisson",
        assumptions=("one record changes one term", PUBLIC),
    ),
    ("hypergeometric", "published", "epsilon"): Accountant(
        ("num_train", "batch_size", "max_degree", "hops", "noise_multiplier", "steps"),
        optional=("orders", "conversion"),
        adjacency="node-level (Daigavane et al., Definition 2)",
        sampling="batches of fixed size without replacement",
        assumptions=("at most N(K, r) roots change (Lemma 1)", "one multiplier for all groups"),
        noise="noise_multiplier",
    ),
    ("hypergeometric", "published", "rdp_per_step"): Accountant(
        ("num_train", "batch_size", "max_degree", "hops", "noise_multiplier", "order")
    ),
    ("double_mixture", "rigorous", "epsilon"): Accountant(
        _DM,
        optional=("own_root_removed",),
        premises=(*SGD_PREMISES, "sampler"),
        adjacency=NODE_NULL,
        sampling="Poisson",
        assumptions=("at most R loss terms change", PUBLIC),
        noise="sigma_over_clip",
        rate="q",
    ),
    ("residual_clipping", "rigorous", "epsilon"): Accountant(
        ("affected_roots", "q_self", "neighbour_to_self_clip", "sigma_over_self_clip", "steps"),
        optional=("q_neighbour",),
        premises=(*SGD_PREMISES, "sampler", "batches"),
        adjacency=NODE_NULL,
        sampling="two independent Poisson batches per step",
        assumptions=("at most R neighbour terms change", "self terms depend on their own record only", PUBLIC),
        noise="sigma_over_self_clip",
        rate="q_self",
    ),
    ("residual_one_batch", "rigorous", "epsilon"): Accountant(
        ("affected_roots", "q", "neighbour_to_self_clip", "sigma_over_self_clip", "steps"),
        premises=(*SGD_PREMISES, "sampler"),
        adjacency=NODE_NULL,
        sampling="one Poisson batch for both terms; the number of drawn affected roots counts as revealed",
        assumptions=("at most R neighbour terms change", "self terms depend on their own record only", PUBLIC),
        noise="sigma_over_self_clip",
        rate="q",
    ),
    ("private_quantile", "rigorous", "epsilon"): Accountant(
        (*_DM, "eps_quantile"),
        optional=("own_root_removed",),
        premises=("sampling", "groups", "sampler"),
        adjacency=NODE_NULL,
        sampling="Poisson",
        assumptions=(
            "clip norm from the exponential mechanism on a public grid, sensitivity R, eps_quantile-DP",
            "at most R loss terms change",
            "public hyper-parameters, not tuned on the private data",
        ),
        noise="sigma_over_clip",
        rate="q",
    ),
    ("paid_tuning", "rigorous", "epsilon"): Accountant(
        (*_POISSON["required"], "runs", "mean_runs"),
        premises=SGD_PREMISES,
        adjacency="one record added or removed",
        sampling="Poisson",
        assumptions=(
            "the number of runs is drawn before and hidden, and only the best run is released",
            "the score that chooses is part of each run's guarantee",
        ),
        noise="noise_multiplier",
        rate="q",
    ),
    ("relational_coupled", "published", "epsilon"): Accountant(
        (*_RELATIONAL, "steps"),
        optional=("orders",),
        adjacency="one entity (Huang et al.)",
        sampling="Poisson over relations, coupled negatives",
        assumptions=("Proposition 4.1's sensitivity, which is false for adaptive clipping",),
        noise="sigma_over_sensitivity",
        rate="q",
        units="nodes",
    ),
    ("relational_coupled", "published", "rdp_per_step"): Accountant((*_RELATIONAL, "order"), units="nodes"),
    ("relational_static", "rigorous", "epsilon"): Accountant(
        ("nodes", "relations", "max_degree", "negatives", "q", "sigma_over_clip", "steps"),
        optional=("refill",),
        premises=(*SGD_PREMISES, "sampler"),
        adjacency="one entity's record becomes null",
        sampling="Poisson over relations; one uniform ordered sample of negatives",
        assumptions=("degrees at most K, by schema or with D = refill", "every tuple is clipped at a public norm"),
        noise="sigma_over_clip",
        rate="q",
        units="nodes",
    ),
    ("pate_confident_gnmax", "published", "epsilon"): Accountant(
        **_PATE, sampling="none", assumptions=("charges the realised number of answers, which is private",)
    ),
    ("pate_confident_gnmax", "rigorous", "epsilon"): Accountant(
        **_PATE, sampling="none", assumptions=("public caps on checks and answers stop the run",)
    ),
    ("class_dp_theorem5", "published", "epsilon"): Accountant(
        **_POISSON,
        adjacency="one class replaced",
        sampling="Poisson over classes",
        assumptions=("its own condition is q < 1 / (16 sigma)",),
    ),
    ("appr_gaussian_theorem6", "published", "epsilon"): Accountant(
        ("rows", "sigma_over_clip", "row_delta"),
        adjacency="one node",
        sampling="none",
        assumptions=("row sensitivity C1, although two clipped rows differ by up to sqrt(2) C1",),
        noise="sigma_over_clip",
        steps=None,
    ),
    ("appr_exponential", "published", "epsilon"): Accountant(
        ("rows", "top_k", "eps_gumbel"), optional=("row_delta", "eps_laplace"), adjacency="one node", sampling="none",
        steps=None,
    ),
    ("appr_exponential", "rigorous", "epsilon"): Accountant(
        ("rows", "top_k", "eps_gumbel"),
        optional=("eps_laplace",),
        adjacency=NODE_NULL,
        sampling="none",
        assumptions=("bounded range 2 eps_gumbel per draw",),
        steps=None,
    ),
    ("appr_training", "rigorous", "epsilon"): Accountant(
        ("rows", "sigma_over_clip", "column_support", "q", "noise_multiplier", "steps"),
        premises=SGD_PREMISES,
        adjacency=NODE_NULL,
        sampling="Poisson over the rows",
        assumptions=("column support capped on the released matrix", "rows non-negative and clipped", PUBLIC),
        noise="noise_multiplier",
        rate="q",
    ),
}  # fmt: skip

# Why a published accountant has no rigorous twin under its own name, and which accountant to ask instead.
NO_RIGOROUS = {
    "moments": "a (sub)graph's gradient moves by 2C and a fixed partition amplifies nothing: see gaussian with "
    "sensitivity 2, or poisson_gaussian with half the multiplier for fresh subgraphs",
    "hypergeometric": "Algorithm 1 is not stable (Lemma 2 is false), its clip norms are private percentiles: see "
    "double_mixture",
    "relational_coupled": "Proposition 4.1 is false for adaptive clipping: see relational_static",
    "class_dp_theorem5": "the proof of Theorem 5 bounds e^x - 1 by x: see poisson_gaussian with relation=replace_one",
    "appr_gaussian_theorem6": "rows differ by up to sqrt(2) C1: see gaussian with sensitivity sqrt(2 M)",
}
NAMES = tuple(dict.fromkeys(name for name, _, quantity in ACCOUNTANTS if quantity == "epsilon"))


def accountant(name: str, mode: Mode, quantity: str = "epsilon") -> Accountant:
    """Raises UserError for an unknown name, and with the reason for a mode that the mechanism has not."""
    found = ACCOUNTANTS.get((name, mode, quantity))
    if found is not None:
        return found
    if name in NO_RIGOROUS and mode == "rigorous":
        raise UserError(f"accountant={name} (rigorous, {quantity}): nothing is guaranteed: {NO_RIGOROUS[name]}")
    known = sorted({f"{name} ({kind}, {what})" for name, kind, what in ACCOUNTANTS})
    raise invalid("accountant", f"{name} ({mode}, {quantity})", f"one of {'; '.join(known)}")
