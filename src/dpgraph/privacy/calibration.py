"""Solve a mechanism for its open quantity, always to the private side, and keep the answer as a file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny, ValidationError

from dpgraph.config.config import first_line
from dpgraph.config.frozen import Frozen, digest
from dpgraph.config.record import Budget
from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import read_json, write_json
from dpgraph.privacy.accountants.parameters import Unknown
from dpgraph.privacy.cache import Cache, accountants_digest, made_elsewhere, versions
from dpgraph.privacy.guarantee import MODE_NAMES, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import Mechanism, NoisySteps, mechanism_from
from dpgraph.privacy.solving import NOISE_RANGE, EpsilonAt, shown, solved


def epsilon_of(mechanism: Mechanism, mode: Mode) -> float:
    """Return epsilon in one mode. Raise UserError where the mode guarantees none."""
    guarantee = mechanism.published() if mode == "published" else mechanism.rigorous()
    if guarantee.epsilon is None:
        reason, other = ("no paper states one", "rigorous") if mode == "published" else ("", "published")
        reason = reason or f"rigorously nothing is guaranteed: {guarantee.reason}"
        raise UserError(f"mode={mode}: expected {other}, since {reason}")
    return guarantee.epsilon


def solve(
    mechanism: Mechanism,
    mode: Mode,
    unknown: Unknown = "noise",
    *,
    epsilon: float,
    show: bool = False,
    guess: float | None = None,
) -> Mechanism:
    """Return the mechanism with the least noise, the most steps or the highest batch rate that meets a target epsilon.

    The mode's epsilon of the answer never exceeds the target. A rate has four digits.

    Args:
        mechanism: A mechanism with noise; the unknown quantity is open.
        mode: The epsilon that is solved for: published or rigorous.
        unknown: noise, steps or rate.
        epsilon: The target.
        show: Reports progress.
        guess: A noise multiplier; one near it is found sooner.

    Raises:
        UserError: No answer exists.
    """
    if not isinstance(mechanism, NoisySteps):
        raise invalid("mechanism", mechanism.kind, "one with noise")
    if not 0 < epsilon < math.inf:
        raise invalid("epsilon", epsilon, "a finite number > 0")
    if unknown == "rate" and "sampling_rate" not in type(mechanism).model_fields:
        raise invalid("unknown", unknown, "noise or steps with batches of fixed size")
    for name, value in (("steps", mechanism.steps), ("noise_multiplier", mechanism.noise_multiplier)):
        if value is None and not name.startswith(unknown):
            raise invalid(name, None, f"a number when the {unknown} is unknown")
    if mode == "rigorous" and not mechanism.proves:
        epsilon_of(mechanism.with_noise(1.0).with_steps(1), mode)  # states why there is none
    fixed = mechanism.fixed_epsilon(mode) if unknown == "noise" else 0.0
    if fixed >= epsilon:
        raise invalid("epsilon", epsilon, f"a number > {fixed:.4g}, what the run costs at any noise")
    close = {"noise": mechanism.with_noise, "steps": mechanism.with_steps, "rate": mechanism.with_rate}[unknown]

    def epsilon_at(value: Any) -> float:
        return max(0.0, epsilon_of(close(value), mode) - fixed)

    watched = shown(unknown, epsilon_at) if show else nullcontext[EpsilonAt](epsilon_at)
    with watched as function:
        target = (epsilon - fixed) * (1 - 1e-12) if fixed else epsilon  # less by what the subtraction may round
        return close(solved(unknown, function, target=target, guess=guess))


class Calibration(Frozen):
    """A solved mechanism with its statement; one JSON file per mechanism and target.

    `seal` is a hash of the question (mechanism, target, mode, unknown), of the accountants' source files and their
    libraries' versions, and of all other fields: it shows that these accountants gave just this answer to it.
    """

    mechanism: SerializeAsAny[Mechanism]
    target_epsilon: float | None
    mode: Mode
    unknown: Unknown | None
    statement: PrivacyStatement
    seconds: float
    versions: dict[str, str]
    budgets: tuple[Budget, ...] = Field(default=(), description="What earlier steps would have cost, by step")
    seal: str | None = None

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def from_json(cls, value: Any, kind: type[Mechanism]) -> Calibration:
        """Return a calibration from its JSON form. Raise ValueError, or UserError for another kind of mechanism."""
        if not isinstance(value, dict):
            raise ValueError("expected a mapping")
        return cls.model_validate({**value, "mechanism": mechanism_from(kind, value.get("mechanism"))})

    @classmethod
    def read(cls, path: Path, kind: type[Mechanism]) -> Calibration:
        """Read a file; `kind` is the class of the mechanism that the reader requests."""
        try:
            return cls.from_json(read_json(path), kind)
        except FileNotFoundError:
            raise UserError(f"{path}: no such file: expected a calibration") from None
        except (OSError, ValueError, RecursionError, UserError) as error:
            reason = first_line(error) if isinstance(error, ValidationError) else str(error)
            raise UserError(f"{path}: not a calibration ({reason}): delete it and run again") from None


def calibrated(
    mechanism: Mechanism,
    mode: Mode,
    unknown: Unknown | None,
    *,
    epsilon: float | None,
    cache: Cache | None = None,
    show: bool = False,
    guess: float | None = None,
    evaluated: Callable[[int], Iterable[int]] = lambda steps: (),
) -> Calibration:
    """Return `solve` with its record, sealed; without `epsilon` the mechanism is only evaluated.

    Args:
        mechanism: The mechanism, with an open quantity.
        mode: published or rigorous.
        unknown: noise, steps or rate; None to evaluate.
        epsilon: The target; None to evaluate.
        cache: Keeps answers for later, of mechanisms of this package.
        show: Reports progress.
        guess: A noise multiplier near the answer.
        evaluated: Gives the steps, for the number of all steps, whose budgets the record has; the last one is left out.
    """
    question = _question(mechanism, mode, unknown, epsilon)
    cache = None if made_elsewhere(type(mechanism)) is None else cache
    answer = None if cache is None else _stored(cache, question, type(mechanism))
    if answer is None:
        start = time.monotonic()
        closed = mechanism
        if epsilon is not None and unknown is not None:
            near = guess or _near(mechanism, mode, unknown, epsilon)
            closed = solve(mechanism, mode, unknown, epsilon=epsilon, show=show, guess=near)
            _solved.setdefault(_search_key(mechanism, mode, unknown), {})[epsilon] = closed
        statement = closed.statement()
        answer = Calibration(
            mechanism=closed,
            target_epsilon=epsilon,
            mode=mode,
            unknown=unknown if epsilon is not None else None,
            statement=statement,
            seconds=round(time.monotonic() - start, 3),
            versions=versions(),
        )
        if cache is not None:
            cache.put(question, _sealed(question, answer).model_dump(mode="json"))
    steps = answer.statement.steps
    budgets = budgets_at(answer.mechanism, {*evaluated(steps)} - {steps})
    return _sealed(question, answer.model_copy(update={"budgets": budgets}))


_solved: dict[str, dict[float, Mechanism]] = {}  # of this process: by mechanism, what each target was solved to


def _search_key(mechanism: Mechanism, mode: Mode, unknown: Unknown) -> str:
    return digest([mechanism.chosen, mode, unknown], 32)


def _near(mechanism: Mechanism, mode: Mode, unknown: Unknown, epsilon: float) -> float | None:
    """Return where the search for a noise multiplier may begin: at those of this mechanism's other targets.

    Between the two nearest targets the noise is nearly a power of epsilon; from a single one it goes as 1 / epsilon. It
    decides how many points are evaluated, not the answer. None: no target was solved, or the noise is not unknown.
    """
    known = _solved.get(_search_key(mechanism, mode, unknown), {}) if unknown == "noise" else {}
    points = [
        (math.log(target), math.log(closed.noise_multiplier))
        for target, closed in sorted(known.items(), key=lambda item: abs(math.log(item[0] / epsilon)))[:2]
        if isinstance(closed, NoisySteps) and closed.noise_multiplier is not None
    ]
    if not points:
        return None
    (x0, y0), (x1, y1) = points[0], points[-1]
    slope = (y1 - y0) / (x1 - x0) if x1 != x0 else -1.0
    low, high = (math.log(bound) for bound in NOISE_RANGE)
    return math.exp(min(max(y0 + slope * (math.log(epsilon) - x0), low), high))


def budgets_at(mechanism: Mechanism, steps: Iterable[int]) -> tuple[Budget, ...]:
    """Return both epsilons of the first t steps, for each t of `steps`."""
    statements = {step: mechanism.at_step(step) for step in sorted(steps)}
    return tuple(
        Budget(step=step, eps_published=statement.published.epsilon, eps_rigorous=statement.rigorous.epsilon)
        for step, statement in statements.items()
    )


def is_answer(
    stored: Calibration, mechanism: Mechanism, mode: Mode, unknown: Unknown | None, *, epsilon: float | None
) -> bool:
    """Return whether `stored` is, bit for bit, the answer of these accountants to this question (`calibrated`).

    False for another mechanism, target or mode, for other accountants or versions of their libraries, for a record that
    was edited afterwards, and for a mechanism outside of this package, of whose code the seal says nothing. It
    evaluates no epsilon, so that a training needs no accountant.
    """
    return made_elsewhere(type(mechanism)) is not None and stored.seal == _seal(
        _question(mechanism, mode, unknown, epsilon), stored
    )


def _question(mechanism: Mechanism, mode: Mode, unknown: Unknown | None, epsilon: float | None) -> list[Any]:
    return ["calibration", mechanism.chosen, epsilon, mode, unknown, *(made_elsewhere(type(mechanism)) or ())]


def _sealed(question: list[Any], answer: Calibration) -> Calibration:
    return answer.model_copy(update={"seal": _seal(question, answer)})


def _seal(question: list[Any], answer: Calibration) -> str:
    return digest([question, accountants_digest(), answer.model_dump(mode="json", exclude={"seal"})], 32)


def check_calibration(path: Path, stored: Calibration, fresh: Calibration) -> None:
    """Raise UserError unless the file at `path` states the result of solving it again: target, noise, both epsilons.

    Needed for a file that is not `is_answer`: it may be another cell's, of another target, made by other code, or
    edited by hand. An epsilon that was not computed is worse than a late error. The epsilons are evaluated again, not
    read from a cache.
    """
    for name in ("target_epsilon", "mode", "unknown"):
        _same(path, name, getattr(stored, name), getattr(fresh, name))
    held, wanted = stored.mechanism.model_dump(), fresh.mechanism.model_dump()
    for name, value in wanted.items():
        _same(path, name, held.get(name), value)
    statement = _statement_of(fresh.mechanism)
    for mode in ("published", "rigorous"):
        _same(
            path,
            f"{MODE_NAMES[mode]} epsilon",
            getattr(stored.statement, mode).epsilon,
            getattr(statement, mode).epsilon,
        )
    if stored.statement != statement:
        raise UserError(f"{path}: its statement is not that of its mechanism; calibrate it again")


def _same(path: Path, name: str, stored: Any, expected: Any) -> None:
    if stored != expected:
        raise UserError(f"{path}: {name}={stored}: the cell requests {expected}; calibrate it again")


@lru_cache(maxsize=256)
def _statement_of(mechanism: Mechanism) -> PrivacyStatement:
    """Return the statement, evaluated once in a process: cells of one calibration are trained in a row."""
    return mechanism.statement()


def _stored(cache: Cache, question: list[Any], kind: type[Mechanism]) -> Calibration | None:
    """Return a stored answer; None for a file that was edited, whose seal is not of what it holds."""
    try:
        answer = Calibration.from_json(cache.get(question), kind)
    except (ValueError, UserError):
        return None
    return answer if answer.seal == _seal(question, answer) else None
