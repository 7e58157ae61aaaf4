"""Data sets and methods from outside the package: what the templates write, what is planned again, what is shown."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.config.cell import Task
from dpgraph.core import outside
from dpgraph.core.errors import UserError
from dpgraph.data.readers import read
from dpgraph.data.registry import entry, home_of, registry
from dpgraph.data.store import save_graph
from dpgraph.families.registry import method, outside_of, specs
from dpgraph.pipeline.fingerprints import (
    bundle_digest,
    calibrations_digest,
    fetch_digest,
    preprocess_digest,
    training_digest,
)
from dpgraph.planning.resolve import resolve
from dpgraph.planning.run import Run
from dpgraph.planning.schemas import models
from dpgraph.problems.preprocess import preprocess
from dpgraph.problems.registry import size_of
from dpgraph.reporting.aggregate import blocks
from dpgraph.reporting.display import Footnotes, epsilon_cell
from dpgraph.reporting.guarantee import Promise, RunGuarantee
from dpgraph.reporting.records import read_record
from tests.contract.conftest import toy_graph

counter = iter(range(1000))


@pytest.fixture
def own(tmp_path, monkeypatch, capsys):
    """A folder with what both templates write, named by the variable; every test imports a package of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(outside.VARIABLE, "")
    name = f"outsidetest{next(counter)}"
    assert main(["new", "method", name, "--out", "own"]) == 0
    assert main(["new", "dataset", "mine", "--out", "own"]) == 0
    assert "registry: [own]" in capsys.readouterr().out
    (tmp_path / "config.yaml").write_text("registry: [own]\n")
    monkeypatch.setenv(outside.VARIABLE, str(tmp_path / "own"))
    return tmp_path / "own" / name


def cell_of(own: Path, **changes):
    return resolve(json.loads((own / "cell.json").read_text()) | changes)


def test_both_are_found_and_only_while_they_are_named(own, monkeypatch):
    name = f"dp-{own.name}"
    assert outside_of(name) == own
    assert outside_of("dp-mlp") is None
    assert home_of("mine") == own.parent
    assert home_of("cora") is None
    assert f"cells/{name}" in models()
    assert size_of(Task(dataset="mine", split="random-70-10-20")).nodes == 200
    monkeypatch.setenv(outside.VARIABLE, "")
    assert name not in specs()
    assert "mine" not in registry()


