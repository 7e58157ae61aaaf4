"""The command line: listings, stages alone, and mistakes answered in one line with status 2."""

import json
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.config.config import Config
from dpgraph.data.store import save_graph
from tests.contract.cells import cell as toy_cell
from tests.contract.conftest import toy_graph
from tests.plans import load_once

ROOT = Path(__file__).resolve().parents[1]
SUITES = ROOT / "workflow" / "suites"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def planned_once(monkeypatch):
    monkeypatch.setattr("dpgraph.planning.plan.load_plan", load_once)


@pytest.mark.parametrize(
    ("what", "key", "some"),
    [
        ("papers", "paper", {"daigavane"}),
        ("artefacts", "artefact", {"daigavane/table1", "daigavane/table2", "daigavane/table7", "daigavane/fig2"}),
        ("claims", "claim", {f"D{number}" for number in range(1, 15)}),
        ("methods", "method", {"dp-gnn", "dp-mlp", "gnn", "mlp"}),
        ("datasets", "dataset", {"cora", "citeseer", "pubmed", "cora-ml", "coauthor-cs", "ogbn-arxiv", "pokec"}),
        ("rows", "paper", {"daigavane"}),
        ("cells", "cell", set()),
    ],
)
@pytest.mark.usefixtures("planned_once")
def test_listings(capsys, what, key, some):
    assert main(["list", what, "--suite", "paper", "--json"]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert main(["list", what, "--suite", "paper", "--paper", "daigavane", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert some <= {row[key] for row in rows} <= {row[key] for row in everything}
    assert main(["list", what, "--suite", "paper", "--paper", "daigavane"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[0] == key
    assert len(table) > len(rows)


def test_a_cell_alone(tmp_path, capsys):
    save_graph(toy_graph(), tmp_path / "graph")
    cell = tmp_path / "cell.json"
    cell.write_text(toy_cell("dp-gnn", 1, "rigorous").model_dump_json())
    graph = ["--graph", str(tmp_path / "graph")]
    assert main(["calibrate", "--cell", str(cell), *graph, "--out", str(tmp_path / "privacy.json")]) == 0
    common = ["train", "--cell", str(cell), *graph, "--device", "cpu"]
    assert main([*common, "--out", str(tmp_path / "a"), "--calibration", str(tmp_path / "privacy.json")]) == 0
    assert main([*common, "--out", str(tmp_path / "b")]) == 0
    first, second = (json.loads((tmp_path / name / "result.json").read_text()) for name in "ab")
    assert first["statement"] == second["statement"]
    assert first["seeds"][0]["metrics"] == second["seeds"][0]["metrics"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--cell", "nope.json", "--out", "x"], "cell=nope.json: no such file"),
        (["train", "--cell", '{"method": "gnn", "task": {}}', "--out", "x"], "cell: task.dataset: missing"),
        (["train", "--cell", '{"task": {}}', "--out", "x"], "cell: method: missing"),
        (
            ["train", "--cell", '{"method": "dp-gnm"}', "--out", "x"],
            "cell: method=dp-gnm: expected one of appnp, appr, ",
        ),
        (["train", "--cell", '{"method": "gnn", "privacy": {}}', "--out", "x"], ": expected null for the method"),
        (
            ["list", "cells", "--suite", "nope"],
            "suite=nope: expected one of " + ", ".join(sorted(path.stem for path in SUITES.glob("*.yaml"))),
        ),
        (["list", "cells", "--set", "seeds"], "--set=seeds: expected NAME=VALUE"),
        (["list", "cells", "--set", "registry=own"], "--set: registry=own: expected a list, such as [own]"),
        (["list", "cells", "--set", "seeds=0"], "seeds=0: expected greater than or equal to 1"),
        (["list", "cells", "--config", "nope.yaml"], "nope.yaml: no such file"),
        (["artefacts"], "artefacts: a name is missing: expected at least one of daigavane/table1"),
        (["artefacts", "daigavane/table99"], "artefact=daigavane/table99: expected one of daigavane/table1"),
        (["fetch", "nope"], "dataset=nope: expected one of"),
        (["preprocess", "cora/sideways.public"], "setting=sideways: expected"),
        (["check", "accounting", "nope.csv"], "nope.csv"),
    ],
)
def test_mistakes_are_one_line_and_status_2(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_a_graph_that_is_not_there_names_the_commands(capsys, tmp_path):
    text = toy_cell("gnn", 1, None).model_dump_json()
    assert main(["train", "--cell", text, "--out", str(tmp_path), "--graph", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert "dpgraph preprocess toy/transductive.public" in error


def test_bad_json_is_one_line(capsys, tmp_path):
    path = tmp_path / "cell.json"
    path.write_text('{"task": ')
    assert main(["train", "--cell", str(path), "--out", str(tmp_path)]) == 2
    assert "not valid JSON" in capsys.readouterr().err


def test_a_config_may_be_text(capsys):
    text = Config(suite="demo", papers=("daigavane",)).model_dump_json()
    assert main(["list", "papers", "--config", text, "--json"]) == 0
    assert [row["paper"] for row in json.loads(capsys.readouterr().out)] == ["daigavane"]
    for wrong, message in (
        ('{"suite": 3', "error: config: not valid JSON: "),
        ('{"sweet": "demo"}', "error: config: sweet=demo: unknown key"),
    ):
        assert main(["list", "papers", "--config", wrong]) == 2
        said = capsys.readouterr().err
        assert said.startswith(message)
        assert said.count("\n") == 1


@pytest.mark.parametrize("stage", ["calibrate", "train"])
def test_only_a_file_of_runs_that_is_there_can_be_run(capsys, stage):
    assert main([stage, "nope.json"]) == 2
    expected = "expected the runs of a bundle; `dpgraph run` writes it before its first job"
    assert capsys.readouterr().err == f"error: nope.json: no such file: {expected}\n"
