"""Searches from made-up results: ranking, the selected settings, and when a price of the selection holds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpgraph.cli import main
from dpgraph.config.config import Config
from dpgraph.config.expansion import merged
from dpgraph.config.experiment import Search
from dpgraph.config.paths import Paths
from dpgraph.config.record import CellRecord, Metric, SeedRecord
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_text
from dpgraph.families.registry import spec
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.planning.plan import Entry, Plan, load_plan
from dpgraph.planning.resolve import resolve
from dpgraph.privacy.accountants import tuning
from dpgraph.privacy.mechanisms.base import mechanism_from
from dpgraph.reporting import protection
from dpgraph.reporting.latex import as_latex
from dpgraph.reporting.tables import as_html, as_markdown
from dpgraph.reporting.views.search.cost import TuningCost, objections, tuning_cost
from dpgraph.reporting.views.search.table import (
    UNLIKE_TRIALS,
    make,
    search_display,
    search_table,
    settings_text,
)
from tests.contract.cells import changed

EXPERIMENT = """
paper: toy
title: Toy
citation: Nobody
published: daigavane2022-node-level-dp-gnn
defaults:
  training: {sampling_rate: 0.2, steps: 10, learning_rate: 1.0}
methods:
  gcn: {label: GCN, method: gnn, set: {model: {architecture: gcn, hops: 1}}}
  dp-gcn: {label: DP-GCN, method: dp-gnn, set: {model: {architecture: gcn, hops: 1}, privacy: {variant: rigorous}}}
  dp-mlp: {label: DP-MLP, method: dp-mlp, set: {model: {architecture: mlp, hops: 0}, privacy: {variant: rigorous}}}
artefacts:
  search1:
    kind: table
    view: search
    title: Search
    search: {strategy: grid, space: {training.learning_rate: [0.1, 0.2, 0.3], model.width: [8, 16]}}
    methods: [gcn, dp-gcn, dp-mlp]
"""
SUITE = """
name: toy
title: Toy
note: Toy
seeds: 2
tasks:
  open: {label: open, task: {dataset: demo-sbm, setting: transductive}}
  cut: {label: cut, task: {dataset: demo-sbm, setting: disjoint}}
papers:
  toy:
    artefacts:
      search1: [{tasks: [open, cut], epsilons: [4, 8]}]
