from __future__ import annotations

import dataclasses
import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from dpgraph.config.claim import AllOf
from dpgraph.config.claim_tests import Computed, NotTested, SimpleTest, uses
from dpgraph.config.config import Config
from dpgraph.config.suite import SuiteTask
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import load_plan
from dpgraph.reporting import splits
from dpgraph.reporting.claims.contrasts import Above, Contrast, Strength, contrast
from dpgraph.reporting.claims.page import _shown, strong_enough, summed
from dpgraph.reporting.claims.parts import VERDICTS, PartResult, parts_as_text
from dpgraph.reporting.claims.registry import (
    COMPUTED,
    computed_verdict,
    in_words,
    kind_of,
    kinds,
)
from dpgraph.reporting.claims.table import claims_table, write_claims
from dpgraph.reporting.claims.verdicts import Comparison, Comparisons, all_hold, compared, decide, picked
from dpgraph.reporting.formats import template
from tests.reporting.conftest import WORKFLOW
from tests.reporting.verdicts import UNDECIDED, assert_not_run


@pytest.fixture
def claim(rows_of, as_frame):
    """Verdict row of one claim of a plan, where methods have the given mean accuracies (fractions)."""

    def run(plan, name, means, std=0.002, default=0.5, change=None, of_paper=False):
        entries = {(entry.artefact, entry.cell.slug): entry for entry in plan.entries}
        rows = {}
        for entry in entries.values():
            mean = means.get((entry.method_id, entry.target_epsilon), means.get(entry.method_id, default))
            mean = mean[entry.task_id] if isinstance(mean, dict) else mean
            made = rows_of(entry, mean=mean, std=std)
            rows[entry.cell.slug] = change(entry, made) if change else made
        frame = as_frame([row for made in rows.values() for row in made])
        experiment = plan.experiments["daigavane"]
        tested = experiment.claims[name]
        if not of_paper:  # as if it were of this project: all data and mechanisms are its own, without premises
            tested = tested.model_copy(update={"sentence": None, "premises": ()})
        only = experiment.model_copy(update={"claims": {name: tested}})
        table = claims_table(dataclasses.replace(plan, experiments={"daigavane": only}), frame)
        return table.iloc[0]

    return run


@pytest.fixture(scope="module")
def demo(plan, results, tmp_path_factory):
    """(table as written, HTML page) of the demo suite; the computed claims take a few seconds."""
    folder = tmp_path_factory.mktemp("claims")
    path, page = write_claims(plan, results, folder / "claims.csv", folder / "claims.html")
    return pd.read_csv(path, keep_default_na=False), page.read_text()


def test_every_claim_has_a_row_and_a_verdict(plan, demo):
    table, _ = demo
    assert list(table["claim"]) == list(plan.claims())
    assert set(table["verdict"]) <= set(VERDICTS)
    assert (table["verdict"].isin(["not run", "inconclusive", "underpowered"]) <= (table["reason"] != "")).all()
    assert set(table["suite"]) == {"demo"}


def test_greater_reproduced(paper_plan, claim):
    row = claim(paper_plan, "D1", {"dp-gcn-1-published": 0.70, "mlp": 0.60, "dp-mlp-published": 0.55})
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 4  # two data sets, two baselines
    assert row["n"] == 5
    assert row["scope"] == "on ogbn-arxiv, reddit"
    assert re.search(r"ogbn-arxiv, dp-gcn-1-published − mlp at target ε = 12: \+(9|1\d)\.\d\d points", row["evidence"])
    assert "claimed 12.0 (node-remove, parameters), proved none" in row["evidence"]


def test_one_data_set_contradicts_a_claim_about_all(paper_plan, claim):
    means = {"dp-gcn-1-published": {"arxiv": 0.70, "reddit": 0.58}, "mlp": 0.60, "dp-mlp-published": 0.55}
    row = claim(paper_plan, "D1", means)
    assert row["verdict"] == "contradicted"
    assert re.search(
        r"reddit, dp-gcn-1-published − mlp at .*? −\d\.\d\d points, standard error 0\.\d\d; below 0: p ",
        row["evidence"],
    )


