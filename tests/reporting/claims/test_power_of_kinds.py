"""Printed size and power of the kinds of claims against the same decision on results that are drawn again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpgraph.config.claim_tests import Constant, GrowingGap, Monotone, NearBest, RiseAndFall, SmallerRange
from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.comparing import DataSet
from dpgraph.reporting.claims.contrasts import Strength, strength
from dpgraph.reporting.claims.kinds.curves import _near_best, _on_curve, _smaller_range, rise_and_fall
from dpgraph.reporting.claims.kinds.means import compare_gaps
from dpgraph.reporting.claims.verdicts import Comparisons, decide

N, DRAWS, STD = 8, 300, 1.0
FEW = 80  # draws of a decision that takes long
Means = Mapping[str, float]
TASK = SimpleNamespace(published=None, label="a")
POINT = SimpleNamespace(scale=1.0, difference="points", point=1.0)


def places(means: Means, noise: np.ndarray) -> dict[str, Any]:
    """A curve: of each value the seeds' results, its mean and a column of the noise."""
    return {
        name: (
            SimpleNamespace(
                suite_task=TASK,
                cell=SimpleNamespace(slug=name, privacy=None, method="m"),
                target_epsilon=None,
                value=name,
                method_id="a",
            ),
            SimpleNamespace(
                ok=True,
                quantity=POINT,
                metric="accuracy/test",
                printed={},
                members=(),
                values=pd.Series(mean + noise[:, column]),
            ),
        )
        for column, (name, mean) in enumerate(means.items())
    }


def made(test: Any, points: dict[str, Any]) -> Comparisons:
    comparisons = Comparisons()
    match test:
        case NearBest():
            _near_best("", points, test, comparisons)
        case SmallerRange():
            small = {name: place for name, place in points.items() if name.startswith("s")}
            large = {name: place for name, place in points.items() if name.startswith("l")}
            comparisons.made.append(_smaller_range("", small, large))
        case GrowingGap():
            known = []
            for name, (entry, outcome) in points.items():
                method, epsilon = name.split()
                place = {"method_id": method, "target_epsilon": float(epsilon), "value": None}
                known.append((SimpleNamespace(**vars(entry) | place), outcome))
            compare_gaps(test, None, DataSet("", {"a": known}), comparisons)
        case RiseAndFall():
            steps = pd.DataFrame({int(name): outcome.values for name, (_, outcome) in points.items()})
            comparisons.made.append(rise_and_fall("", steps, "points"))
        case _:
            comparisons.made += _on_curve(test, "", points)
    return comparisons


CURVE = {"artefact": "a", "methods": ("a",)}
# kind, means at the edge of the null, means of the alternative that power is about; whether the size is reached there
KINDS: dict[str, tuple[Any, Means, Means, bool]] = {
    "monotone": (Monotone(**CURVE), {"1": 0, "2": 3, "3": 0}, {"1": 0, "2": 3, "3": 1}, True),
    "monotone with steps": (
        Monotone(**CURVE, tolerance=4),
        {"1": 0, "2": 46, "3": 42, "4": 84},
        {"1": 0, "2": 0, "3": 0, "4": 1},
        True,
    ),
    "constant": (Constant(**CURVE, within=9), {"1": 0, "2": 9, "3": 4.5}, {"1": 0, "2": 0, "3": 0}, True),
    "rise and fall": (
        RiseAndFall(**CURVE),
        {"1": 0, "2": 0, "3": 0, "4": -9},
        {"1": 0, "2": 1, "3": -9, "4": 0},
        True,
    ),
    "near best": (NearBest(**CURVE, values=("2",), within=9), {"1": 9, "2": 0}, {"1": 0, "2": 0}, True),
    # a range is bounded by Bonferroni over ordered pairs, of which no two are at the edge at once
    "smaller range": (
        SmallerRange(artefact="s", than="l", methods=("a",)),
        {"s1": 0, "s2": 30, "l1": 0, "l2": 30},
        {"s1": 0, "s2": 0, "l1": 0, "l2": 1},
        False,
    ),
    "growing gap": (
        GrowingGap(artefact="a", better="a", worse=("b",)),
        {"a 1": 5, "b 1": 3, "a 8": 9, "b 8": 7},
        {"a 1": 5, "b 1": 3, "a 8": 9, "b 8": 6},
        True,
    ),
}  # fmt: skip


def rate(test: Any, means: Means, drawn: Callable[[], np.ndarray], draws: int) -> float:
    verdicts = [decide({"": made(test, places(means, drawn()))}, "").verdict for _ in range(draws)]
    return float(np.mean([verdict == "reproduced" for verdict in verdicts]))


@pytest.mark.parametrize("kind", KINDS)
def test_size_and_power_are_those_of_the_decision(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    test, null, alternative, reached = KINDS[kind]
    random = numpy_generator("test", "power of kinds", kind)
    centred = random.standard_normal((N, len(null)))
    exact = np.linalg.qr(centred - centred.mean(axis=0))[0] * STD * np.sqrt(N - 1)  # covariance 1, exactly
    comparisons = made(test, places(alternative, exact))
    found = strength([comparison.ways for comparison in comparisons.made])
    assert found is not None
    # the decision without its own simulation of size and power, which would call a weak test underpowered
    monkeypatch.setattr("dpgraph.reporting.claims.verdicts.strength", lambda _: Strength(0.05, 1.0))
    drawn = lambda: STD * random.standard_normal((N, len(null)))  # noqa: E731
    draws = DRAWS if reached else FEW
    size = rate(test, null, drawn, draws)
    assert size <= found.size + 0.03
    if reached:
        assert size == pytest.approx(found.size, abs=0.03)
    assert rate(test, alternative, drawn, draws) == pytest.approx(found.power, abs=0.06 if reached else 0.12)
