"""The rules of verdicts on made-up numbers with a known truth: parts, premises, readings, a paper's own data."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import t

from dpgraph.config.cell import Cell
from dpgraph.config.claim import Claim, OwnResults
from dpgraph.config.config import Config
from dpgraph.core.randomness import numpy_generator
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.claims.page import overview
from dpgraph.reporting.claims.parts import PartResult, judged, over_readings, parts_as_text, read_parts
from dpgraph.reporting.claims.table import claims_table
from tests.plans import plan_of
from tests.reporting.conftest import WORKFLOW

SURE = {"n": 5, "power": 0.9, "p_for": 0.001, "p_against": 1.0}
FALSE = SURE | {"p_for": 0.999, "p_against": 0.001}
OPEN = SURE | {"p_for": 0.3, "p_against": 0.7}


def part(name: str, numbers: dict, **more) -> PartResult:
    return PartResult(name, reason=f"{name} was seen", **numbers | more)


def verdicts(*parts: PartResult) -> tuple[str, ...]:
    verdict, _, found = judged(parts)
    return (verdict, *(one.verdict for one in found))


# ---- conjunctions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([part("a", SURE), part("b", SURE)], ("reproduced", "reproduced", "reproduced")),
        ([part("a", SURE), part("b", FALSE)], ("contradicted", "reproduced", "contradicted")),
        ([part("a", OPEN), part("b", SURE)], ("inconclusive", "inconclusive", "reproduced")),
        ([part("a", SURE, power=0.49), part("b", SURE)], ("inconclusive", "underpowered", "reproduced")),
        ([part("a", SURE, power=0.49)], ("underpowered", "underpowered")),
        ([part("a", SURE), part("b", {}, missing="no rows")], ("not run", "reproduced", "not run")),
        # one part refutes the sentence, whatever else is missing or weak
        ([part("a", FALSE, power=0.1), part("b", {}, missing="no rows")], ("contradicted", "contradicted", "not run")),
    ],
)
def test_a_conjunction_is_as_its_parts(parts, expected):
    assert verdicts(*parts) == expected


@pytest.mark.parametrize("numbers", [SURE, FALSE])
def test_four_seeds_give_no_verdict(numbers):
    assert verdicts(part("a", numbers, n=4)) == ("underpowered", "underpowered")
    assert verdicts(part("a", numbers, n=5))[0] in ("reproduced", "contradicted")


def test_holms_correction_is_over_all_parts_run_or_not():
    """Of three parts the first has to be below 5 % / 3, though only one of them has rows."""
    missing = [part(name, {}, missing="no rows") for name in "bc"]
    assert verdicts(part("a", FALSE, p_against=0.016), *missing)[0] == "contradicted"
    assert verdicts(part("a", FALSE, p_against=0.018), *missing)[0] == "not run"
    # Holm, not Bonferroni: the second of two parts is compared with 5 %
    two = verdicts(part("a", FALSE, p_against=0.001), part("b", FALSE, p_against=0.04))
    assert two == ("contradicted", "contradicted", "contradicted")


def simulated(effects: np.ndarray, draws: int, name: str, n: int = 5, rho: float = 0.5) -> dict[str, float]:
    """Verdicts on parts "effect above 0" with n seeds of correlated noise, by the t tests of claims."""
    random = numpy_generator("test", "rules", name)
    counts: dict[str, float] = {}
    for _ in range(draws):
        shared = random.standard_normal((n, 1))
        seeds = effects + math.sqrt(rho) * shared + math.sqrt(1 - rho) * random.standard_normal((n, len(effects)))
        statistics = seeds.mean(axis=0) / (seeds.std(axis=0, ddof=1) / math.sqrt(n))
        p_for = t.sf(statistics, n - 1)
        parts = [PartResult(str(i), n=n, power=1.0, p_for=p, p_against=1 - p) for i, p in enumerate(p_for)]
        verdict = judged(parts)[0]
        counts[verdict] = counts.get(verdict, 0) + 1 / draws
    return counts


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_size_of_a_contradiction_is_at_most_five_percent(parts, rho):
    """All parts true, each at its edge: the least favourable truth for the opposite."""
    found = simulated(np.zeros(parts), 3000, f"size {parts} {rho}", rho=rho)
    assert found.get("contradicted", 0.0) <= 0.05 + 0.012  # three standard errors of 3,000 draws
    if parts == 1 or rho == 0.0:
        assert found["contradicted"] >= 0.03  # and is used


def test_the_size_of_a_reproduction_is_at_most_five_percent():
    """One part at its edge, the others beyond doubt: the least favourable falsehood."""
    found = simulated(np.array([0.0, 50.0, 50.0]), 3000, "reproduction")
    assert 0.03 <= found["reproduced"] <= 0.05 + 0.012


def test_one_false_part_of_four_is_found():
    """3 standard deviations below at five seeds: Holm's first step is a t test at 5 % / 4."""
    found = simulated(np.array([-3.0, 3.0, 3.0, 3.0]), 500, "power")
    assert found["contradicted"] > 0.9


