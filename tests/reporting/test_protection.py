"""Relation, scope, unmet premises and what no epsilon covers: wherever an epsilon is shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpgraph.planning.plan import Entry, Plan
from dpgraph.privacy.mechanisms.none import NoRecord
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting import protection
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.display import Table
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.guarantee import PLACES, RunGuarantee
from dpgraph.reporting.latex import as_latex
from dpgraph.reporting.results import PRIVACY, Results
from dpgraph.reporting.tables import as_html, as_markdown, write_table
from dpgraph.reporting.views import accounting
from dpgraph.reporting.views.accounting import accounting_display, accounting_table
from dpgraph.reporting.views.class_wise.display import fairness_display
from dpgraph.reporting.views.class_wise.rows import fairness_table
from dpgraph.reporting.views.privacy_utility import method_labels, privacy_utility_points
from dpgraph.reporting.views.registry import function_of
from tests.reporting.conftest import first_entries, with_derived

PREMISES = "lists: ran stable, presumed algorithm-1; batches: ran poisson, presumed fixed-size without replacement"
VOCABULARY = "the vocabulary is made from all nodes' texts"
MIXED = {"dp-gcn": ("node-null", "parameters"), "dp-residual": ("node-remove", "joint")}


def row(**changed: object) -> dict:
    nothing = dict.fromkeys(PLACES, "") | {"label": "A", "eps_published": math.nan, "eps_rigorous": 2.0}
    return nothing | {"relation_rigorous": "node-null", "scope_rigorous": "joint"} | changed


def changed_by(method: str) -> dict[str, object]:
    """Two methods of unlike relation; one has unmet premises, the other an uncovered step and no claimed epsilon."""
    if method not in MIXED:
        return {}
    relation, scope = MIXED[method]
    columns: dict[str, object] = {"relation_rigorous": relation, "scope_rigorous": scope}
    if method == "dp-gcn":
        return columns | {"published_unmet": PREMISES}
    nothing = {"eps_published": math.nan, "eps_published_reason": "no paper", "relation_published": "none"}
    return columns | nothing | {"scope_published": "none", "uncovered": VOCABULARY}


@pytest.fixture(scope="module")
def mixed(views_plan: Plan, rows_of: Callable, as_frame: Callable) -> pd.DataFrame:
    rows = []
    for entry in first_entries(views_plan):
        own = rows_of(entry, **changed_by(entry.method_id))
        classes = [one | {"metric": "class_accuracy/test", "class_id": i} for i in range(3) for one in own if
                   one["final"] and one["metric"] == "accuracy/test"]  # fmt: skip
        rows += [*own, *classes]
    return as_frame(rows)


# ---- words -----------------------------------------------------------------------------------------------------------


def test_every_relation_and_scope_has_a_meaning() -> None:
    for name in (*Relation, *Scope):
        assert name.meaning


def test_texts_of_one_column_come_apart_again() -> None:
    joined = protection.joined(("a", "b; c"))
    assert joined == "a; b, c"
    assert protection.parted(joined) == ["a", "b, c"]
    assert protection.parted("") == protection.parted(math.nan) == []


def test_both_epsilons_have_their_own_relation() -> None:
    assert protection.both(row(), "relation") == "– / node-null"
    said = {"eps_published": 1.0, "relation_published": "node-null", "scope_published": "parameters"}
    assert protection.both(row(**said), "relation") == "node-null"
    assert protection.both(row(**said), "scope") == "parameters / joint"
    public = {"eps_published": math.inf, "eps_rigorous": math.inf, "relation_rigorous": "none"}
    assert protection.both(row(**public), "relation") == "–"


def test_the_mark_is_for_private_runs() -> None:
    assert protection.mark(row()) == ""
    assert protection.mark(row(uncovered=VOCABULARY)) == "†"
    assert protection.mark(row(uncovered=VOCABULARY, eps_rigorous=math.nan)) == "†"
    assert protection.mark(row(uncovered=VOCABULARY, eps_rigorous=math.inf)) == ""


def test_unlike_relation_or_scope_is_said() -> None:
    one, wide, edge = row(), row(label="B", scope_rigorous="parameters"), row(label="C", relation_rigorous="edge")
    for other in (wide, edge):
        assert protection.remarks(pd.DataFrame([one, other]))[0] == protection.UNLIKE
        assert any("no common scale" in text for text in protection.caption(pd.DataFrame([one, other])))
    assert not protection.unlike(pd.DataFrame([one, row(label="B", eps_rigorous=7.0)]))
    assert not protection.unlike(pd.DataFrame([one, row(eps_rigorous=math.inf, relation_rigorous="none")]))
    assert protection.kinds(pd.DataFrame([one, wide, row(label="D")]), "rigorous") == {
        "node-null, joint": ["A", "D"],
        "node-null, parameters": ["B"],
    }


def test_what_reads_no_record_stands_beside_all() -> None:
    told = NoRecord(steps=1).statement()
    free = row(**RunGuarantee.stated(told).columns)
    assert not protection.unlike(pd.DataFrame([row(), free]))


def test_meanings_premises_and_gaps_stand_below_once() -> None:
    told = {"published_unmet": PREMISES, "eps_published": 1.0, "uncovered": f"{VOCABULARY}; standardised"}
    rows = [row(**told), row(**told), row(**told, label="B")]
    remarks = protection.remarks(pd.DataFrame(rows))
    assert f"Relation node-null: {Relation.NODE_NULL.meaning}." in remarks
    assert f"Scope joint: {Scope.JOINT.meaning}." in remarks
    premises = [text for text in remarks if text.startswith("Premise of ε claimed that does not hold")]
    assert [text.partition(": ")[2] for text in premises] == [f"{text}." for text in PREMISES.split("; ")]
    assert all("(A, B)" in text for text in premises)
    assert remarks[-2:] == [
        f"† Reads private data, and no ε covers it (A, B): {VOCABULARY}.",
        "† Reads private data, and no ε covers it (A, B): standardised.",
    ]


# ---- tables ----------------------------------------------------------------------------------------------------------


def cells(table: Table, name: str, column: str) -> list[str]:
    """Of the rows whose first cell begins with `name`."""
    place = table.columns.index(column)
    return [line[place].value for block in table.blocks for line in block.rows if line[0].value.startswith(name)]


def check_remarks(remarks: list[str]) -> None:
    text = "\n".join(remarks)
    assert protection.UNLIKE in remarks
    assert f"Relation node-remove: {Relation.NODE_REMOVE.meaning}." in remarks
    assert f"Scope joint: {Scope.JOINT.meaning}." in remarks
    assert text.count("Premise of ε claimed that does not hold for what ran (DP-GCN, rigorous)") == 2
    assert f"† Reads private data, and no ε covers it (DP-GCN, residual clipping): {VOCABULARY}." in remarks


@pytest.fixture
def tables(views_plan: Plan, mixed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> dict[str, Table]:
    """Of each view with a column of proved epsilons, over methods of unlike relation."""
    methods = ("gcn", "dp-gcn-published", "dp-gcn", "dp-residual")
    entries = tuple(entry for entry in views_plan.entries_of("daigavane/fig2") if entry.method_id in methods)
    counts = {entry.task_id: np.array([30, 20, 10]) for entry in entries}
    monkeypatch.setattr(Plan, "entries_of", lambda self, name: list(entries))
    accuracy = function_of("daigavane/table3", "accuracy", "table")(views_plan, "daigavane/table3", mixed).table
    fairness = fairness_display("t", fairness_table(views_plan, "daigavane/classes", mixed, counts))
    return {"accuracy": accuracy, "class-wise": fairness}


@pytest.mark.parametrize("view", ["accuracy", "class-wise"])
def test_tables_say_relation_scope_and_gaps_row_by_row(tables: dict[str, Table], view: str) -> None:
    table = tables[view]
    place = table.columns.index("ε proved")
    assert table.columns[place - 1 : place + 3] == ["ε claimed", "ε proved", "Relation", "Scope"]
    assert cells(table, "DP-GCN, rigorous", "Relation") == ["node-remove / node-null"] * 2
    assert cells(table, "DP-GCN, rigorous", "Scope") == ["parameters"] * 2
    assert cells(table, "DP-GCN, residual", "Relation") == ["none / node-remove"] * 2
    assert cells(table, "DP-GCN, residual", "ε proved") == ["2.00†", "12.0†"]
    assert cells(table, "DP-GCN, rigorous", "ε proved") == ["2.00", "12.0"]
    assert cells(table, "DP-GCN, paper", "Relation") == ["node-remove / none"] * 2
    assert cells(table, "GCN", "Relation") == ["–"]
    check_remarks(table.remarks)
    assert "2.00†" in as_markdown(table)
    assert "2.00†" in as_html(table)
    assert r"2.00$^\dagger$" in as_latex(table, "T", "t")
    assert r"$^\dagger$ Reads private data" in as_latex(table, "T", "t")


def test_a_sweep_says_it_by_value_where_values_differ(
    views_plan: Plan, rows_of: Callable, as_frame: Callable, tmp_path: Path
) -> None:
    rows = []
    for entry in first_entries(views_plan):
        moved = entry.method_id == "dp-gcn" and entry.value == "full"
        extra = {"relation_rigorous": "graph", "uncovered": VOCABULARY} if moved else {}
        rows += rows_of(entry, **(extra if entry.task_id == "arxiv" else {}))
    text = write_table(views_plan, "daigavane/table5", as_frame(rows), tmp_path / "t")[1].read_text()
    arxiv, other = text.split("Another graph")[:2]
    assert arxiv.count("|  | relation | – | node-remove / none | node-remove / node-null |") == 2
    assert arxiv.count("|  | relation | – | node-remove / none | node-remove / graph |") == 1
    assert "| 37.2 / 12.0† |" in arxiv
    assert other.count("|  | relation |") == 1  # all values alike: once
    assert protection.UNLIKE in text


def test_confusions_and_marks(
    splits_run: Plan, splits_rows_of: Callable, as_frame: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [one for entry in splits_run.entries_of("igamberdiev/confusion") for one in splits_rows_of(entry)]
    frame = as_frame(rows).assign(uncovered=VOCABULARY)
    predicted = np.array([0, 0, 1, 2, 2, 2, 2, 2, 2, 0, 0, 0])
    monkeypatch.setattr("dpgraph.reporting.stored.Predictions.predicted", lambda *_: predicted[:9])
    frame = with_derived(splits_run, frame)
    text = write_table(splits_run, "igamberdiev/confused", frame, tmp_path / "t")[1].read_text()
    assert "| ε claimed / proved |  |  |  | ∞ / ∞ | 2.00 / 3.40† |" in text
    assert "† Reads private data" in text
    assert "Relation graph: any other graph" in text
    _, caption = said(splits_run, "igamberdiev/confusion", frame, tmp_path / "f")
    assert "Claimed and proved ε: graph, parameters." in caption
    assert "3.40†" in caption


def test_accounting_says_it_too(splits_run: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = splits_run.entries_of("igamberdiev/table3")[:2]
    monkeypatch.setattr(Plan, "entries_of", lambda self, name: entries)

    def told(entry: Entry, known: Results) -> dict:
        base = {"noise_std_over_clip": 4.0, "steps": 3, "delta": 1e-5, "status": "ok", "reason": ""}
        numbers = {f"eps_{mode}": 2.0 for mode in protection.MODES} | {
            f"eps_{mode}_reason": "" for mode in protection.MODES
        }
        own = row(relation_published="subgraph", scope_published="parameters", published_unmet=PREMISES, **numbers)
        first = entry is entries[0]
        more = {"label": entry.method.label, "uncovered": VOCABULARY if first else ""}
        return {name: own[name] for name in PRIVACY} | base | {
            "relation_rigorous": "graph" if first else "node-remove", "uncovered": more["uncovered"]
        }  # fmt: skip

    monkeypatch.setattr(accounting, "_calibrated", told)
    table = accounting_display("t", accounting_table(splits_run, "igamberdiev/table3", None), "Noise")
    assert [line[-3].value for line in table.blocks[0].rows] == ["2.00†", "2.00"]
    assert [line[-2].value for line in table.blocks[0].rows] == ["subgraph / graph", "subgraph / node-remove"]
    assert table.columns[-3:] == ["ε proved", "Relation", "Scope"]
    assert protection.UNLIKE in table.remarks


# ---- figures ---------------------------------------------------------------------------------------------------------


def said(plan: Plan, artefact: str, frame: pd.DataFrame, stem: Path) -> tuple[str, str]:
    """Texts in a figure, which matplotlib leaves as comments next to their paths, and its caption; lines are joined."""
    write_figure(plan, artefact, frame, stem)
    svg = stem.with_suffix(".svg").read_text()
    inside = " ".join(re.findall(r"<!-- (.*?) -->", svg, flags=re.S))
    return " ".join(inside.split()), " ".join(stem.with_suffix(".txt").read_text().split())


def test_curves_of_unlike_relation_never_share_an_axis_silently(
    views_plan: Plan, mixed: pd.DataFrame, tmp_path: Path
) -> None:
    inside, caption = said(views_plan, "daigavane/fig2", mixed, tmp_path / "fig2")
    assert "proved ε relations differ" in inside
    assert "claimed ε node-remove, parameters" in inside
    both = "Proved ε: node-null, parameters (DP-GCN, rigorous); node-remove, joint (DP-GCN, residual clipping)."
    assert both in caption
    assert "their ε are no common scale" in caption
    assert "Premise of ε claimed that does not hold for what ran (DP-GCN, rigorous): lists: ran stable" in caption
    assert "DP-GCN, residual clipping†" in inside
    assert "No claimed ε: DP-GCN, residual clipping." in caption
    assert f"† Reads private data, and no ε covers it (DP-GCN, residual clipping): {VOCABULARY}." in caption
    points = pd.read_csv(tmp_path / "fig2.csv")
    assert set(points.loc[points["method"] == "dp-gcn", "published_unmet"].dropna()) == {PREMISES}


def test_one_relation_stands_at_the_axis(views_plan: Plan, mixed: pd.DataFrame, tmp_path: Path) -> None:
    kept = mixed[mixed["method"] != "dp-residual"]
    inside, caption = said(views_plan, "daigavane/fig2", kept, tmp_path / "fig2")
    assert "proved ε node-null, parameters" in inside
    assert "no common scale" not in caption


def test_printed_points_have_the_published_relation(views_plan: Plan, mixed: pd.DataFrame) -> None:
    points = privacy_utility_points(views_plan, "daigavane/fig2", mixed)
    printed = points[(points["source"] != "ours") & (points["variant"] == "published")]
    assert set(printed["relation_published"]) == {"node-remove"}
    assert set(printed["relation_rigorous"]) == {"none"}
    assert "†" not in "".join(method_labels(points[points["method"] != "dp-residual"]).values())


def test_sweeps_and_classes_say_it_in_their_caption(
    views_plan: Plan, mixed: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {task: np.array([30, 20, 10]) for task in ("arxiv", "other")}
    monkeypatch.setattr("dpgraph.reporting.views.class_wise.display.class_counts", lambda plan, artefact, rows: counts)
    marked = mixed.assign(uncovered=mixed["uncovered"].where(mixed["method"] != "dp-gnn", VOCABULARY))
    for name in ("batches", "fig4"):
        _, text = said(views_plan, f"daigavane/{name}", marked, tmp_path / name)
        assert "Claimed ε: node-remove, parameters." in text
        assert "Proved ε: node-null, parameters." in text
        assert "proved ε 12.0†" in text
        assert "† Reads private data" in text


# ---- claims ----------------------------------------------------------------------------------------------------------


def test_claims_over_unlike_relations_say_so(
    paper_plan: Plan, rows_of: Callable, as_frame: Callable, tmp_path: Path
) -> None:
    """DP-GCN's predictions read the graph, those of DP-MLP their own record: budgets of unlike scope."""
    rows = []
    for entry in first_entries(paper_plan):
        rows += rows_of(entry, uncovered=VOCABULARY if entry.method_id == "dp-mlp" else "")
    evidence = claims_table(paper_plan, as_frame(rows))["evidence"]
    both = evidence[evidence.str.contains("dp-mlp on") & evidence.str.contains("dp-gcn-1 on")]
    assert len(both)
    for text in both:
        assert re.search(r"dp-mlp on \S+: claimed \S+ \(node-remove, .*?\), proved \S+† \(node-null, joint\)", text)
        assert protection.UNLIKE.removesuffix(".") in text
        assert f"no ε covers it (dp-mlp): {VOCABULARY}" in text
    alone = evidence[~evidence.str.contains("dp-mlp on") & evidence.str.contains("dp-gcn-1 on")]
    assert not alone.str.contains("no common scale").any()


def test_an_outcome_carries_all_columns(views_plan: Plan, mixed: pd.DataFrame) -> None:
    entry = next(one for one in views_plan.entries_of("daigavane/fig2") if one.method_id == "dp-residual")
    told = Results(mixed).outcome(entry, "accuracy/test").privacy
    assert {name: told[name] for name in told if name.startswith(("relation", "scope", "published", "uncovered"))} == {
        "relation_published": "none",
        "scope_published": "none",
        "relation_rigorous": "node-remove",
        "scope_rigorous": "joint",
        "published_unmet": "",
        "uncovered": VOCABULARY,
    }
