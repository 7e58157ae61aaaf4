"""The published accountant of DP-GNN by name: Theorem 1 of Daigavane et al. (2022)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from dpgraph.core.errors import invalid
from dpgraph.families.trees.accountant import tree_size
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.guarantee import Guarantee, remark_on_zero
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

MOST_EVALUATED = 30_000_000  # terms at all orders: about two seconds
Hops = Annotated[int, par.count("r", least=0, most=3)]
LEMMA_1 = "at most {N(K, r)} roots change (Lemma 1)"
ONE_MULTIPLIER = "one noise multiplier for all groups"
UNSTABLE_LISTS = (
    "Algorithm 1 keeps edges at a rate that depends on the data, so one node changes an unbounded number of roots "
    "(Lemma 2 is false)"
)
UNPAID_PERCENTILES = "the clip norms are percentiles of private gradient norms that are not charged to the budget"
HYPERGEOMETRIC = Statement(method="Theorem 1", relation=Relation.NODE_REMOVE,
                           sampling="batches of {m} without replacement", assumptions=(LEMMA_1,))  # fmt: skip


@accountant(
    "published",
    HYPERGEOMETRIC.also(ONE_MULTIPLIER),
    noise="noise_multiplier",
    unproved=f"{UNSTABLE_LISTS}; {UNPAID_PERCENTILES}: see double_mixture",
    references=(reference(7.4390847, 1e-3, "sum over all numbers of affected roots in a batch, order by order",
                          num_train=40, batch_size=10, max_degree=2, hops=1, noise_multiplier=2, steps=100),),
)  # fmt: skip
def hypergeometric(
    *, num_train: par.NumTrain, batch_size: par.BatchSize, max_degree: par.MaxDegree, hops: Hops,
    noise_multiplier: par.NoiseMultiplier, steps: par.Steps, delta: float,
    orders: Annotated[Literal["1.1..9.9 step 0.1", "wide"], par.Parameter("of Renyi")] = "1.1..9.9 step 0.1",
    conversion: Annotated[Literal["classic", "improved"], par.Parameter("from RDP")] = "improved",
) -> float:  # fmt: skip
    """Return Theorem 1 as the released code evaluates it: RDP of a hypergeometric number of affected roots."""
    from dpgraph.privacy.accountants.renyi import GNN_ORDERS, WIDE_ORDERS, theorem1_epsilon

    chosen = WIDE_ORDERS if orders == "wide" else GNN_ORDERS
    step = _step(num_train, batch_size, max_degree, hops, noise_multiplier, chosen)
    return theorem1_epsilon(**step, steps=steps, delta=delta, conversion=conversion)


@accountant(
    "published",
    hypergeometric.statement,
    name="hypergeometric", quantity="rdp_per_step",
    references=(reference(0.07542843, 0, "by hand: ln(1/3 + 2/3 e^(1/9))", num_train=3, batch_size=1, max_degree=1,
                          hops=1, noise_multiplier=1.5, order=2),),
)  # fmt: skip
def hypergeometric_rdp(
    *, num_train: par.NumTrain, batch_size: par.BatchSize, max_degree: par.MaxDegree, hops: Hops,
    noise_multiplier: par.NoiseMultiplier, order: Annotated[float, par.Parameter("Renyi order", above=1, most=1e6)],
) -> float:  # fmt: skip
    """Return Theorem 1's divergence of one step at one order."""
    from dpgraph.privacy.accountants.renyi import theorem1_rdp

    return float(theorem1_rdp(**_step(num_train, batch_size, max_degree, hops, noise_multiplier, (order,)))[0])


def _step(
    num_train: int, batch_size: int, max_degree: int, hops: int, noise_multiplier: float, orders: tuple[float, ...]
) -> dict[str, Any]:
    check_batch(batch_size, num_train)
    affected = tree_size(max_degree=max_degree, hops=hops)
    terms = MOST_EVALUATED // len(orders)
    if min(affected, num_train) > terms:
        raise invalid("hops", hops, f"a tree of at most {terms} nodes with max_degree = {max_degree}")
    return {"num_roots": num_train, "batch_size": batch_size, "affected_roots": affected,
            "noise_multiplier": noise_multiplier, "orders": orders}  # fmt: skip


def check_batch(batch_size: int, num_train: int) -> None:
    """Raises UserError for a batch of more than all."""
    if batch_size > num_train:
        raise invalid("batch_size", batch_size, f"at most num_train = {num_train}")


def published_theorem1(
    *, reach: int, steps: int, delta: float, remark: str, unmet: tuple[str, ...], **batches: Any
) -> Guarantee:
    """Theorem 1 of Daigavane et al. at N(K, r) = `reach`, as in the released code; `batches` as in `theorem1_rdp`."""
    from dpgraph.privacy.accountants.renyi import theorem1_epsilon

    epsilon = theorem1_epsilon(affected_roots=reach, steps=steps, delta=delta, **batches)
    stated = HYPERGEOMETRIC.filled({"m": batches["batch_size"], "N(K, r)": f"N(K, r) = {reach}"}).also(
        remark, "orders 1.1 to 9.9, improved conversion, as in the released code", *remark_on_zero(epsilon)
    )
    return stated.guarantee("published", epsilon=epsilon, delta=delta, unmet=unmet)
