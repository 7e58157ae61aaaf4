"""Class- and subclass-level DP-SGD (Zhang 2021, chapter 4); q is the rate at which classes enter a batch."""

from __future__ import annotations

import math

from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

THEOREM_5 = Statement(
    method="Theorem 5 and Corollary 2, 4 q sqrt(T ln(1/delta)) / sigma", relation=Relation.CLASS,
    sampling="Poisson, rate {q}, of {K} classes or subclasses",
    assumptions=(
        "a class or subclass is replaced by another one",
        "the bound e^x - 1 <= x of Eq. 4.5, false for every x > 0",
    ),
)  # fmt: skip


@accountant(
    "published",
    THEOREM_5.also("its own condition is q < 1 / (16 sigma)"),
    noise="noise_multiplier", rate="q",
    unproved="the proof of Theorem 5 bounds e^x - 1 by x: see poisson_gaussian with relation=replace_one",
    references=(reference(18.58461, 1e-3, "by hand; printed as 18.6", q=0.2, noise_multiplier=1.6, steps=200),),
)  # fmt: skip
def class_dp_theorem5(*, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps, delta: float) -> float:
    """Return epsilon by Theorem 5 of the thesis, bounded DP: 4 q sqrt(T ln(1/delta)) / sigma.

    Its own condition is q < 1 / (16 sigma).
    """
    return 4 * q * math.sqrt(steps * math.log(1 / delta)) / noise_multiplier
