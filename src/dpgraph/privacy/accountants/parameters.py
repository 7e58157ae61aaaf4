"""The parameters of accountants with their ranges, and the premises of theorems. Imports no heavy package."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from dpgraph.config.cell import LARGE
from dpgraph.core.errors import invalid

Unknown = Literal["noise", "steps", "rate"]
MOST_TERMS = 20_000  # of a mixture; more would take minutes
# Beyond these ends no question is meaningful, squares overflow and log-gamma functions lose all digits.
LEAST_NOISE, MOST_NOISE = 1e-6, 1e12
LEAST_PRICE, MOST_PRICE = 1e-9, 1e6  # of the epsilon of a part
MOST_STEPS = 10**6
MOST_RATIO = 1e6
LEAST_RATE = 1e-9


@dataclass(frozen=True)
class Parameter:
    """A plain value; `above` is an open lower end, `least` a closed one. Type and choices are the annotation's."""

    text: str
    _: KW_ONLY
    above: float | None = None
    least: float | None = None
    most: float = math.inf
    kind: type = float
    choices: tuple[str, ...] = ()

    @classmethod
    def from_annotation(cls, annotation: Any) -> Self | None:
        """Return the parameter that `Annotated[type, Parameter(...)]` declares, optional or not; None for another."""
        annotation = next((one for one in get_args(annotation) if get_origin(one) is Annotated), annotation)
        if get_origin(annotation) is not Annotated:
            return None
        kind, one = get_args(annotation)[:2]
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        return replace(one, kind=str if choices else kind, choices=choices) if isinstance(one, cls) else None

    @property
    def allowed(self) -> str:
        if self.choices:
            return "one of " + "; ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        kind = "an integer" if self.kind is int else "a finite number"
        low = (
            f" > {self.above:g}" if self.above is not None else f" >= {self.least:g}" if self.least is not None else ""
        )
        return kind + low + ("" if self.most == math.inf else f" and <= {self.most:g}")

    def check(self, name: str, value: Any) -> Any:
        """Return the value in its type. Raise UserError in one line. A count may be written as a float (1e6)."""
        if self.choices:
            good = value in self.choices
        elif self.kind is bool:
            good = isinstance(value, bool)
        else:
            good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            good = good and (self.kind is float or float(value).is_integer())
            good = good and (self.above is None or value > self.above) and (self.least is None or value >= self.least)
            good = good and value <= self.most
        if not good:
            raise invalid(name, value, self.allowed)
        return self.kind(value)


def rate(text: str) -> Parameter:
    """Return a Poisson rate."""
    return Parameter(text, least=LEAST_RATE, most=1)


def count(text: str, *, least: int = 1, most: float = LARGE) -> Parameter:
    """Return a count."""
    return Parameter(text, least=least, most=most)


def noise(text: str, least: float = LEAST_NOISE) -> Parameter:
    """Return a noise std or multiplier."""
    return Parameter(text, least=least, most=MOST_NOISE)


def price(text: str, least: float = LEAST_PRICE) -> Parameter:
    """Return an epsilon of a part."""
    return Parameter(text, least=least, most=MOST_PRICE)


# What accountants of several families ask; those of one family are declared where they are used.
Rate = Annotated[float, rate("Poisson rate per step")]
Steps = Annotated[int, count("T", most=MOST_STEPS)]
NoiseMultiplier = Annotated[float, noise("noise std / clip norm; hypergeometric: the paper's lambda")]
OverClip = Annotated[float, noise("noise std / clip norm")]
NumTrain = Annotated[int, count("N, public")]
BatchSize = Annotated[int, count("m, drawn without replacement")]
MaxDegree = Annotated[int, count("K", most=100)]
Moments = Annotated[int, count("largest moment", most=512)]


@dataclass(frozen=True)
class Premise:
    """A premise of a theorem that a caller may state otherwise, with the reason of the refusal (docs/privacy)."""

    name: str
    holds: Any
    reason: str
    parameter: Parameter

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise UserError for another value."""
        if given.get(self.name, self.holds) != self.holds:
            raise invalid(self.name, given[self.name], f"{self.holds}: {self.reason}")


def _among(text: str, *choices: str) -> Parameter:
    return Parameter(text, kind=str, choices=choices)


def _number(text: str) -> Parameter:
    return replace(count(text), kind=int)


PEOPLE = _number("N, public")  # delta is below 1 / N
POISSON = Premise(
    "sampling", "poisson",
    "in a batch of fixed size an affected root displaces another, and a fixed partition uses every root each epoch",
    _among("of batches", "poisson", "without replacement", "fixed partition"),
)  # fmt: skip
STABLE = Premise(
    "sampler", "stable", "one record changes an unbounded number of lists under any other sampler",
    _among("how neighbourhoods are bounded", "stable", "algorithm-1", "greedy"),
)  # fmt: skip
PUBLIC_CLIPPING = Premise(
    "clipping", "public",
    "adaptive thresholds depend on other nodes' records, and a private percentile costs eps_quantile: see "
    "private_quantile", _among("how the clip norm is found", "public", "adaptive", "private percentile"),
)  # fmt: skip
ONE_GROUP = Premise(
    "groups", 1, "with L groups the joint multiplier is (sum (C_l / sigma_l)^2)^(-1/2): pass that as the noise",
    _number("parameter groups that are clipped and noised separately, one multiplier each"),
)  # fmt: skip
TWO_BATCHES = Premise(
    "batches", 2,
    "with one batch for both terms the self terms reveal which affected roots were drawn: see residual_one_batch",
    _number("independent batches per step"),
)  # fmt: skip
SGD = (POISSON, PUBLIC_CLIPPING, ONE_GROUP)
