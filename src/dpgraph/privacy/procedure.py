"""The procedure of a private run, as numbers and enums: once as accounted, once read from the objects that ran.

A mechanism states its `Procedure` in the units of the run (`NoisySteps.procedure`); `PreparedStep.ran` reads what was
prepared and counted during the run. `check_same` compares both field by field, and a difference is an error: then no
epsilon holds. The premises of a paper's formula are compared in the same way, where a difference is a remark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import Field

from dpgraph.config.frozen import Frozen
from dpgraph.core.errors import UserError
from dpgraph.privacy.relation import Relation

TOLERANCE = 1e-9  # relative: two ways to round one product


class Loss(StrEnum):
    """The loss whose gradient a term is."""

    FULL = "loss"
    SELF = "loss of a root alone"
    NEIGHBOURS = "what neighbours add to the loss"
    NOTHING = "zero"


class Lists(StrEnum):
    """The bound on the records that a loss reads."""

    NONE = "own record"
    STABLE = "stable"
    ALGORITHM_1 = "algorithm-1"
    WHOLE_GRAPH = "whole graph"
    CUT = "edges between parts cut"
    INDUCED = "induced subgraph"
    CAPPED_ROWS = "rows, column support capped"
    SCALED_ROWS = "rows, column norm clipped"
    STABLE_TUPLES = "stable tuples"
    CAPPED_TUPLES = "tuples capped at both ends"
    UNBOUNDED = "uncut lists"
    CLASSES = "images of a class"
    SUBCLASSES = "images of a subclass, public partition"
    CLUSTERS = "images of a k-means cluster"


class Batches(StrEnum):
    """The draw of the roots of a step."""

    POISSON = "poisson"
    FIXED_SIZE = "fixed-size without replacement"
    SHUFFLED = "shuffled lots of fixed size"
    MASKED_PARTS = "fixed parts of the loss"
    PARTS_BY_ID = "fixed parts by id"
    NONE = "none"


class Clipped(StrEnum):
    """The unit that is clipped as one vector."""

    ROOT = "each root's gradient"
    ROOT_GROUPS = "each root's gradient, group by group"
    ROOT_COUNTS = "each tuple's gradient, by how often its entities occur in the batch"
    STEP = "the gradient of a step"
    NOTHING = "nothing"


class ClippedSum(Frozen):
    """One sum of clipped gradients within a step, over a batch that is drawn for it alone."""

    loss: Loss = Loss.FULL
    lists: Lists
    hops: int = 0
    max_degree: int | None = Field(default=None, description="K: most lists in which a node occurs; rows: K_col")
    list_cap: int | None = Field(default=None, description="D: longest list")
    column_norm: float | None = Field(default=None, description="tau: L1 norm of a column of rows")
    batches: Batches
    num_roots: int = Field(description="N: roots that batches are drawn from")
    rate: float | None = Field(default=None, description="q, Poisson batches")
    batch_size: int | None = Field(default=None, description="m, batches of fixed size")
    num_parts: int | None = Field(default=None, description="s, fixed parts")
    clipped: Clipped
    clip_norms: tuple[float, ...] = Field(description="C, or one for each group; inf: none")
    negatives: int | None = Field(default=None, description="k entities for each tuple, each at most once a batch")
    num_entities: int | None = Field(default=None, description="n: entities that negatives are drawn from")
    draws: int = Field(description="Batches that are drawn for this term in the run")


class Release(Frozen):
    """A release other than the steps: rows of PageRank, or a choice."""

    kind: str
    noise: float = Field(description="Noise std / clip norm, or the epsilon of a pure mechanism")
    values_noise: float | None = Field(default=None, description="A second one, where the release has two")
    sensitivity: float = Field(description="In the unit of the noise; of a choice: votes")
    count: int = Field(description="Rows or choices")
    lists: Lists = Lists.NONE
    max_degree: int | None = None
    list_cap: int | None = None
    mass: float | None = Field(default=None, description="a of votes: their coordinate that counts voters")
    degree_floor: int | None = Field(default=None, description="m of votes: shorter lists weigh as those of m - 1 ids")
    taper: float | None = Field(default=None, description="kappa of votes under a degree bound, list_cap")
    margin: float | None = None
    """z of votes: caps are noisy degrees, plus z times their noise"""
    limit: float | None = Field(default=None, description="H of votes: nodes with a larger noisy degree have no part")


class StreamUse(Frozen):
    """The draws of a run from one random stream (engine/preparation/ledger.py)."""

    stream: str
    secret: bool = Field(description="Known to nobody; false: a public function of names")
    draws: int | None = Field(default=None, description="Independent draws; null: keyed by epochs or ids")
    numbers: int | None = Field(default=None, description="Numbers in all draws; null: not counted, or private")

    def for_whole_run(self, stated: int | None) -> StreamUse:
        """Return this use with the draws of earlier processes; without lengths if none is stated: they are private."""
        if stated is None or not self.draws:
            return StreamUse(stream=self.stream, secret=self.secret)
        numbers = None if self.numbers is None else self.numbers * stated // self.draws
        return StreamUse(stream=self.stream, secret=self.secret, draws=stated, numbers=numbers)


class Procedure(Frozen):
    """Everything in a run that touches private data. Noise is in the unit in which it is added to the terms' sum."""

    relation: Relation
    terms: tuple[ClippedSum, ...]
    noise_std: tuple[float, ...] = Field(description="One for all coordinates, for each group, or for each term")
    noise_draws: int
    divisor: float = Field(description="Public number by which the noisy sum is divided")
    steps: int
    releases: tuple[Release, ...] = ()
    streams: tuple[StreamUse, ...] = Field(default=(), description="Random streams, once the run has been checked")

    @classmethod
    def of_releases(cls, relation: Relation, releases: tuple[Release, ...], steps: int) -> Procedure:
        """Return a run whose steps are free once its releases are made; without any, nothing is protected."""
        shown = relation if releases else Relation.NONE
        unread: dict[str, Any] = {"terms": (), "noise_std": (), "noise_draws": 0, "divisor": 1.0}
        return cls(relation=shown, steps=steps if releases else 0, releases=releases, **unread)


class NotAsAccounted(UserError):
    """An error: the run is not the one that was accounted for, so no epsilon holds."""


def check_same(accounted: Procedure, ran: Procedure) -> None:
    """Raise NotAsAccounted, which names every field that differs with both values."""
    unlike = list(differences(accounted, ran))
    if unlike:
        raise NotAsAccounted(f"what ran is not what was accounted for, so no epsilon holds: {'; '.join(unlike)}")


def differences(expected: Frozen, actual: Frozen, first: str = "accounted") -> Iterator[str]:
    """Yield 'noise_std: ran 0.77, accounted 1' for every field in which the two differ by more than rounding."""
    yield from _compare("", expected.model_dump(), actual.model_dump(), first)


def _compare(path: str, expected: Any, actual: Any, first: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, value in expected.items():
            yield from _compare(f"{path}.{name}" if path else name, value, actual[name], first)
    elif isinstance(expected, tuple) and isinstance(actual, tuple) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _compare(f"{path}[{index}]", one, other, first)
    elif not _equal(expected, actual):
        yield f"{path}: ran {_text(actual)}, {first} {_text(expected)}"


def _equal(expected: Any, actual: Any) -> bool:
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (expected, actual)]
    if all(numbers):
        return math.isclose(expected, actual, rel_tol=TOLERANCE)
    return bool(expected == actual)


def _text(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], dict):
        return f"{len(value)} of them"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
