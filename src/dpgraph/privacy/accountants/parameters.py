"""Parameters of the accountants: their ranges, and what theorems presume of them. Imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dpgraph.core.errors import invalid

MOST_TERMS = 20_000  # of a mixture; more would take minutes
# Beyond these ends no question is meaningful, squares overflow and log-gamma functions lose all digits.
LEAST_NOISE, MOST_NOISE = 1e-6, 1e12
LEAST_PRICE, MOST_PRICE = 1e-9, 1e6  # of the epsilon of a part
MOST_COUNT = 10**9
MOST_STEPS = 10**6
MOST_RATIO = 1e6
LEAST_RATE = 1e-9
MOST_RELATIONS = 10**8  # batch sizes are summed over: their number grows with the square root
GNN_ORDERS_NAME, RELATIONAL_ORDERS_NAME = "1.1..9.9 step 0.1", "1.1..10.9 step 0.1 and 12..63"


@dataclass(frozen=True)
class Parameter:
    """A plain value; `above` is an open lower end, `least` a closed one."""

    text: str
    kind: type = float
    _: KW_ONLY
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
    return Parameter(text, least=LEAST_RATE, most=1)


def _count(text: str, least: int = 1, most: float = MOST_COUNT) -> Parameter:
    return Parameter(text, int, least=least, most=most)


def _noise(text: str, least: float = LEAST_NOISE) -> Parameter:
    return Parameter(text, least=least, most=MOST_NOISE)


def _price(text: str, least: float = LEAST_PRICE) -> Parameter:
    return Parameter(text, least=least, most=MOST_PRICE)


def _choice(text: str, *choices: str) -> Parameter:
    return Parameter(text, str, choices=choices)


PARAMETERS: dict[str, Parameter] = {
    "affected_roots": _count("R: loss terms that one record changes, its own included", most=MOST_TERMS),
    "answers": _count("answered queries; rigorous: their enforced public cap", 0),
    "batch_size": _count("m, drawn without replacement"),
    "batches": _count("independent batches per step"),
    "cap_margin": Parameter("z: a cap is the noisy degree plus z standard deviations of its noise", least=0, most=100),
    "checks": _count("threshold checks; rigorous: their enforced public cap", 0),
    "clipping": _choice("how the clip norm is found", "public", "adaptive", "private percentile"),
    "column_norm": _noise("tau, cap on the norm of each column of the released matrix"),
    "column_support": _count("rows of the released matrix that may name one node", most=MOST_TERMS),
    "compositions": _count("T"),
    "conversion": _choice("from RDP", "classic", "improved"),
    "eps_gumbel": _price("Gumbel scale is C2 / eps_gumbel"),
    "eps_laplace": _price("option 2 adds Laplace(K C2 / eps_laplace)"),
    "eps_choice": _price(
        "price of a choice by the exponential mechanism, monotone utilities of sensitivity 1", least=0
    ),
    "eps_pagerank": _price("epsilon of the released matrix", least=0),
    "eps_quantile": _price("price of the privately chosen clip norm, pure DP"),
    "degree_floor": _count("m: votes weigh 1 / sqrt(max(d + 1, m))"),
    "groups": _count("parameter groups that are clipped and noised separately, one multiplier each"),
    "hops": _count("r", 0, 3),
    "hub_limit": Parameter("H: receivers of a larger noisy number of voters receive nothing", least=1, most=MOST_COUNT),
    "lambda_max": _count("largest moment", most=512),
    "mass": Parameter("a: what a vote adds to the coordinate that counts voters", above=0, most=1000),
    "max_degree": _count("K", most=100),
    "mean_runs": Parameter("mean number of training runs that are tried", least=1, most=MOST_COUNT),
    "most_receivers": _count("T_0: receivers of a voter"),
    "most_voters": _count("T_r: voters of a receiver"),
    "method": _choice("numerics; another one only for cross-checks", "pld"),
    "negatives": _count("k, negatives per positive"),
    "neighbour_to_self_clip": Parameter("C_n / C_s", least=0, most=MOST_RATIO),
    "nodes": _count("n"),
    "noise_multiplier": _noise("noise std / clip norm; hypergeometric: the paper's lambda"),
    "num_train": _count("N, public"),
    "order": Parameter("Renyi order", above=1, most=1e6),
    "orders": _choice("of Renyi", GNN_ORDERS_NAME, "wide", RELATIONAL_ORDERS_NAME),
    "own_root_removed": Parameter("the record's own term vanishes (node-null); false: it is replaced", bool),
    "q": _rate("Poisson rate per step"),
    "q_neighbour": _rate("Poisson rate of the neighbour terms (default: q_self)"),
    "q_self": _rate("Poisson rate of the self terms"),
    "reader_steps": _count("T_r: steps in which a reader of votes is learnt", most=MOST_STEPS),
    "refill": _count("D, relations that the stable sampler lets in", 0, 100),
    "relation": _choice("adjacency", "add_or_remove_one", "replace_one"),
    "relations": _count("m", most=MOST_RELATIONS),
    "row_delta": Parameter("delta of one row", above=0, most=1),
    "rows": _count("M"),
    "runs": _choice("law of the number of runs", "geometric", "poisson"),
    "sampled_share": _rate("q', share of the nodes drawn once before training (default: 1)"),
    "sampler": _choice("how neighbourhoods are bounded", "stable", "algorithm-1", "greedy"),
    "sampling": _choice("of batches", "poisson", "without replacement", "fixed partition"),
    "sensitivity": _noise("of one release, in the unit of sigma"),
    "sigma": _noise("noise std"),
    "sigma_degrees": _noise("noise std of voters' degrees"),
    "sigma_hubs": _noise("noise std of receivers' numbers of voters, by which hubs are found (default: they are not)"),
    "sigma_over_clip": _noise("noise std / clip norm"),
    "sigma_over_self_clip": _noise("noise std / C_s"),
    "sigma_over_sensitivity": _noise("noise std / sensitivity", least=0.1),
    "sigma_mean": _noise("noise std of the sum of rows of norm 1 (default: it is not released)"),
    "sigma_reader": _noise("noise std of a step of the reader, whose gradients have norm 1 (default: none is learnt)"),
    "sigma_threshold": _noise("noise std of a check"),
    "sigma_votes": _noise("noise std of an answer"),
    "sigma_votes_over_norm": _noise("noise std of the buckets / B, B the largest norm of a vote"),
    "standard_clipping": Parameter("Theorem C.1, tuples clipped one by one; sigma is noise std / clip norm", bool),
    "steps": _count("T", most=MOST_STEPS),
    "votes_relation": _choice("adjacency", "node-null", "record-replace", "edge"),
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
        "with one batch for both terms the self terms reveal which affected roots were drawn: see residual_one_batch",
    ),
}
