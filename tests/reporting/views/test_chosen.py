"""Settings that searches choose: who may choose on which data, the file, and suites that read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from dpgraph.cli import main
from dpgraph.config.config import Config, parse
from dpgraph.config.settings import ChosenSettings, read_settings
from dpgraph.core.errors import UserError
from dpgraph.data.shared_records import same_records
from dpgraph.planning.explain import explain
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.reporting.views.search import chosen
from dpgraph.reporting.views.search.chosen import chosen_settings, write_settings

EXPERIMENT = """
paper: toy
title: Toy
citation: Nobody
published: daigavane2022-node-level-dp-gnn
defaults:
  training: {sampling_rate: 0.2, steps: 10, learning_rate: 1.0}
methods:
  gcn: {label: GCN, method: gnn, set: {model: {architecture: gcn, hops: 1}}}
  other: {label: GCN, method: gnn, set: {model: {architecture: gcn, hops: 2}}}
  dp-mlp: {label: DP-MLP, method: dp-mlp, set: {model: {architecture: mlp, hops: 0}, privacy: {variant: rigorous}}}
artefacts:
  sought:
    kind: table
    view: search
    title: Search
    search: {strategy: grid, space: {training.learning_rate: [0.1, 0.2, 0.3]}}
    methods: [gcn, dp-mlp]
  shown: {kind: table, view: accuracy, title: Table, methods: [gcn, other, dp-mlp]}
"""
TASKS = """
  cora: {label: Cora, task: {dataset: cora}}
  cora-ml: {label: Cora-ML, task: {dataset: cora-ml, split: random-70-10-20}}
  pubmed: {label: PubMed, task: {dataset: pubmed}}
"""
SUITE = f"""
name: sought
title: Toy
note: Toy
seeds: 2
tasks: {TASKS}
papers:
  toy:
    artefacts:
      sought: [{{tasks: [cora, cora-ml], epsilons: [4]}}, {{tasks: [pubmed], epsilons: [4], seeds: 1}}]
"""
READER = f"""
name: reader
title: Toy
note: Toy
seeds: 1
tasks: {TASKS}
  elsewhere: {{label: CiteSeer, task: {{dataset: citeseer}}}}
papers:
  toy:
    rules:
      - set: {{training: {{momentum: 0.5}}}}
      - {{methods: [gcn, dp-mlp], settings: sought, set: {{training: {{steps: 20}}}}}}
    artefacts:
      shown: [{{methods: [gcn, dp-mlp], tasks: [cora, cora-ml, pubmed, elsewhere], epsilons: [4]}}]
