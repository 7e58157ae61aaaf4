"""Printed budgets of class- and subclass-DP (Zhang 2021, section 4.5), recomputed."""

from __future__ import annotations

from dpgraph.experiments import published
from dpgraph.reporting.claims.finding import Finding
from dpgraph.reporting.paper_values import parameters_of

PAPER = "zhang2021-dp-deep-learning-thesis"
SECTIONS = {"sec.4.5.1": "subclass-DP", "sec.4.5.2": "class-DP"}
MOST_STEPS = 2**20
ALIKE = 1.05  # largest over smallest number of steps that rounding of a printed epsilon may explain


def printed_budgets_of_classes() -> Finding:
    """Z12: whether one number of steps gives the three printed epsilons of a data set, all else fixed as stated.

    By Theorem 5, and by the moments accountant of the same sampling at sensitivity 1, steps are solved for at each
    printed (sigma, q, delta).
    """
    from dpgraph.privacy.accountants.class_level import theorem5_epsilon

    sentences, fits, count = [], [], 0
    for section, setting in SECTIONS.items():
        rows = [row for row in published.match("inline", paper=PAPER, table=section) if row["setting"] == setting]
        theorem, moments = [], []
        for row in rows:
            told, epsilon, delta = parameters_of(row["other_params"]), float(row["epsilon"]), float(row["delta"])
            rate, noise = float(told["q"]), float(told["noise"])
            one = theorem5_epsilon(rate=rate, noise_multiplier=noise, steps=1, delta=delta)
            theorem.append(round((epsilon / one) ** 2))
            moments.append(_steps(rate, noise, delta, epsilon))
            count += 1
        fits += [max(steps) / min(steps) <= ALIKE for steps in (theorem, moments)]
        limit = 1 / (16 * min(float(parameters_of(row["other_params"])["noise"]) for row in rows))
        q = float(parameters_of(rows[0]["other_params"])["q"])
        sentences.append(
            f"{setting}, q = {q:g}: T = {_listed(theorem)} by Theorem 5, whose premise q < 1/(16 sigma) is "
            f"{'met' if q < limit else f'not met (at most {limit:.3f})'}; {_listed(moments)} by the moments accountant"
        )
    evidence = (
        "steps that each printed epsilon would need, with all else fixed as the thesis states: "
        + ". ".join(sentences)
        + ". Epsilons of record-DP cannot be recomputed: neither the batch size nor the steps are printed"
    )
    return Finding("reproduced" if all(fits) else "contradicted", evidence, count)


def _steps(rate: float, noise: float, delta: float, epsilon: float) -> int:
    """Fewest steps at which the moments accountant reaches `epsilon`."""
    low, high = 0, 1
    while high < MOST_STEPS and _moments(rate, noise, delta, high) < epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _moments(rate, noise, delta, middle) < epsilon else (low, middle)
    return high


def _moments(rate: float, noise: float, delta: float, steps: int) -> float:
    from dpgraph.privacy.accountants.renyi import moments_epsilon  # loading it takes a second

    return moments_epsilon(rate=rate, noise_multiplier=noise, steps=steps, delta=delta)


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, steps))


FUNCTIONS = {"printed-budgets-of-classes": printed_budgets_of_classes}
