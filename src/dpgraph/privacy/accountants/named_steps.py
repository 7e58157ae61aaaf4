"""Accountants of steps on whole gradients and on single records, by name."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.accountants.parameters import (
    MOST_COUNT,
    SGD,
    Moments,
    NoiseMultiplier,
    Parameter,
    Rate,
    Steps,
    count,
    noise,
)
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import PUBLIC, Statement

MOST_MOMENTS = 32  # lambda, as Abadi et al. and the papers after them have it
ONE_VECTOR = "one clipped vector a step, which one node moves by up to 2 C"
MOMENTS = Statement(
    method="moments accountant, lambda 1 to {lambda_max}",
    relation=Relation.SUBGRAPH,
    sampling="Poisson, rate {q}",
    assumptions=("one subgraph is one record, whose removal moves the gradient by C",),
)


@accountant(
    "published",
    MOMENTS.also("sensitivity C although a (sub)graph's gradient moves 2C"),
    noise="noise_multiplier",
    rate="q",
    unproved=f"{ONE_VECTOR}, and a fixed partition amplifies nothing: see gaussian with sensitivity 2, or "
    "poisson_gaussian with half the multiplier for fresh subgraphs",
    references=(
        reference(
            9.75, 1e-5, "Igamberdiev & Habernal 2022, Table 3", tolerance=6e-4, q=1, noise_multiplier=26, steps=2000
        ),
        reference(1.2586, 1e-5, "ibid., Table 5", q=0.01, noise_multiplier=4, steps=10_000),
    ),
)
def moments(
    *, q: Rate, noise_multiplier: NoiseMultiplier, steps: Steps, delta: float, lambda_max: Moments = MOST_MOMENTS
) -> float:
    """Return min over integer lambda of (T mu(lambda) + ln(1/delta)) / lambda (Abadi et al. 2016, Theorem 2)."""
    from dpgraph.privacy.accountants.renyi import moments_epsilon

    return moments_epsilon(rate=q, noise_multiplier=noise_multiplier, steps=steps, delta=delta, lambda_max=lambda_max)


@accountant(
    "rigorous",
    Statement(
        method="Gaussian DP",
        relation=Relation.GRAPH,
        sampling="none",
        assumptions=("T releases that move by at most `sensitivity` (L2) between any two data sets",),
    ),
    noise="sigma",
    steps="compositions",
    references=(
        reference(19.9412615, 1e-5, "root of the closed form by bisection", sensitivity=2, sigma=26, compositions=2000),
    ),
)
def gaussian(
    *,
    sensitivity: Annotated[float, noise("of one release, in the unit of sigma")],
    sigma: Annotated[float, noise("noise std")],
    compositions: Annotated[int, count("T")],
    delta: float,
) -> float:
    """Return the exact epsilon of mu-GDP, mu = sensitivity sqrt(T) / sigma (Dong, Roth & Su 2022, Corollaries 1, 4)."""
    from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

    return gaussian_epsilon(mu=sensitivity * math.sqrt(compositions) / sigma, delta=delta)


@accountant(
    "rigorous",
    Statement(
        method="Poisson-subsampled Gaussian, privacy loss distribution",
        relation=Relation.RECORD_REMOVE,
        sampling="Poisson, rate {q}",
        assumptions=("the gradient of a record depends on that record only",),
        not_covered=(PUBLIC,),
    ),
    premises=SGD,
    noise="noise_multiplier",
    rate="q",
    relations=("relation", {"replace_one": Relation.RECORD_REPLACE}),
    references=(
        reference(
            0.9469993, 1e-5, "dp-accounting 0.6.0, PLDAccountant", tolerance=2e-3, q=0.01, noise_multiplier=4,
            steps=10_000,
        ),
        reference(
            9.8386, 1e-5, "dp-accounting 0.6.0, PLDAccountant, REPLACE_ONE", tolerance=1e-3, q=0.2,
            noise_multiplier=2, steps=100, relation="replace_one",
        ),
    ),
)  # fmt: skip
def poisson_gaussian(
    *,
    q: Rate,
    noise_multiplier: NoiseMultiplier,
    steps: Steps,
    delta: float,
    relation: Annotated[Literal["add_or_remove_one", "replace_one"], Parameter("adjacency")] = "add_or_remove_one",
    method: Annotated[Literal["pld"], Parameter("numerics; another one only for cross-checks")] = "pld",
) -> float:
    """Return the epsilon of T steps on Poisson batches: docs/privacy.md, Theorem 2 with R = 1."""
    from dpgraph.privacy.accountants.composition import composed_epsilon
    from dpgraph.privacy.accountants.double_mixture import affected_roots_pair

    pair = affected_roots_pair(
        affected_roots=1, rate=q, noise_std=noise_multiplier, own_root_removed=relation == "add_or_remove_one"
    )
    return composed_epsilon(pair, steps=steps, delta=delta)


@accountant(
    "rigorous",
    replace(
        poisson_gaussian.statement,
        assumptions=(
            "the number of runs is drawn before and hidden, and only the best run is released",
            "the score that chooses is part of each run's guarantee",
        ),
        not_covered=(),
    ),
    premises=SGD,
    noise="noise_multiplier",
    rate="q",
    references=(
        reference(2.16994, 1e-5, "dp-accounting 0.6.0, RepeatAndSelectDpEvent", tolerance=1e-2, q=0.05,
                  noise_multiplier=3, steps=200, runs="geometric", mean_runs=10),
        reference(2.33027, 1e-5, "dp-accounting 0.6.0, RepeatAndSelectDpEvent", tolerance=1e-2, q=0.05,
                  noise_multiplier=3, steps=200, runs="poisson", mean_runs=10),
    ),
)  # fmt: skip
def paid_tuning(
    *,
    q: Rate,
    noise_multiplier: NoiseMultiplier,
    steps: Steps,
    runs: Annotated[Literal["geometric", "poisson"], Parameter("law of the number of runs")],
    mean_runs: Annotated[float, Parameter("mean number of training runs that are tried", least=1, most=MOST_COUNT)],
    delta: float,
) -> float:
    """Return the epsilon of the best of a random number of runs: docs/privacy.md, 7.2 (Papernot & Steinke 2022)."""
    from dpgraph.privacy.accountants.tuning import repeat_and_select_epsilon

    return repeat_and_select_epsilon(
        rate=q, noise_multiplier=noise_multiplier, steps=steps, runs=runs, mean_runs=mean_runs, delta=delta
    )