"""
PAID_SEARCH = Search(
    strategy="random", trials=5, distribution="geometric", space={"training.learning_rate": (0.1, 0.2)}
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("workflow")
    for name, text in (("experiments/toy.yaml", EXPERIMENT), ("suites/toy.yaml", SUITE)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    results = str(folder / "results")  # no records there
    return load_plan(Config(suite="toy", results=results), folder)


VALUES = [0.5, 0.6, 0.7, 0.7, 0.55, 0.4]  # validation accuracy of trials 1 to 6; 3 and 4 tie


def make_results(plan: Plan, as_frame: Callable, rows_of: Callable, without: set[str] = frozenset()) -> pd.DataFrame:
    rows: list[dict] = []
    for entry in plan.entries_of("toy/search1"):
        number = int((entry.value or "").split()[1])
        own = rows_of(entry, mean=0.9 - VALUES[number - 1], std=0.0)
        for row in own:
            if row["metric"] == "accuracy/val":
                row["value"] = VALUES[number - 1] + 0.01 * row["seed"] - 0.005
        if entry.value in without:
            for row in own:
                if row["seed"] == 1:
                    row |= {"status": "failed", "reason": "diverged", "metric": "", "value": math.nan}
        rows += own
    return as_frame(rows)


@pytest.fixture(scope="module")
def results(plan: Plan, as_frame: Callable, rows_of: Callable) -> pd.DataFrame:
    return make_results(plan, as_frame, rows_of)


@pytest.fixture(scope="module")
def made(plan: Plan, results: pd.DataFrame) -> pd.DataFrame:
    return search_table(plan, "toy/search1", results)


@pytest.fixture
def table(made: pd.DataFrame) -> pd.DataFrame:
    return made.copy()


def group(table: pd.DataFrame, method: str, task: str, epsilon: float | None = None) -> pd.DataFrame:
    rows = table[(table["method"] == method) & (table["task"] == task)]
    return rows if epsilon is None else rows[rows["epsilon_target"] == epsilon]


def test_trials_are_ranked_by_validation_and_ties_go_to_the_earlier(table: pd.DataFrame) -> None:
    assert len(table) == 6 * 2 * (1 + 2 + 2)
    rows = group(table, "dp-gcn", "cut", 8.0)
    assert rows["trial"].tolist() == [f"trial {n}" for n in (3, 4, 2, 5, 1, 6)]
    assert rows["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    assert rows["validation_mean"].tolist() == pytest.approx([70, 70, 60, 55, 50, 40])
    assert rows["validation_std"].iloc[0] == pytest.approx(100 * 0.01 / math.sqrt(2))
    assert rows["selected"].tolist() == [True] + [False] * 5
    assert table["selected"].sum() == 10  # once per method, task and target


def test_the_test_accuracy_of_the_others_is_not_shown(table: pd.DataFrame) -> None:
    assert table.loc[table["selected"], "test_mean"].tolist() == pytest.approx([20] * 10)
    assert table.loc[~table["selected"], "test_mean"].isna().all()


def test_a_trial_that_lost_a_seed_is_never_selected(plan: Plan, as_frame: Callable, rows_of: Callable) -> None:
    table = search_table(plan, "toy/search1", make_results(plan, as_frame, rows_of, {"trial 3", "trial 6"}))
    rows = group(table, "gcn", "open")
    assert rows["trial"].tolist() == [f"trial {n}" for n in (4, 2, 5, 1, 3, 6)]
    lost = rows.iloc[4]
    assert math.isnan(lost["rank"])
    assert not lost["selected"]
    assert (lost["status"], lost["reason"]) == ("incomplete", "1 of 2 seeds ended well: diverged")


def test_trials_are_ranked_within_one_relation_and_scope(plan: Plan, results: pd.DataFrame) -> None:
    """Trials 3 and 5 protect something else: they have ranks and a selection of their own, at no price."""
    changed = results.copy()
    other = {entry.cell.slug for entry in plan.entries_of("toy/search1") if entry.value in ("trial 3", "trial 5")}
    private = changed["cell"].isin(other) & (changed["variant"] == "rigorous")
    changed.loc[private, "scope_rigorous"] = "strangers"
    frame, display = make(plan, "toy/search1", changed)
    rows = group(frame, "dp-gcn", "cut", 8.0)
    assert rows["trial"].tolist() == [f"trial {n}" for n in (4, 2, 1, 6, 3, 5)]
    assert rows["rank"].tolist() == [1, 2, 3, 4, 1, 2]
    assert rows["trials"].tolist() == [4, 4, 4, 4, 2, 2]
    assert rows.loc[rows["selected"], "trial"].tolist() == ["trial 4", "trial 3"]
    assert rows.loc[rows["selected"], "tuning_reason"].str.startswith("tuning not accounted").all()
    assert group(frame, "gcn", "cut")["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    shown = [row for row in display.blocks[1].rows if (row[0].value, row[2].value) == ("DP-GCN", "8")]
    assert [row[3].value for row in shown][3:] == ["4 of 4", "1 of 2, selected", "2 of 2"]
    assert protection.UNLIKE in display.remarks


def test_two_selections_have_no_price(plan: Plan, results: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """The theorem is about the release of one run."""
    monkeypatch.setattr("dpgraph.reporting.views.search.table.tuning_cost", lambda *_: TuningCost(3.0, ""))
    changed = results.copy()
    other = {entry.cell.slug for entry in plan.entries_of("toy/search1") if entry.value == "trial 3"}
    changed.loc[changed["cell"].isin(other), "relation_rigorous"] = "edge"
    rows = group(search_table(plan, "toy/search1", changed), "dp-mlp", "cut", 8.0)
    assert rows["tuning_epsilon"].isna().all()
    assert set(rows.loc[rows["selected"], "tuning_reason"]) == {UNLIKE_TRIALS}
    alone = group(search_table(plan, "toy/search1", results), "dp-mlp", "cut", 8.0)
    assert alone.loc[alone["selected"], "tuning_epsilon"].tolist() == [3.0]


def test_without_results_nothing_is_selected(plan: Plan) -> None:
    table = search_table(plan, "toy/search1", None)
    assert len(table) == 60
    assert not table["selected"].any()
    assert set(table["status"]) == {"not run"}


def test_seeds_of_other_artefacts_do_not_count(plan: Plan, results: pd.DataFrame, table: pd.DataFrame) -> None:
    foreign = results[(results["seed"] == 0) & results["final"]].copy()
    foreign["seed"], foreign["value"] = 7, 1.0
    again = search_table(plan, "toy/search1", pd.concat([results, foreign], ignore_index=True))
    pd.testing.assert_frame_equal(again, table)


def test_every_written_form_has_both_epsilons_and_the_price(plan: Plan, results: pd.DataFrame) -> None:
    frame, display = make(plan, "toy/search1", results)
    assert display.columns[4:] == [
        "Validation accuracy (%)", "Test accuracy (%)", "ε claimed", "ε proved", "Relation", "Scope",
        "ε with tuning",
    ]  # fmt: skip
    assert [len(block.rows) for block in display.blocks] == [25, 25]  # five of six trials each
    for row in (row for block in display.blocks for row in block.rows):
        private = row[0].value != "GCN"
        assert (row[6].value != "∞") == private
        selected = row[3].value.endswith("selected")
        assert row[5].value == ("20.00 ± 0.00" if selected else "–")
        assert row[8].value == ("node-remove / node-null" if private else "–")
        assert row[10].value == ("–" if not selected else "not accounted" if private else "∞")
    assert any(note.startswith("tuning not accounted: the number of trials is fixed") for note in display.footnotes)
    markdown = as_markdown(display)
    assert "learning\\_rate=0.2, width=8" in markdown
    assert "1 of 6, selected" in as_html(display)
    assert as_latex(display, "T", "toy").isascii()
    assert len(frame) == 60


def test_the_command_line_needs_the_records_of_the_search_only(plan: Plan, tmp_path: Path) -> None:
    """Records of its own cells, with their mechanism, give every file; results.parquet is not needed."""
    statement = PoissonTrees.model_validate(mechanism(hops=0, max_degree=None, list_cap=None)).statement()
    results = tmp_path / "results"
    paths = Paths(plan.config.model_copy(update={"results": str(results)}))
    for entry in plan.entries_of("toy/search1"):
        value = VALUES[int((entry.value or "").split()[1]) - 1]
        metrics = tuple(
            Metric(step=10, final=True, metric=name, value=number)
            for name, number in (("accuracy/val", value), ("accuracy/test", 0.9 - value))
        )
        record = CellRecord(
            cell=entry.cell,
            status="ok",
            statement=None if entry.cell.privacy is None else statement.model_dump(mode="json"),
            seeds=tuple(SeedRecord(seed=seed, status="ok", metrics=metrics, seconds=1.0) for seed in entry.cell.seeds),
        )
        write_text(paths.result(entry.cell), record.model_dump_json())
    workflow = Path(plan.config.results).parent
    options = ["--set", "suite=toy", "--set", f"results={results}", "--workflow", str(workflow)]
    assert main(["artefacts", "toy/search1", *options, "--config", str(config_file(tmp_path))]) == 0
    written = {path.name for path in paths.table("toy/search1", "csv").parent.iterdir()}
    suffixes = ("csv", "md", "tex", "html")
    assert written == {f"search1.{suffix}" for suffix in suffixes}
    table = pd.read_csv(paths.table("toy/search1", "csv"))
    assert table.loc[table["selected"], "test_mean"].tolist() == pytest.approx([20] * 10)
    private = table["selected"] & (table["variant"] == "rigorous")
    assert np.allclose(table.loc[private, "eps_rigorous"], statement.rigorous.epsilon)
    assert not paths.results.exists()


def config_file(folder: Path) -> Path:
    (folder / "config.yaml").write_text("suite: toy\n")
    return folder / "config.yaml"


def test_settings_that_share_a_name_keep_their_paths() -> None:
    assert settings_text({"a": {"x": 1}, "b": {"x": 2, "y": 3}}) == "a.x=1, b.x=2, b.y=3"


# ---- the price of the selection --------------------------------------------------------------------------------------


def independent(entries: list[Entry]) -> list[Entry]:
    """The same trials with seeds of their own."""
    return [
        replace(entry, cell=entry.cell.model_copy(update={"seeds": (10 * number,)}))
        for number, entry in enumerate(entries)
    ]


@pytest.fixture
def trials(plan: Plan) -> Callable[[str, str], list[Entry]]:
    def of(method: str, task: str) -> list[Entry]:
        return [
            entry
            for entry in plan.entries_of("toy/search1")
            if (entry.method_id, entry.task_id) == (method, task) and entry.target_epsilon in (None, 8.0)
        ]

    return of


def mechanism(**changed: object) -> dict:
    fields = {"num_roots": 400, "steps": 10, "delta": 1e-4, "noise_multiplier": 8.0, "sampling_rate": 0.2, "hops": 1}
    return PoissonTrees(**{**fields, "max_degree": 2, "list_cap": 2, **changed}).model_dump(mode="json")


@pytest.mark.parametrize(("method", "task"), [("dp-gcn", "cut"), ("dp-mlp", "cut"), ("dp-mlp", "open")])
def test_premises_that_hold(trials: Callable, method: str, task: str) -> None:
    assert objections(PAID_SEARCH, independent(trials(method, task))) == []


@pytest.mark.parametrize(
    ("changed", "method", "task", "reason"),
    [
        ({"distribution": "fixed"}, "dp-gcn", "cut", "the number of trials is fixed, not geometric or poisson"),
        (
            {"strategy": "grid", "trials": None, "distribution": "fixed"},
            "dp-gcn",
            "cut",
            "the number of trials is fixed",
        ),
        ({"metric": "accuracy/test"}, "dp-gcn", "cut", "trials are scored on test nodes"),
        ({"metric": "accuracy/train"}, "dp-mlp", "cut", "trials are scored on train nodes"),
        ({}, "dp-gcn", "open", "validation scores read training records along edges"),
        ({"space": {"training.steps": (10, 20)}}, "dp-gcn", "cut", "training.steps changes the mechanism"),
        ({"space": {"privacy.max_degree": (2, 3)}}, "dp-gcn", "cut", "privacy.max_degree changes the mechanism"),
        ({"space": {"training.batch_size": (5, 6)}}, "dp-mlp", "cut", "training.batch_size changes the mechanism"),
    ],
)
def test_premises_that_do_not_hold(trials: Callable, changed: dict, method: str, task: str, reason: str) -> None:
    search = Search(**{**PAID_SEARCH.model_dump(), **changed})
    reasons = objections(search, independent(trials(method, task)))
    assert len(reasons) == 1
    assert reasons[0].startswith(reason)


@pytest.mark.parametrize(("inference_steps", "reads"), [(2, True), (0, False)])
def test_validation_scores_read_edges_where_inference_does(
    trials: Callable, inference_steps: int, reads: bool
) -> None:  # fmt: skip
    """DP-APPR has an MLP of no hops, and its inference walks the graph."""
    rows = {"release": "gaussian", "clip": 0.1, "epsilon_share": 0.5, "inference_steps": inference_steps}
    settings = {"method": "dp-appr", "model": {"architecture": "mlp", "hops": 0}, "pagerank": rows}
    settings["privacy"] = dict.fromkeys(("max_degree", "list_cap", "clip_percentile"))  # of ego trees
    entries = [
        replace(entry, cell=resolve(merged(entry.cell.model_dump(), settings)))
        for entry in independent(trials("dp-gcn", "open"))
    ]
    said = "validation scores read training records along edges (setting transductive)"
    assert objections(PAID_SEARCH, entries) == ([said] if reads else [])


def test_trials_on_the_same_seeds_are_not_independent(trials: Callable) -> None:
    reasons = objections(PAID_SEARCH, trials("dp-gcn", "cut"))
    assert reasons == ["trials share seeds, hence noise and batches: they are not independent runs"]


def test_the_paper_mechanism_is_never_paid_for(trials: Callable) -> None:
    entries = [
        replace(entry, cell=resolve(merged(entry.cell.model_dump(), {"privacy": {"variant": "published"}})))
        for entry in independent(trials("dp-gcn", "cut"))
    ]
    assert objections(PAID_SEARCH, entries) == ["a single run has no proved epsilon"]


def test_no_price_without_privacy(trials: Callable) -> None:
    assert tuning_cost(PAID_SEARCH, trials("gcn", "open"), None) == (math.inf, "")


def test_no_record_no_price(trials: Callable) -> None:
    cost = tuning_cost(PAID_SEARCH, independent(trials("dp-gcn", "cut")), None)
    assert math.isnan(cost.epsilon)
    assert cost.reason == "tuning not accounted: the selected run has no record"


def test_the_price_is_that_of_all_seeds_of_a_trial(trials: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def paid(run: PoissonTrees, distribution: str, *, mean_runs: float, delta: float, repeats: int) -> float:
        asked.append((run.steps, run.noise_multiplier, distribution, mean_runs, delta, repeats))
        return 11.0

    monkeypatch.setattr(tuning, "paid_epsilon", paid)
    entries = [
        replace(entry, cell=entry.cell.model_copy(update={"seeds": (3 * n, 3 * n + 1, 3 * n + 2)}))
        for n, entry in enumerate(trials("dp-gcn", "cut"))
    ]
    assert tuning_cost(PAID_SEARCH, entries, mechanism()) == (11.0, "")
    assert asked == [(10, 8.0, "geometric", 5, 1e-4, 3)]


# Each pays something once a run: the release of rows, two epochs of two parts in three steps.
ONCE = {
    "dp-appr-gaussian-rigorous": {
        "kind": "poisson-pagerank", "num_roots": 70, "steps": 40, "delta": 2e-3, "noise_multiplier": 7.42, "top_k": 4,
        "release": "gaussian", "release_noise": math.sqrt(140) / 0.5, "sampling_rate": 0.25, "column_cap": 1,
    },
    "dp-subgraph-3-cut": {
        "kind": "cut-subgraphs", "num_roots": 100, "steps": 3, "delta": 1e-4, "noise_multiplier": 10.0,
        "num_splits": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(ONCE))
def test_what_a_run_pays_once_is_paid_once_a_seed(trials: Callable, name: str) -> None:
    cell = changed(name, task={"setting": "disjoint"})
    entries = [
        replace(entry, cell=cell.model_copy(update={"seeds": (3 * n, 3 * n + 1, 3 * n + 2)}))
        for n, entry in enumerate(trials("dp-gcn", "cut"))
    ]
    run: Any = mechanism_from(spec(cell.method).mechanism_class(cell), ONCE[name])
    cost = tuning_cost(PAID_SEARCH, entries, ONCE[name])
    whole = tuning.best_of_runs(3 * run.rdp(tuning.ORDERS), "geometric", mean_runs=5, delta=run.delta)
    assert cost == (pytest.approx(whole, rel=1e-9), "")
    assert cost.epsilon > 1.005 * tuning.paid_epsilon(
        run.with_steps(3 * run.steps), "geometric", mean_runs=5, delta=run.delta
    )


def test_a_record_of_another_mechanism_than_the_cells_is_not_accounted(trials: Callable) -> None:
    cost = tuning_cost(PAID_SEARCH, independent(trials("dp-gcn", "cut")), ONCE["dp-appr-gaussian-rigorous"])
    assert math.isnan(cost.epsilon)
    assert cost.reason.startswith("tuning not accounted: ")
    assert "poisson-pagerank" in cost.reason
    assert "poisson-trees" in cost.reason


@pytest.mark.parametrize("distribution", ["geometric", "poisson"])
def test_selecting_costs_more_than_a_run_and_less_than_all_of_them(trials: Callable, distribution: str) -> None:
    search = PAID_SEARCH.model_copy(update={"distribution": distribution})
    cost = tuning_cost(search, independent(trials("dp-gcn", "cut")), mechanism())
    run = PoissonTrees.model_validate(mechanism())
    assert cost.reason == ""
    assert 1.3 * run.rigorous().epsilon < cost.epsilon < 5 * run.rigorous().epsilon


def test_a_refusal_of_the_accountant_is_the_reason(trials: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> float:
        raise UserError("kind=residual-trees: expected poisson-trees")

    monkeypatch.setattr(tuning, "paid_epsilon", refuse)
    cost = tuning_cost(PAID_SEARCH, independent(trials("dp-gcn", "cut")), mechanism())
    assert cost.reason == "tuning not accounted: kind=residual-trees: expected poisson-trees"


def test_a_price_is_shown_next_to_the_epsilon_of_the_run(plan: Plan, table: pd.DataFrame) -> None:
    paid = table["selected"] & (table["method"] == "dp-gcn") & (table["task"] == "cut")
    table.loc[paid, ["tuning_epsilon", "tuning_reason"]] = [11.0, ""]
    display = search_display("Search", table, "validation accuracy (%)", "test accuracy (%)")
    shown = [row[10].value for row in display.blocks[1].rows if row[0].value == "DP-GCN" and row[10].value != "–"]
    assert shown == ["11.0", "11.0"]


def test_settings_are_json(table: pd.DataFrame) -> None:
    assert {json.dumps(json.loads(text)) for text in table["settings"]} == set(table["settings"])
