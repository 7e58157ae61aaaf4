"""DP-SGD over tuples of a relation with k negatives each (Huang et al. 2025), as published and as it is proved.

m tuples, n entities, K degree cap, q Poisson rate over tuples. An entity is protected with all its tuples; a batch of b
tuples has b k negatives, one uniformly random ordered sample of the entities without replacement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.tuples.accountant import relational_coupled, relational_static
from dpgraph.privacy.guarantee import Guarantee, remark_on_zero
from dpgraph.privacy.mechanisms.base import Count, Shape
from dpgraph.privacy.mechanisms.batches import PairSteps, PoissonBatches
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists
from dpgraph.privacy.public_numbers import DataFact, expected_batch
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Counts

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.double_mixture import RevealedPair
    from dpgraph.privacy.accountants.renyi import Orders

MLP = "mlp"  # in the place of an encoder's name
BEYOND = 8  # standard deviations of a batch's size for which the entities have to suffice: less than 1e-14 is left
COUPLED_STANDARD = replace(
    relational_coupled.statement,
    method="Theorem C.1, RDP of coupled sampling",
    assumptions=(relational_coupled.statement.assumptions[0], "one tuple moves a batch's sum by at most C"),
)
UNSTABLE_TUPLES = (
    "capping each degree by a random choice of neighbours is not stable: one entity changes an unbounded number of "
    "tuples that do not name it"
)


class TupleSteps(PoissonBatches):
    """T steps over Poisson batches of tuples. One entity with all its tuples is protected."""

    roots_are_protected: ClassVar[bool] = False
    prepared: ClassVar[str] = "dpgraph.families.tuples.prepared:PreparedRelations"
    more_streams: ClassVar[tuple[str, ...]] = ("negatives",)
    numbers_from: ClassVar[Mapping[str, DataFact]] = MappingProxyType(
        {"num_roots": DataFact.TUPLES, "num_protected": DataFact.IDS}
    )

    max_degree: Count = Field(description="K")
    negatives: Count = Field(description="k, negatives of each tuple")

    def _check(self) -> None:
        super()._check()
        drawn = self.num_entities - 1  # without a null one
        if self.largest_batch * self.negatives > drawn:
            raise invalid(
                "negatives", self.negatives,
                f"at most {drawn // self.largest_batch}: {self.num_entities} entities, one of them null, have to give "
                f"every tuple of a batch of {self.largest_batch} its own",
            )  # fmt: skip

    @property
    def num_entities(self) -> int:
        """n"""
        return self.num_protected or self.num_roots

    @property
    def largest_batch(self) -> int:
        """Tuples that a batch exceeds with a probability that is negligible."""
        mean = expected_batch(rate=self.sampling_rate, num_roots=self.num_roots)
        return min(self.num_roots, math.ceil(mean + BEYOND * math.sqrt(mean)) + BEYOND)

    @property
    def degree(self) -> int:
        """Most tuples of one entity that a step may draw."""
        return self.max_degree

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        return (
            self._term(
                clip_norms,
                rate=self.sampling_rate,
                max_degree=self.max_degree,
                list_cap=getattr(self, "list_cap", None),
                negatives=self.negatives,
                num_entities=self.num_entities,
            ),
        )

    @property
    def _coupled(self) -> dict[str, Any]:
        """Arguments of Theorems 3 and C.1."""
        steps, noise = self.closed()
        return {
            "nodes": self.num_entities,
            "relations": self.num_roots,
            "max_degree": self.degree,
            "negatives": self.negatives,
            "q": self.sampling_rate,
            "sigma_over_sensitivity": noise,
            "steps": steps,
            "delta": self.delta,
        }

    @property
    def _numbers(self) -> dict[str, object]:
        return {"q": f"{self.sampling_rate:.6g}", "K": f"K = {self.degree}", "k": self.negatives}

    def _theorem_c1(self) -> Guarantee:
        epsilon = relational_coupled(**self._coupled, standard_clipping=True)
        stated = COUPLED_STANDARD.filled(self._numbers).also(*remark_on_zero(epsilon))
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=self._unmet(THEOREM_C1))


class StaticTuples(PairSteps, TupleSteps):
    """Stable tuples, each clipped to C: docs/privacy/tuples.md, Theorem 28.

    An entity owns at most D tuples and is accepted by at most K owners, so at most K + D tuples leave with it; those
    that it owned let in at most D others. Given l unaffected tuples of a batch, one of them has the entity among its l
    k negatives with probability l k / n, and moves by 2 C.
    """

    relation: ClassVar[Relation] = Relation.ENTITY
    numbers_from: ClassVar[Mapping[str, DataFact]] = MappingProxyType(
        {"num_roots": DataFact.IDS, "num_protected": DataFact.IDS}  # `places`, not the number of tuples
    )
    kind: Literal["static-tuples"] = "static-tuples"
    list_cap: Count = Field(description="D: tuples that an entity owns")

    @staticmethod
    def places(*, num_entities: int, max_degree: int, list_cap: int) -> int:
        """Return m, the most tuples that S(D, K) leaves of any lists of these entities: public, as n is."""
        return num_entities * min(max_degree, list_cap)

    @property
    def degree(self) -> int:
        return self.max_degree + self.list_cap

    shape: ClassVar[Shape] = Shape(lists=Lists.STABLE_TUPLES, batches=Batches.POISSON, clipped=Clipped.ROOT)

    @property
    def dominating_pair(self) -> RevealedPair:
        """Return the pair of one step, in units of the clip norm."""
        from dpgraph.families.tuples.epsilon import static_pair

        return static_pair(
            nodes=self.num_entities,
            relations=self.num_roots,
            max_degree=self.max_degree,
            refill=self.list_cap,
            negatives=self.negatives,
            rate=self.sampling_rate,
            noise=self.closed()[1],
        )

    def published(self) -> Guarantee:
        """Return the guarantee that Theorem C.1 of the paper would claim."""
        return self._theorem_c1()

    def rigorous(self) -> Guarantee:
        """Return the guarantee by Theorem 28 of docs/privacy/tuples.md."""
        numbers = {**self._numbers, "K + D": self.degree, "D": self.list_cap}
        return self._proved(relational_static.statement.filled(numbers), self._composed())

    def rdp(self, orders: Orders) -> np.ndarray:
        from dpgraph.families.tuples.epsilon import static_rdp

        return self.closed()[0] * static_rdp(self.dominating_pair, orders)


class StandardTuples(TupleSteps):
    """The paper's baseline: every tuple clipped to C, tuples capped as the paper does, epsilon by Theorem C.1."""

    relation: ClassVar[Relation] = Relation.NONE
    refuses_delta: ClassVar[bool] = False
    proves: ClassVar[bool] = False
    kind: Literal["standard-tuples"] = "standard-tuples"

    shape: ClassVar[Shape] = Shape(lists=Lists.CAPPED_TUPLES, batches=Batches.POISSON, clipped=Clipped.ROOT)

    def published(self) -> Guarantee:
        """Return the guarantee that Theorem C.1 of the paper claims."""
        return self._theorem_c1()

    def rigorous(self) -> Guarantee:
        return self._none("rigorous", UNSTABLE_TUPLES, relational_static.statement.filled(self._numbers).sampling)