def test_noise_is_inconclusive(paper_plan, claim):
    means = {"dp-gcn-1-published": 0.601, "mlp": 0.60, "dp-mlp-published": 0.55}
    assert claim(paper_plan, "D1", means, std=0.03)["verdict"] in UNDECIDED


def test_margin_counts_in_points(paper_plan, claim):
    above, below = (
        {"dp-gcn-1-published": 0.80, "mlp": 0.60, "dp-mlp-published": 0.60},
        {"dp-gcn-1-published": 0.70, "mlp": 0.60, "dp-mlp-published": 0.60},
    )
    assert claim(paper_plan, "D3", above)["verdict"] == "reproduced"  # margin 15: 20 points
    assert claim(paper_plan, "D3", below)["verdict"] == "contradicted"  # 10 points


def test_near_the_margin_is_inconclusive(paper_plan, claim):
    """Far above 0, but not surely above the margin of 15 points."""
    row = claim(paper_plan, "D3", {"dp-gcn-1-published": 0.75, "mlp": 0.60, "dp-mlp-published": 0.60}, std=0.01)
    assert row["verdict"] in UNDECIDED
    assert re.search("(above|below) 15: p = 0.", row["evidence"])


def test_the_largest_budget_decides(paper_plan, claim):
    means = {
        ("dp-gcn-1-published", 6.0): 0.10,
        ("dp-gcn-1-published", 12.0): 0.70,
        "mlp": 0.60,
        "dp-mlp-published": 0.55,
    }
    assert claim(paper_plan, "D1", means)["verdict"] == "reproduced"


def test_failed_cells_are_not_run_unless_another_refutes(paper_plan, claim):
    def fail(entry, rows):
        if entry.method_id != "dp-mlp-published" or entry.task_id != "reddit":
            return rows
        return [
            row | {"seed": -1, "status": "failed", "reason": "diverged", "metric": "", "value": math.nan}
            for row in rows
        ]

    good = {"dp-gcn-1-published": 0.70, "mlp": 0.60, "dp-mlp-published": 0.55, "dp-mlp-published-text": 0.55}
    row = claim(paper_plan, "D1", good, change=fail)
    assert row["verdict"] == "not run"
    assert (
        "better than DP-MLP on each data set: reddit, dp-gcn-1-published − dp-mlp-published at target " in row["reason"]
    )
    assert claim(paper_plan, "D1", good | {"dp-gcn-1-published": 0.40}, change=fail)["verdict"] == "contradicted"


def test_one_seed_is_inconclusive(paper_plan, claim):
    def first(entry, rows):
        return [row for row in rows if row["seed"] == 0]

    row = claim(paper_plan, "D1", {"dp-gcn-1-published": 0.9, "mlp": 0.1, "dp-mlp-published": 0.1}, change=first)
    assert row["verdict"] == "inconclusive"
    assert "is underpowered: better than MLP on each data set: one seed only: no test is possible" in row["reason"]


def test_growing_gap(paper_plan, claim):
    base = {"mlp": 0.60} | {
        (f"dp-mlp-published{text}", epsilon): mean
        for text in ("", "-text")
        for epsilon, mean in ((2.0, 0.50), (12.0, 0.55))
    }
    growing = base | {("dp-gcn-1-published", 2.0): 0.55, ("dp-gcn-1-published", 12.0): 0.75}
    shrinking = base | {("dp-gcn-1-published", 2.0): 0.75, ("dp-gcn-1-published", 12.0): 0.70}
    row = claim(paper_plan, "D4", growing)
    assert row["verdict"] == "reproduced"
    # over MLP the gap grows by 20 points, over DP-MLP by 20 - 5; 6 is in between and plays no part
    assert re.search(
        r"gap dp-gcn-1-published − mlp at target ε = 12 minus the same at target ε = 2: \+(19|20)\.", row["evidence"]
    )
    assert re.search(r"gap dp-gcn-1-published − dp-mlp-published .*?: \+1[45]\.", row["evidence"])
    assert claim(paper_plan, "D4", shrinking)["verdict"] == "contradicted"


