"""DP-SGD whose protected unit is an image, a class or a subclass of it (Zhang 2021, chapter 4, Algorithm 5).

`noise_multiplier` is noise std / clip norm S, q the rate at which units enter a batch. Proofs: docs/privacy/units.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.data.registry import entry
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees.records import PoissonLots
from dpgraph.families.units.accountant import THEOREM_5, class_dp_theorem5
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms.base import Rate, Shape
from dpgraph.privacy.mechanisms.batches import PairSteps, PoissonBatches
from dpgraph.privacy.procedure import Batches, Clipped, Lists
from dpgraph.privacy.public_numbers import DataFact
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import PUBLIC, Statement
from dpgraph.problems.base import Counts

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.double_mixture import MixturePair

PREPARED = "dpgraph.families.units.prepared:PreparedUnits"
IMAGES = ("images of units",)
CLASSES = Statement(
    method="Poisson-subsampled Gaussian, a unit replaced, privacy loss distribution", relation=Relation.CLASS,
    sampling="Poisson, rate {q}, of {K} classes", not_covered=(PUBLIC,),
    assumptions=(
        "a class is one vector of norm at most S, whatever its images and however many they are",
        "which classes there are, and their number, is public",
    ),
)  # fmt: skip
SUBCLASSES = replace(
    CLASSES, relation=Relation.SUBCLASS, sampling="Poisson, rate {q}, of {K} subclasses",
    assumptions=(
        "a subclass is one vector of norm at most S, whatever its images and however many they are",
        "an image's subclass is a public function of the image and its class alone; the other images of the class are "
        "not protected with it",
    ),
)  # fmt: skip


class RecordUnits(PoissonLots):
    """Every image is a unit of its own: `PoissonLots`, of any network on images."""

    prepared: ClassVar[str] = PREPARED
    more_streams: ClassVar[tuple[str, ...]] = IMAGES
    kind: Literal["record-units"] = "record-units"  # type: ignore[assignment]


class ClassUnits(PairSteps, PoissonBatches):
    """T steps over Poisson samples of K classes; the mean gradient of a drawn class is clipped to S as one vector.

    N = K: the roots are classes, and `num_roots` counts them. All images of one class are replaced by any others, any
    number of them, so its vector of norm at most S becomes another one: the pair ((1 - q) N(0) + q N(1), (1 - q) N(0) +
    q N(-1)) in units of S dominates a step (Theorem 29 of docs/privacy/units.md).
    """

    relation: ClassVar[Relation] = CLASSES.relation
    prepared: ClassVar[str] = PREPARED
    more_streams: ClassVar[tuple[str, ...]] = IMAGES
    refuses_delta: ClassVar[bool] = False  # the thesis' own delta is 1e-2 for 153 persons: published only
    LISTS: ClassVar[Lists] = Lists.CLASSES
    STATED: ClassVar[Statement] = CLASSES

    numbers_from: ClassVar[Mapping[str, DataFact]] = MappingProxyType(
        {"num_roots": DataFact.STATED, "num_protected": DataFact.STATED}
    )

    kind: Literal["class-units"] = "class-units"
    sampling_rate: Rate = Field(description="q, public: of classes")

    @property
    def dominating_pair(self) -> MixturePair:
        """Return the pair of one step, in which a unit is replaced."""
        return self._pair(1, self.closed()[1], own_root_removed=False)

    def _stated(self, statement: Statement) -> Statement:
        return statement.filled({"q": f"{self.sampling_rate:.6g}", "K": self.num_roots})

    def rigorous(self) -> Guarantee:
        """Return the guarantee by Theorem 29: a class is replaced, Poisson batches of classes."""
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        steps, noise = self.closed()
        if self.sampling_rate < 1:
            return self._proved(self._stated(self.STATED), self._composed())
        epsilon = gaussian_epsilon(mu=2 * math.sqrt(steps) / noise, delta=self.delta)
        return self._proved(self._stated(self.STATED), epsilon)

    def published(self) -> Guarantee:
        """Return the guarantee by Theorem 5 (Corollary 2 for subclasses), with the premises that fail."""
        steps, noise = self.closed()
        epsilon = class_dp_theorem5(q=self.sampling_rate, noise_multiplier=noise, steps=steps, delta=self.delta)
        limit = 1 / (16 * noise)
        unmet = () if self.sampling_rate < limit else (f"q = {self.sampling_rate:g} is not below {limit:.3g}",)
        stated = self._stated(replace(THEOREM_5, relation=self.STATED.relation))
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=unmet)

    @property
    def shape(self) -> Shape:
        return Shape(lists=self.LISTS, batches=Batches.POISSON, clipped=Clipped.ROOT)


class SubclassUnits(ClassUnits):
    """Each class is cut into `subclasses` parts by a public function of each image alone; the parts are the units.

    An image's part is how far it lies along a public random direction, so that no image moves another one's part.
    """

    relation: ClassVar[Relation] = SUBCLASSES.relation
    LISTS: ClassVar[Lists] = Lists.SUBCLASSES
    STATED: ClassVar[Statement] = SUBCLASSES

    kind: Literal["subclass-units"] = "subclass-units"  # type: ignore[assignment]
    subclasses: int = Field(description="k_sub of each class, public")

    def _check(self) -> None:
        super()._check()
        if self.subclasses < 1 or self.num_roots % self.subclasses:
            raise invalid("subclasses", self.subclasses, f"a divisor of num_roots = {self.num_roots}")


class ClusterUnits(SubclassUnits):
    """The published mechanism: subclasses are clusters that k-means finds among the private images of a class."""

    relation: ClassVar[Relation] = Relation.NONE
    proves: ClassVar[bool] = False
    LISTS: ClassVar[Lists] = Lists.CLUSTERS

    kind: Literal["cluster-units"] = "cluster-units"  # type: ignore[assignment]

    def rigorous(self) -> Guarantee:
        reason = (
            "k-means is run on the private images, so one subclass moves the others' members; nothing is charged for it"
        )
        return self._none("rigorous", reason, self._stated(self.STATED).sampling)


def record_units(asked: MechanismRequest) -> RecordUnits:
    """Build the mechanism that protects single images."""
    return RecordUnits(**asked.common(asked.num_train), sampling_rate=asked.cell.training.sampling_rate)


def class_units(asked: MechanismRequest) -> ClassUnits:
    """Build the mechanism that protects classes."""
    return ClassUnits(**_common(asked, classes_of(asked)))


def subclass_units(asked: MechanismRequest, kind: type[SubclassUnits] = SubclassUnits) -> SubclassUnits:
    """Build the mechanism that protects public parts of classes."""
    parts = asked.privacy.subclasses
    return kind(**_common(asked, classes_of(asked) * parts), subclasses=parts)


def cluster_units(asked: MechanismRequest) -> SubclassUnits:
    """Build the published mechanism on clusters of private images."""
    return subclass_units(asked, ClusterUnits)


def classes_of(asked: MechanismRequest) -> int:
    """Return the number of classes in the registry, which is public. Raise UserError for a data set without it."""
    dataset = asked.cell.task.dataset
    classes = entry(dataset).expected.classes
    if classes is None:
        raise invalid("dataset", dataset, "one whose number of classes the registry states")
    return classes


def _common(asked: MechanismRequest, units: int) -> dict[str, Any]:
    """Return the fields of a mechanism over units. Delta counts every image.

    A delta below 1 / the number of units alone would allow to publish some units whole. The number of images is the
    registry's: a class that leaves takes its images along, so the number that is there is private.
    """
    dataset = asked.cell.task.dataset
    images = entry(dataset).expected.nodes
    if images is None:
        raise invalid("dataset", dataset, "one whose number of images the registry states")
    stated = replace(asked, counts=Counts(units, images))
    return {**stated.common(units), "sampling_rate": asked.cell.training.sampling_rate}
