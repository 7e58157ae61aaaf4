"""Accountants of steps on bounded trees, by name: proved ones, and Theorem 1 of Daigavane et al. (2022)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from dpgraph.core.errors import invalid
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.accountants.steps import epsilon_on_roots
from dpgraph.privacy.guarantee import Guarantee, remark_on_zero
from dpgraph.privacy.public_numbers import tree_size
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import PUBLIC, Statement, public

Roots = Annotated[int, par.count("R: loss terms that one record changes, its own included", most=par.MOST_TERMS)]
OwnRootRemoved = Annotated[bool, par.Parameter("the record's own term vanishes (node-null); false: it is replaced")]
ClipRatio = Annotated[float, par.Parameter("C_n / C_s", least=0, most=par.MOST_RATIO)]
OverSelfClip = Annotated[float, par.noise("noise std / C_s")]
ONE_STEP = "one step by quadrature of the densities"
FULL_BATCHES = "closed form of Gaussian DP in full batches"


@accountant(
    "rigorous",
    Statement(method="double mixture, privacy loss distribution", relation=Relation.NODE_NULL,
              sampling="Poisson, rate {q}",
              assumptions=("stable sampler: at most {R} roots change",
                           "messages and normalisers depend on accepted nodes only"), not_covered=(PUBLIC,)),
    premises=(*par.SGD, par.STABLE), noise="sigma_over_clip", rate="q",
    references=(reference(3.948745, 1e-5, ONE_STEP, tolerance=2e-3, affected_roots=3, q=0.3, sigma_over_clip=2,
                          steps=1),
                reference(8.595866, 1e-5, FULL_BATCHES, tolerance=2e-3, affected_roots=3, q=1, sigma_over_clip=20,
                          steps=50)),
)  # fmt: skip
def double_mixture(
    *, affected_roots: Roots, q: par.Rate, sigma_over_clip: par.OverClip, steps: par.Steps, delta: float,
    own_root_removed: OwnRootRemoved = True,
) -> float:  # fmt: skip
    """Return the epsilon of T steps in which a record changes R roots, by Theorem 4 (docs/privacy/trees.md)."""
    return epsilon_on_roots(
        roots=affected_roots, rate=q, noise=sigma_over_clip, steps=steps, delta=delta,
        own_root_removed=own_root_removed,
    )  # fmt: skip


@accountant(
    "rigorous",
    replace(double_mixture.statement,
            assumptions=("clip norm from the exponential mechanism on a public grid, sensitivity R, eps_quantile-DP",
                         *double_mixture.statement.assumptions),
            not_covered=(public("the split, the number of roots and all hyper-parameters"),)),
    premises=(par.POISSON, par.ONE_GROUP, par.STABLE), noise="sigma_over_clip", rate="q",
    references=(reference(4.315272, 1e-5, ONE_STEP, tolerance=2e-3, affected_roots=3, q=0.3, sigma_over_clip=2,
                          steps=1, eps_quantile=0.5),),
)  # fmt: skip
def private_quantile(
    *, affected_roots: Roots, q: par.Rate, sigma_over_clip: par.OverClip, steps: par.Steps,
    eps_quantile: Annotated[float, par.price("price of the privately chosen clip norm, pure DP")], delta: float,
    own_root_removed: OwnRootRemoved = True,
) -> float:  # fmt: skip
    """Return the epsilon of Theorem 4 composed with a privately chosen clip norm
    (docs/privacy/choices.md#clip-norm-by-a-private-quantile)."""
    return epsilon_on_roots(
        roots=affected_roots, rate=q, noise=sigma_over_clip, steps=steps, delta=delta,
        own_root_removed=own_root_removed, choice=eps_quantile,
    )  # fmt: skip


@accountant(
    "rigorous",
    replace(double_mixture.statement, method="double mixture of residual clipping, privacy loss distribution",
            sampling="two independent Poisson batches, rates {q1} (self terms) and {q2} (neighbour terms)",
            assumptions=("a self gradient reads its root's own record only", "{C_n / C_s} is public",
                         *double_mixture.statement.assumptions)),
    premises=(*par.SGD, par.STABLE, par.TWO_BATCHES), noise="sigma_over_self_clip", rate="q_self",
    references=(reference(3.5404, 1e-5, ONE_STEP, tolerance=2e-3, affected_roots=2, q_self=0.3, q_neighbour=0.2,
                          neighbour_to_self_clip=0.5, sigma_over_self_clip=1.25, steps=1),),
)  # fmt: skip
def residual_clipping(
    *, affected_roots: Roots, q_self: Annotated[float, par.rate("Poisson rate of the self terms")],
    neighbour_to_self_clip: ClipRatio, sigma_over_self_clip: OverSelfClip, steps: par.Steps, delta: float,
    q_neighbour: Annotated[float, par.rate("Poisson rate of the neighbour terms (default: q_self)")] | None = None,
) -> float:  # fmt: skip
    """Return the epsilon of residual clipping with two independent batches, by Theorem 7 (docs/privacy/residual.md)."""
    from dpgraph.privacy.accountants.composition import composed_epsilon
    from dpgraph.privacy.accountants.double_mixture import residual_pair

    pair = residual_pair(
        affected_roots=affected_roots, self_rate=q_self, neighbour_rate=q_self if q_neighbour is None else q_neighbour,
        neighbour_clip=neighbour_to_self_clip, noise_std=sigma_over_self_clip,
    )  # fmt: skip
    return composed_epsilon(pair, steps=steps, delta=delta)


@accountant(
    "rigorous",
    replace(residual_clipping.statement,
            sampling="one Poisson batch for both terms; the number of drawn affected roots counts as revealed"),
    premises=(*par.SGD, par.STABLE), noise="sigma_over_self_clip", rate="q",
    references=(reference(11.546220, 1e-5, ONE_STEP, tolerance=2e-3, affected_roots=3, q=0.3,
                          neighbour_to_self_clip=0.5, sigma_over_self_clip=1.25, steps=1),),
)  # fmt: skip
def residual_one_batch(
    *, affected_roots: Roots, q: par.Rate, neighbour_to_self_clip: ClipRatio, sigma_over_self_clip: OverSelfClip,
    steps: par.Steps, delta: float,
) -> float:  # fmt: skip
    """Return the epsilon of residual clipping with one batch for both terms, draws revealed
    (docs/privacy/residual.md)."""
    from dpgraph.privacy.accountants.composition import composed_epsilon
    from dpgraph.privacy.accountants.double_mixture import residual_one_batch_pair

    pair = residual_one_batch_pair(
        affected_roots=affected_roots, rate=q, neighbour_clip=neighbour_to_self_clip, noise_std=sigma_over_self_clip
    )
    return composed_epsilon(pair, steps=steps, delta=delta)


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
    """Return the arguments of Theorem 1 for one step; raise UserError if they take too long."""
    check_batch(batch_size, num_train)
    affected = tree_size(max_degree=max_degree, hops=hops)
    terms = MOST_EVALUATED // len(orders)
    if min(affected, num_train) > terms:
        raise invalid("hops", hops, f"a tree of at most {terms} nodes with max_degree = {max_degree}")
    return {"num_roots": num_train, "batch_size": batch_size, "affected_roots": affected,
            "noise_multiplier": noise_multiplier, "orders": orders}  # fmt: skip


def check_batch(batch_size: int, num_train: int) -> None:
    """Raise UserError for a batch larger than the training set."""
    if batch_size > num_train:
        raise invalid("batch_size", batch_size, f"at most num_train = {num_train}")


def published_theorem1(
    *, reach: int, steps: int, delta: float, remark: str, unmet: tuple[str, ...], **batches: Any
) -> Guarantee:
    """Return the guarantee that Theorem 1 of Daigavane et al. claims, evaluated as in the released code.

    Args:
        reach: N(K, r).
        steps: T.
        delta: The delta of the guarantee.
        remark: An assumption to state.
        unmet: Premises that the run does not meet.
        batches: Further arguments of `theorem1_rdp`.
    """
    from dpgraph.privacy.accountants.renyi import theorem1_epsilon

    epsilon = theorem1_epsilon(affected_roots=reach, steps=steps, delta=delta, **batches)
    stated = HYPERGEOMETRIC.filled({"m": batches["batch_size"], "N(K, r)": f"N(K, r) = {reach}"}).also(
        remark, "orders 1.1 to 9.9, improved conversion, as in the released code", *remark_on_zero(epsilon)
    )
    return stated.guarantee("published", epsilon=epsilon, delta=delta, unmet=unmet)
