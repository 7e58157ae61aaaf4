"""Claims on sweeps, on classes, of similarity and of several parts, on made-up results."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy.stats import norm, spearmanr

from dpgraph.config.claim import Claim
from dpgraph.config.experiment import Experiment
from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.claims.kinds.rare_classes import rank_test, strength_of_ranks
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons, all_hold, decide
from tests.reporting.conftest import graph_rows
from tests.reporting.verdicts import UNDECIDED, assert_not_run

BATCHES = {"kind": "monotone", "artefact": "table5", "methods": ["dp-gcn"], "tolerance": 1.0, "tasks": ["ogbn-arxiv"]}
NEAR = {"kind": "near-best", "artefact": "table5", "methods": ["dp-gcn"], "values": ["10000"], "within": 2.0,
        "tasks": ["ogbn-arxiv"]}  # fmt: skip
RANGE = {"kind": "smaller-range", "artefact": "table6", "than": "table5", "methods": ["dp-gcn"]}
ALIKE = {"kind": "similar", "artefact": "table3", "pairs": [["gin", "gcn"]], "within": 2.0, "tasks": ["ogbn-arxiv"]}
RARE = {"kind": "rarer-classes", "artefact": "fig4", "methods": ["dp-gcn"], "reference": "gcn", "tasks": ["ogbn-arxiv"]}
COUNTS = dict.fromkeys(("arxiv", "other"), np.array([90, 60, 30, 10]))
RISING = {"2500": 0.50, "10000": 0.60, "full": 0.61, "3": 0.60, "10": 0.605}


@pytest.fixture
def verdict(views_plan, rows_of, as_frame):
    """Row of claims.csv for a test, where means are by value, else by method, else 0.5."""

    def run(test, means, std=0.002, losses=(0.0, 0.1, 0.2, 0.3), change=None, counts=COUNTS):
        rows = {}
        for entry in views_plan.entries:
            mean = means.get((entry.method_id, entry.value), means.get(entry.value, means.get(entry.method_id, 0.5)))
            made = [
                row for row in rows_of(entry, mean=mean, std=std) if row["metric"] == "accuracy/test" and row["final"]
            ]
            if entry.artefact == "daigavane/fig4":
                made += class_rows(entry, made, losses, std)
            rows.setdefault(entry.cell.slug, []).extend(change(entry, made) if change else made)
        frame = as_frame([row for made in rows.values() for row in made])
        frame = pd.concat([frame, graph_rows(views_plan, "daigavane/fig4", {}, counts)])
        claim = Claim.model_validate({"statement": "s", "source": "t", "test": test})
        only = views_plan.experiments["daigavane"].model_copy(update={"claims": {"C": claim}})
        return claims_table(dataclasses.replace(views_plan, experiments={"daigavane": only}), frame).iloc[0]

    return run


def class_rows(entry, made, losses, std):
    private = entry.cell.privacy is not None
    rows = []
    for row in made:
        noise = numpy_generator("test", entry.method_id, str(entry.target_epsilon), row["seed"]).standard_normal(
            len(losses)
        )
        for index, loss in enumerate(losses):
            value = 0.9 - (loss if private else 0.0) + std * noise[index]
            rows.append(row | {"metric": "class_accuracy/test", "class_id": index, "value": value})
    return rows


def test_monotone(verdict):
    row = verdict(BATCHES, RISING)
    assert row["verdict"] == "reproduced"
    assert re.search(r"ogbn-arxiv, dp-gcn, full minus 2500: \+1[01]\.\d\d points", row["evidence"])
    assert re.search(r"weakest of 2 steps: 10000 to full: \+[01]\.\d\d points", row["evidence"])
    assert row["comparisons"] == 2
    assert row["n"] == 5
    assert (
        "dp-gcn (2500) on ogbn-arxiv: claimed 37.2 (node-remove, parameters), proved 12.0 (node-null, parameters)"
        in row["evidence"]
    )


def test_a_fall_contradicts_monotone_and_a_small_one_does_not(verdict):
    assert verdict(BATCHES, RISING | {"full": 0.55})["verdict"] == "contradicted"
    assert verdict(BATCHES, RISING | {"full": 0.598}, std=0.0005)["verdict"] == "reproduced"  # -0.2, tolerance 1
    assert verdict(BATCHES, dict.fromkeys(RISING, 0.6), std=0.001)["verdict"] in UNDECIDED  # flat: no gain
    assert verdict(BATCHES, RISING | {"full": 0.4})["verdict"] == "contradicted"


def test_near_best(verdict):
    assert verdict(NEAR, RISING)["verdict"] == "reproduced"  # 1 point below the best
    row = verdict(NEAR, RISING | {"10000": 0.55})
    assert row["verdict"] == "contradicted"
    assert re.search(r"10000 minus the best, full: −[56]\.\d\d points, .*; below −2: p ", row["evidence"])
    assert verdict(NEAR, RISING | {"10000": 0.59}, std=0.01)["verdict"] in UNDECIDED


def test_a_value_that_the_suite_lacks(verdict):
    row = verdict(NEAR | {"values": ["5000"]}, RISING)
    assert_not_run(row, "ogbn-arxiv, dp-gcn: value 5000 is not in this suite's sweep")


def test_smaller_range(verdict):
    row = verdict(RANGE, RISING)  # 0.5 points over K, 11 over the batch size
    assert row["verdict"] == "reproduced"
    gap = re.search(r"range full to 2500 minus range 10 to 3: \+(\d+\.\d\d) points", row["evidence"])
    assert abs(float(gap[1]) - 10.5) < 1  # the made seeds scatter with the cells' hashes
    assert row["scope"].startswith("on ogbn-arxiv")
    assert verdict(RANGE, RISING | {"3": 0.30})["verdict"] == "contradicted"
    assert verdict(RANGE, dict.fromkeys(RISING, 0.6), std=0.02)["verdict"] in UNDECIDED


def test_similar(verdict):
    near, far = {"gin": 0.701, "gcn": 0.70}, {"gin": 0.78, "gcn": 0.70}
    row = verdict(ALIKE, near)
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 2  # both sides
    assert re.search(r"gin − gcn: .*; above −2: p", row["evidence"])
    assert re.search(r"gcn − gin: .*; above −2: p", row["evidence"])
    assert verdict(ALIKE, far)["verdict"] == "contradicted"
    assert verdict(ALIKE, {"gin": 0.62, "gcn": 0.70})["verdict"] == "contradicted"
    assert verdict(ALIKE, near, std=0.03)["verdict"] in UNDECIDED  # noise is no similarity


def test_methods_of_two_artefacts(verdict):
    test = {"kind": "greater", "artefact": "table3", "better": ["gcn"], "worse": ["mlp"], "worse_in": "fig2"}
    row = verdict(test, {"gcn": 0.7, "mlp": 0.6})
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 1
    assert row["scope"].endswith("; not tested on Another graph")  # which fig2 lacks


def test_rarer_classes(verdict, monkeypatch):
    """Four classes have 24 orders: the one that fits has p = 1 / 24. Their power is too low for a verdict."""
    row = verdict(RARE, {})
    assert row["verdict"] == "underpowered"
    assert "what was seen is for it: " in row["reason"]
    with monkeypatch.context() as patched:
        patched.setattr("dpgraph.reporting.claims.parts.ENOUGH", 0.0)
        assert verdict(RARE, {})["verdict"] == "reproduced"
        assert verdict(RARE, {}, losses=(0.3, 0.2, 0.1, 0.0))["verdict"] == "contradicted"
    assert verdict(RARE, {}, losses=(0.0, 0.2, 0.1, 0.3))["verdict"] == "underpowered"
    three = {task: counts[:3] for task, counts in COUNTS.items()}
    assert verdict(RARE, {}, losses=(0.0, 0.1, 0.2), counts=three)["verdict"] == "underpowered"


def test_evidence_of_rarer_classes(verdict):
    row = verdict(RARE, {})
    name = "dp-gcn at target ε = 12, 4 classes: minus the rank correlation of frequency with accuracy lost to gcn"
    assert f"{name}: +1.00; above 0: p = 0.042" in row["evidence"]


@pytest.mark.parametrize("classes", [(4,), (8,), (15,), (3, 7, 15)])
def test_seeds_that_agree_on_a_chance_order_of_classes_show_nothing(classes):
    """Each class loses something of its own, the same in all seeds, whatever its frequency."""
    random = numpy_generator("test", "rank test", *classes)
    ranks = [np.arange(number) for number in classes]
    found = [rank_test(ranks, [random.standard_normal(number) for number in classes])[0] for _ in range(1000)]
    assert np.mean(np.array(found) < 0.05) < 0.07
    assert strength_of_ranks(classes).size <= 0.05 + 0.01


def test_power_over_classes_grows_with_their_number():
    powers = [strength_of_ranks((classes,)).power for classes in (3, 5, 10, 20, 40)]
    assert powers == sorted(powers)
    assert powers[0] == 0
    assert powers[-1] > 0.9
    assert strength_of_ranks((3, 7, 15)).power > max(strength_of_ranks((7,)).power, strength_of_ranks((15,)).power)


@pytest.mark.parametrize("classes", [(8,), (3, 7, 15)])
def test_power_over_classes_is_that_of_the_test(classes):
    random = numpy_generator("test", "power of the rank test", *classes)
    ranks = [np.arange(number) for number in classes]
    held = []
    for _ in range(1000):
        scores = [norm.ppf((rank + 0.5) / len(rank)) for rank in ranks]
        values = [0.5 * one + np.sqrt(0.75) * random.standard_normal(len(one)) for one in scores]
        held.append(rank_test(ranks, values)[0] < 0.05)
    assert np.mean(held) == pytest.approx(strength_of_ranks(classes).power, abs=0.05)


def test_a_rank_correlation_is_spearmans():
    values = np.array([0.3, 0.1, 0.7, 0.2, 0.5])
    above, below, value = rank_test([np.array([10, 50, 20, 40, 30])], [values])
    assert value == pytest.approx(spearmanr([10, 50, 20, 40, 30], values).statistic)
    assert above + below == pytest.approx(1 + 1 / 120, abs=0.1)


def test_one_false_part_makes_the_whole_false(verdict):
    both = {"kind": "all", "tests": [BATCHES, NEAR]}
    assert verdict(both, RISING)["verdict"] == "reproduced"
    assert verdict(both, RISING | {"10000": 0.52})["verdict"] == "contradicted"
    row = verdict(both, RISING)
    assert row["comparisons"] == 3


def test_a_part_that_cannot_run(verdict):
    parts = [BATCHES, NEAR | {"tasks": ["reddit"]}]
    row = verdict({"kind": "all", "tests": parts}, RISING)
    assert_not_run(row, "data set reddit is not in this suite")
    assert "full minus 2500" in row["evidence"]  # what was compared is shown
    assert verdict({"kind": "all", "tests": parts}, RISING | {"full": 0.4})["verdict"] == "contradicted"


@pytest.mark.parametrize("test", [BATCHES, NEAR, ALIKE, RARE, RANGE])
def test_a_data_set_that_the_suite_lacks_is_not_run(verdict, test):
    row = verdict(test | {"tasks": ["reddit"]}, RISING)
    assert_not_run(row, "data set reddit is not in this suite")
    assert row["scope"] == ""


@pytest.mark.parametrize("test", [BATCHES, NEAR, RANGE, ALIKE, RARE])
def test_failures_are_not_run_and_one_seed_is_no_test(verdict, test):
    def fail(entry, rows):
        failed = {"seed": -1, "status": "failed", "reason": "diverged", "metric": "", "class_id": -1}
        wanted = entry.method_id in ("dp-gcn", "gin") and entry.value in (None, "10000")
        return [rows[0] | failed | {"value": float("nan")}] if wanted else rows

    row = verdict(test, RISING, change=fail)
    assert_not_run(row, "ogbn-arxiv, ")
    assert "failed: diverged" in row["reason"]
    single = verdict(test, RISING, change=lambda entry, rows: [row for row in rows if row["seed"] == 0])
    assert single["verdict"] in UNDECIDED


def test_all_hold_is_an_intersection():
    parts = [Comparison(str(i), float(i), 1.0, 0.0, 4, p, 1 - p) for i, p in ((1, 0.2), (3, 0.01), (2, 0.04))]
    whole = all_hold(parts)
    assert (whole.where, whole.estimate) == ("1", 1.0)
    assert whole.p_above == 0.2
    assert whole.p_below == 1.0  # 3 * 0.8, at most 1
    refuted = all_hold([dataclasses.replace(parts[0], p_below=0.01), parts[1]])
    assert refuted.p_below == pytest.approx(0.02)


def test_the_weakest_comparison_stands_first():
    made = [Comparison(name, 1.0, 1.0, 0.0, 4, p, 1 - p) for name, p in (("a", 0.01), ("b", 0.3), ("c", 0.02))]
    text = decide({"": Comparisons(made=made, missing=["m", "m"])}, "").evidence
    assert [part.split(":")[0] for part in text.split(". ")] == ["b", "c", "a", "not compared"]


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (BATCHES | {"artefact": "table3"}, "expected an artefact with a sweep"),
        (RANGE | {"than": "table3"}, "expected an artefact with a sweep"),
        (RARE | {"artefact": "table3"}, "expected an artefact of view class-wise"),
        (NEAR | {"artefact": "table9"}, "expected an artefact of this file"),
        (ALIKE | {"second_in": "fig4", "pairs": [["gcn", "gin"]]}, "gin is not a method of artefact fig4"),
        ({"kind": "all", "tests": [BATCHES, BATCHES | {"methods": ["mlp"]}]}, "mlp is not a method of artefact table5"),
        (ALIKE | {"within": 0}, "within"),
        (BATCHES | {"tolerance": -1}, "tolerance"),
    ],
)
def test_claims_that_name_what_is_not_there(views_plan, test, message):
    experiment = views_plan.experiments["daigavane"].model_dump()
    experiment["claims"] = {"C": {"statement": "s", "source": "t", "test": test}}
    with pytest.raises(ValidationError, match=message):
        Experiment.model_validate(experiment)