def test_missing_artefact_and_missing_data_set(paper_plan, plan, claim):
    assert_not_run(claim(paper_plan, "D13", {}), "table2 is not in this suite")
    assert_not_run(claim(plan, "D13", {}), "data set reddit-disjoint is not in this suite")


def test_a_part_of_the_named_data_sets_is_said(paper_plan, claim):
    row = claim(paper_plan, "D2", {"dp-gcn-1-sgd-published": 0.70, "mlp": 0.60, "dp-mlp-published": 0.55})
    assert row["verdict"] == "reproduced"
    assert row["scope"] == "on ogbn-arxiv"


def test_data_that_a_part_names_are_missing_whether_or_not_its_artefact_is(paper_plan, claim):
    """Its first part is of table 1, which is here; its second of table 4 on data sets that the suite has not."""
    experiment = paper_plan.experiments["daigavane"]
    first, second = experiment.claims["D1"].test.tests[0], experiment.claims["D7"].test.tests[3]
    both = experiment.claims["D1"].model_copy(update={"test": AllOf(kind="all", tests=(first, second))})
    plan = dataclasses.replace(
        paper_plan, experiments={"daigavane": experiment.model_copy(update={"claims": {"both": both}})}
    )
    row = claim(plan, "both", {"dp-gcn-1-published": 0.7})
    assert row["verdict"] == "not run"
    assert row["reason"].endswith(": table4 is not in this suite")
    assert row["data"] == "missing in part"


def test_a_claim_without_private_runs_names_its_methods(paper_plan):
    comparisons = Comparisons()
    one = SimpleNamespace(members=())
    places = {entry.cell.method: (entry, one) for entry in paper_plan.entries if entry.cell.privacy is None}
    comparisons.use(*places.values())
    assert decide({"": comparisons}, "").mechanism == f"{', '.join(places)}, without privacy"
    private = next(entry for entry in paper_plan.entries if entry.cell.privacy is not None)
    comparisons.use((private, one))
    assert list(comparisons.private) == [(private.artefact, private.cell.slug)]


def test_a_demonstration_says_that_it_decides_nothing(demo):
    table, page = demo
    tested = table[(table["comparisons"] > 0) & (table["n"] > 0)]
    assert len(tested) >= 3
    assert tested["scope"].str.startswith("in a demonstration, whose short trainings decide no claim; ").all()
    assert re.search(r'class="verdict [a-z]+ elsewhere"', page)
    assert "whose short trainings decide no claim" in page


def test_without_results(plan):
    experiment = plan.experiments["daigavane"]
    only = experiment.model_copy(update={"claims": {"D1": experiment.claims["D1"]}})
    table = claims_table(dataclasses.replace(plan, experiments={"daigavane": only}), None).set_index("claim")
    assert_not_run(table.loc["D1"], "no run on the paper's own data with its own mechanism")


def test_every_computed_claim_is_one_that_a_family_declares():
    assert set(COMPUTED) == set(Computed.model_fields["function"].annotation.__args__)
    with pytest.raises(UserError, match=r"^function=nothing: expected one of "):
        computed_verdict("nothing")


def test_every_kind_of_test_is_one_that_a_module_of_kinds_declares():
    assert set(kinds()) == set(SimpleTest.__args__)
    with pytest.raises(TypeError, match=r"^NotTested: expected a test that a module"):
        kind_of(NotTested(why="because"))


