"""Data sets that a claim's test reads as one mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy.stats import ttest_1samp

from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import Constant, Greater, WeightedSum
from dpgraph.config.suite import SuiteTask
from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.comparing import DataSet, contrast_of
from dpgraph.reporting.claims.contrasts import Above, EffectFrom
from dpgraph.reporting.claims.data_sets import data_sets_of
from dpgraph.reporting.claims.kinds.means import compare_greater
from dpgraph.reporting.claims.verdicts import Comparisons, decide
from dpgraph.reporting.results import EntryResult

TEST = Greater(artefact="a", better=("x",), worse=("y",))
MEAN = TEST.model_copy(update={"across": "mean"})
DATA = {"setting": "transductive", "dataset": "cora"}


@dataclass(frozen=True)
class FakeEntry:
    artefact: str
    method_id: str
    suite_task: Any
    target_epsilon: float | None
    cell: Any
    value: str | None = None
    task_id: str = field(default="")


def task(label: str, published: str | None = None) -> SuiteTask:
    return SuiteTask.model_validate({"label": label, "task": DATA, "published": published})


def place(method: str, of: SuiteTask, values: list[float], epsilon: float | None = None, **more: Any) -> Any:
    status = more.pop("status", "ok")
    cell = SimpleNamespace(slug=f"{of.label}-{method}-{epsilon}", privacy=more.pop("privacy", None), method="m")
    entry = FakeEntry("a", method, of, epsilon, cell)
    return entry, EntryResult(status, "", pd.Series(values), printed=more.pop("printed", {}))


def drawn(name: str, n: int = 4) -> dict[str, np.ndarray]:
    random = numpy_generator("test", "averaging", name)
    return {method: random.uniform(0.2, 0.9, n) for method in ("x", "y")}


def two(test: Any, published: tuple[str | None, str | None], **more: Any) -> tuple[list[tuple[str, Any]], Any]:
    tasks = {"a": task("A", published[0]), "b": task("B", published[1])}
    values = {name: drawn(name) for name in tasks}
    knowns = {
        name: {"a": [place(method, tasks[name], list(values[name][method]), **more) for method in ("x", "y")]}
        for name in tasks
    }
    return [(one.label, one.knowns) for one in data_sets_of(test, tasks, knowns)], values


@pytest.mark.parametrize(
    ("test", "published", "labels"),
    [
        (TEST, ("cora", "citeseer"), ["A", "B"]),
        (TEST, (None, None), ["A", "B"]),
        (MEAN, ("cora", "citeseer"), ["mean of A and B"]),
    ],
)
def test_data_sets_are_tested_one_by_one_or_as_their_mean(test, published, labels):
    assert [label for label, _ in two(test, published)[0]] == labels


def test_the_test_on_a_mean_is_students_on_the_seeds_means():
    ((label, known),), values = two(MEAN, (None, None))
    comparisons = Comparisons()
    compare_greater(TEST, None, DataSet(label, known), comparisons)
    (made,) = comparisons.made
    each = [100 * (values[name]["x"] - values[name]["y"]) for name in ("a", "b")]
    expected = ttest_1samp(np.mean(each, axis=0), 0.0, alternative="greater")
    assert made.p_above == pytest.approx(expected.pvalue)
    assert made.estimate == pytest.approx(np.mean(each))
    assert made.by_data_set == pytest.approx({"A": each[0].mean(), "B": each[1].mean()})
    assert f"(A {each[0].mean():+.2f}, B {each[1].mean():+.2f})".replace("-", "−") in made.sentence


@pytest.mark.parametrize(("second", "size"), [(0.5, 2), (-0.5, 1)])
def test_a_difference_on_two_data_sets_shows_each_of_them(second, size):
    """Equal differences have the estimate as their mean; of a difference of differences it is the sum."""
    _, values = two(MEAN, (None, None))
    tasks, weights = {"a": task("A"), "b": task("B")}, {"a": 0.5, "b": second}
    places = [(sign * weights[name], place(method, tasks[name], list(values[name][method])))
              for name in tasks for method, sign in (("x", 1), ("y", -1))]  # fmt: skip
    value = contrast_of(places)
    each = {name: 100 * (values[name]["x"] - values[name]["y"]).mean() for name in tasks}
    assert value.by_data_set == pytest.approx({"A": size * 0.5 * each["a"], "B": size * second * each["b"]})
    assert value.estimate == pytest.approx(sum(value.by_data_set.values()) / size)
    assert contrast_of(places[:2]).by_data_set == {}  # one data set


def test_settings_are_not_averaged_with_each_other():
    tasks = {"a": task("A"), "b": SuiteTask(label="B", task={"dataset": "cora", "setting": "disjoint"})}
    knowns = {name: {"a": [place(method, one, [0.1, 0.2]) for method in "xy"]} for name, one in tasks.items()}
    assert [one.label for one in data_sets_of(MEAN, tasks, knowns)] == ["A", "B"]


def test_only_data_sets_with_the_same_points_are_averaged():
    tasks = {name: task(name) for name in "abc"}
    points = {"a": (1.0, 2.0), "b": (1.0, 2.0), "c": (1.0,)}
    knowns = {
        name: {"a": [place(method, tasks[name], [0.1, 0.2], at) for method in ("x", "y") for at in points[name]]}
        for name in tasks
    }
    every = MEAN.model_copy(update={"at": "every-epsilon"})
    assert [one.label for one in data_sets_of(every, tasks, knowns)] == ["mean of a and b", "c"]
    at_one = MEAN.model_copy(update={"at": (1.0,)})  # which all of them have
    (found,) = data_sets_of(at_one, tasks, knowns)
    label, known = found.label, found.knowns
    assert label == "mean of a, b and c"
    assert {entry.target_epsilon for entry, _ in known["a"]} == {1.0}


def test_a_mean_of_which_a_part_failed_is_not_compared():
    tasks = {name: task(name) for name in "ab"}
    knowns = {
        name: {
            "a": [
                place("x", tasks[name], [0.1], status="failed" if name == "b" else "ok"),
                place("y", tasks[name], [0.1]),
            ]
        }
        for name in tasks
    }
    (found,) = data_sets_of(MEAN, tasks, knowns)
    label, known = found.label, found.knowns
    comparisons = Comparisons()
    compare_greater(TEST, None, DataSet(label, known), comparisons)
    assert not comparisons.made
    assert comparisons.missing == ["mean of a and b, x − y: x failed: b"]


def test_all_cells_of_a_mean_are_among_those_that_a_claim_rests_on():
    ((_, known),), _ = two(MEAN, (None, None), privacy=SimpleNamespace(variant="rigorous"))
    comparisons = Comparisons()
    comparisons.use(*known["a"])
    assert [slug for _, slug in comparisons.private] == ["A-x-None", "B-x-None", "A-y-None", "B-y-None"]


@pytest.mark.parametrize(
    ("test", "published", "printed", "effect", "source"),
    [
        # of a mean over the paper's own: the mean of what it prints of them
        (MEAN, ("cora", "citeseer"), {"x": {"cora": 70.0, "citeseer": 60.0}, "y": {"cora": 64.0, "citeseer": 58.0}},
         4.0, EffectFrom.PRINTED),
        # on other data: over the data sets for which it prints both
        (MEAN, (None, None), {"x": {"reddit": 90.0, "arxiv": 70.0}, "y": {"arxiv": 67.0}}, 3.0,
         EffectFrom.PRINTED_ELSEWHERE),
        (MEAN, (None, None), {"x": {"reddit": 90.0}, "y": {"arxiv": 67.0}}, 1.0, EffectFrom.UNIT),
    ],
)  # fmt: skip
def test_the_effect_of_a_mean(test, published, printed, effect, source):
    tasks = {"a": task("A", published[0]), "b": task("B", published[1])}
    knowns = {}
    for name, one in tasks.items():
        of = {method: values if one.published is None else {one.published: values[one.published]}
              for method, values in printed.items()}  # fmt: skip
        knowns[name] = {"a": [place(method, one, list(drawn(name)[method]), printed=of[method]) for method in "xy"]}
    (found,) = data_sets_of(test, tasks, knowns)
    label, known = found.label, found.knowns
    comparisons = Comparisons()
    compare_greater(test, None, DataSet(label, known), comparisons)
    (((part,),),) = (one.ways for one in comparisons.made)
    assert (part.effect, part.source) == (pytest.approx(effect), source)


def test_what_a_statement_names_is_the_effect_of_its_power():
    ((label, known),), _ = two(MEAN, (None, None))
    comparisons = Comparisons()
    compare_greater(TEST, None, DataSet(label, known), comparisons)
    by_unit, by_statement = decide({"": comparisons}, ""), decide({"": comparisons}, "", asserted=400.0)
    assert (by_unit.effect, by_statement.effect) == ("1", "400")
    assert by_unit.power < 0.3 < 0.99 < by_statement.power
    assert by_unit.size == by_statement.size
    contrast = comparisons.made[0].ways[0][0].contrast
    assert Above(contrast, -1.0, asserted=400.0).effect == 0.0  # that two things are equal names no difference


@pytest.mark.parametrize("test", [
    {"kind": "greater", "artefact": "a", "better": ["x"], "worse": ["y"], "margin": 20},
    {"kind": "constant", "artefact": "a", "methods": ["x"], "within": 1},
])  # fmt: skip
def test_a_statement_names_more_than_the_margin(test):
    with pytest.raises(ValidationError, match="asserts=20: expected more than the margin"):
        Claim.model_validate({"statement": "s", "source": "t", "asserts": 20, "test": test})


def test_terms_that_name_their_data_sets_are_no_mean():
    with pytest.raises(ValidationError, match="expected in every term, without tasks and across, or in none"):
        WeightedSum(artefact="a", terms=({"method": "x", "task": "cora"},), across="mean")
    assert Constant(artefact="a", methods=("x",), within=1.0).across == "each"
