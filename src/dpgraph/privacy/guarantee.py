"""What is guaranteed: the two epsilons of a result with all that they rest on."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, field_serializer, model_validator

from dpgraph.experiments.frozen import Frozen

Mode = Literal["published", "rigorous"]

NODE_NULL = (
    "node-null: the ids are public; one node's record (features, label and its own out-list) is replaced by null, "
    "its loss term vanishes; pointers to it in other nodes' lists stay and bring no message"
)


class Guarantee(Frozen):
    """One (epsilon, delta) under one accountant, or the reason why there is none.

    `mode` is "published" (the paper's formula, kept even where it is wrong) or "rigorous" (proved in docs/privacy.md).
    `epsilon` is inf without privacy and None where nothing is guaranteed; then `reason` says why.
    """

    mode: Mode
    accountant: str
    adjacency: str
    sampling: str
    assumptions: tuple[str, ...] = ()
    epsilon: float | None = Field(ge=0)
    reason: str | None = None
    delta: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _reason(self) -> Guarantee:
        if (self.epsilon is None) != (self.reason is not None):
            raise ValueError("reason: expected exactly when epsilon is None")
        return self

    @field_serializer("epsilon", when_used="json")
    def _epsilon_json(self, value: float | None) -> float | str | None:
        """JSON has no inf; the model reads the string back."""
        return "Infinity" if value == math.inf else value

    @property
    def text(self) -> str:
        """Short form for tables.

        >>> guarantee = Guarantee(mode="rigorous", accountant="-", adjacency="-", sampling="-", epsilon=7.98214)
        >>> guarantee.text
        '7.98'
        """
        return "none" if self.epsilon is None else f"{self.epsilon:.3g}"


class PrivacyStatement(Frozen):
    """What a method hands back with its results: the mechanism that ran and its two guarantees."""

    mechanism: dict[str, Any] = Field(description="The mechanism as JSON; mechanism_from() reads it back")
    sampler: str = Field(description="How neighbourhoods are bounded: stable, algorithm-1 or none")
    batches: str
    clipping: str
    noise_std_over_clip: float | None = Field(
        description="Noise std divided by clip norm, per coordinate; None: no noise"
    )
    steps: int
    published: Guarantee
    rigorous: Guarantee


def remark_on_zero(epsilon: float) -> tuple[str, ...]:
    """What an epsilon of 0 means, for `Guarantee.assumptions`; nothing for any other."""
    return () if epsilon > 0 else ("epsilon 0: delta alone covers all that can be told at this noise",)