@pytest.mark.parametrize(("last", "folded"), [("c: p = 0.2", False), ("epsilon of " + "x" * 400, True)])
def test_a_long_sentence_of_the_evidence_unfolds(last, folded):
    texts = ("claim", "statement", "source", "own_numbers", "reason", "mechanism", "sentence", "substitutes", "scope",
             "would_reproduce", "would_contradict", "effect", "effect_source")  # fmt: skip
    row = dict.fromkeys(texts, "") | {"size": 0.05, "power": math.nan}
    row |= {"verdict": "reproduced", "evidence": f"a: p = 0.1. b: p = 0.2. {last}", "n": 3, "parts": "[]"}
    page = template("claims.html").make_module({"papers": ()}).claim(_shown(row))
    assert last in page
    assert ("<details><summary>1 more</summary>" in page) is folded


def test_a_claim_whose_power_nobody_knows_is_underpowered_not_inconclusive():
    one = Comparison("a", 0.1, 0.5, 0.0, 5, 0.4, 0.6, given=Strength(math.nan, math.nan))
    found = decide({"": Comparisons(made=[one])}, "")
    assert found.verdict == "underpowered"
    assert found.reason.startswith("a true effect has no known power at 5 seeds; what was seen is neither for it nor, ")


@pytest.mark.parametrize("where", ["Cora, − dp-mlp (60, 1)", "− dp-mlp (60, 1)"])
def test_minus_one_mean_is_written_as_the_mean(where):
    one = Comparison(where, -46.08, 0.77, -15.0, 5, p_above=1.0, p_below=1e-5)
    assert one.sentence == where.replace("− ", "") + ": 46.08 points, standard error 0.77; above 15: p < 0.001"
    assert dataclasses.replace(one, where=f"{where} − b").sentence.endswith(
        "b: −46.08 points, standard error 0.77; below −15: p < 0.001"
    )


SPREAD = np.array([-1.24, 0.76, 0.26, -0.74, 0.96])


def seen(mean: float, scale: float = 2.0, printed: float | None = None) -> Contrast:
    """A difference over five seeds, its standard error 0.86 at a scale of 2."""
    terms = [(1.0, "a", pd.Series(mean + scale * SPREAD)), (-1.0, "b", pd.Series(0.0 * SPREAD))]
    return dataclasses.replace(contrast(terms), printed=printed)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (seen(40.0), "reproduced"),
        (seen(2.5), "underpowered"),  # above 0, not above 1 point
        (seen(3.5), "underpowered"),  # above 1 point, not above the 1.8 that this test finds half of the time
        (seen(3.9), "reproduced"),
        (seen(11.0, scale=10.0), "underpowered"),  # p = .03 above 0 and above 1 point, by chance as likely as not
        (seen(10.0, printed=9.0, scale=20.0), "underpowered"),  # above half of what is printed
    ],
)
def test_a_weak_test_reproduces_an_effect_that_it_finds_half_of_the_time(value, expected):
    found = decide({"": Comparisons(made=[compared("a", value, 0.0)])}, "")
    assert found.verdict == expected
    assert found.power < 0.5


def test_a_larger_effect_is_one_of_every_comparison_and_part_in_one_whole_way():
    one, weak = compared("a", seen(40.0), 0.0), compared("b", seen(2.5), 0.0)
    assert decide({"": Comparisons(made=[one, weak])}, "").verdict == "underpowered"
    assert decide({"a": Comparisons(made=[one]), "b": Comparisons(made=[weak])}, "").verdict == "inconclusive"
    assert all_hold([one, one]).p_larger < 0.05 < all_hold([one, weak]).p_larger
    # of two ways each is tested at half of the level, against the effect that is found half of the time at that level
    single, double = (compared("a", seen(4.2), 0.0), ((Above(seen(4.2), 0.0),), (Above(seen(-9.0), 0.0),)))
    assert single.p_larger < 0.05 < picked("a", seen(4.2), (0.01, 0.99), double).p_larger


def test_a_printed_effect_must_be_exceeded_too():
    assert Above(seen(5.0), 0.0).p_larger(0.05) < 0.05 < Above(seen(5.0, printed=20.0), 0.0).p_larger(0.05)


