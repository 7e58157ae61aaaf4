"""The base of every mechanism, and of every noisy, iterative one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from dpgraph.config.config import parse
from dpgraph.config.frozen import Frozen
from dpgraph.core.errors import UserError, invalid
from dpgraph.privacy.accountants.parameters import LEAST_NOISE, MOST_NOISE, MOST_STEPS
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Procedure, Release, differences
from dpgraph.privacy.public_numbers import Counted, DataFact, meaningful_delta, noise_std, private_numbers
from dpgraph.privacy.relation import PredictionInput, Relation, Scope
from dpgraph.privacy.statements import PUBLIC, Statement

if TYPE_CHECKING:
    import numpy as np

PUBLIC_SETTINGS = f"{PUBLIC}, but for the steps that the result lists as uncovered"
NOISE_RANGE = (LEAST_NOISE, MOST_NOISE)  # noise std / clip norm; beyond, floating point has no answer


def _allowed(expected: str, good: Callable[[Any], bool]) -> AfterValidator:
    """Check a field's range, None apart; a value outside raises UserError with the field's name."""

    def checked(value: Any, info: ValidationInfo) -> Any:
        if value is not None and not good(value):
            raise invalid(str(info.field_name), value, expected)
        return value

    return AfterValidator(checked)


Count = Annotated[int, _allowed("an integer >= 1", lambda value: value >= 1)]
Rate = Annotated[float, _allowed("a number in (0, 1]", lambda value: 0 < value <= 1)]
NotNegative = Annotated[float, _allowed("a finite number >= 0", lambda value: 0 <= value < math.inf)]
Noise = Annotated[
    float,
    _allowed(
        "a number from {:g} to {:g}".format(*NOISE_RANGE), lambda value: NOISE_RANGE[0] <= value <= NOISE_RANGE[1]
    ),
]


# how a run draws its batches: from which stream, and which of these streams are keyed by epochs
BATCH_STREAMS = {
    Batches.POISSON: "batches",
    Batches.FIXED_SIZE: "batches",
    Batches.SHUFFLED: "lots",
    Batches.MASKED_PARTS: "batches",
    Batches.PARTS_BY_ID: "batches",
}
KEYED = (Batches.SHUFFLED, Batches.MASKED_PARTS, Batches.PARTS_BY_ID)
LISTED = (Lists.STABLE, Lists.ALGORITHM_1, Lists.STABLE_TUPLES, Lists.CAPPED_TUPLES)  # by a public sampler


class Shape(Frozen):
    """The reading, drawing and clipping of a step: of a mechanism, or as a formula presumes it."""

    lists: Lists
    batches: Batches
    clipped: Clipped


class Mechanism(Frozen):
    """One frozen object per way to touch the data: it states sampling, sensitivity and relation once.

    The prepared step that runs is built from it, calibration solves it and the accountants evaluate it; proofs are in
    docs/privacy. `kind` identifies the class in files.
    """

    kind: str
    steps: int | None = Field(description="T; None: open")

    @property
    def noise_std_over_clip(self) -> float | None:
        """Noise std per coordinate divided by the clip norm; None while the noise is open."""
        raise NotImplementedError

    def published(self) -> Guarantee:
        raise NotImplementedError

    def rigorous(self) -> Guarantee:
        raise NotImplementedError

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the guarantees of the same run under relations other than `relation`."""
        return ()

    def statement(self) -> PrivacyStatement:
        return PrivacyStatement(
            mechanism=self.model_dump(mode="json"),
            noise_std_over_clip=self.noise_std_over_clip,
            steps=self.steps,  # type: ignore[arg-type]  # pydantic refuses open ones
            published=self.published(),
            rigorous=self.rigorous(),
            beside=self.beside(),
        )

    def at_step(self, step: int) -> PrivacyStatement:
        """Return the guarantee of the first `step` steps."""
        raise NotImplementedError

    @property
    def chosen(self) -> dict[str, Any]:
        """The kind and all values that differ from the defaults, as JSON: names and hashes are made of it."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_defaults=True)}


M = TypeVar("M", bound=Mechanism)


def mechanism_from(kind: type[M], value: Any) -> M:
    """Return a mechanism from its JSON form. Raise UserError for another kind and impossible fields."""
    return parse(kind, value, "mechanism")


class NoisySteps(Mechanism):
    """T noisy steps over N roots. An open quantity is None; guarantees need both closed.

    `rigorous` is proved for `relation`; its scope is the part of the parameters' scope that `inference` leaves.
    """

    relation: ClassVar[Relation]
    # "module:class" of its prepared step (`prepared.py` of its family), by name: that needs torch
    prepared: ClassVar[str]
    proves: ClassVar[bool] = True  # whether any noise gives a proved epsilon
    # a paper's mechanism is run at the paper's delta and gets no proved epsilon there; ours refuses to run
    refuses_delta: ClassVar[bool] = True
    steps_cost: ClassVar[bool] = True  # False: all is released before them, and they are post-processing
    # of a kind of release: the random stream, and its draws; None: as many as the release counts
    release_streams: ClassVar[Mapping[str, tuple[str, int | None]]] = {}
    more_streams: ClassVar[
        tuple[str, ...]
    ] = ()  # in addition to steps and releases: keyed by ids, or of private length
    public_masks: ClassVar[bool] = False  # whether its theorem holds given all dropout masks: cells then share them
    counted: ClassVar[Counted] = Counted.ROOTS  # in the delta of a run that asks for none
    roots_are_protected: ClassVar[bool] = True  # False: roots are tuples of those who are
    # the facts that each number comes from which is called public, by its name
    numbers_from: ClassVar[Mapping[str, DataFact]] = MappingProxyType(
        {"num_roots": DataFact.SPLIT, "num_protected": DataFact.IDS}
    )

    num_roots: Count = Field(description="N, public: nodes with a loss term; a node set to null keeps its place")
    num_protected: int | None = None
    """Number of those whose records the guarantee protects: delta < 1 / this; None: the roots"""
    delta: float
    noise_multiplier: Noise | None = Field(description="Its unit is the class's; None: open")
    inference: PredictionInput = Field(default=PredictionInput.RAW_GRAPH, description="What predictions read")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self._check()
        return self

    def _check(self) -> None:
        fewer = self.num_protected is not None and self.num_protected < (
            self.num_roots if self.roots_are_protected else 1
        )
        if fewer:
            raise invalid("num_protected", self.num_protected, f"an integer >= num_roots = {self.num_roots}")
        if self.steps is not None and not 1 <= self.steps <= MOST_STEPS:
            raise invalid("steps", self.steps, f"an integer from 1 to {MOST_STEPS:g}")
        if not 0 < self.delta < 1:
            raise invalid("delta", self.delta, "a number in (0, 1)")
        if self.refuses_delta and (reason := self.meaningless_delta):
            raise invalid("delta", self.delta, reason)

    @property
    def noise_std_over_clip(self) -> float | None:
        return self.noise_multiplier

    @property
    def meaningless_delta(self) -> str | None:
        """The allowed deltas, where delta is 1 / N or more; None for a delta that means something."""
        name = "num_roots" if self.num_protected is None else "num_protected"
        return meaningful_delta(delta=self.delta, people=self.num_protected or self.num_roots, name=name)

    @property
    def shape(self) -> Shape:
        raise NotImplementedError

    @property
    def divisor(self) -> float:
        """The public number by which the noisy sum of a step is divided; 1 for a clipped mean."""
        return 1.0

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases other than the steps."""
        return ()

    @property
    def streams(self) -> dict[str, int | None]:
        """Return the random streams of a run, with how many independent draws it makes of each.

        None: a stream that is keyed by epochs or ids, or whose length is private.
        """
        steps, _ = self.closed()
        found: dict[str, int | None] = dict.fromkeys(self.more_streams)
        if self.steps_cost:
            found["noise"] = steps
            for term in self.terms((1.0,)):
                name = BATCH_STREAMS.get(term.batches)
                if name is not None:
                    found[name] = None if term.batches in KEYED else (found.get(name) or 0) + term.draws
                if term.lists in LISTED:
                    found["edge lists"] = None
        for release in self.releases:
            name, draws = self.release_streams.get(release.kind, (release.kind, None))
            found[name] = (found.get(name) or 0) + (release.count if draws is None else draws)
        return found

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the sums of clipped gradients that a step adds noise to."""
        raise NotImplementedError

    def procedure(self, clip_norms: tuple[float, ...]) -> Procedure:
        """Return everything that the run does with private data.

        `clip_norms` are C, or one for each group, in gradient units.
        """
        steps, _ = self.closed()
        noise = self.noise_std_over_clip or 0.0
        used = clip_norms if self.steps_cost else ()
        return Procedure(
            relation=self.relation,
            terms=self.terms(clip_norms) if used else (),
            noise_std=tuple(noise_std(noise_over_clip=noise, clip_norm=clip_norm) for clip_norm in used),
            noise_draws=steps if used else 0,
            divisor=self.divisor,
            steps=steps,
            releases=self.releases,
        )

    def _term(self, clip_norms: tuple[float, ...], **others: Any) -> ClippedSum:
        """Return a term of this shape, which each step draws once."""
        clipped = {} if self.shape.clipped is not Clipped.NOTHING else {"clip_norms": (math.inf,)}
        shared = {"clip_norms": clip_norms, "num_roots": self.num_roots, "draws": self.closed()[0], **clipped}
        return ClippedSum(**{**dict(self.shape), **shared, **others})

    def _unmet(self, presumed: Shape) -> tuple[str, ...]:
        """Return how the run differs from a paper formula's premises."""
        return tuple(differences(presumed, self.shape, "presumed"))

    @property
    def scope(self) -> Scope:
        """The scope of the rigorous guarantee."""
        return self.inference.scope

    def _proved(self, statement: Statement, epsilon: float, *assumptions: str, scope: Scope | None = None) -> Guarantee:
        """Return the rigorous guarantee of a filled statement, of `scope` or the mechanism's own.

        None is proved at a delta of 1 / N or more, or if a number called public may differ between neighbours.
        """
        scope = self.scope if scope is None else scope
        if (reason := self.meaningless_delta) is not None:
            return self._none("rigorous", f"delta = {self.delta:g} is not {reason}", statement.sampling)
        if private := private_numbers(self.numbers_from, statement.relation):
            differ = f"neighbours under {statement.relation} may differ in {', '.join(private)}"
            return self._none("rigorous", differ, statement.sampling)
        stated = replace(statement, not_covered=(PUBLIC_SETTINGS,), scope=scope)
        covers = (f"covers: {scope.meaning}",)
        return stated.also(*assumptions).guarantee("rigorous", epsilon=epsilon, delta=self.delta, remarks=covers)

    def _none(self, mode: Mode, reason: str, sampling: str) -> Guarantee:
        return Guarantee(mode=mode, accountant="none", sampling=sampling, epsilon=None, reason=reason, delta=self.delta)

    def fixed_epsilon(self, mode: Mode) -> float:
        """Return the epsilon at infinite noise of the steps: 0 unless the run has other releases."""
        return 0.0

    def rdp(self, orders: tuple[float, ...]) -> np.ndarray:
        """Return the proved Renyi divergences of the whole run at `orders`, the larger of both directions."""
        raise UserError(f"mechanism={self.kind}: nothing is guaranteed: {self.rigorous().reason}")

    def _with(self, **changed: Any) -> Self:
        return type(self)(**{**dict(self), **changed})

    def with_noise(self, noise_multiplier: float) -> Self:
        return self._with(noise_multiplier=noise_multiplier)

    def with_steps(self, steps: int) -> Self:
        return self._with(steps=steps)

    def with_rate(self, sampling_rate: float) -> Self:
        """Return the mechanism with another rate; mechanisms with Poisson batches only."""
        raise invalid("sampling_rate", sampling_rate, "None for batches of fixed size")

    def at_step(self, step: int) -> PrivacyStatement:
        """Return the guarantee of the first `step` steps; before the first, epsilon is 0."""
        if step == 0:
            statement = self.with_steps(1).statement()
            changed: dict[str, Any] = {"steps": 0, "beside": ()}
            for mode in ("published", "rigorous"):
                guarantee = getattr(statement, mode)
                epsilon = None if guarantee.epsilon is None else 0.0
                changed[mode] = guarantee.model_copy(update={"epsilon": epsilon})
            return statement.model_copy(update=changed)
        return self.with_steps(step).statement()

    def closed(self) -> tuple[int, float]:
        """Return steps and noise multiplier. Raise UserError while one of them is open."""
        if self.noise_multiplier is None or self.steps is None:
            name = "noise_multiplier" if self.noise_multiplier is None else "steps"
            raise invalid(name, None, "a number: calibrate the mechanism first")
        return self.steps, self.noise_multiplier

    def statement(self) -> PrivacyStatement:
        self.closed()  # raises UserError while one of them is open
        return super().statement()


