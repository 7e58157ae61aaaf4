"""Mechanism of DP-SGD over independent records in Poisson lots: trees of depth 0, which read one record each.

`noise_multiplier` is noise std / clip norm.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpgraph.privacy.accountants.steps import MOMENTS, MOST_MOMENTS, moments, poisson_gaussian
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms.base import RELEASED_MLP, NoisySteps, Shape
from dpgraph.privacy.mechanisms.batches import PoissonBatches
from dpgraph.privacy.procedure import Batches, Clipped, Lists
from dpgraph.privacy.relation import Relation

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.renyi import Orders

MOMENTS_OF_LOTS = replace(
    MOMENTS,
    relation=Relation.RECORD_REMOVE,
    assumptions=("every record's gradient is clipped separately, lots are Poisson samples",),
)


class Lots(NoisySteps):
    """T steps over lots of records without neighbours."""

    @property
    def rate(self) -> float:
        """Rate q = L / N."""
        raise NotImplementedError

    def published(self) -> Guarantee:
        """Return the claimed guarantee: moments accountant (Abadi et al. 2016), Table 5 of the paper at T = 100 / q."""
        steps, noise = self.closed()
        epsilon = moments(q=self.rate, noise_multiplier=noise, steps=steps, delta=self.delta)
        stated = MOMENTS_OF_LOTS.filled({"lambda_max": MOST_MOMENTS, "q": f"{self.rate:.6g}"})
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=self._unmet(RELEASED_MLP))


class PoissonLots(PoissonBatches, Lots):
    """Poisson lots, each record's whole gradient clipped to C: DP-SGD as Abadi et al. analyse it.

    A null record contributes 0, so a step is the Gaussian mechanism of sensitivity C on a Poisson sample. The pair of
    laws ((1 - q) N(0) + q N(1), N(0)) in units of C dominates it (docs/privacy/trees.md, Theorem 4 with R = 1).

    Guarantee: record-remove (epsilon, delta)-DP of all parameters ever released.
    """

    relation: ClassVar[Relation] = poisson_gaussian.statement.relation

    prepared: ClassVar[str] = "dpgraph.families.trees.prepared:PreparedTrees"
    kind: Literal["poisson-lots"] = "poisson-lots"

    @property
    def rate(self) -> float:
        """Rate q."""
        return self.sampling_rate

    @property
    def release_mu(self) -> float:
        """The mu of all Gaussian releases besides the steps; 0: there are none."""
        return 0.0

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of steps and releases at `orders`."""
        from dpgraph.privacy.accountants.composition import pair_rdp

        steps, noise = self.closed()
        return steps * pair_rdp(self._pair(1, noise), orders) + np.asarray(orders) * self.release_mu**2 / 2

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 4 with R = 1."""
        return self._proved(poisson_gaussian.statement.filled({"q": f"{self.sampling_rate:.6g}"}), self._epsilon())

    def _epsilon(self) -> float:
        """Return the epsilon of steps and releases: Gaussian DP in full batches, else a privacy-loss distribution."""
        from dpgraph.privacy.accountants.composition import composed_epsilon, gaussian_pair
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        steps, noise = self.closed()
        if self.sampling_rate == 1:
            return gaussian_epsilon(mu=math.hypot(math.sqrt(steps) / noise, self.release_mu), delta=self.delta)
        once = gaussian_pair(self.release_mu) if self.release_mu else None
        return composed_epsilon(self._pair(1, noise), steps=steps, delta=self.delta, once=once)

    shape: ClassVar[Shape] = Shape(lists=Lists.NONE, batches=Batches.POISSON, clipped=Clipped.ROOT)
