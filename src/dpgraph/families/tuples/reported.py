"""Claims of Huang et al. that need no training: their bounds, the sensitivity of clipping, negatives by chance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpgraph.config import published
from dpgraph.families.tuples import bounds
from dpgraph.reporting.claims.verdicts import Verdict, computed

PAPER = "huang2025-relational-entity-dp"
STEPS = 1000
CAP = 5  # K of the paper's runs
NEGLIGIBLE = 1e-3  # what we read the paper's "negligible" as


def _compared(settings: list[dict[str, Any]]) -> Verdict:
    lower, cases, worst, composed, ratios = 0, 0, 0.0, 0, []
    for at in settings:
        one = bounds.rdp_of_a_step(at, bounds.ORDERS)
        ours = one.pop(bounds.THEOREM_3)
        least = np.minimum.reduce(list(one.values()))
        lower, cases = lower + int((ours < least).sum()), cases + len(bounds.ORDERS)
        worst = max(worst, float((ours / least).max()))
        whole = {name: float(values[0]) for name, values in bounds.epsilon_after(at, [STEPS]).items()}
        mine = whole.pop(bounds.THEOREM_3)
        composed += mine < min(whole.values())
        ratios.append(min(whole.values()) / mine)
    text = (
        f"{len(settings)} settings that stand in for the paper's, which are lost: Theorem 3 is below both other bounds "
        f"at {lower} of {cases} orders (2 to 8; at most {worst:.3g} of the smaller one), and after {STEPS} steps its "
        f"epsilon is below both in {composed} of {len(settings)}, by factors {min(ratios):.3g} to {max(ratios):.3g}. "
        f"{bounds.WHERE}"
    )
    return computed((lower, composed) == (cases, len(settings)), text, cases + len(settings), bounds.PREMISE)


def bound_of_theorem_3() -> Verdict:
    """Check H3, Figure 2: Theorem 3 is the smallest bound at two noises, per step and composed."""
    return _compared([bounds.DEFAULTS, {**bounds.DEFAULTS, "noise": 1.0}])


def bounds_elsewhere() -> Verdict:
    """Check H10, Figures 4 and 5: the same order of the bounds when one parameter varies."""
    varied = [{**bounds.DEFAULTS, name: value} for name, values in bounds.VARIED.items() for value in values]
    return _compared([bounds.DEFAULTS, *(one for one in varied if one != bounds.DEFAULTS)])


def constant_sensitivity(own: tuple[int, ...] = (2, 5, 50), negatives: int = 4) -> Verdict:
    """Check H7, Proposition 4.1, on batches whose negatives hold each entity at most once: at most 2 C, whatever K.

    An entity with K tuples, each of `own`, whose entities are each in one more tuple, and gradients that oppose others.
    """
    moved = {count: _moved(count, negatives) for count in own}
    text = (
        f"in a batch in which every entity is a negative at most once, the clipped sum moves without an entity of "
        f"K = {_listed(moved)} tuples by {_listed(moved.values())} C: no constant bounds it. The formula of "
        "Proposition 4.1 is lost in our text; we read it as 2 C, and the released code sets its noise for C. The "
        "limits of tuples that do not hold the entity rise from C/2 to C, which Eq. (2) leaves out: with k negatives "
        "for each tuple the sum can move by C (1 + K (1 + k) / 2)"
    )
    return computed(max(moved.values()) <= 2, text, len(moved))


def _moved(own: int, negatives: int) -> float:
    """Return by how much the clipped sum moves, in units of C."""
    import torch

    from dpgraph.families.tuples.sampling import largest_counts, worst_batch

    batch = worst_batch(own, negatives)
    _, times = np.unique(batch[:, 2:], return_counts=True)
    if times.max() > 1:
        raise ValueError(f"an entity is a negative {times.max()} times, expected at most once")
    before, after = (1 / largest_counts(torch.from_numpy(part)).numpy() for part in (batch, batch[own:]))
    return float(before[:own].sum() + (after - before[own:]).sum())


def _listed(numbers: Iterable[float]) -> str:
    *first, last = (f"{number:g}" for number in numbers)
    return " and ".join(filter(None, [", ".join(first), last]))


def paired_negatives_are_rarely_true() -> Verdict:
    """Check H9: P(a uniform entity is a partner of the head) at Table 2's counts is mean degree over entities.

    A head's weight is the number of its tuples that are kept, at most K, so that its expected degree is at most K times
    the mean degree over the mean number kept.
    """
    rows = published.match("datasets", paper=PAPER, table="table2")
    shares = {row["dataset"]: 2 * int(row["n_edges"]) / int(row["n_entities"]) ** 2 for row in rows}
    text = "expected share of negatives that are relations, by Table 2: " + ", ".join(
        f"{name} {share:.1e}" for name, share in shares.items()
    )
    text += (
        f"; negligible is read as below {NEGLIGIBLE:g}. Heads are drawn by their tuples, of which Algorithm 3 keeps at "
        f"most K = {CAP} an entity, so that hubs make it at most {CAP} times as much if an entity keeps one tuple "
        "or more on the mean"
    )
    return computed(CAP * max(shares.values()) < NEGLIGIBLE, text, len(shares))


CLAIMS = {
    "bound-of-theorem-3": bound_of_theorem_3,
    "bounds-elsewhere": bounds_elsewhere,
    "constant-sensitivity": constant_sensitivity,
    "paired-negatives-are-rarely-true": paired_negatives_are_rarely_true,
}

VIEWS = {"bounds": bounds}