def check_tree(*, hops: int, max_degree: int | None) -> None:
    if hops < 0:
        raise invalid("hops", hops, "an integer >= 0")
    if (max_degree is None) != (hops == 0) or (max_degree is not None and max_degree < 1):
        raise invalid("max_degree", max_degree, "an integer >= 1 with hops, left out without hops")


def published_mlp(*, rate: float, noise: float, steps: int, delta: float, unmet: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of DP-MLP under its released code's accountant; `noise` is noise std / clip norm."""
    from dpgraph.privacy.accountants.renyi import poisson_gaussian_epsilon

    return Guarantee(
        mode="published",
        accountant="Poisson-subsampled Gaussian, RDP orders 1.1 to 199.9, as in the released code for DP-MLP",
        relation=Relation.RECORD_REMOVE,
        scope=Scope.PARAMETERS,
        sampling=f"Poisson, rate {rate:.6g}",
        assumptions=("one record changes one loss term",),
        unmet=unmet,
        epsilon=poisson_gaussian_epsilon(rate=rate, noise_multiplier=noise, steps=steps, delta=delta),
        delta=delta,
    )


# what the published formulas presume
RELEASED_MLP = Shape(lists=Lists.NONE, batches=Batches.POISSON, clipped=Clipped.ROOT)
THEOREM_1 = Shape(lists=Lists.ALGORITHM_1, batches=Batches.FIXED_SIZE, clipped=Clipped.ROOT_GROUPS)
PRINTED_MLP = Shape(lists=Lists.NONE, batches=Batches.FIXED_SIZE, clipped=Clipped.ROOT_GROUPS)