@pytest.mark.parametrize("project", [False, True])
def test_run_is_named_in_a_project_only(project, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(outside.VARIABLE, "")
    if project:
        assert main(["new-project", "."]) == 0
    capsys.readouterr()
    for what in ("method", "dataset"):
        assert main(["new", what, "theirs", "--out", "theirs"]) == 0
        said = capsys.readouterr().out
        assert ("dpgraph run " in said) == project
    assert "--out theirs-model" in said  # results/theirs may be a suite's


@pytest.mark.parametrize(("reader", "message"), [
    ("cvs", "own/datasets.yaml, mine.reader: 'cvs': expected a Python file (.py), or one of arxiv_text, "),
    ("missing.py", "own/missing.py: no such file"),
])  # fmt: skip
def test_an_unknown_reader_is_refused_before_anything_is_planned(own, capsys, reader, message):
    path = own.parent / "datasets.yaml"
    path.write_text(path.read_text().replace("reader: reader.py", f"reader: {reader}"))
    assert main(["list", "datasets"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert message in said[0]


def test_the_example_is_read_and_stored(own, tmp_path):
    raw, task = tmp_path / "raw", Task(dataset="mine", split="random-70-10-20")
    assert main(["fetch", "mine", "--out", str(raw)]) == 0
    preprocess(task, raw, tmp_path / "graph")
    assert json.loads((tmp_path / "graph/graph.json").read_text())["name"] == "mine"
    before = fetch_digest("mine"), fetch_digest("cora")
    with (own.parent / "edges.csv").open("a") as file:
        file.write("n0,n1\nn0,unknown\n")
    assert fetch_digest("mine") != before[0]
    assert fetch_digest("cora") == before[1]
    assert main(["fetch", "mine", "--out", str(raw)]) == 0  # the copy is taken again
    with pytest.raises(UserError, match=r"reader.py: edges.csv, row \d+, column target: unknown: expected an id"):
        read(entry("mine"), raw)


def test_an_edit_plans_its_own_cells_again_and_nothing_else(own):
    mine, other = (
        cell_of(own),
        cell_of(own, method="dp-mlp", training={"sampling_rate": 0.1, "steps": 3, "learning_rate": 0.1}),
    )
    made = [training_digest, lambda run: bundle_digest([run]), lambda run: calibrations_digest([run])]
    before = [[one(Run.resolve(cell)) for one in made] for cell in (mine, other)]
    with (own / "train.py").open("a") as file:
        file.write("\n# edited\n")
    after = [[one(Run.resolve(cell)) for one in made] for cell in (mine, other)]
    assert all(one != two for one, two in zip(before[0], after[0]))
    assert after[1] == before[1]
    data = preprocess_digest("mine"), preprocess_digest("cora")
    with (own.parent / "reader.py").open("a") as file:
        file.write("\n# edited\n")
    assert preprocess_digest("mine") != data[0]
    assert preprocess_digest("cora") == data[1]


def trained(own, tmp_path):
    save_graph(toy_graph(), tmp_path / "graph")
    arguments = ["train", "--cell", str(own / "cell.json"), "--graph", str(tmp_path / "graph"), "--device", "cpu"]
    assert main([*arguments, "--out", str(tmp_path / "result")]) == 0
    return read_record(tmp_path / "result/result.json")


def test_its_epsilon_is_claimed_with_the_checks_beside(own, tmp_path, capsys):
    read_back = trained(own, tmp_path)
    said = capsys.readouterr().out
    assert "epsilon, by the paper's formula: " in said
    assert "epsilon, claimed by its author: 4 " in said
    assert read_back.statement.rigorous.epsilon == pytest.approx(4, abs=0.1)  # what the method says of itself
    (row, *_) = [block.columns for block in blocks(read_back)]
    assert math.isnan(row["eps_rigorous"])
    assert row["relation_rigorous"] == row["scope_rigorous"] == "none"
    assert row["eps_claimed"] == read_back.statement.rigorous.epsilon
    assert (row["relation_claimed"], row["scope_claimed"]) == ("node-null", "joint")
    assert row["checks"].endswith("none (dpgraph check method has not run)")
    outside.write_checks(own, {"blinding": True, "audit facts": False})
    (row, *_) = [block.columns for block in blocks(read_back)]
    assert row["checks"].endswith("(every run), blinding (passed), audit facts (FAILED)")
    notes = Footnotes()
    cell = epsilon_cell({**row, "status": "ok", "uncovered": ""}, "rigorous", notes)
    assert cell.value.startswith("none (its author claims 4")
    assert "not proved: epsilon" in notes.texts[0]
    assert "node-null" in notes.texts[0]
    with (own / "train.py").open("a") as file:
        file.write("\n")
    (row, *_) = [block.columns for block in blocks(read_back)]
    assert row["checks"].endswith("they were edited since")
    untouched = RunGuarantee(rigorous=Promise(1.0))
    assert untouched.as_claimed_by("dp-mlp") is untouched


@pytest.mark.slow
def test_check_method_passes_the_template(own, capsys):
    name = f"dp-{own.name}"
    assert main(["check", "method", name]) == 0
    assert "7 of 7 passed" in capsys.readouterr().out
    assert "audit facts (passed)" in outside.checks_of(own)


@pytest.mark.slow
def test_check_method_finds_a_mechanism_of_another_rate(own, capsys):
    path = own / "mechanism.py"
    path.write_text(path.read_text().replace("sampling_rate=request.rate", "sampling_rate=request.rate / 2"))
    assert main(["check", "method", f"dp-{own.name}"]) == 1
    assert f"audit facts: FAILED: broken for dp-{own.name}; " in capsys.readouterr().out
    assert "audit facts (FAILED)" in outside.checks_of(own)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("spec.py", "print(", "SyntaxError"),
        ("spec.py", "SPECS = 3", "SPECS=3: expected a tuple of MethodSpec"),
        ("spec.py", "import nothing_like_this", "line 1: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("spec.py", "raise KeyError('x')", "line 1: KeyError: 'x'"),
        ("../datasets.yaml", "mine: {colour: red}", "datasets.yaml, mine.title: Field required"),
        ("../datasets.yaml", "cora: {", "not a YAML file"),
        ("../datasets.yaml", "[1]", "datasets.yaml: expected a mapping of names to entries"),
    ],
)
def test_what_is_broken_is_one_line(own, file, text, message, capsys):
    (own / file).write_text(text + "\n")
    assert main(["list", "datasets" if "yaml" in file else "methods", "--workflow", str(WORKFLOW)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


WORKFLOW = Path(__file__).resolve().parents[1] / "workflow"


def test_names_that_are_taken_are_refused(own, tmp_path, monkeypatch, capsys):
    for arguments, message in (
        (["new", "method", "json"], "one that no Python package has"),
        (["new", "method", "class"], "no keyword of Python"),
        (["new", "method", "Mine"], "name=Mine: expected small letters"),
        (["new", "dataset", "mine"], "one that no data set has"),
        (["new", "dataset", "a_b"], "name=a_b: expected small letters"),
        (["check", "method", "dp-mlp"], f"method=dp-mlp: expected one from outside: dp-{own.name}"),
        (["check", "method", "dp-nothing"], "method=dp-nothing: expected one of"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
    other = f"outsidetest{next(counter)}"
    assert main(["new", "method", other, "--out", "own2"]) == 0
    path = tmp_path / "own2" / other / "spec.py"
    path.write_text(path.read_text().replace(f'name="dp-{other}"', 'name="dp-mlp"'))
    monkeypatch.setenv(outside.VARIABLE, f"{own.parent}:{tmp_path / 'own2'}")
    with pytest.raises(UserError, match="method=dp-mlp: expected another name, one family has it already"):
        specs()
    monkeypatch.setenv(outside.VARIABLE, "/no/such/place")
    with pytest.raises(UserError, match="registry=/no/such/place: expected a YAML file"):
        specs()


def test_what_cannot_be_imported_when_it_runs_is_one_line(own):
    (own / "train.py").write_text("import nothing_like_this\n")
    with pytest.raises(UserError, match=r"train.py, line 1: ModuleNotFoundError"):
        method(f"dp-{own.name}")


def test_an_entry_point_names_a_package(own, tmp_path, monkeypatch):
    monkeypatch.setenv(outside.VARIABLE, "")
    info = tmp_path / "own" / "thing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: thing\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[dpgraph.registry]\nthing = {own.name}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    outside._places.cache_clear()
    try:
        assert outside_of(f"dp-{own.name}") == own
    finally:
        info.joinpath("entry_points.txt").write_text("")
        outside._places.cache_clear()


@pytest.mark.slow  # pip, and two processes that import what `fit` needs: ten seconds
def test_a_package_that_pip_installed_needs_no_registry(own, tmp_path):
    """A real distribution, in a folder of its own and seen by another process, which is told of no place."""
    wheel, package = tmp_path / "tinygraphs-0.1-py3-none-any.whl", own.parent
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: tinygraphs\nVersion: 0.1\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": "[dpgraph.registry]\ntiny = tinygraphs\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tinygraphs/__init__.py", "")
        for path in sorted(path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            archive.write(path, f"tinygraphs/{path.relative_to(package)}")
        for name, text in about.items():
            archive.writestr(f"tinygraphs-0.1.dist-info/{name}", text)
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(pip, check=True, timeout=600)
    paths = os.pathsep.join([str(site), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, outside.VARIABLE: ""}

    def called(*asked: str) -> str:
        command = [sys.executable, "-m", "dpgraph", *asked]
        done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"dp-{own.name} " in called("list", "methods")
    said = called("compare", "--dataset", "mine", "--epsilon", "4", "--seeds", "1", "--methods", f"dp-{own.name}")
    assert f"dp-{own.name} | node-null (claimed); joint" in said
    assert "none (dpgraph check method has not run)" in said


def test_methods_and_data_sets_are_listed_in_a_folder_without_suites(own, capsys):
    for what, name in (("methods", f"dp-{own.name}"), ("datasets", "mine")):
        assert main(["list", what, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert name in {row[what.removesuffix("s")] for row in rows}
    assert main(["list", "cells"]) == 2


def test_another_program_s_config_is_left_alone(tmp_path, monkeypatch, capsys):
    """A stranger's folder, whose config.yaml is not ours; beside a Snakefile it can only be ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(outside.VARIABLE, "")
    (tmp_path / "config.yaml").write_text("registry: registry.example.org\nport: 5000\n")
    asked = ["afford", "--nodes", "2000", "--classes", "2", "--labelled", "100", "--epsilon", "4"]
    assert main(asked) == 0
    capsys.readouterr()
    (tmp_path / "Snakefile").touch()
    assert main(asked) == 2
    assert capsys.readouterr().err.startswith("error: config.yaml: ")
