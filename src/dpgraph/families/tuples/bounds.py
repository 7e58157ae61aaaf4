"""The three bounds that Huang et al. compare: their Theorem 3, Theorem C.1, and the Gaussian mechanism.

The paper's default parameters are lost with the text's formulas; those of its Table 2 and of its scripts stand in:
n = 10^6, m = 5 10^6, K = 5, k = 4, batches of 64, sigma = 0.5, of which one varies at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgraph.privacy.relation import Relation, Scope

DEFAULTS: dict[str, Any] = {"nodes": 10**6, "relations": 5 * 10**6, "max_degree": 5, "negatives": 4,
                            "rate": 1.28e-5, "noise": 0.5}  # fmt: skip
VARIED: dict[str, tuple[Any, ...]] = {
    "noise": (0.4, 0.5, 0.7, 1.0),
    "max_degree": (2, 5, 10, 20),
    "negatives": (1, 4, 16),
    "rate": (3.2e-6, 1.28e-5, 5.12e-5),
}
ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0)  # of a single step
COMPOSED = tuple([1.1, 1.2, 1.35, 1.5, 1.75, *(step / 2 for step in range(4, 21)), *map(float, range(11, 33))])
DELTA = 1 / (5 * 10**6)
THEOREM_3, THEOREM_C1, GAUSSIAN = BOUNDS = (
    "adaptive clipping (Theorem 3)",
    "standard clipping (Theorem C.1)",
    "Gaussian mechanism without sampling",
)
WHERE = (f"Relation of all bounds: {Relation.ENTITY}, scope {Scope.PARAMETERS}. Held fixed where nothing is said: n ="
         " 10⁶ entities, degree cap K = 5, k = 4 negatives, γ = 1.28·10⁻⁵, noise σ = 0.5")  # fmt: skip
PREMISE = "Proposition 4.1, which the bound of adaptive clipping presumes, is false (claim H7)"


def rdp_of_a_step(at: dict[str, Any], orders: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Return (orders,) Rényi divergences by bound; inf where an order would need too long a grid."""
    from dpgraph.families.tuples.epsilon import coupled_rdp

    ours = coupled_rdp(**at, orders=orders)
    standard = coupled_rdp(**at, orders=orders, standard_clipping=True)
    return dict(zip(BOUNDS, (ours, standard, np.asarray(orders) / (2 * at["noise"] ** 2)), strict=True))


def epsilon_after(at: dict[str, Any], steps: Sequence[int]) -> dict[str, np.ndarray]:
    """Return (steps,) epsilons at `DELTA` by bound, of so many steps composed."""
    from dpgraph.privacy.accountants.renyi import epsilon_from_rdp

    return {
        name: np.array([epsilon_from_rdp(COMPOSED, count * one, DELTA) for count in steps])
        for name, one in rdp_of_a_step(at, COMPOSED).items()
    }
