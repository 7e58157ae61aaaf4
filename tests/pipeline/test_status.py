"""Status of a synthetic suite of 50 cells, from files made by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.config.paths import Paths
from dpgraph.core.files import read_json, write_text
from dpgraph.pipeline.status import Status
from tests.synthetic_suite import synthetic_plan, write_records


class Suite:
    """The suite's files in the working directory, and the means to change them."""

    def __init__(self, folder: Path, plan, options) -> None:
        self.folder, self.plan, self.options = folder, plan, options
        self.paths = Paths(plan.config)
        self.cells = list(plan.cells.values())

    def status(self):
        return Status.read(self.plan)

    def last_line(self):
        return self.status().page().splitlines()[-1]

    def change(self, of, **changed):
        path = self.paths.result(of)
        write_text(path, json.dumps(read_json(path) | changed, indent=1))

    def remove(self, cell):
        self.paths.result(cell).unlink()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """(folder, plan, options) of a finished suite whose paths are relative."""
    folder = tmp_path_factory.mktemp("suite")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        plan, options = synthetic_plan(Path(), cells=50, seeds=2)
        write_records(plan)
    return folder, plan, options


@pytest.fixture
def finished(template, tmp_path, monkeypatch):
    folder, plan, options = template
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Suite(tmp_path, plan, options)


@pytest.fixture
def suite(finished):
    """Nothing has run."""
    shutil.rmtree(finished.paths.suite)
    return finished


def test_nothing_has_run(suite):
    assert suite.last_line() == "50 cells: 0 ok, 50 missing"


def test_all_has_run(finished):
    assert finished.last_line() == "50 cells: 50 ok"
    assert {name: dict(counts) for name, counts in finished.status().artefacts.items()} == {"scale/scale": {"ok": 50}}


def test_failures_and_missing_data_are_told_with_their_reason(finished):
    first, second, third, fourth = finished.cells[:4]
    finished.change(first, status="failed", reason="diverged: loss is nan at step 12")
    finished.change(second, status="failed", reason="diverged: loss is nan at step 70")
    finished.change(third, status="not run", reason="data not available: no mirror has it")
    seeds = read_json(finished.paths.result(fourth))["seeds"]
    finished.change(fourth, seeds=[seeds[0], seeds[1] | {"status": "failed", "reason": "out of memory"}])
    text = finished.status().page()
    assert text.splitlines()[-1] == "50 cells: 47 ok, 2 failed, 1 not run"
    assert f"failed: 2 cells, e.g. {first.slug}\n  diverged: loss is nan at step 12" in text
    assert f"not run: {third.slug}\n  data not available: no mirror has it" in text
    assert f"seeds that failed: 1 cells, e.g. {fourth.slug}" in text


def test_a_cell_without_a_record_is_missing_in_its_artefact(finished):
    finished.remove(finished.cells[0])
    status = finished.status()
    assert status.cells[finished.cells[0].slug].state == "missing"
    assert status.artefacts["scale/scale"] == {"ok": 49, "missing": 1}


def test_a_record_with_fewer_seeds_than_the_plan_is_missing(finished):
    cell = finished.cells[0]
    finished.change(cell, cell=json.loads(cell.model_dump_json()) | {"seeds": [0]})
    assert finished.status().cells[cell.slug].state == "missing"


def test_a_damaged_record_is_a_failure(finished):
    cell = finished.cells[0]
    write_text(finished.paths.result(cell), finished.paths.result(cell).read_text()[:100])
    state = finished.status().cells[cell.slug]
    assert (state.state, state.reason) == ("failed", "the record is damaged: delete it and run again")


def test_command_line(finished, capsys):
    finished.change(finished.cells[0], status="failed", reason="diverged")
    assert main(["status", *finished.options]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "50 cells: 49 ok, 1 failed"
    assert main(["status", *finished.options, "--suite", "none"]) == 2
    assert capsys.readouterr().err.splitlines() == ["error: --suite=none: expected one of scale"]


def test_a_login_node_needs_no_torch(finished):
    code = (
        "import sys\nfrom dpgraph.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "heavy = [name for name in ('torch', 'pandas', 'scipy', 'matplotlib') if name in sys.modules]\n"
        "sys.exit(status or ' '.join(heavy) or 0)"
    )
    command = [sys.executable, "-c", code, "status", *finished.options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
