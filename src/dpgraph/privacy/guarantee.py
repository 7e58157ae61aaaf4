"""The guarantee of a result: its two epsilons with everything that they depend on."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, Literal

from pydantic import Field, field_serializer, model_validator

from dpgraph.config.frozen import Frozen
from dpgraph.privacy.procedure import Procedure
from dpgraph.privacy.relation import Relation, Scope

Mode = Literal["published", "rigorous"]
# what a reader sees: epsilon claimed by the paper, epsilon proved
MODE_NAMES: dict[str, str] = {"published": "claimed", "rigorous": "proved"}


def at_most(value: float, *, digits: int) -> str:
    """Return an epsilon or a delta as text of so many significant digits, rounded up: the side of privacy.

    A float that stands for a shorter number, such as 0.8, is that number.

    >>> [at_most(value, digits=4) for value in (1.970208e-4, 52.235704, 0.8, float("inf"))]
    ['0.0001971', '52.24', '0.8', 'inf']
    """
    if math.isfinite(value):
        value = float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(f"{value:.14g}")))
    return f"{value:.{digits}g}"


class Guarantee(Frozen):
    """One (epsilon, delta) under one accountant, or the reason why there is none.

    `mode` is "published" (the paper's formula and relation, kept even where they are wrong) or "rigorous" (proved in
    docs/privacy). `epsilon` is inf without privacy and None where none is proved; then `reason` states why, and
    relation and scope are none.
    """

    mode: Mode
    accountant: str
    relation: Relation = Relation.NONE
    scope: Scope = Scope.NONE
    sampling: str
    assumptions: tuple[str, ...] = ()
    unmet: tuple[str, ...] = Field(default=(), description="Premises of the formula that do not hold for what ran")
    epsilon: float | None = Field(ge=0)
    reason: str | None = None
    delta: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _reason(self) -> Guarantee:
        if (self.epsilon is None) != (self.reason is not None):
            raise ValueError("reason: expected exactly when epsilon is None")
        none = self.epsilon is None or self.epsilon == math.inf
        if (self.relation is Relation.NONE) != none or (self.scope is Scope.NONE) != none:
            raise ValueError(
                f"relation={self.relation}, scope={self.scope}: expected none exactly where nothing is guaranteed"
            )
        return self

    @field_serializer("epsilon", when_used="json")
    def _epsilon_json(self, value: float | None) -> float | str | None:
        """Write inf as a text: JSON has no inf, and the model reads the text back."""
        return "Infinity" if value == math.inf else value

    @property
    def text(self) -> str:
        """Short form for tables; a proved epsilon is rounded up.

        >>> guarantee = Guarantee(
        ...     mode="rigorous", accountant="-", relation="edge", scope="parameters", sampling="-", epsilon=7.98214
        ... )
        >>> guarantee.text
        '7.99'
        """
        if self.epsilon is None:
            return "none"
        return at_most(self.epsilon, digits=3) if self.mode == "rigorous" else f"{self.epsilon:.3g}"

    @property
    def place(self) -> str:
        """Relation and scope in brackets; empty where no epsilon is proved.

        >>> Guarantee(mode="rigorous", accountant="-", relation="edge", scope="joint", sampling="-", epsilon=1).place
        ' (edge, joint)'
        """
        return "" if self.relation is Relation.NONE else f" ({self.relation}, {self.scope})"


class PrivacyStatement(Frozen):
    """The mechanism of a run with its two guarantees, and its procedure, in the units of the run."""

    mechanism: dict[str, Any] = Field(description="The mechanism as JSON; mechanism_from() reads it back")
    noise_std_over_clip: float | None
    """Noise std divided by clip norm, per coordinate; None: no noise"""
    steps: int
    published: Guarantee
    rigorous: Guarantee
    beside: tuple[Guarantee, ...] = Field(default=(), description="The same run under other relations, each proved")
    procedure: Procedure | None = Field(default=None, description="Compared with what ran; None: nothing has run")
    uncovered: tuple[str, ...] = ()
    """Steps before training that read private data and that no epsilon here covers"""


def remark_on_zero(epsilon: float) -> tuple[str, ...]:
    """Return the meaning of an epsilon of 0, for `Guarantee.assumptions`; empty for any other."""
    return () if epsilon > 0 else ("epsilon 0: delta alone covers all that can be learnt at this noise",)