# ---- premises and readings -------------------------------------------------------------------------------------------


def test_a_premise_comes_first_and_says_its_numbers():
    premise = part("the graph helps", OPEN, premise=True)
    for numbers in (SURE, FALSE):
        verdict, reason, _ = judged([part("a", numbers), premise])
        assert verdict == "premise fails"
        assert reason == "premise, the graph helps: the graph helps was seen"
    assert judged([part("a", FALSE), part("p", SURE, premise=True)])[0] == "contradicted"
    # without power a premise that is not shown is open, unless it is refuted
    for weak in ({"power": 0.1}, {"power": 0.8}, {"n": 4}):
        assert judged([part("a", FALSE), part("p", OPEN | weak, premise=True)])[0] == "inconclusive"
    assert judged([part("a", SURE), part("p", FALSE | {"power": 0.1}, premise=True)])[0] == "premise fails"
    # what was not run is not shown
    verdict, reason, _ = judged([part("a", SURE), part("p", {}, missing="no rows", premise=True)])
    assert (verdict, reason) == ("not run", "premise, p: no rows")


def test_readings_that_differ_are_said_to():
    yes, no, open_ = ("reproduced", "r"), ("contradicted", "c"), ("not run", "n")
    assert over_readings({"": yes}) == yes
    assert over_readings({"one": yes, "two": ("reproduced", "other")})[0] == "reproduced"
    verdict, reason = over_readings({"one": yes, "two": no})
    assert verdict == "depends on the reading"
    assert reason == "one: reproduced (r); two: contradicted (c)"
    # a reading without rows leaves it undecided
    assert over_readings({"one": yes, "two": open_})[0] == "not run"
    verdict, reason = over_readings({"one": ("premise fails", "p"), "two": no})
    assert verdict == "depends on the reading"
    assert reason.startswith("in no reading reproduced: one: ")


def test_a_reading_replaces_whole_words_and_endings():
    test = {"kind": "greater", "artefact": "fig-after-q", "better": ["gm-published"], "worse": ["dpsgd-published"],
            "part": "better -published", "values": ["4, 1"]}  # fmt: skip
    changes = {"-published": "-code", "-after-q": "-code", "published": "never", "gm": "never"}
    claim = Claim(sentence="The paper says so.", statement="s", source="t", readings={"code": changes}, test=test)
    read = claim.read["code"]
    assert (read.test.artefact, read.test.better, read.test.worse) == ("fig-code", ("gm-code",), ("dpsgd-code",))
    whole = claim.model_copy(update={"readings": {"other": {"gm-published": "em-published"}}}).read["other"]
    assert (whole.test.better, whole.test.worse) == (("em-published",), ("dpsgd-published",))
    assert (read.test.part, read.test.values) == ("better -published", ("4, 1",))
    assert read.sentence == claim.sentence


def test_parts_are_read_as_they_were_written():
    parts = (part("a", SURE, size=0.05), part("b", {}, missing="no rows"), part("p", OPEN, premise=True, reading="r"))
    again = read_parts(parts_as_text(parts))
    assert [dataclasses.replace(one, size=0, power=0, p_for=0, p_against=0) for one in again] == [
        dataclasses.replace(one, size=0, power=0, p_for=0, p_against=0) for one in parts
    ]
    assert math.isnan(again[1].p_against)
    assert judged(again)[0] == judged(parts)[0]


# ---- own data and mechanisms -----------------------------------------------------------------------------------------

OWN = OwnResults(data=({"dataset": "cora", "split": "train-rest"},), mechanisms=("kipf-gcn", "dp-subgraph/published"))


def cell_like(plan, **task) -> Cell:
    cell = next(entry.cell for entry in plan.entries if entry.cell.privacy is not None)
    return cell.model_copy(update={"task": cell.task.model_copy(update=task)})


