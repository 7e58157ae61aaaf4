"""Accountants of DP-SGD over relations by name (Huang et al. 2025)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import PUBLIC, Statement

MOST_RELATIONS = 10**8  # batch sizes are summed over: their number grows with the square root
NOISE_GUESS = 1.0  # noise multipliers of relations are near it: rates are small and few tuples change
Nodes = Annotated[int, par.count("n")]
Relations = Annotated[int, par.count("m", most=MOST_RELATIONS)]
Negatives = Annotated[int, par.count("k, negatives per positive")]
OverSensitivity = Annotated[float, par.noise("noise std / sensitivity", least=0.1)]
OrdersName = Annotated[Literal["1.1..10.9 step 0.1 and 12..63"], par.Parameter("of Renyi")]
Standard = Annotated[bool, par.Parameter("Theorem C.1, tuples clipped one by one; sigma is noise std / clip norm")]


@accountant(
    "published",
    Statement(method="Theorem 3, RDP of coupled sampling", relation=Relation.ENTITY,
              sampling="Poisson, rate {q}, over tuples; {k} negatives each, without replacement",
              assumptions=("every entity is in at most {K} tuples",
                           "one entity moves a batch's sum by at most {C} (Prop. 4.1)")),
    noise="sigma_over_sensitivity", rate="q", units="nodes", guess=NOISE_GUESS,
    unproved="Proposition 4.1 is false for adaptive clipping: see relational_static",
    references=(reference(8.978417, 2e-7, "RDP summed over all batch sizes, Balle et al.'s conversion", tolerance=5e-3,
                          nodes=1_000_000, relations=5_000_000, max_degree=5, negatives=4, q=1.28e-5,
                          sigma_over_sensitivity=0.42, steps=7812),),
)  # fmt: skip
def relational_coupled(
    *, nodes: Nodes, relations: Relations, max_degree: par.MaxDegree, negatives: Negatives, q: par.Rate,
    sigma_over_sensitivity: OverSensitivity, steps: par.Steps, delta: float,
    orders: OrdersName = "1.1..10.9 step 0.1 and 12..63", standard_clipping: Standard = False,
) -> float:  # fmt: skip
    """Return Theorem 3 of Huang et al., or Theorem C.1, with the conversion of the released accountant."""
    from dpgraph.families.tuples.epsilon import ORDERS, coupled_rdp
    from dpgraph.privacy.accountants.renyi import epsilon_from_rdp

    rdp = coupled_rdp(nodes=nodes, relations=relations, max_degree=max_degree, negatives=negatives, rate=q,
                      noise=sigma_over_sensitivity, standard_clipping=standard_clipping)  # fmt: skip
    return epsilon_from_rdp(ORDERS, steps * rdp, delta)


@accountant(
    "published",
    relational_coupled.statement,
    name="relational_coupled", quantity="rdp_per_step", units="nodes",
    references=(reference(0.092381444, 0, "by hand: order 2 has a closed form", nodes=200, relations=40,
                          max_degree=3, negatives=2, q=0.05, sigma_over_sensitivity=0.8, order=2),),
)  # fmt: skip
def relational_coupled_rdp(
    *, nodes: Nodes, relations: Relations, max_degree: par.MaxDegree, negatives: Negatives, q: par.Rate,
    sigma_over_sensitivity: OverSensitivity, order: Annotated[float, par.Parameter("Renyi order", above=1, most=1e6)],
    standard_clipping: Standard = False,
) -> float:  # fmt: skip
    """Return the divergence of one step in Theorem 3, or C.1, at one order."""
    from dpgraph.families.tuples.epsilon import coupled_rdp

    rdp = coupled_rdp(nodes=nodes, relations=relations, max_degree=max_degree, negatives=negatives, rate=q,
                      noise=sigma_over_sensitivity, standard_clipping=standard_clipping, orders=(order,))  # fmt: skip
    return float(rdp[0])


@accountant(
    "rigorous",
    replace(relational_coupled.statement,
            method="double mixture over tuples, batch sizes revealed, privacy loss distribution",
            assumptions=("stable tuples: at most {K + D} leave with an entity, and at most {D} take their places",
                         "the negatives of a batch are one uniformly random ordered sample without replacement"),
            not_covered=(PUBLIC,)),
    premises=(*par.SGD, par.STABLE), noise="sigma_over_clip", rate="q", units="nodes", guess=NOISE_GUESS,
    references=(reference(1.176223, 1e-5, "one step by quadrature, averaged over all batch sizes", tolerance=1e-2,
                          nodes=100, relations=200, max_degree=2, negatives=1, q=0.05, sigma_over_clip=3, steps=1,
                          refill=1),),
)  # fmt: skip
def relational_static(
    *, nodes: Nodes, relations: Relations, max_degree: par.MaxDegree, negatives: Negatives, q: par.Rate,
    sigma_over_clip: par.OverClip, steps: par.Steps, delta: float,
    refill: Annotated[int, par.count("D, relations that the stable sampler lets in", least=0, most=100)] = 0,
) -> float:  # fmt: skip
    """Return the epsilon of stable tuples that are clipped one by one: docs/privacy/tuples.md, Theorem 28."""
    from dpgraph.families.tuples.epsilon import static_pair
    from dpgraph.privacy.accountants.composition import composed_epsilon

    pair = static_pair(
        nodes=nodes, relations=relations, max_degree=max_degree, refill=refill, negatives=negatives, rate=q,
        noise=sigma_over_clip,
    )  # fmt: skip
    return composed_epsilon(pair, steps=steps, delta=delta)
