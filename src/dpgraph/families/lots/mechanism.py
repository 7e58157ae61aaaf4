"""Mechanisms of DP-SGD over lots of independent records (Igamberdiev and Habernal, App. F), published and proved.

`noise_multiplier` is noise std / clip norm. L is the lot size, N the number of records, E the number of epochs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.records import Lots, PoissonLots
from dpgraph.privacy.accountants.steps import poisson_gaussian
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import Count, Noise, Shape
from dpgraph.privacy.mechanisms.batches import FixedBatches
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Release
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.renyi import Orders

COMPONENTS = "principal components"


class ComponentLots(PoissonLots):
    """`PoissonLots` on principal components of a noisy matrix, which is released first (Abadi et al. 2016, 4.1).

    The matrix is the sum of x x' over the training records x, each scaled to length 1, plus N(0, components_noise^2) on
    every entry. A record that becomes null moves it by 1 (Frobenius norm): one Gaussian mechanism with mu = 1 /
    components_noise. Symmetrising it and its eigenvectors are post-processing, and the projection of a record is a
    function of that record. Given the release, steps are those of Theorem 4.

    Guarantee: record-remove (epsilon, delta)-DP of components and parameters.
    """

    prepared: ClassVar[str] = "dpgraph.families.lots.prepared:PreparedComponents"
    release_streams: ClassVar[Mapping[str, tuple[str, int | None]]] = {COMPONENTS: ("components", 1)}
    kind: Literal["component-lots"] = "component-lots"  # type: ignore[assignment]
    components: Count = Field(description="k, public: records are projected to as many numbers")
    components_noise: Noise = Field(description="Noise std on the matrix of second moments of records of length 1")

    @property
    def release_mu(self) -> float:
        """The mu of the matrix."""
        return 1 / self.components_noise

    @property
    def releases(self) -> tuple[Release, ...]:
        """The principal components."""
        return (Release(kind=COMPONENTS, noise=self.components_noise, sensitivity=1.0, count=self.components),)

    def fixed_epsilon(self, mode: Mode) -> float:
        """Return the epsilon of the matrix alone; no noise of the steps reduces it."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        return gaussian_epsilon(mu=self.release_mu, delta=self.delta) if mode == "rigorous" else 0.0

    def at_step(self, step: int) -> PrivacyStatement:
        """Return the statement after `step` steps; the first one is charged for the matrix that predictions read."""
        return super().at_step(max(step, 1))

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 4, composed with the Gaussian release of the matrix."""
        stated = poisson_gaussian.statement.filled({"q": f"{self.sampling_rate:.6g}"})
        stated = replace(stated, method=f"{stated.method}, composed with a Gaussian release")
        released = f"components of a matrix that one record moves by 1, noise std {self.components_noise:g}"
        given = "given the components, the gradient of a record depends on that record only"
        return self._proved(replace(stated, assumptions=(released, given)), self._epsilon())

    def published(self) -> Guarantee:
        """Return no guarantee: the paper does not charge the components."""
        reason = "Abadi et al. do not state how the release of the components enters their epsilon"
        return self._none("published", reason, "Poisson")


class FixedLots(FixedBatches, Lots):
    """Disjoint lots of fixed size, cut from a fresh permutation of the records in each epoch."""

    prepared: ClassVar[str] = "dpgraph.families.lots.prepared:PreparedLots"
    public_masks: ClassVar[bool] = True  # a record that is replaced keeps its place in its lot
    batch_size: int = Field(description="L; the last lot of an epoch may be smaller")

    @property
    def divisor(self) -> float:
        """1: noise is added to the clipped mean of a lot."""
        return 1.0

    @property
    def rate(self) -> float:
        """Rate q = L / N."""
        return self.batch_size / self.num_roots

    @property
    def lots_per_epoch(self) -> int:
        """Number of lots in an epoch."""
        return math.ceil(self.num_roots / self.batch_size)

    @property
    def _sampling(self) -> str:
        return f"disjoint lots of {self.batch_size} of a fresh permutation in each epoch, not amplified"

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the clipped sum of a step."""
        return (self._term(clip_norms, batch_size=self.batch_size),)