def test_a_larger_effect_needs_the_usual_test_and_five_seeds():
    one = compared("a", seen(40.0), 0.0)
    for p_above, expected in ((0.06, "underpowered"), (0.04, "reproduced")):
        found = decide({"": Comparisons(made=[dataclasses.replace(one, p_above=p_above)])}, "")
        assert found.verdict == expected
    four = contrast([(1.0, "a", pd.Series(40 + SPREAD[:4])), (-1.0, "b", pd.Series(0 * SPREAD[:4]))])
    assert decide({"": Comparisons(made=[compared("a", four, 0.0)])}, "").reason.startswith("4 seeds, fewer than 5")
    # an asserted effect below the margin does not lower what must be shown
    regime = compared("a", dataclasses.replace(seen(61.0), difference=False), 60.0)
    assert decide({"": Comparisons(made=[regime])}, "", asserted=4.0).verdict == "underpowered"


def test_a_weak_test_reproduces_nothing_and_may_refute():
    """A test of little power that refutes keeps its size; one that agrees could not have done otherwise."""
    one = Comparison("a", 1.5, 0.5, 0.0, 5, 0.001, 0.999, given=Strength(0.05, 0.49))
    found = decide({"": Comparisons(made=[one])}, "")
    assert found.verdict == "underpowered"
    assert found.reason.startswith("a true effect is seen with probability 0.49 at 5 seeds; what was seen is for it: ")
    assert "a: +1.50 points, standard error 0.50" in found.reason
    strong = dataclasses.replace(one, given=Strength(0.05, 0.5))
    decided = decide({"": Comparisons(made=[strong])}, "")
    assert decided.verdict == "reproduced"
    against = dataclasses.replace(one, p_above=0.999, p_below=0.001)
    assert decide({"": Comparisons(made=[against])}, "").verdict == "contradicted"
    assert decided.reason
    assert decided.evidence.startswith(decided.reason)
    assert decide({"": Comparisons(made=[one], missing=["b"])}, "").verdict == "not run"


def test_nothing_compared_shows_nothing():
    assert decide({"": Comparisons()}, "").verdict == "not run"


@pytest.mark.parametrize(
    ("verdicts", "powers", "data", "text"),
    [
        (["reproduced", "inconclusive", "underpowered"], [0.9, 0.6, 0.1], ["here"] * 3,
         "All data are here of 3 of the papers' claims. 2 of these have power 0.5 "
         "and 5 seeds in each part (goal: two thirds); not 2"),
        (["reproduced", "not run", "underpowered", "not run"], [0.9, 0.9, 0.1, 0.9],
         ["here", "here", "here", "missing in part"],
         "All data are here of 3 of the papers' claims. 1 of these has power 0.5 "
         "and 5 seeds in each part (goal: two thirds); not 1, 2"),
        (["reproduced", "contradicted"], [math.nan, math.nan], ["", ""], ""),  # computed
    ],
)  # fmt: skip
def test_the_page_says_how_many_claims_have_enough_power(verdicts, powers, data, text):
    table = counted([str(place) for place in range(len(verdicts))], verdicts, powers, data)
    assert strong_enough([table]) == text


def counted(claims, verdicts, powers, data, sentence="The paper says so.", n=5):
    """Rows of claims.csv with one part each."""
    parts = [parts_as_text([PartResult("", verdict, n=n, power=power, p_against=0.5 if data else math.nan)])
             for verdict, power, data in zip(verdicts, powers, data)]  # fmt: skip
    return pd.DataFrame({"claim": claims, "verdict": verdicts, "data": data, "parts": parts, "sentence": sentence})


def test_claims_of_this_project_do_not_count_nor_do_four_seeds():
    ours = counted(["A"], ["reproduced"], [0.9], ["here"], sentence=None)
    assert strong_enough([ours]) == ""
    few = counted(["A"], ["reproduced"], [0.9], ["here"], n=4)
    told = "None of these has power 0.5 and 5 seeds in each part (goal: two thirds)"
    assert strong_enough([few]) == f"All data are here of 1 of the papers' claims. {told}"


