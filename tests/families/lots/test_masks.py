"""Why masks of dropout in a Poisson batch are secret: one step by brute force, with masks known and masks fresh.

Two roots besides v̂, terms in two dimensions: v̂'s along the first, those of the others, ±1 by their masks, along the
second. A root that is drawn takes the masks of the next row.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

RATE, NOISE, EPSILON, OTHERS = 0.5, 1.0, 1.0, 2
FIRST, SECOND = np.linspace(-7, 8, 241), np.linspace(-10, 10, 241)
CELL = (FIRST[1] - FIRST[0]) * (SECOND[1] - SECOND[0])


def density(parts) -> np.ndarray:
    """Of a mixture of Gaussians with these (weight, first mean, second mean), times the cell of the grid."""
    laws = ((weight, norm.pdf(FIRST, x, NOISE), norm.pdf(SECOND, y, NOISE)) for weight, x, y in parts)
    return CELL * sum(weight * np.outer(x, y) for weight, x, y in laws)


def delta(one: np.ndarray, other: np.ndarray) -> float:
    """Hockey-stick divergence at `EPSILON`, the worse direction."""
    scale = np.exp(EPSILON)
    return max(np.maximum(p - scale * q, 0).sum() for p, q in ((one, other), (other, one)))


def step(term: float, masks_of) -> np.ndarray:
    """One step: `masks_of(drawn, v)` gives the (weight, signs of the others) of all masks."""
    parts = []
    for v, *drawn in product((0, 1), repeat=1 + OTHERS):
        chance = float(np.prod([RATE if one else 1 - RATE for one in (v, *drawn)]))
        parts += [(chance * weight, v * term, np.dot(drawn, signs)) for weight, signs in masks_of(drawn, v)]
    return density(parts)


def known(drawn, v):
    """Row j has the mask that gives root i the sign + where j <= i."""
    rows = v + np.cumsum([0, *drawn[:-1]])
    return [(1.0, [1 if row <= i else -1 for i, row in enumerate(rows)])]


def fresh(drawn, v):
    return [(0.5**OTHERS, signs) for signs in product((-1, 1), repeat=OTHERS)]


@pytest.mark.parametrize(("masks", "holds"), [(known, False), (fresh, True)])
def test_a_step_is_as_private_as_its_pair_says_only_with_masks_that_nobody_knows(masks, holds):
    stated = delta(density([(1 - RATE, 0, 0), (RATE, 1, 0)]), density([(1, 0, 0)]))
    assert bool(delta(step(1.0, masks), step(0.0, masks)) <= stated + 1e-9) is holds