class AdaptiveTuples(TupleSteps):
    """The paper's mechanism (Algorithms 1 to 3): tuples are clipped to C over a count of their entities.

    The count is the largest of the tuple's entities in the batch. `noise_multiplier` is noise std / sensitivity.
    Proposition 4.1 says that the sensitivity is 2 C with each entity at most once among the negatives. It is not: when
    an entity leaves, its partners' counts fall and the limits of tuples without it rise (audit `tuple-sensitivity`:
    13.5 C where the released code claims C).
    """

    relation: ClassVar[Relation] = Relation.NONE
    refuses_delta: ClassVar[bool] = False
    proves: ClassVar[bool] = False
    SENSITIVITY: ClassVar[float] = 2.0  # claimed, over C
    kind: Literal["adaptive-tuples"] = "adaptive-tuples"

    @property
    def noise_std_over_clip(self) -> float | None:
        return None if self.noise_multiplier is None else self.SENSITIVITY * self.noise_multiplier

    shape: ClassVar[Shape] = Shape(lists=Lists.CAPPED_TUPLES, batches=Batches.POISSON, clipped=Clipped.ROOT_COUNTS)

    def published(self) -> Guarantee:
        """Return the guarantee that Theorem 3 of the paper claims."""
        epsilon = relational_coupled(**self._coupled)
        numbers = {**self._numbers, "C": f"{self.SENSITIVITY:g} C"}
        stated = relational_coupled.statement.filled(numbers).also(*remark_on_zero(epsilon))
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=self._unmet(THEOREM_3))

    def rigorous(self) -> Guarantee:
        reason = (
            "Proposition 4.1 is false: limits of tuples without the entity depend on it, and a batch's sum moves by up "
            f"to C (1 + K (1 + k) / 2) = {1 + self.max_degree * (1 + self.negatives) / 2:g} C; {UNSTABLE_TUPLES}"
        )
        return self._none("rigorous", reason, relational_static.statement.filled(self._numbers).sampling)


class ReleasedTuples(AdaptiveTuples):
    """The authors' released code: noise as if the sensitivity were C, half of what Proposition 4.1 says."""

    SENSITIVITY: ClassVar[float] = 1.0
    kind: Literal["released-tuples"] = "released-tuples"  # type: ignore[assignment]


# what the published formulas presume
THEOREM_3 = Shape(lists=Lists.CAPPED_TUPLES, batches=Batches.POISSON, clipped=Clipped.ROOT_COUNTS)
THEOREM_C1 = Shape(lists=Lists.CAPPED_TUPLES, batches=Batches.POISSON, clipped=Clipped.ROOT)


def _fields(asked: MechanismRequest) -> dict[str, Any]:
    return {
        **asked.common(asked.num_train),
        "sampling_rate": asked.rate,
        "max_degree": asked.privacy.max_degree,
        "negatives": asked.cell.training.negatives,
    }


def static_tuples(asked: MechanismRequest) -> StaticTuples:
    """Build the proved mechanism. It counts places, not tuples: a null entity takes the tuples that it owns along."""
    entities, list_cap = asked.counts.num_protected or asked.num_train, asked.privacy.list_cap or 1
    places = StaticTuples.places(num_entities=entities, max_degree=asked.privacy.max_degree, list_cap=list_cap)
    return StaticTuples(**_fields(replace(asked, counts=Counts(places, entities))), list_cap=list_cap)


def standard_tuples(asked: MechanismRequest) -> StandardTuples:
    """Build the paper's baseline."""
    return StandardTuples(**_fields(asked))


def adaptive_tuples(asked: MechanismRequest) -> AdaptiveTuples:
    """Build the paper's mechanism."""
    return AdaptiveTuples(**_fields(asked))


def released_tuples(asked: MechanismRequest) -> ReleasedTuples:
    """Build the mechanism of the released code."""
    return ReleasedTuples(**_fields(asked))


def why_not_captured(cell: Any) -> str:
    """Return why the steps of a cell are not captured on a GPU; empty for heads and perceptrons."""
    if cell.training.warm_up is not None:
        return "the host changes the learning rate from step to step"
    texts = getattr(cell.model, "encoder", MLP) != MLP
    return "passes follow the lengths of texts" if texts else ""