def test_what_is_not_named_is_a_substitute(paper_plan):
    cell = cell_like(paper_plan, dataset="cora", split="train-rest")
    variant = cell.privacy.variant
    own = OwnResults(data=OWN.data, mechanisms=(f"{cell.method}/{variant}",))
    assert own.covers(cell)
    assert not own.covers(cell_like(paper_plan, dataset="cora", split="public"))
    assert not own.covers(cell_like(paper_plan, dataset="citeseer", split="train-rest"))
    assert not OwnResults(data=OWN.data, mechanisms=(cell.method,)).covers(cell)  # without privacy
    assert not OwnResults(data=OWN.data, mechanisms=(f"{cell.method}/other",)).covers(cell)
    width = cell.model.width
    for settings, covered in (
        ({"model.width": (1, width), "training.none": (7,)}, True),
        ({"model.width": (width + 1,)}, False),
    ):
        assert own.model_copy(update={"settings": settings}).covers(cell) == covered


@pytest.fixture
def row_of(rows_of, as_frame):
    """Row of claims.csv of one claim, with accuracies by method, a fraction."""

    def run(plan, name, means, paper="daigavane", only=lambda entry: True):
        entries = {entry.cell.slug: entry for entry in plan.entries if only(entry)}
        rows = [
            row for entry in entries.values() for row in rows_of(entry, mean=means.get(entry.method_id, 0.5), std=0.002)
        ]
        experiment = plan.experiments[paper]
        one = experiment.model_copy(update={"claims": {name: experiment.claims[name]}})
        return claims_table(dataclasses.replace(plan, experiments={paper: one}), as_frame(rows)).iloc[0]

    return run


GOOD = {"gcn-1": 0.8, "dp-gcn-1-published": 0.7, "mlp": 0.6, "dp-mlp-published": 0.55, "dp-mlp-published-text": 0.55}


def test_a_sentence_on_all_data_sets_is_not_run_on_two_of_four(paper_plan, row_of):
    row = row_of(paper_plan, "D1", GOOD)
    assert row["verdict"] == "not run"
    assert "not tested on ogbn-products, ogbn-mag" in row["reason"]
    # one of them is enough to refute it
    assert row_of(paper_plan, "D1", GOOD | {"dp-gcn-1-published": 0.5})["verdict"] == "contradicted"


def test_a_mean_over_fewer_data_sets_than_the_sentence_has_refutes_nothing(paper_plan, row_of):
    experiment = paper_plan.experiments["daigavane"]
    claim = experiment.claims["D1"]
    tests = [test.model_copy(update={"across": "mean"}) for test in claim.test.tests]
    averaged = claim.model_copy(update={"test": claim.test.model_copy(update={"tests": tuple(tests)}), "premises": ()})
    claims = experiment.model_copy(update={"claims": {"D1": averaged}})
    row = row_of(dataclasses.replace(paper_plan, experiments={"daigavane": claims}), "D1",
                 GOOD | {"dp-gcn-1-published": 0.5})  # fmt: skip
    assert (row["verdict"], row["data"]) == ("not run", "missing in part")
    assert "its mean is over ogbn-products, ogbn-mag, too" in row["reason"]


def test_a_premise_fails_on_the_claims_own_rows(paper_plan, row_of):
    row = row_of(paper_plan, "D3", GOOD | {"gcn-1": 0.55, "dp-gcn-1-published": 0.8})
    assert row["verdict"] == "premise fails"
    assert row["reason"].startswith(
        "premise, without privacy the GCN is better than the MLP, which reads no edge: reddit"
    )
    assert row_of(paper_plan, "D3", GOOD | {"dp-gcn-1-published": 0.8})["verdict"] == "reproduced"


SUBSTITUTES = """
name: substitutes
title: Another data set than the paper's
note: For tests.
seeds: 5
tasks:
  text: {label: arxiv-text, task: {dataset: cora}}
papers:
  daigavane:
    rules:
      - set: {training: {learning_rate: 0.01, batch_size: 1000, steps: 10}}
    artefacts:
      table1: [{tasks: [text], epsilons: [12]}]
"""


def test_substitutes_decide_nothing_and_are_said_beside(row_of, tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "experiments").symlink_to(WORKFLOW / "experiments")
    (tmp_path / "suites" / "substitutes.yaml").write_text(SUBSTITUTES)
    plan = load_plan(Config(suite="substitutes"), tmp_path)
    for mean, verdict in ((0.7, "reproduced"), (0.5, "contradicted")):
        row = row_of(plan, "D1", GOOD | {"dp-gcn-1-published": mean})
        assert row["verdict"] == "not run"
        assert row["reason"] == "no run on the paper's own data with its own mechanism"
        assert row["data"] == "missing in part"
        assert f": {verdict} on arxiv-text (5 seeds, power " in row["substitutes"]


