"""The named accountants of steps on whole gradients and on single records."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

from dpgraph.config.cell import LARGE
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import PUBLIC, Statement

MOST_MOMENTS = 32  # lambda, as Abadi et al. and the papers after them have it
ONE_VECTOR = "one clipped vector a step, which one node moves by up to 2 C"
MeanRuns = Annotated[float, par.Parameter("mean number of training runs that are tried", least=1, most=LARGE)]
MOMENTS = Statement(method="moments accountant, lambda 1 to {lambda_max}", relation=Relation.SUBGRAPH,
                    sampling="Poisson, rate {q}",
                    assumptions=("one subgraph is one record, whose removal moves the gradient by C",))  # fmt: skip


@accountant(
    "published",
    MOMENTS.also("sensitivity C although a (sub)graph's gradient moves 2C"),
    noise="noise_multiplier", rate="q",
    unproved=f"{ONE_VECTOR}, and a fixed partition amplifies nothing: see gaussian with sensitivity 2, or "
             "poisson_gaussian with half the multiplier for fresh subgraphs",
    references=(reference(9.75, 1e-5, "Igamberdiev & Habernal 2022, Table 3", tolerance=6e-4, q=1, noise_multiplier=26,
                          steps=2000),),
)  # fmt: skip
def moments(
    *, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps, delta: float,
    lambda_max: par.Moments = MOST_MOMENTS,
) -> float:  # fmt: skip
    """Return min over integer lambda of (T mu(lambda) + ln(1/delta)) / lambda (Abadi et al. 2016, Theorem 2).

    As Igamberdiev & Habernal report it, mu(lambda) = lambda RDP(lambda + 1).
    """
    from dpgraph.privacy.accountants.renyi import epsilon_from_rdp, poisson_gaussian_rdp

    orders = tuple(float(moment + 1) for moment in range(1, lambda_max + 1))
    rdp = steps * poisson_gaussian_rdp(rate=q, noise_multiplier=noise_multiplier, orders=orders)
    return epsilon_from_rdp(orders, rdp, delta, "classic")


@accountant(
    "rigorous",
    Statement(method="Gaussian DP", relation=Relation.GRAPH, sampling="none",
              assumptions=("T releases that move by at most `sensitivity` (L2) between any two data sets",)),
    noise="sigma", steps="compositions",
    references=(reference(19.9412615, 1e-5, "root of the closed form by bisection", sensitivity=2, sigma=26,
                          compositions=2000),),
)  # fmt: skip
def gaussian(
    *, sensitivity: Annotated[float, par.noise("of one release, in the unit of sigma")],
    sigma: Annotated[float, par.noise("noise std")], compositions: Annotated[int, par.count("T")], delta: float,
) -> float:  # fmt: skip
    """Return the exact epsilon of mu-GDP, mu = sensitivity sqrt(T) / sigma (Dong, Roth & Su 2022, Corollaries 1, 4)."""
    from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

    return gaussian_epsilon(mu=sensitivity * math.sqrt(compositions) / sigma, delta=delta)


@accountant(
    "rigorous",
    Statement(method="Poisson-subsampled Gaussian, privacy loss distribution", relation=Relation.RECORD_REMOVE,
              sampling="Poisson, rate {q}", assumptions=("the gradient of a record depends on that record only",),
              not_covered=(PUBLIC,)),
    premises=par.SGD, noise="noise_multiplier", rate="q",
    relations=("relation", {"add_or_remove_one": Relation.RECORD_REMOVE,
                            "replace_one": Relation.RECORD_REPLACE}),
    references=(reference(0.9469993, 1e-5, "dp-accounting 0.6.0, PLDAccountant", tolerance=2e-3, q=0.01,
                          noise_multiplier=4, steps=10_000),
                reference(9.8386, 1e-5, "dp-accounting 0.6.0, PLDAccountant, REPLACE_ONE", tolerance=1e-3, q=0.2,
                          noise_multiplier=2, steps=100, relation="replace_one")),
)  # fmt: skip
def poisson_gaussian(
    *, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps, delta: float,
    relation: Annotated[Literal["add_or_remove_one", "replace_one"], par.Parameter("adjacency")] = "add_or_remove_one",
) -> float:  # fmt: skip
    """Return the epsilon of T steps on Poisson batches: docs/privacy/trees.md, Theorem 4 with R = 1."""
    return epsilon_on_roots(
        roots=1, rate=q, noise=noise_multiplier, steps=steps, delta=delta,
        own_root_removed=relation == "add_or_remove_one",
    )  # fmt: skip


def epsilon_on_roots(
    *, roots: int, rate: float, noise: float, steps: int, delta: float, own_root_removed: bool, choice: float = 0.0
) -> float:
    """Return the epsilon of T steps in which a record changes `roots` terms, and of a choice with epsilon `choice`."""
    from dpgraph.privacy.accountants.composition import PureDp, composed_epsilon
    from dpgraph.privacy.accountants.double_mixture import affected_roots_pair

    pair = affected_roots_pair(affected_roots=roots, rate=rate, noise_std=noise, own_root_removed=own_root_removed)
    return composed_epsilon(pair, steps=steps, delta=delta, once=PureDp(choice) if choice else None)


@accountant(
    "rigorous",
    replace(poisson_gaussian.statement,
            assumptions=("the number of runs is drawn before and hidden, and only the best run is released",
                         "the score that chooses is part of each run's guarantee"), not_covered=()),
    premises=par.SGD, noise="noise_multiplier", rate="q",
    references=(reference(2.16994, 1e-5, "dp-accounting 0.6.0, RepeatAndSelectDpEvent", tolerance=1e-2, q=0.05,
                          noise_multiplier=3, steps=200, runs="geometric", mean_runs=10),
                reference(2.33027, 1e-5, "dp-accounting 0.6.0, RepeatAndSelectDpEvent", tolerance=1e-2, q=0.05,
                          noise_multiplier=3, steps=200, runs="poisson", mean_runs=10)),
)  # fmt: skip
def paid_tuning(
    *, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps,
    runs: Annotated[Literal["geometric", "poisson"], par.Parameter("law of the number of runs")],
    mean_runs: MeanRuns, delta: float,
) -> float:  # fmt: skip
    """Return the epsilon of the best of a random number of runs: docs/privacy/choices.md#hyper-parameter-search
    (Papernot & Steinke 2022)."""
    from dpgraph.privacy.accountants.composition import pair_rdp
    from dpgraph.privacy.accountants.double_mixture import affected_roots_pair
    from dpgraph.privacy.accountants.tuning import ORDERS, best_of_runs

    rdp = steps * pair_rdp(affected_roots_pair(affected_roots=1, rate=q, noise_std=noise_multiplier), ORDERS)
    return best_of_runs(rdp, runs, mean_runs=mean_runs, delta=delta)