"""
# by data set, of trials 1 to 3
VALUES = {"cora": (0.9, 0.5, 0.6), "cora-ml": (0.9, 0.5, 0.6), "pubmed": (0.5, 0.8, 0.7)}


def write(folder: Path, suites: dict[str, str]) -> Path:
    for name in ("experiments", "suites", "settings"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "experiments/toy.yaml").write_text(EXPERIMENT)
    for name, text in suites.items():
        (folder / f"suites/{name}.yaml").write_text(text)
    return folder


def results_of(plan: Plan, rows_of: Callable, as_frame: Callable, lost: str = "") -> pd.DataFrame:
    rows: list[dict] = []
    for entry in plan.entries_of("toy/sought"):
        own = rows_of(entry, mean=0.01, std=0.0)
        trial = int(str(entry.value).split()[1])
        for row in own:
            if row["metric"] == "accuracy/val":
                row["value"] = VALUES[entry.cell.task.dataset][trial - 1] + 0.01 * row["seed"] - 0.005
            if f"{trial} {entry.cell.task.dataset}" == lost and row["seed"] == 1:
                row |= {"status": "failed", "reason": "diverged", "metric": "", "value": math.nan}
        rows += own
    return as_frame(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, {"sought": SUITE, "reader": READER})


@pytest.fixture
def plan(folder: Path, rows_of: Callable, as_frame: Callable, monkeypatch: pytest.MonkeyPatch) -> Plan:
    made = load_plan(Config(suite="sought"), folder)
    results = results_of(made, rows_of, as_frame)
    monkeypatch.setattr(chosen, "rows_for", lambda *_: results)
    monkeypatch.setattr(chosen, "commits", lambda *_: ["abc"])
    return made


def test_a_private_method_takes_what_was_best_on_data_without_its_records(plan: Plan) -> None:
    private = chosen_settings(plan).papers["toy"]["dp-mlp"]
    # Cora and Cora-ML share papers: with Cora-ML counted, trial 1 would be the best for Cora
    assert {name: (one.trial, one.chosen_on) for name, one in private.datasets.items()} == {
        "cora": ("trial 2", ("pubmed",)),
        "cora-ml": ("trial 2", ("pubmed",)),
        "pubmed": ("trial 1", ("cora", "cora-ml")),
    }
    assert (private.others.trial, private.others.chosen_on) == ("trial 1", ("cora", "cora-ml", "pubmed"))
    assert private.datasets["pubmed"].set == {"training": {"learning_rate": 0.1}}
    assert (private.private, private.epsilon, private.trials) == (True, 4.0, 3)
    assert private.seeds == {"cora": 2, "cora-ml": 2, "pubmed": 1}
    assert private.scores["trial 2"] == pytest.approx({"cora": 50, "cora-ml": 50, "pubmed": 79.5})  # seed 0


def test_a_method_without_privacy_takes_what_was_best_on_the_data_set(plan: Plan) -> None:
    plain = chosen_settings(plan).papers["toy"]["gcn"]
    assert {name: (one.trial, one.chosen_on) for name, one in plain.datasets.items()} == {
        "cora": ("trial 1", ("cora",)),
        "cora-ml": ("trial 1", ("cora-ml",)),
        "pubmed": ("trial 2", ("pubmed",)),
    }
    assert plain.trials == 3


def test_a_trial_that_lost_a_seed_is_not_chosen(
    plan: Plan, rows_of: Callable, as_frame: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_of(plan, rows_of, as_frame, lost="1 cora")
    monkeypatch.setattr(chosen, "rows_for", lambda *_: results)
    methods = chosen_settings(plan).papers["toy"]
    assert methods["gcn"].datasets["cora"].trial == "trial 3"
    assert methods["dp-mlp"].datasets["pubmed"].trial == "trial 3"  # of those that ended well on both others
    assert "cora" not in methods["dp-mlp"].scores["trial 1"]
    monkeypatch.setattr(chosen, "rows_for", lambda *_: results[results["dataset"] != "cora"])
    with pytest.raises(UserError, match=r"toy/sought: gcn: no trial ended well on all of cora$"):
        chosen_settings(plan)


def test_two_targets_or_two_searches_of_a_method_are_refused(plan: Plan, folder: Path) -> None:
    entries = [replace(entry, target_epsilon=8.0) if entry.target_epsilon else entry for entry in plan.entries[-2:]]
    with pytest.raises(UserError, match=r"dp-mlp: epsilons=\[4\.0, 8\.0\]: expected one target"):
        chosen_settings(replace(plan, entries=(*plan.entries, *entries)))
    write_settings(plan, folder / "settings/sought.yaml")
    reader = load_plan(Config(suite="reader"), folder)
    with pytest.raises(UserError, match=r"^suite=reader: expected one with an artefact of view search$"):
        chosen_settings(reader)


def test_the_file_is_read_by_suites_and_explained(plan: Plan, folder: Path) -> None:
    write_settings(plan, folder / "settings/sought.yaml")
    assert read_settings(folder, "sought") == chosen_settings(plan)
    assert "commit: abc" in (folder / "settings/sought.yaml").read_text()
    reader = load_plan(Config(suite="reader"), folder)
    rates = {(entry.method_id, entry.task_id): entry.cell.training.learning_rate for entry in reader.entries}
    assert rates == {
        ("gcn", "cora"): 0.1,
        ("gcn", "cora-ml"): 0.1,
        ("gcn", "pubmed"): 0.2,
        ("gcn", "elsewhere"): 0.1,
        ("dp-mlp", "cora"): 0.2,
        ("dp-mlp", "cora-ml"): 0.2,
        ("dp-mlp", "pubmed"): 0.1,
        ("dp-mlp", "elsewhere"): 0.1,
    }
    assert {(entry.cell.training.steps, entry.cell.training.momentum) for entry in reader.entries} == {(20, 0.5)}
    (rows,) = explain(reader, reader.entries[0].cell.slug).values()
    source = {row["setting"]: row["from"] for row in rows}
    assert source["training.learning_rate"].endswith("rules[1] (methods gcn, dp-mlp): settings sought")
    assert source["training.steps"].endswith("rules[1] (methods gcn, dp-mlp)")


def refused(folder: Path, text: str) -> str:
    (folder / "suites/reader.yaml").write_text(text)
    with pytest.raises(UserError) as error:
        load_plan(Config(suite="reader"), folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_not_in_the_file_is_refused(plan: Plan, folder: Path) -> None:
    assert refused(folder, READER).startswith("settings=sought: expected one of the files in ")
    write_settings(plan, folder / "settings/sought.yaml")
    wrong = READER.replace("methods: [gcn, dp-mlp]", "methods: [gcn, other]")
    expected = "settings=sought: settings: method=toy/other: expected one of gcn, dp-mlp of toy"
    assert refused(folder, wrong) == f"suite reader: toy/shown, other on cora: {expected}"
    borrowed = wrong.replace("settings: sought", "settings: sought, settings_method: gcn")
    (folder / "suites/reader.yaml").write_text(borrowed)
    rates = {entry.method_id: entry.cell.training.learning_rate for entry in load_plan(
        Config(suite="reader"), folder).entries if entry.task_id == "pubmed"}  # fmt: skip
    assert rates == {"gcn": 0.2, "other": 0.2}
    alone = READER.replace("settings: sought", "settings_method: gcn")
    assert "settings_of, settings_method: expected only with settings" in refused(folder, alone)


def test_a_private_method_never_takes_what_was_chosen_on_its_records(plan: Plan, folder: Path) -> None:
    written: dict[str, Any] = chosen_settings(plan).model_dump(mode="json")
    own = written["papers"]["toy"]["dp-mlp"]["datasets"]
    own["cora"]["chosen_on"], own["cora"]["trial"] = ["cora"], "trial 1"
    with pytest.raises(UserError, match=r"datasets\.cora\.chosen_on: a private method: expected other data sets only"):
        parse(ChosenSettings, written, "there")
    own["cora"]["chosen_on"] = ["cora-ml"]  # another name, the same papers
    (folder / "settings/sought.yaml").write_text(yaml.safe_dump(written))
    assert "chosen on cora-ml, whose records cora may share: expected other data sets" in refused(folder, READER)
    # nor by way of a method without privacy
    borrowed = READER.replace("settings: sought", "settings: sought, settings_method: gcn")
    write_settings(plan, folder / "settings/sought.yaml")
    assert "dp-mlp on cora: settings=sought: chosen on cora, whose records" in refused(folder, borrowed)


def test_scores_must_be_there_for_what_is_chosen(plan: Plan) -> None:
    written: dict[str, Any] = chosen_settings(plan).model_dump(mode="json")
    del written["papers"]["toy"]["gcn"]["scores"]["trial 1"]["cora"]
    with pytest.raises(UserError, match="trial 1: expected scores on all of cora"):
        parse(ChosenSettings, written, "there")


def test_the_command_writes_next_to_the_suites(plan: Plan, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--workflow", str(folder), "--suite", "sought", "--config", "{}"]) == 0
    assert read_settings(folder, "sought").suite == "sought"
    assert main(["settings", "--workflow", str(folder), "--suite", "reader", "--config", "{}"]) == 2
    assert "one with an artefact of view search" in capsys.readouterr().err


def test_data_sets_that_share_records() -> None:
    assert all(same_records("cora-ml", other) for other in ("cora", "cora-ml", "cora-text", "cora-text-words"))
    assert not same_records("cora-ml", "citeseer")
    assert same_records("ogbn-arxiv-text-half", "ogbn-arxiv")  # a variant of a variant
    assert same_records("mnist", "mnist-images")  # the same files
    assert same_records("reddit-saint", "reddit-tenth")
    assert not same_records("pubmed", "citeseer")
    for part in ("cora-text", "m10-text-words", "m10-cora", "cora-m10"):  # of a pair both graphs
        assert same_records("m10-cora", part)
        assert same_records(part, "m10-cora")
    assert same_records("m10-cora", "cora-hepth")
    assert not same_records("m10-cora", "hepth-text")  # which is joined with Cora elsewhere
    assert not same_records("cora-text", "hepth-text")
    with pytest.raises(UserError):
        same_records("pubmed", "nowhere")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("setting: disjoint", "pubmed/disjoint"),
        ("setting: transductive, split: random-60-20-20", "pubmed/transductive.random-60-20-20"),
    ],
)
def test_a_method_without_privacy_is_searched_in_each_setting_and_split_of_a_data_set(
    tmp_path: Path, rows_of: Callable, as_frame: Callable, monkeypatch: pytest.MonkeyPatch, more: str, key: str
) -> None:
    """A private one is not: its choice on other data sets is one for all their settings."""
    more = f"  apart: {{label: PubMed, task: {{dataset: pubmed, {more}}}}}\n"
    here = "tasks: [pubmed, apart], epsilons: [4], seeds: 1"
    suite = SUITE.replace("papers:", f"{more}papers:").replace("tasks: [pubmed], epsilons: [4], seeds: 1", here)
    folder = write(
        tmp_path,
        {"sought": suite, "reader": READER.replace("papers:", f"{more}papers:").replace("elsewhere]", "apart]")},
    )
    made = load_plan(Config(suite="sought"), folder)
    results = results_of(made, rows_of, as_frame)
    apart = {entry.cell.slug: str(entry.value) for entry in made.entries if entry.task_id == "apart"}
    scored = results["cell"].isin(apart) & (results["metric"] == "accuracy/val")
    results.loc[scored, "value"] = (
        results.loc[scored, "cell"].map(apart).map({"trial 1": 0.7, "trial 2": 0.1, "trial 3": 0.9})
    )
    monkeypatch.setattr(chosen, "rows_for", lambda *_: results)
    monkeypatch.setattr(chosen, "commits", lambda *_: ["abc"])
    found = write_settings(made, folder / "settings/sought.yaml").papers["toy"]
    assert {name: one.trial for name, one in found["gcn"].datasets.items()} == {
        "cora": "trial 1", "cora-ml": "trial 1", "pubmed": "trial 2", key: "trial 3",
    }  # fmt: skip
    assert found["gcn"].others.chosen_on == ("cora", "cora-ml", "pubmed")
    assert list(found["dp-mlp"].datasets) == ["cora", "cora-ml", "pubmed"]
    assert found["dp-mlp"].scores["trial 3"]["pubmed"] == pytest.approx(79.75)  # of both tasks
    reader = load_plan(Config(suite="reader"), folder)
    rates = {(e.method_id, e.task_id): e.cell.training.learning_rate for e in reader.entries}
    assert (rates["gcn", "pubmed"], rates["gcn", "apart"]) == (0.2, 0.3)
    assert rates["dp-mlp", "pubmed"] == rates["dp-mlp", "apart"] == 0.1


def test_a_pair_of_graphs_takes_what_was_best_on_the_first_or_with_privacy_on_neither(
    tmp_path: Path, rows_of: Callable, as_frame: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No search had the pairs; the settings are for them."""
    task = "{{label: A, task: {{dataset: {0}-text, split: random-70-20-10}}}}"
    single = "".join(f"  {name}: {task.format(name)}\n" for name in ("cora", "hepth", "m10"))
    pairs = "".join(f"  {name}: {{label: A, task: {{dataset: {name}}}}}\n" for name in ("cora-m10", "hepth-cora"))
    suite = SUITE.replace(TASKS, "\n" + single).split("      sought: [")[0] + (
        "      sought: [{tasks: [cora, hepth, m10], epsilons: [4]}]\n"
    )
    reader = READER.split("tasks:")[0] + f"tasks:\n{pairs}papers:\n" + READER.split("papers:\n")[1]
    reader = reader.replace("cora, cora-ml, pubmed, elsewhere", "cora-m10, hepth-cora")
    reader = reader.replace("      - set: {training: {momentum: 0.5}}\n", "")
    folder = write(tmp_path, {"sought": suite, "reader": reader})
    heads = EXPERIMENT.replace("method: gnn, set: {model: {architecture: gcn, hops: 1}}", "method: relation-head")
    heads = heads.replace("method: gnn, set: {model: {architecture: gcn, hops: 2}}", "method: relation-head")
    private = "method: dp-mlp, set: {model: {architecture: mlp, hops: 0}, privacy: {variant: rigorous}}"
    heads = heads.replace(private, "method: dp-relation-head, set: {privacy: {variant: rigorous}}")
    (folder / "experiments/toy.yaml").write_text(heads.replace("  shown: {", "  shown: {metric: mrr/test, "))
    made = load_plan(Config(suite="sought"), folder)
    scores = {"cora-text": (0.9, 0.5, 0.6), "hepth-text": (0.5, 0.8, 0.7), "m10-text": (0.4, 0.3, 0.6)}
    monkeypatch.setitem(globals(), "VALUES", scores)
    results = results_of(made, rows_of, as_frame)
    monkeypatch.setattr(chosen, "rows_for", lambda *_: results)
    monkeypatch.setattr(chosen, "commits", lambda *_: ["abc"])
    found = write_settings(made, folder / "settings/sought.yaml").papers["toy"]
    plain = {name: (one.trial, one.chosen_on) for name, one in found["gcn"].datasets.items()}
    assert plain["cora-m10"] == plain["cora-hepth"] == plain["cora-text"] == ("trial 1", ("cora-text",))
    assert plain["hepth-cora"] == ("trial 2", ("hepth-text",))
    private = {name: (one.trial, one.chosen_on) for name, one in found["dp-mlp"].datasets.items()}
    assert private["cora-text"] == ("trial 3", ("hepth-text", "m10-text"))
    assert private["cora-m10"] == private["m10-cora"] == ("trial 2", ("hepth-text",))
    assert private["hepth-cora"] == private["cora-hepth"] == ("trial 3", ("m10-text",))
    assert not any(name.endswith("words") for name in private)  # other features: not what was searched
    rates = {(e.method_id, e.task_id): e.cell.training.learning_rate for e in load_plan(
        Config(suite="reader"), folder).entries}  # fmt: skip
    assert rates == {("gcn", "cora-m10"): 0.1, ("gcn", "hepth-cora"): 0.2,
                     ("dp-mlp", "cora-m10"): 0.2, ("dp-mlp", "hepth-cora"): 0.3}  # fmt: skip