@pytest.mark.parametrize(("holds", "more"), [("premise fails", True), ("reproduced", False), ("inconclusive", False)])
def test_claims_that_only_a_failed_premise_makes_strong_are_named(holds, more):
    def counts(*parts):
        table = counted(["A"], ["inconclusive"], [0.9], ["here"])
        table["parts"] = [parts_as_text(parts)]
        return strong_enough([table])

    def part(reading, power, verdict="underpowered", premise=False):
        return PartResult("better", verdict, reading=reading, n=5, power=power, p_against=0.5, premise=premise)

    premise = part("printed", 0.9, holds, premise=True)
    named = ", 1 more (A) in each part of the readings whose premise holds: 1 of 1 (goal"
    assert (named in counts(premise, part("printed", 0.1), part("code", 0.9))) == more
    assert (named in counts(part("", 0.9, holds, premise=True), part("", 0.1))) == more  # a claim with one reading
    assert counts(premise, part("printed", 0.9), part("code", 0.9)).startswith(
        "All data are here of 1 of the papers' claims. 1 of these has"
    )
    # the other reading is asked for its parts, and no part is a premise
    assert counts(premise, part("printed", 0.9), part("code", 0.1)).endswith("(goal: two thirds)")
    assert named not in counts(part("printed", 0.1, holds), part("code", 0.9))


def test_over_several_suites_a_claim_counts_once_and_where_its_power_is_largest():
    """B is weak here and strong there; D was run nowhere, though its data are here; E is computed."""
    verdicts = ["reproduced", "underpowered", "underpowered", "not run", "reproduced"]
    first = counted(["A", "B", "C", "D", "E"], verdicts, [0.9, 0.1, 0.2, 0.9, math.nan], ["here"] * 4 + [""])
    second = counted(["B", "C"], ["contradicted", "not run"], [0.5, 0.9], ["here", "missing in part"])
    text = strong_enough([first, second])
    assert text.startswith("All data are here of 4 of the papers' claims. 2 of these have power")
    assert text.endswith("; not C, D")
    assert strong_enough([first.iloc[4:]]) == ""


def test_claims_are_counted_as_readme_prints_them():
    """Computed is what no seed decides: a computed part that refutes a claim does, whose others were not run."""
    verdicts = ["reproduced", "contradicted", "premise fails", "inconclusive", "underpowered", "not run", "not run",
                "contradicted"]  # fmt: skip
    powers = ["computed; computed", "0.90 (8 seeds); computed", "–", "0.90 (8 seeds)", "–", "–", "–", "computed; –"]
    runs = [math.nan] * 5 + ["dpgraph run d/t", math.nan, math.nan]
    table = pd.DataFrame({"verdict": verdicts, "power": powers, "run": runs})
    expected = {"claims": 8, "decided": 4, "computed": 2, "recomputed": 1, "open": 2, "not_run": 2, "untestable": 1}
    expected |= {"reproduced": 1, "contradicted": 2, "premise_fails": 1, "depends": 0}
    assert summed(table) == expected


CONSTRUCTED = """
name: constructed
title: A data set as it is and one that was made so that a graph must help
note: For tests.
seeds: 5
tasks:
  text: {label: arxiv-text, task: {dataset: cora}}
  half:
    label: arxiv-text-half (constructed)
    constructed: every second node is without features
    task: {dataset: citeseer}
papers:
  daigavane:
    rules:
      - set: {training: {learning_rate: 0.01, batch_size: 1000, steps: 10}}
    artefacts:
      table1: [{tasks: [text, half], epsilons: [12]}]
      table3: [{tasks: [half], epsilons: [12]}]
      fig2: [{methods: [dp-gcn-1, dp-residual-gcn-1, dp-own-gcn-1, dp-mlp], tasks: [text, half], epsilons: [4, 12]}]
"""