def test_a_computed_part_refutes_a_sentence_of_whose_other_parts_nothing_is_here():
    """Claim I13: the bound is computed, the F1 is of a table that suite mnist has not."""
    plan = plan_of("mnist")
    experiment = plan.experiments["igamberdiev"]
    claims = {name: experiment.claims[name] for name in ("I4", "I13")}
    only = dataclasses.replace(plan, experiments={"igamberdiev": experiment.model_copy(update={"claims": claims})})
    table = claims_table(only, None).set_index("claim")
    assert table.loc["I4", "verdict"] == "not run"
    assert table.loc["I13", "verdict"] == "contradicted"
    assert table.loc["I13", "data"] == ""  # it is none of the claims whose data are here
    assert {one.verdict for one in read_parts(table.loc["I13", "parts"])} == {"contradicted", "not run"}


@pytest.mark.parametrize(
    "numbers", [SURE, FALSE, OPEN, OPEN | {"power": 0.1}, OPEN | {"missing": "no data"}, {"missing": "x"}]
)
def test_deciding_again_over_all_suites_repeats_no_words(numbers):
    once = judged([part("a", numbers), part("p", SURE, premise=True)])
    assert judged(once[2]) == once


# ---- the table over all suites ---------------------------------------------------------------------------------------


def test_each_part_is_taken_from_the_suite_with_most_seeds(paper_plan):
    experiment = paper_plan.experiments["daigavane"]
    claim = experiment.claims["D3"].model_copy(update={"readings": {}})
    first, second = claim.by_part
    premise = claim.premises[0].part
    held = part(premise, SURE, premise=True)

    def table(**parts):
        import pandas as pd

        row = {"claim": "D3", "parts": parts_as_text(list(parts.values())), "scope": "on reddit", "mechanism": "m",
               "substitutes": ""}  # fmt: skip
        return pd.DataFrame([row]).set_index("claim", drop=False)

    weak = table(a=part(first, FALSE, power=0.95), p=held)
    strong = table(a=part(first, SURE, n=6), b=part(second, SURE), p=held)
    found = overview({"D3": (experiment, claim)}, {"weak": weak, "strong": strong}).iloc[0]
    assert found["verdict"] == "reproduced"
    assert found["power"] == "0.90 (6 seeds); 0.90 (5 seeds)"
    assert [line for line, _ in found["lines"]][:3] == [
        f"premise: {premise}: reproduced: {premise} was seen",
        f"{first}: reproduced (power 0.90, 6 seeds): {first} was seen",
        f"{second}: reproduced (power 0.90, 5 seeds): {second} was seen",
    ]  # fmt: skip
    larger = table(a=part(first, SURE, power=0.1, larger=True), b=part(second, SURE), p=held)
    found = overview({"D3": (experiment, claim)}, {"larger": larger}).iloc[0]
    assert (
        found["lines"][1][0] == f"{first}: reproduced (power 0.10, 5 seeds; a larger effect is shown): {first} was seen"
    )
    # a premise that is open where a part is taken from, then one that fails there
    other = table(a=part(first, SURE, n=7), p=part(premise, OPEN | {"power": 0.1}, premise=True))
    found = overview({"D3": (experiment, claim)}, {"other": other, "strong": strong}).iloc[0]
    assert found["verdict"] == "inconclusive"
    other = table(a=part(first, SURE, n=7), p=part(premise, OPEN, premise=True))
    found = overview({"D3": (experiment, claim)}, {"other": other, "strong": strong}).iloc[0]
    assert found["verdict"] == "premise fails"
    assert overview({"D3": (experiment, claim)}, {}).iloc[0]["verdict"] == "not run"


def test_there_are_74_claims_and_each_quotes_its_paper():
    from dpgraph.reporting.claims.page import papers_claims

    claims = papers_claims(WORKFLOW)
    assert len(claims) == 74
    assert sorted(name[0] for name in claims) == sorted("D" * 14 + "H" * 11 + "I" * 20 + "V" * 8 + "Z" * 21)
    for name, (_, claim) in claims.items():
        assert len(claim.tests) == 1 or all(one.part for one in claim.tests), name