class ShuffledLots(FixedLots):
    """Lots as published: each epoch cuts a fresh permutation into lots and clips the mean gradient of each lot.

    A lot has one clipped vector, which one record may turn around: it moves by up to 2 C, whatever the other records.
    The permutation does not depend on the records, so couple it on both sides. Then one record is in one lot of each
    epoch, no other step changes, and an epoch is one Gaussian mechanism of sensitivity 2 C. E adaptive epochs are
    mu-GDP with mu = 2 sqrt(E) / noise_multiplier. A mixture over permutations is no worse than its worst member, as
    hockey-stick divergences are jointly convex. The order in which a lot comes is not used.

    Guarantee: record-replace (epsilon, delta)-DP by Gaussian DP of all parameters ever released.
    """

    relation: ClassVar[Relation] = Relation.RECORD_REPLACE
    refuses_delta: ClassVar[bool] = False

    kind: Literal["shuffled-lots"] = "shuffled-lots"

    @property
    def epochs(self) -> int:
        """E, a last epoch that has only begun included."""
        steps, _ = self.closed()
        return math.ceil(steps / self.lots_per_epoch)

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of all epochs at `orders`."""
        _, noise = self.closed()
        return np.asarray(orders) * self.epochs * 2 / noise**2

    def rigorous(self) -> Guarantee:
        """Return the record-replace guarantee by Gaussian DP of E epochs."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        _, noise = self.closed()
        stated = Statement(
            method=f"Gaussian DP, mu = 2 sqrt(E) / noise multiplier, E = {self.epochs} epochs",
            relation=self.relation,
            sampling=self._sampling,
            assumptions=("one clipped vector a lot, which one record moves by up to 2 C",),
        )
        return self._proved(stated, gaussian_epsilon(mu=2 * math.sqrt(self.epochs) / noise, delta=self.delta))

    shape: ClassVar[Shape] = Shape(lists=Lists.NONE, batches=Batches.SHUFFLED, clipped=Clipped.STEP)


class UnclippedLots(FixedLots):
    """Lots as the authors' released code runs: its clipping acts on a detached copy of the gradient and has no effect.

    Noise has the std that the paper's accountant assumes, but gradients have any norm, so no epsilon holds.
    """

    relation: ClassVar[Relation] = Relation.NONE
    refuses_delta: ClassVar[bool] = False

    kind: Literal["unclipped-lots"] = "unclipped-lots"

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return infinite divergences."""
        return np.full(len(orders), np.inf)

    def rigorous(self) -> Guarantee:
        """Return the reason why no epsilon holds."""
        return self._none(
            "rigorous", "nothing is clipped, so one record may move a gradient without bound", self._sampling
        )

    shape: ClassVar[Shape] = Shape(lists=Lists.NONE, batches=Batches.SHUFFLED, clipped=Clipped.NOTHING)


def poisson_lots(request: MechanismRequest) -> PoissonLots:
    """Build the mechanism of variant `rigorous`."""
    return PoissonLots(**request.common(request.num_train), sampling_rate=request.rate)


def component_lots(request: MechanismRequest) -> ComponentLots:
    """Build the mechanism of variant `components`."""
    privacy = request.privacy
    return ComponentLots(
        **request.common(request.num_train),
        sampling_rate=request.rate,
        components=privacy.components,
        components_noise=privacy.components_noise,
    )


def shuffled_lots(request: MechanismRequest) -> ShuffledLots:
    """Build the mechanism of variant `published`."""
    return ShuffledLots(**request.common(request.num_train), batch_size=request.batch_size)


def unclipped_lots(request: MechanismRequest) -> UnclippedLots:
    """Build the mechanism of variant `released`."""
    return UnclippedLots(**request.common(request.num_train), batch_size=request.batch_size)
