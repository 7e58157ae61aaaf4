"""Mechanisms: one frozen object per way to touch the data.

It states sampling, sensitivity and adjacency once; the trainer reads its noise from it, calibration solves it and the
accountants evaluate it. `kind` tells the classes apart. Proofs: docs/privacy.md.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from dpgraph.errors import UserError, invalid
from dpgraph.experiments.frozen import Frozen
from dpgraph.privacy.guarantee import Guarantee, PrivacyStatement
from dpgraph.privacy.pagerank_mechanisms import FixedBatchPagerank, PoissonPagerank
from dpgraph.privacy.published_trees import FixedBatchTrees
from dpgraph.privacy.record_mechanisms import PoissonLots, ShuffledLots, UnclippedLots
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.privacy.subgraph_mechanisms import (
    CutSubgraphs,
    MaskedSubgraphs,
    PoissonSubgraphs,
    PureNoise,
    UnclippedSubgraphs,
)
from dpgraph.privacy.tree_mechanisms import FixedSizeStableTrees, PoissonTrees, ResidualTrees

__all__ = [
    "CutSubgraphs",
    "FixedBatchPagerank",
    "FixedBatchTrees",
    "FixedSizeStableTrees",
    "MaskedSubgraphs",
    "Mechanism",
    "NoRecord",
    "NoisyMechanism",
    "NonPrivate",
    "PoissonLots",
    "PoissonPagerank",
    "PoissonSubgraphs",
    "PoissonTrees",
    "PureNoise",
    "ResidualTrees",
    "ShuffledLots",
    "UnclippedLots",
    "UnclippedSubgraphs",
    "mechanism_from",
]


class NonPrivate(Frozen):
    """No noise, no clipping: epsilon is infinite in both modes."""

    kind: Literal["non-private"] = "non-private"
    steps: int = Field(ge=1)

    @property
    def noise_std_over_clip(self) -> None:
        return None

    def _guarantee(self, mode: Literal["published", "rigorous"]) -> Guarantee:
        return Guarantee(mode=mode, accountant="none", sampling="any", epsilon=math.inf)

    def published(self) -> Guarantee:
        return self._guarantee("published")

    def rigorous(self) -> Guarantee:
        return self._guarantee("rigorous")

    def with_noise(self, noise_multiplier: float) -> NonPrivate:
        raise invalid("noise_multiplier", noise_multiplier, "None for a method without privacy")

    def with_steps(self, steps: int) -> Self:
        return type(self)(steps=steps)

    def at_step(self, step: int) -> PrivacyStatement:
        return self.statement().model_copy(update={"steps": step})

    def statement(self) -> PrivacyStatement:
        return PrivacyStatement(
            mechanism=self.model_dump(mode="json"),
            noise_std_over_clip=None,
            steps=self.steps,
            published=self.published(),
            rigorous=self.rigorous(),
        )


class NoRecord(NonPrivate):
    """Predictions that depend on no record: epsilon is 0 in both modes, without noise."""

    kind: Literal["no-record"] = "no-record"  # type: ignore[assignment]

    def _guarantee(self, mode: Literal["published", "rigorous"]) -> Guarantee:
        return Guarantee(
            mode=mode,
            accountant="none needed",
            relation=Relation.GRAPH,
            scope=Scope.ALL_OUTPUTS,
            sampling="none",
            epsilon=0.0,
            delta=0.0,
        )


NoisyMechanism = (
    PoissonTrees
    | ResidualTrees
    | FixedSizeStableTrees
    | FixedBatchTrees
    | MaskedSubgraphs
    | CutSubgraphs
    | PoissonSubgraphs
    | PureNoise
    | UnclippedSubgraphs
    | PoissonLots
    | ShuffledLots
    | UnclippedLots
    | PoissonPagerank
    | FixedBatchPagerank
)
Mechanism = Annotated[NoisyMechanism | NonPrivate | NoRecord, Field(discriminator="kind")]
_MECHANISM: TypeAdapter[Any] = TypeAdapter(Mechanism)


def mechanism_from(value: dict[str, Any]) -> Mechanism:
    """The mechanism of its JSON form; raises UserError for an unknown kind or field."""
    try:
        return _MECHANISM.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "mechanism"
        raise UserError(f"{where}={first['input']}: {first['msg']}") from error
