"""Claims over sweeps and epsilons, weighted sums and controls, on made-up results of graph splits."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import Constant, Monotone, uses
from dpgraph.reporting.claims.comparing import chosen_targets
from dpgraph.reporting.claims.kinds.curves import _on_curve
from dpgraph.reporting.claims.page import claims_page
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.results import EntryResult
from tests.reporting.verdicts import UNDECIDED, assert_not_run

FALLING = {"10": 0.60, "50": 0.55, "90": 0.52, "100": 0.50}
RISING = {"10": 0.50, "50": 0.52, "90": 0.55, "100": 0.60}


@pytest.fixture
def verdict(splits_plan, splits_rows_of, as_frame):
    """Row of claims.csv for a test; means by the most specific of method, task, value and epsilon."""

    def run(test, means, std=0.001, seeds=None, without=lambda entry: False):
        def keys(entry):
            method, value, epsilon = entry.method_id, entry.value, entry.target_epsilon
            of_task = [(method, entry.task_id, epsilon), (method, entry.task_id)]
            return [(method, value, epsilon), *of_task, (method, value), (method, epsilon), value, method]

        claim = Claim.model_validate({"statement": "s", "source": "t", "test": test})
        read = {f"igamberdiev/{name}" for part in claim.parts for name, _ in uses(part)}
        shared = {}  # a cell may be in several artefacts
        for entry in splits_plan.entries:
            if entry.artefact in read:
                shared.setdefault(entry.cell.slug, []).append(entry)
        rows = {}
        for slug, entries in shared.items():
            ranked = [(rank, means[key]) for entry in entries for rank, key in enumerate(keys(entry)) if key in means]
            rows[slug] = splits_rows_of(entries[0], min(ranked)[1] if ranked else 0.5, std)
        every = (
            row for of_entry in rows.values() for row in of_entry if row["final"] and row["metric"] == "accuracy/test"
        )
        made = [row for row in every if seeds is None or row["seed"] in seeds]
        paper = splits_plan.experiments["igamberdiev"].model_copy(update={"claims": {"C": claim}})
        kept = tuple(entry for entry in splits_plan.entries if not without(entry))
        only = dataclasses.replace(splits_plan, experiments={"igamberdiev": paper}, entries=kept)
        table = claims_table(only, as_frame(made))
        return table.iloc[0].to_dict() | {"page": claims_page(only, table)}

    return run


def over(kind, artefact="fig1", methods=("sgd",), **more):
    return {"kind": kind, "artefact": artefact, "methods": list(methods), "tasks": ["cora"], **more}


def test_a_data_set_with_a_smaller_grid_is_left_out_and_said_to_be(verdict):
    test = {"kind": "monotone", "artefact": "fig1", "methods": ["sgd"], "start": "10", "end": "90"}
    small = verdict(test, RISING, without=lambda entry: entry.task_id == "pubmed" and entry.value in ("50", "90"))
    assert small["verdict"] == "reproduced"
    assert small["scope"].startswith("on Cora; not tested on")
    assert "PubMed" in small["scope"]
    assert "pubmed" not in verdict(test, RISING)["scope"].partition("not tested")[2]
    absent = verdict(test, RISING, without=lambda entry: entry.value == "90")
    assert_not_run(absent, "Cora, sgd: 90 is not in this suite")


def test_rising_and_falling(verdict):
    assert verdict(over("monotone"), RISING)["verdict"] == "reproduced"
    assert verdict(over("monotone"), FALLING)["verdict"] == "contradicted"
    row = verdict(over("monotone", direction="falling", tolerance=1), FALLING)
    assert row["verdict"] == "reproduced"
    assert re.search(r"Cora, sgd, 10 minus 100: \+(9|10)\.\d\d points", row["evidence"])
    assert "weakest of 3 steps: 100 to 90" in row["evidence"]
    assert row["comparisons"] == 2
    bump = FALLING | {"90": 0.58}
    assert verdict(over("monotone", direction="falling", tolerance=1), bump)["verdict"] == "contradicted"
    assert verdict(over("monotone", direction="falling"), bump)["verdict"] == "reproduced"  # only the ends count


def test_by_and_a_part_of_the_curve(verdict):
    assert verdict(over("monotone", by=5), RISING)["verdict"] == "reproduced"
    assert verdict(over("monotone", by=15), RISING)["verdict"] == "contradicted"
    part = over("monotone", start="50", end="90", by=2)
    assert verdict(part, RISING)["verdict"] == "reproduced"
    assert "90 minus 50" in verdict(part, RISING)["evidence"]
    row = verdict(over("monotone", start="20"), RISING)
    assert_not_run(row, "Cora, sgd: 20 is not in this suite")


def test_constant_over_values(verdict):
    flat = dict.fromkeys(RISING, 0.5)
    assert verdict(over("constant", within=2), flat)["verdict"] == "reproduced"
    assert verdict(over("constant", within=2), RISING)["verdict"] == "contradicted"
    assert verdict(over("constant", within=0.2), flat, std=0.02)["verdict"] in UNDECIDED  # noise is no constancy
    late = RISING | {"50": 0.60, "90": 0.60}
    assert verdict(over("constant", within=2, start="50"), late)["verdict"] == "reproduced"


def test_constant_over_epsilon(verdict):
    test = over("constant", "fig2", ["dp-sgd"], over="epsilon", values=["100"], within=2)
    row = verdict(test, {"dp-sgd": 0.5})
    assert row["verdict"] == "reproduced"
    assert re.search(r"Cora, dp-sgd, 100 over ε, .* minus .*; above −2: p", row["evidence"])
    assert row["comparisons"] == 1
    assert verdict(test, {"dp-sgd": 0.5, ("dp-sgd", "100", 1.0): 0.4})["verdict"] == "contradicted"
    assert verdict(test, {"dp-sgd": 0.5, ("dp-sgd", "10", 1.0): 0.4})["verdict"] == "reproduced"  # another value
    every = {key: value for key, value in test.items() if key != "values"}
    row = verdict(every, {"dp-sgd": 0.5, ("dp-sgd", "10", 1.0): 0.4})
    assert row["verdict"] == "contradicted"
    assert row["comparisons"] == 4


def test_rising_over_epsilon_without_a_sweep(verdict):
    test = {"kind": "monotone", "artefact": "table4", "methods": ["dp-sgd"], "over": "epsilon"}
    row = verdict(test, {("dp-sgd", 2.0): 0.4, ("dp-sgd", 9.75): 0.5})
    assert row["verdict"] == "reproduced"
    assert "dp-sgd over ε, 9.75 minus 2" in row["evidence"]
    assert verdict(test, {("dp-sgd", 2.0): 0.5, ("dp-sgd", 9.75): 0.4})["verdict"] == "contradicted"
    one = verdict(test | {"artefact": "table2"}, {})
    assert_not_run(one, "Cora, dp-sgd over ε: fewer than two target epsilons")


def test_at_chosen_epsilons(verdict):
    test = over("monotone", "fig2", ["dp-sgd"], at=[1, 2])
    means = {("dp-sgd", value, epsilon): 0.5 + 0.001 * index * (epsilon < 5) * 20
             for epsilon in (1.0, 2.0, 4.91, 136.51) for index, value in enumerate(RISING)}  # fmt: skip
    row = verdict(test, means)
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 2
    assert "at target ε = 1, 100 minus 10" in row["evidence"]
    assert verdict(over("monotone", "fig2", ["dp-sgd"], at="every-epsilon"), means)["comparisons"] == 4
    assert verdict(over("monotone", "fig2", ["dp-sgd"]), means)["comparisons"] == 1  # the largest, which is flat
    assert_not_run(verdict(over("monotone", "fig2", ["dp-sgd"], at=[3]), means), "")


def test_greater_at_chosen_epsilons_and_values(verdict):
    test = {"kind": "greater", "artefact": "fig2", "better": ["dp-sgd"], "worse": ["dp-adam"], "tasks": ["cora"]}
    means = {"dp-sgd": 0.5, "dp-adam": 0.4, ("dp-adam", "10", 2.0): 0.6}
    assert verdict(test | {"at": [1]}, means)["verdict"] == "reproduced"
    assert verdict(test | {"at": [2]}, means)["verdict"] == "contradicted"
    row = verdict(test | {"at": [2], "values": ["50", "100"]}, means)
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 2
    assert (
        "Cora, 10, dp-sgd − dp-adam at target ε = 7: not in this suite"
        in verdict(test | {"at": [7]}, means)["evidence"]
    )


def test_at_least_as_good(verdict):
    test = {
        "kind": "greater",
        "artefact": "table2",
        "better": ["sgd"],
        "worse": ["adam"],
        "margin": -2,
        "tasks": ["cora"],
    }
    assert verdict(test, {"sgd": 0.70, "adam": 0.71})["verdict"] == "reproduced"
    assert verdict(test, {"sgd": 0.70, "adam": 0.74})["verdict"] == "contradicted"


DROPS = {
    "kind": "weighted-sum",
    "artefact": "table4",
    "terms": [
        {"method": "sgd", "task": "pokec;features=BoWs"},
        {"method": "dp-sgd", "task": "pokec;features=BoWs", "epsilon": 2, "times": -1},
        {"method": "sgd", "task": "pokec;features=BERT", "times": -1},
        {"method": "dp-sgd", "task": "pokec;features=BERT", "epsilon": 2},
    ],
}


def test_a_smaller_drop_on_one_task(verdict):
    means = {("sgd", "bow"): 0.9, ("dp-sgd", "bow", 2.0): 0.6, ("sgd", "bert"): 0.8, ("dp-sgd", "bert", 2.0): 0.7}
    row = verdict(DROPS, means)
    assert row["verdict"] == "reproduced"
    assert re.search(
        r"sgd on pokec;features=BoWs − dp-sgd on pokec;features=BoWs at target ε = 2 .*: \+(19|20)\.", row["evidence"]
    )
    assert row["scope"] == "on Pokec, bag of words, Pokec, BERT"
    assert verdict(DROPS, means | {("sgd", "bert"): 0.99, ("dp-sgd", "bert", 2.0): 0.1})["verdict"] == "contradicted"


def test_a_ratio_on_every_task(verdict):
    test = {"kind": "weighted-sum", "artefact": "table2", "above": 0,
            "terms": [{"method": "dp-sgd"}, {"method": "sgd", "times": -0.87}]}  # fmt: skip
    row = verdict(test, {"sgd": 0.8, "dp-sgd": 0.72})
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 2  # Cora and PubMed
    assert "Cora, dp-sgd at target ε = 2 − 0.87 sgd" in row["evidence"]
    assert verdict(test, {"sgd": 0.8, "dp-sgd": 0.68})["verdict"] == "contradicted"
    only = verdict(test | {"tasks": ["pubmed"]}, {"sgd": 0.8, "dp-sgd": 0.72})
    assert only["comparisons"] == 1


def test_a_weighted_sum_over_artefacts_and_values(verdict):
    terms = [{"method": "sgd", "value": "100"}, {"method": "noise", "artefact": "table2", "times": -1}]
    test = {"kind": "weighted-sum", "artefact": "fig1", "above": 5, "tasks": ["cora"], "terms": terms}
    assert verdict(test, {("sgd", "100"): 0.7, "noise": 0.5})["verdict"] == "reproduced"
    absent = test | {"terms": [{"method": "sgd", "value": "30"}]}
    assert_not_run(verdict(absent, {}), "Cora: sgd (30) is not in this suite")
    wrong = copy_with_epsilon(DROPS, 3)
    assert "dp-sgd on pokec;features=BoWs at target ε = 3 is not in this suite" in verdict(wrong, {})["reason"]
    other = {"kind": "weighted-sum", "artefact": "table4", "terms": [{"method": "sgd", "task": "reddit"}]}
    assert_not_run(verdict(other, {}), "data set reddit is not in this suite")


def copy_with_epsilon(test, epsilon):
    return test | {"terms": [term | ({"epsilon": epsilon} if "epsilon" in term else {}) for term in test["terms"]]}


def test_chosen_targets():
    assert chosen_targets([None], "every-epsilon") == [None]
    assert chosen_targets([None], (1.0,)) == [None]
    assert chosen_targets([3.0, 1.0, None, 3.0], "every-epsilon") == [1.0, 3.0]


# ---- properties ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def entries(splits_plan):
    return [entry for entry in splits_plan.entries_of("igamberdiev/fig1") if entry.task_id == "cora"]


def points_of(entries, means, spread):
    values = {
        f"v{index}": (
            entries[index],
            EntryResult("ok", "", pd.Series(mean + (1 + index) * spread * np.array([-1.0, 0.0, 1.0]))),
        )
        for index, mean in enumerate(means)
    }
    return values


@given(
    means=st.lists(st.floats(0.1, 0.9), min_size=3, max_size=6),
    within=st.floats(0.5, 20.0),
)
def test_constant_holds_exactly_where_the_range_is_small(entries, means, within):
    """With next to no noise: iff max - min < within, in points; rising iff the last is above the first."""
    spread = 1e-7
    points = points_of(entries, means, spread)
    gap = 100 * (max(means) - min(means))
    if math.isclose(gap, within, rel_tol=1e-3):
        return
    [one] = _on_curve(Constant(artefact="a", methods=("m",), within=within), "w", points)
    assert (one.p_above < 0.05) == (gap < within)
    assert (one.p_below < 0.05) == (gap > within)
    if abs(means[-1] - means[0]) > 1e-4:
        [ends] = _on_curve(Monotone(artefact="a", methods=("m",)), "w", points)
        assert (ends.p_above < 0.05) == (means[-1] > means[0])