def test_no_claim_rests_on_constructed_data_but_the_one_that_names_them(claim, tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "experiments").symlink_to(WORKFLOW / "experiments")
    (tmp_path / "suites" / "constructed.yaml").write_text(CONSTRUCTED)
    plan = load_plan(Config(suite="constructed"), tmp_path)
    at = {"text": 0.72, "half": 0.67}
    means = {
        "dp-gcn-1-published": at,
        "mlp": {"text": 0.75, "half": 0.40},
        "dp-mlp-published": {"text": 0.75, "half": 0.40},
    }
    row = claim(plan, "D1", means)
    assert row["verdict"] == "contradicted"
    assert "half" not in row["evidence"]
    assert row["scope"] == "on arxiv-text"
    row = claim(plan, "D6", {})
    assert_not_run(row, "")
    assert "only data that were constructed are in this suite: arxiv-text-half (constructed)" in row["reason"]
    own = dict.fromkeys(("dp-gcn-1", "dp-residual-gcn-1", "dp-own-gcn-1"), at) | {
        "dp-mlp": {"text": 0.75, "half": 0.40}
    }
    row = claim(plan, "O16", own)
    assert row["verdict"] == "reproduced"
    assert row["comparisons"] == 6
    assert row["scope"] == "on arxiv-text-half (constructed)"
    shown = splits.remarks(plan, "daigavane/table1")
    assert shown[-1] == (
        "No evidence for or against a claim of a paper: arxiv-text-half (constructed), where every second node is "
        "without features."
    )
    assert splits.fixed(plan, "daigavane/table1")[-1] == shown[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"label": "half"}, "expected the word constructed"), ({"published": "cora"}, "expected none of a constructed")],
)
def test_a_constructed_task_says_so(change, message):
    task = {"label": "half (constructed)", "constructed": "made", "task": {"dataset": "cora"}}
    assert SuiteTask.model_validate(task).is_called(["half (constructed)"])
    with pytest.raises(ValidationError, match=message):
        SuiteTask.model_validate(task | change)


def test_the_same_id_in_two_experiment_files_is_refused(paper_plan):
    again = paper_plan.experiments["daigavane"].model_copy(update={"paper": "again"})
    plan = dataclasses.replace(paper_plan, experiments=paper_plan.experiments | {"again": again})
    with pytest.raises(UserError, match=r"^experiments/again.yaml: claims=D1: expected an id that daigavane has not$"):
        plan.claims()


def test_what_would_decide_each_claim_is_said_with_the_labels_of_tables(paper_plan, claim):
    for paper, one in paper_plan.claims().values():
        labels = {name: row.label for name, row in paper_plan.experiments[paper].methods.items()}
        said = in_words(one, labels)
        assert all(said) != isinstance(one.test, NotTested)
        used = {name for part in one.parts for _, methods in uses(part) for name in methods}
        left = used.intersection(re.findall(r"[\w-]+", " ".join(said)))
        assert not {name for name in left if name not in " ".join(labels.values())}
    claims = {name: one for name, (_, one) in paper_plan.claims().items()}
    labels = {name: row.label for name, row in paper_plan.experiments["daigavane"].methods.items()}
    assert in_words(claims["D2"], labels)[0].startswith(
        "DP-GCN-1 SGD (paper) is more than 4 points above MLP, on ogbn-arxiv, ogbn-products; DP-GCN-1"
    )
    assert in_words(claims["D14"], {})[1] == (
        "gcn-1 is below one of dp-gcn-1-published, dp-gcn-1-sgd-published, on one data set"
    )
    row = claim(paper_plan, "D1", {"dp-gcn-1-published": 0.70, "mlp": 0.60, "dp-mlp-published": 0.55})
    assert row["level"] == 0.05
    assert row["effect"] == "6.51 to 22.88"
    assert row["effect_source"] == "the paper's printed difference"
