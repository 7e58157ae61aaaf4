"""Who is ranked with whom, and who is told apart from the best: against a count by hand of the same rows."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import ttest_rel

from dpgraph.config.suite import Suite
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.claims.page import held
from dpgraph.reporting.claims.parts import NOT_RUN
from dpgraph.reporting.leaderboard.finding import COLUMNS, PROTECTED, SCOPES, Overview, finding, overview
from dpgraph.reporting.leaderboard.finding import headline as headline_of
from dpgraph.reporting.leaderboard.standings import RANKING, data_names, standings
from dpgraph.reporting.ranking import BEST, CLAIMED, LEVEL, PROVED, PUBLIC, TIED, implies, p_equal, ranked
from dpgraph.reporting.views.accuracy.table import accuracy_table


@pytest.fixture(scope="session")
def table(plan, results):
    return standings(plan, results)


def rankings(table):
    """Yield the rows of each promise and all that compete there: in the demonstration, joint implies parameters."""
    for _, rows in table[table["kind"] != CLAIMED].fillna({"delta": 0.0}).groupby([*RANKING, "relation", "delta"]):
        for scope, own in rows.groupby("scope"):
            yield own, rows if scope == "parameters" else own


def test_unlike_promises_share_no_ranking_and_claims_have_none(table):
    assert set(table["kind"]) == {PROVED, CLAIMED, PUBLIC}
    assert (table.loc[table["kind"] == PUBLIC, ["relation", "scope"]] == "").all(axis=None)
    assert set(table.loc[table["kind"] == PROVED, "scope"]) == {"parameters", "joint"}
    assert not table.loc[table["kind"] == CLAIMED, ["best", "tied"]].any(axis=None)
    assert len(list(rankings(table))) > 5


def test_each_ranking_has_one_best_unless_a_stronger_promise_is_better(table):
    beaten = 0
    for own, rivals in rankings(table):
        best = own[own["best"]]
        if own["mean"].max() < rivals["mean"].max():
            assert best.empty
            beaten += 1
            continue
        assert best["cell"].nunique() == 1  # in the rows of each paper that has it
        assert best["mean"].iloc[0] == rivals["mean"].max()
        assert not (own["best"] & own["tied"]).any()
    assert beaten == 0  # a network that reads no edge is the worst here; see below for one that is not


def test_ties_are_those_of_the_paired_test(table, results):
    """With the best of its own ranking, or of one that its promise implies."""
    tested = {}
    for _, rivals in rankings(table):
        final = results[results["final"] & (results["metric"] == "accuracy/test")]
        values = {
            place: rows.set_index("seed")["value"]
            for place, rows in final.groupby(["paper", "cell"])
            if place[1] in set(rivals["cell"])
        }
        best = values[tuple(rivals.loc[rivals["mean"].idxmax(), ["paper", "cell"]])]
        top, p_values = rivals.loc[rivals["mean"].idxmax(), "cell"], {}
        for row in rivals[rivals["cell"] != top].itertuples():
            own = values[row.paper, row.cell]
            common = best.index.intersection(own.index)
            if len(common) > 1:
                p_values[row.cell] = ttest_rel(best[common], own[common]).pvalue
        worse = set()  # Holm's procedure, step by step
        for step, cell in enumerate(sorted(p_values, key=p_values.__getitem__)):
            if p_values[cell] * (len(p_values) - step) >= 0.05:
                break
            worse.add(cell)
        for place, cell in rivals.loc[~rivals["best"] & rivals["cell"].isin(p_values), "cell"].items():
            tested[place] = tested.get(place, False) or cell not in worse
    assert len(tested) > 10
    assert tested == table.loc[list(tested), "tied"].to_dict()


ORDER = [  # strong, weak, whether the first implies the second
    (("graph", "joint", 1e-5), ("node-null", "joint", 1e-5), True),
    (("node-remove", "joint", 1e-5), ("node-null", "joint", 1e-5), False),
    (("node-null", "joint", 1e-5), ("node-remove", "joint", 1e-5), False),
    (("node-null", "joint", 1e-5), ("node-null", "parameters", 1e-5), True),
    (("node-null", "parameters", 1e-5), ("node-null", "joint", 1e-5), False),
    (("graph", "strangers", 1e-5), ("node-null", "joint", 1e-5), False),
    (("graph", "strangers", 1e-5), ("node-null", "parameters", 1e-5), True),
    (("edge", "all outputs", 1e-5), ("edge", "joint", 1e-5), True),
    (("training-node", "joint", 1e-5), ("node-null", "joint", 1e-5), False),
    (("node-null", "joint", 1e-5), ("training-node", "joint", 1e-5), False),
    (("node-remove", "joint", 1e-5), ("edge", "joint", 1e-5), False),
    (("record-replace", "joint", 1e-5), ("record-remove", "joint", 1e-5), True),
    (("training-record", "joint", 1e-5), ("record-remove", "joint", 1e-5), False),
    (("class", "joint", 1e-5), ("subclass", "joint", 1e-5), False),
    (("node-null", "joint", 1e-6), ("node-null", "joint", 1e-5), True),
    (("node-null", "joint", 1e-4), ("node-null", "joint", 1e-5), False),
    (("node-null / edge", "joint", 1e-5), ("node-null", "joint", 1e-5), False),
]


@pytest.mark.parametrize(("strong", "weak", "holds"), ORDER)
def test_a_promise_implies_another_only_as_documented(strong, weak, holds):
    assert implies(strong, weak) == holds
    assert implies(strong, strong)
    assert implies(weak, weak)


def better(results, table, relation="node-null"):
    """Results in which the networks that read no edge are the best, by far, under a relation of their own."""
    own = results["cell"].isin(table.loc[(table["kind"] == PROVED) & (table["scope"] == "joint"), "cell"])
    scored = own & (results["metric"] == "accuracy/test")
    found = results.assign(value=results["value"].where(~scored, results["value"] + 0.4))
    found.loc[own, "relation_rigorous"] = relation
    return found


def test_a_better_result_with_a_stronger_promise_is_not_passed_over(plan, results, table, claims):
    """In the headline, on the leaderboard, and in tables, which all rank alike."""
    first = table.loc[table["kind"] == PROVED, "data"].iloc[0]
    tables = [name for name, one in plan.artefacts.items() if (one.view, one.kind) == ("accuracy", "table")]
    checked = 0
    for relation, competes in (("node-null", True), ("graph", True), ("training-node", False)):
        changed = better(results, table, relation)
        found = standings(plan, changed)
        proved = found[(found["data"] == first) & (found["kind"] == PROVED)]
        least = proved[proved["budget"] == proved["budget"].min()]
        joint, weak = (least[least["scope"] == scope] for scope in ("joint", "parameters"))
        assert len(weak)
        assert joint["mean"].min() > weak["mean"].max() + 5
        assert joint["best"].any()
        assert weak["best"].any() != competes
        sentence = finding(plan, found, claims)
        top = (joint if competes else weak).sort_values("mean").iloc[-1]
        rivals = least["label"].nunique() if competes else weak["label"].nunique()
        best = f"“{top['label']}”, {top['mean']:.1f} %, best of {rivals} private methods that protect one node’s"
        assert best in sentence
        assert ("joint DP; some of the others cover less: model only" in sentence) == competes
        assert ("(the whole graph, joint DP;" in sentence) == (relation == "graph")
        lines = {(about["relation"], about["scope"]): best for about, best in overview(proved).lines}
        line = lines["node-null", "parameters"][least["budget"].iloc[0]]
        assert line["cell"] == top["cell"]
        told = {"node-null": "joint", "graph": "graph, joint", "training-node": ""}
        assert line["stronger"] == told[relation]
        ranks = pd.concat([accuracy_table(plan, name, changed) for name in tables])
        ranks = ranks[ranks["eps_rigorous"] < math.inf]
        for _, rows in ranks.groupby(["artefact", "task", "epsilon_target"]):
            joint = rows["scope_rigorous"] == "joint"
            if joint.any() and not joint.all() and competes:
                assert (rows.loc[~joint, "rank"] == "").all()
                assert (rows.loc[joint, "rank"] != "").any()
                checked += 1
    assert checked


def test_a_budget_is_never_below_epsilon(table):
    private = table[table["kind"] != PUBLIC]
    finite = private[np.isfinite(private["epsilon"])]
    assert (finite["budget"] >= finite["epsilon"] * (1 - 2e-6)).all()
    assert (table.loc[table["kind"] == PUBLIC, "budget"] == math.inf).all()


def test_rows_name_their_cell_and_commit(table, plan):
    assert set(table["commit"]) == {"0123456789ab"}
    assert set(table["cell"]) <= set(plan.cells)


def test_a_constant_class_is_a_floor_and_in_no_ranking(plan, results, table, monkeypatch):
    """A proved row with a smaller mean on the same data says so; noise alone, at a smaller scope, is no such floor."""
    proved = table[table["kind"] == PROVED].astype({"mean": float})
    groups = [
        rows for _, rows in proved.groupby(["dataset", "setting", "split", "metric"]) if rows["mean"].nunique() > 1
    ]
    best, low = groups[0].loc[groups[0]["mean"].idxmax()], groups[0].loc[groups[0]["mean"].idxmin()]
    monkeypatch.setattr(
        "dpgraph.reporting.ranking.reads_nothing", lambda outcome: outcome.guarantee.rigorous.epsilon == 0
    )
    free = results.copy()
    free.loc[free["cell"] == best["cell"], "eps_rigorous"] = 0.0
    words = {best["method"]: "a random class"}
    monkeypatch.setattr("dpgraph.reporting.ranking.floors", lambda relation: words)
    found = standings(plan, free)
    assert best["cell"] not in set(found["cell"])
    labels = found.loc[found["cell"] == low["cell"], "label"]
    assert labels.str.endswith(", below a random class (ε = 0)").all()


def test_what_depends_on_no_record_and_what_did_not_run_is_left_out(plan, results):
    free = results.copy()
    cell = free.loc[free["variant"] == "rigorous", "cell"].iloc[0]
    free.loc[free["cell"] == cell, "eps_rigorous"] = 0.0
    assert cell in set(standings(plan, results)["cell"])
    assert cell not in set(standings(plan, free)["cell"])
    missing = set(results.loc[results["status"] != "ok", "cell"])
    assert missing
    assert not missing & set(standings(plan, results)["cell"])


def test_the_overview_holds_the_best_proved_rows_and_no_others(table):
    seen = overview(table)
    shown = [row["cell"] for _, best in seen.lines for at, row in best.items() if at != math.inf]
    proved = rankings(table[table["kind"] == PROVED])
    assert sorted(shown) == sorted(rivals.loc[rivals["mean"].idxmax(), "cell"] for _, rivals in proved)
    assert len(seen.budgets) <= COLUMNS
    for _, best in seen.lines:
        assert _everything(seen, best) == sorted(row["cell"] for at, row in best.items() if at != math.inf)


def _everything(seen, best):
    """Cells of private rows that a line shows, in columns and beside them."""
    columns = [row for at, row in seen.shown(best).items() if at != math.inf]
    return sorted(row["cell"] for row in [*columns, *(row for _, row in seen.others(best))])


def test_a_budget_without_a_column_is_in_the_next_larger_one_if_that_is_empty():
    row = {at: {"cell": f"c{at:g}", "budget": at} for at in (1.0, 4.0, 8.0, 12.0, 15.0)}
    seen = Overview((1.0, 4.0, 15.0), ())
    alone = {1.0: row[1.0], 12.0: row[12.0], math.inf: {"cell": "public", "budget": math.inf}}
    assert seen.shown(alone) == {1.0: row[1.0], 15.0: row[12.0], math.inf: alone[math.inf]}
    assert seen.others(alone) == []
    both = {8.0: row[8.0], 12.0: row[12.0]}
    assert seen.shown(both) == {15.0: row[12.0]}  # the larger budget of the two
    assert seen.others(both) == [(8.0, row[8.0])]
    taken = {12.0: row[12.0], 15.0: row[15.0]}
    assert seen.shown(taken) == {15.0: row[15.0]}
    assert seen.others(taken) == [(12.0, row[12.0])]
    beyond = {20.0: {"cell": "c20", "budget": 20.0}}
    assert seen.shown(beyond) == {}
    assert [at for at, _ in seen.others(beyond)] == [20.0]


def test_the_finding_is_the_best_of_the_promise_with_the_most_rivals(plan, table, claims):
    proved = table[table["kind"] == PROVED]
    rows = proved[proved["data"] == proved["data"].iloc[0]]
    rows = rows[rows["budget"] == rows["budget"].min()]
    best = rows.loc[rows["mean"].idxmax()]
    assert set(rows["scope"]) == {"joint", "parameters"}  # of which the second ranking has all rows
    assert best["scope"] == "parameters"
    sentence = finding(plan, table, claims)
    assert sentence.startswith("Demonstration: ")
    assert f"“{best['label']}”, {best['mean']:.1f} %, best of {rows['label'].nunique()} private methods" in sentence
    more = rows.loc[rows["scope"] == "joint", "label"].nunique()
    assert f"protect one node’s record (model only; {more} of the others protects more: joint DP)" in sentence
    assert len(sentence.split()) <= 36  # with the first word of a demonstration
    nothing = finding(plan, table[table["kind"] != PROVED], claims)
    assert nothing.startswith("No private result")


def of_images(**columns):
    """Rows of one data set and budget, of method A to C, best first."""
    about = {"data": "Images", "metric": "test accuracy (%)", "kind": PROVED, "epsilon": 4.0, "budget": 4.0, "n": 5}
    about |= {"scope": "joint", "delta": 1e-5, "below": "", "best": False, "tied": False}
    named = {"label": ["A", "B", "C"], "mean": [83.9, 78.0, 77.0], "relation": ["record-remove"] * 3}
    return pd.DataFrame(about | named | columns, index=range(3))


def test_the_finding_says_what_the_others_protect_more(plan, claims):
    """As it says what they protect less: with less to protect, the best of the list is no wonder."""
    mixed = of_images(relation=["record-remove", "record-replace", "record-replace"])
    told = "best of 3 private methods that protect one record (joint DP{})"
    assert told.format("; 2 of the others protect more: one record, replaced") in finding(plan, mixed, claims)
    both = of_images(
        relation=["record-remove", "record-replace", "record-remove"], label=["A", "B", "B"], mean=[9, 8, 7]
    )
    assert "best of 2 private methods that protect one record (joint DP)" in finding(plan, both, claims)
    assert told.format("") in finding(plan, of_images(), claims)
    scopes = of_images(scope=["parameters", "parameters", "joint"])
    assert "(model only; 1 of the others protects more: joint DP)" in finding(plan, scopes, claims)


def test_the_finding_names_who_is_not_told_apart(plan, claims):
    assert "(joint DP), not significantly different from “B”." in finding(
        plan, of_images(tied=[False, True, False]), claims
    )
    assert ", not significantly different from “B” and “C”." in finding(
        plan, of_images(tied=[False, True, True]), claims
    )
    more = pd.concat(
        [of_images(tied=[False, True, True]), of_images(label=["D"] * 3, mean=1.0, tied=True)], ignore_index=True
    )
    assert ", not significantly different from 3 others." in finding(plan, more, claims)
    # tied with the best of those that protect more, where A does not compete
    other = of_images(relation=["record-remove", "record-replace", "record-replace"], tied=[False, False, True])
    assert "significantly" not in finding(plan, other, claims)


def test_the_finding_without_privacy_says_among_how_many(plan, claims):
    public = of_images(kind=PUBLIC, relation="", scope="", delta=math.nan, epsilon=math.inf, tied=[False, True, False])
    best = "Without privacy only: “A” has 83.9 % on Images, "
    assert finding(plan, public, claims) == f"{best}best of 3 methods, not significantly different from “B”."
    assert finding(plan, public.iloc[:1], claims) == f"{best}the only method."


def test_a_suite_declares_which_data_set_its_first_sentence_is_about(plan, table, claims):
    names = data_names(plan)
    proved = set(table.loc[table["kind"] == PROVED, "data"])
    first = table.loc[table["kind"] == PROVED, "data"].iloc[0]
    other = next(task for task, name in names.items() if name in proved and name != first)
    absent = next(task for task in plan.suite.tasks if names.get(task) not in proved)
    for task, name in ((other, names[other]), (absent, first)):
        headline = {"task": task, "why": "it is the larger one"}
        suite = Suite.model_validate(plan.suite.model_dump() | {"headline": headline})
        declared = SimpleNamespace(suite=suite, artefacts=plan.artefacts, task=plan.task, entries_of=plan.entries_of)
        assert finding(declared, table, claims).startswith(f"Demonstration: {name}, ε = ")
        assert headline_of(declared, table) == name
    with pytest.raises(ValidationError, match=r"headline\.task=mars: expected one of"):
        Suite.model_validate(plan.suite.model_dump() | {"headline": {"task": "mars", "why": "far"}})


def test_every_relation_and_scope_has_words_for_a_headline():
    assert set(PROTECTED) == set(Relation) - {Relation.NONE}
    assert len(set(PROTECTED.values())) == len(PROTECTED)  # unlike relations have unlike words
    assert set(SCOPES) == set(Scope) - {Scope.NONE}


def test_more_methods_need_a_larger_difference():
    """One p-value of .03 tells two methods apart, but is not much among five; a cell is one method in all its rows."""
    rng = np.random.default_rng(10)
    best = pd.Series(rng.normal(size=8))
    near = best - rng.normal(0.8, 0.8, size=8)
    assert 0.025 < ttest_rel(best, near).pvalue < LEVEL
    key = ("data", "node-null", "joint", 1e-5)
    assert ranked([key] * 2, ["a", "b"], [best, near]) == [BEST, ""]
    assert ranked([key] * 4, ["a", "b", "b", "b"], [best, near, near, near]) == [BEST, "", "", ""]
    others = [near + shift for shift in (-0.001, -0.002, -0.003)]
    assert ranked([key] * 5, list("abcde"), [best, near, *others]) == [BEST, *[TIED] * 4]
    assert ranked([key] * 3, ["a", "b", "c"], [best, near, best - 9 + near / 99]) == [BEST, "", ""]  # a step down
    assert ranked([key] * 3, ["a", "b", "c"], [best, near, best.iloc[:1] - 9]) == [BEST, "", TIED]  # one seed: no test


KEY = ("data", "node-null", "joint", 1e-5)
HARDER = pd.Series([0.90, 0.91, 0.905, 0.80, 0.79, 0.81, 0.80, 0.80])  # by seed: the later splits are harder
AHEAD = HARDER + 0.02 + pd.Series([1, -1, 0, 1, -1, 0, 1, -1]) / 1000


def test_a_method_that_is_better_on_every_common_seed_is_the_best_whatever_its_other_seeds():
    few = HARDER.iloc[:3]
    assert AHEAD.mean() < few.mean() - 0.02
    assert p_equal(few, AHEAD) < LEVEL
    assert ranked([KEY] * 2, ["a", "b"], [AHEAD, few]) == [BEST, ""]


def test_of_methods_in_a_circle_the_largest_mean_is_the_best_and_what_beats_it_is_not_worse():
    """Each is clearly above the next one on the two seeds that both have: a over b, b over c, c over a."""
    a, b, c = (pd.Series(values) for values in ({0: 0.81, 1: 0.8101, 4: 0.50, 5: 0.50},
                                                {0: 0.80, 1: 0.80, 2: 0.71, 3: 0.7101},
                                                {2: 0.70, 3: 0.70, 4: 0.51, 5: 0.5101}))  # fmt: skip
    assert max(p_equal(a, b), p_equal(b, c), p_equal(c, a)) < LEVEL / 2
    assert ranked([KEY] * 3, ["a", "b", "c"], [a, b, c]) == [TIED, BEST, ""]


def test_the_first_sentence_names_the_best_row_whatever_its_mean(plan, table, claims):
    first = table[table["data"] == headline_of(plan, table)]
    own = first[(first["kind"] == PROVED) & (first["budget"] == first["budget"].min())]
    lower = own.assign(best=[row == len(own) - 1 for row in range(len(own))], tied=True, relation="edge", scope="joint")
    told = finding(plan, lower.reset_index(drop=True), claims)
    assert f"“{lower['label'].iloc[-1]}”" in told.partition("best of")[0]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8))
def test_equal_values_tie_and_shifted_ones_do_not(pairs):
    values = pd.Series([one for one, _ in pairs], dtype=float)
    assert p_equal(values, values.copy()) == 1
    assert p_equal(values, values - 1) < LEVEL
    assert math.isnan(p_equal(values, pd.Series([0.0], index=[99])))  # no common seed: nothing to tell them apart by


def test_a_proved_epsilon_above_100_is_no_finding(plan, table, claims):
    large = table.assign(epsilon=table["epsilon"].where(table["kind"] != PROVED, 101.0))
    assert finding(plan, large, claims).startswith("No private result has a proved ε of 100 or less")
    assert headline_of(plan, large) == ""
    assert overview(large).lines == ()
    private = (table["kind"] == PROVED) & (table["data"] == headline_of(plan, table))
    mixed = table.assign(epsilon=table["epsilon"].where(~private, 101.0))
    assert all(about["data"] != headline_of(plan, table) for about, _ in overview(mixed).lines)


def test_the_finding_of_a_suite_without_privacy_and_of_one_that_ranks_nothing(plan, table, claims):
    assert finding(plan, table[table["kind"] == PUBLIC], claims).startswith("Without privacy only: “")
    nothing, tested = table.iloc[:0], held(plan, claims)
    trained = (tested["verdict"] != NOT_RUN) & (tested["n"] > 0)  # computed claims are the same in every suite
    counts = tested.loc[trained, "verdict"].value_counts()
    sentence = finding(plan, nothing, claims)
    assert sentence.startswith("Claims tested here, without a ranking of methods: ")
    assert all(f" {count} {name}" in sentence for name, count in counts.items())
    assert next(iter(plan.artefacts.values())).title[:60] in finding(plan, nothing, claims.iloc[:0])
    assert headline_of(plan, nothing) == ""


def test_a_private_row_above_the_best_without_privacy_is_said():
    def line(name, public, private):
        best = {math.inf: {"mean": public}, 4.0: {"mean": private}} if public else {4.0: {"mean": private}}
        return {"data": name}, best

    seen = Overview((4.0,), (line("A", 78.4, 84.7), line("B", 90.0, 89.9), line("C", None, 70.0)))
    assert seen.caution.endswith(
        "not the strongest known: private rows are above the best of them on A (by up to 6.3 points)."
    )
    assert "baselines.csv" not in seen.caution  # which not every suite has
    more = Overview((4.0,), (line("A", 78.4, 80.0), line("A", 78.4, 79.0), line("B", 90.0, 90.1)))
    assert more.caution.endswith("on A (by up to 1.6 points); B (by up to 0.1 points).")
    assert Overview((4.0,), (line("B", 90.0, 89.9),)).caution == ""
