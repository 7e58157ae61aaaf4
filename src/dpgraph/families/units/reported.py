"""Claims and views of units: printed budgets of class- and subclass-DP recomputed, and images of subclasses."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from dpgraph.config import published
from dpgraph.families.units.sampling import Units, parted_units
from dpgraph.privacy.accountants.steps import moments
from dpgraph.reporting.claims.verdicts import Verdict, computed
from dpgraph.reporting.paper_values import parameters_of

if TYPE_CHECKING:
    from dpgraph.config.cell import Cell
    from dpgraph.problems.images.value import Images

PAPER = "zhang2021-dp-deep-learning-thesis"
SECTIONS = {"sec.4.5.1": "subclass-DP", "sec.4.5.2": "class-DP"}
MOST_STEPS = 2**20
ALIKE = 1.05  # largest over smallest number of steps that rounding of a printed epsilon may explain


def printed_budgets_of_classes() -> Verdict:
    """Check Z12: one number of steps gives the three printed epsilons of a data set, all else fixed as stated.

    By Theorem 5, and by the moments accountant of the same sampling at sensitivity 1, steps are solved for at each
    printed (sigma, q, delta).
    """
    from dpgraph.families.units.accountant import class_dp_theorem5

    sentences, fits, count = [], [], 0
    for section, setting in SECTIONS.items():
        rows = [row for row in published.match("inline", paper=PAPER, table=section) if row["setting"] == setting]
        by_theorem, by_moments = [], []
        for row in rows:
            told, epsilon, delta = parameters_of(row["other_params"]), float(row["epsilon"]), float(row["delta"])
            rate, noise = float(told["q"]), float(told["noise"])
            one = class_dp_theorem5(q=rate, noise_multiplier=noise, steps=1, delta=delta)
            by_theorem.append(round((epsilon / one) ** 2))
            by_moments.append(_steps(rate, noise, delta, epsilon))
            count += 1
        fits += [max(steps) / min(steps) <= ALIKE for steps in (by_theorem, by_moments)]
        limit = 1 / (16 * min(float(parameters_of(row["other_params"])["noise"]) for row in rows))
        q = float(parameters_of(rows[0]["other_params"])["q"])
        sentences.append(
            f"{setting}, q = {q:g}: T = {', '.join(map(str, by_theorem))} by Theorem 5, whose premise "
            f"q < 1/(16 sigma) is {'met' if q < limit else f'not met (at most {limit:.3f})'}; "
            f"{', '.join(map(str, by_moments))} by the moments accountant"
        )
    evidence = (
        "steps that each printed epsilon would need, with all else fixed as the thesis states: "
        + ". ".join(sentences)
        + ". Epsilons of record-DP cannot be recomputed: neither the batch size nor the steps are printed"
    )
    return computed(all(fits), evidence, count)


def _steps(rate: float, noise: float, delta: float, epsilon: float) -> int:
    """Return the fewest steps at which the moments accountant reaches `epsilon`."""

    def enough(steps: int) -> bool:
        return moments(q=rate, noise_multiplier=noise, steps=steps, delta=delta) >= epsilon

    return 1 + bisect_left(range(1, MOST_STEPS), True, key=enough)


def subclasses_of(cell: Cell, images: Images) -> Units:
    """Return the subclasses that the prepared step of the cell makes of these images."""
    privacy, folder = cell.privacy, cell.task.folder
    return parted_units(images, privacy.subclasses, folder, privacy.variant == "kmeans")  # type: ignore[union-attr]


CLAIMS = {"printed-budgets-of-classes": printed_budgets_of_classes}
VIEWS = {"subclasses": subclasses_of}
