"""Solve a mechanism for its open quantity, always to the private side, and keep the answer as a file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import dpgraph
from dpgraph.errors import UserError, invalid
from dpgraph.experiments.frozen import Frozen, digest
from dpgraph.files import read_json, write_json
from dpgraph.privacy.catalogue import Unknown
from dpgraph.privacy.guarantee import Mode, PrivacyStatement
from dpgraph.privacy.mechanisms import FixedBatchTrees, Mechanism, NonPrivate

MAX_STEPS = 100_000
DIGITS = 4  # significant digits of a calibrated noise multiplier
NOISE_RANGE = (1e-3, 1e7)
LOWEST_RATE = 1e-8


def epsilon_of(mechanism: Mechanism, mode: Mode) -> float:
    """Epsilon in one mode; raises UserError where the mode guarantees nothing."""
    guarantee = mechanism.published() if mode == "published" else mechanism.rigorous()
    if guarantee.epsilon is None:
        raise UserError(f"mode={mode}: expected published, since rigorously nothing is guaranteed: {guarantee.reason}")
    return guarantee.epsilon


def solve(
    mechanism: Mechanism,
    epsilon: float,
    mode: Mode,
    unknown: Unknown = "noise",
    max_steps: int = MAX_STEPS,
) -> Mechanism:
    """The mechanism with the least noise, the most steps or the highest batch rate (four digits) that meets `epsilon`.

    The mode's epsilon of the answer never exceeds the target. Raises UserError where no answer exists.
    """
    if isinstance(mechanism, NonPrivate):
        raise invalid("mechanism", mechanism.kind, "one with noise")
    if not 0 < epsilon < math.inf:
        raise invalid("epsilon", epsilon, "a finite number > 0")
    if unknown == "steps":
        return mechanism.with_steps(
            _most_steps(lambda t: epsilon_of(mechanism.with_steps(t), mode), epsilon, max_steps)
        )
    if mechanism.steps is None:
        raise invalid("steps", None, f"an integer >= 1 when the {unknown} is unknown")
    if unknown == "rate":
        return mechanism.with_rate(_highest_rate(lambda q: epsilon_of(mechanism.with_rate(q), mode), epsilon))
    if mode == "rigorous" and isinstance(mechanism, FixedBatchTrees):
        epsilon_of(mechanism.with_noise(1.0), mode)  # says why there is none
    return mechanism.with_noise(_least_noise(lambda s: epsilon_of(mechanism.with_noise(s), mode), epsilon))


def _rounded_up(value: float) -> float:
    exponent = math.floor(math.log10(value)) - DIGITS + 1
    return float(f"{math.ceil(value / 10.0**exponent - 1e-9)}e{exponent}")


def _least_noise(epsilon_at: Callable[[float], float], target: float) -> float:
    """Root of a decreasing function in log-log scale, where it is almost a line of slope -1; then round up."""
    # The answer lies in (low, high]; secant steps in logs, kept inside the bracket.
    low, high = NOISE_RANGE
    noise = 10.0
    gaps: dict[float, float] = {}
    for _ in range(60):
        value = epsilon_at(noise)
        if value <= target:
            high = min(high, noise)
        else:
            low = max(low, noise)
        if high / low <= 1 + 10.0**-DIGITS / 2 or noise >= NOISE_RANGE[1]:
            break
        if 0 < value < math.inf:
            gaps[math.log(noise)] = math.log(value / target)
        following = _secant(gaps)
        # Aim a little to the private side, so that the bracket closes from both sides.
        proposal = math.exp(following) * (1 + 2e-5 if high > noise else 1 - 2e-5) if following is not None else 0.0
        noise = proposal if low < proposal < high else math.sqrt(low * high)
    if high == NOISE_RANGE[1] and (least := epsilon_at(high)) > target:
        raise invalid("epsilon", target, f"a target >= {least:.4g}, the least this accountant shows at any noise")
    answer = _rounded_up(high)
    while epsilon_at(answer) > target:  # the accountant is exact to a few 1e-4 only, so it may wobble
        answer = _rounded_up(answer * (1 + 10.0 ** (1 - DIGITS) / 2))
    return answer


def _secant(gaps: dict[float, float]) -> float | None:
    """Zero of the line through the two points nearest to zero; slope -1 through a single one."""
    nearest = sorted(gaps.items(), key=lambda item: abs(item[1]))[:2]
    if not nearest:
        return None
    (x0, y0), (x1, y1) = nearest[0], nearest[-1]
    slope = (y1 - y0) / (x1 - x0) if x1 != x0 and y1 != y0 else -1.0
    return x0 - y0 / min(slope, -0.1)


def _most_steps(epsilon_at: Callable[[int], float], target: float, max_steps: int) -> int:
    if max_steps < 1:
        raise invalid("max_steps", max_steps, "an integer >= 1")
    if epsilon_at(1) > target:
        raise invalid("epsilon", target, f"a target >= {epsilon_at(1):.4g}, the epsilon of a single step at this noise")
    most, first_too_many = 1, 2
    while first_too_many <= max_steps and epsilon_at(first_too_many) <= target:
        most, first_too_many = first_too_many, 2 * first_too_many
    first_too_many = min(first_too_many, max_steps + 1)
    while first_too_many - most > 1:
        middle = (most + first_too_many) // 2
        if epsilon_at(middle) <= target:
            most = middle
        else:
            first_too_many = middle
    return most


def _highest_rate(epsilon_at: Callable[[float], float], target: float) -> float:
    """Largest Poisson rate, rounded down to four digits, by bisection in logs; 1 where even that meets the target."""
    if epsilon_at(1.0) <= target:
        return 1.0
    low, high = LOWEST_RATE, 1.0
    if (least := epsilon_at(low)) > target:
        raise invalid("epsilon", target, f"a target >= {least:.4g}, the epsilon at the rate {low:g}")
    while high / low > 1 + 10.0**-DIGITS / 2:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if epsilon_at(middle) <= target else (low, middle)
    answer = _rounded_down(low)
    while epsilon_at(answer) > target:
        answer = _rounded_down(answer * (1 - 10.0 ** (1 - DIGITS) / 2))
    return answer


def _rounded_down(value: float) -> float:
    exponent = math.floor(math.log10(value)) - DIGITS + 1
    return float(f"{math.floor(value / 10.0**exponent + 1e-9)}e{exponent}")


SOLVERS: dict[Unknown, Callable[[Callable[[Any], float], float], float]] = {
    "noise": _least_noise,
    "steps": lambda epsilon_at, target: _most_steps(epsilon_at, target, MAX_STEPS),
    "rate": _highest_rate,
}


class Calibration(Frozen):
    """A solved mechanism with its statement; one JSON file per mechanism and target."""

    mechanism: Mechanism
    target_epsilon: float | None
    mode: Mode
    unknown: Unknown | None
    statement: PrivacyStatement
    seconds: float
    versions: dict[str, str]

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @staticmethod
    def read(path: Path) -> Calibration:
        try:
            return Calibration.model_validate(read_json(path))
        except (ValidationError, ValueError) as error:
            raise UserError(f"{path}: not a calibration: {str(error).splitlines()[0]}") from error


def calibrated(
    mechanism: Mechanism,
    epsilon: float | None,
    mode: Mode,
    unknown: Unknown | None,
    max_steps: int = MAX_STEPS,
    cache_dir: Path | None = None,
) -> Calibration:
    """`solve` with its record; without `epsilon` the mechanism is only evaluated.

    `cache_dir` keeps answers between processes, keyed by the question and the version of this package.
    """
    question = [mechanism.model_dump(mode="json"), epsilon, mode, unknown, max_steps, dpgraph.__version__]
    stored = None if cache_dir is None else Path(cache_dir) / f"{digest(question, 16)}.json"
    if stored is not None and stored.exists():
        return Calibration.read(stored)
    start = time.monotonic()
    solved = mechanism
    if epsilon is not None and unknown is not None:
        solved = solve(mechanism, epsilon, mode, unknown, max_steps)
    statement = solved.statement()
    answer = Calibration(
        mechanism=solved,
        target_epsilon=epsilon,
        mode=mode,
        unknown=unknown if epsilon is not None else None,
        statement=statement,
        seconds=round(time.monotonic() - start, 3),
        versions={"dpgraph": dpgraph.__version__}
        | {name: version(name) for name in ("dp-accounting", "scipy", "numpy")},
    )
    if stored is not None:
        answer.write(stored)
    return answer
