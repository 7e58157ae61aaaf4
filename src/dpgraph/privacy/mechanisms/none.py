"""The mechanisms without noise: training without privacy, and predictions that read no record."""

from __future__ import annotations

import math
from typing import Literal, NoReturn, Self

from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import Mechanism
from dpgraph.privacy.relation import Relation, Scope


class NonPrivate(Mechanism):
    """A mechanism without noise and clipping: epsilon is infinite in both modes."""

    kind: Literal["non-private"] = "non-private"
    steps: int = Field(ge=1)

    @property
    def noise_std_over_clip(self) -> None:
        return None

    def _guarantee(self, mode: Mode) -> Guarantee:
        return Guarantee(mode=mode, accountant="none", sampling="any", epsilon=math.inf)

    def published(self) -> Guarantee:
        return self._guarantee("published")

    def rigorous(self) -> Guarantee:
        return self._guarantee("rigorous")

    def with_noise(self, noise_multiplier: float) -> NonPrivate:
        raise invalid("noise_multiplier", noise_multiplier, "None for a method without privacy")

    def rdp(self, orders: tuple[float, ...]) -> NoReturn:
        raise invalid("mechanism", self.kind, "one with noise")

    def with_steps(self, steps: int) -> Self:
        return type(self)(steps=steps)

    def at_step(self, step: int) -> PrivacyStatement:
        return self.statement().model_copy(update={"steps": step})


class NoRecord(NonPrivate):
    """Predictions that depend on no record: epsilon is 0 in both modes, without noise."""

    kind: Literal["no-record"] = "no-record"  # type: ignore[assignment]

    def _guarantee(self, mode: Mode) -> Guarantee:
        return Guarantee(
            mode=mode,
            accountant="none needed",
            relation=Relation.GRAPH,
            scope=Scope.ALL_OUTPUTS,
            sampling="none",
            epsilon=0.0,
            delta=0.0,
        )
