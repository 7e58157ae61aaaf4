"""docs/tutorial.ipynb runs from top to bottom, in a process of its own, and says what the outputs in the file say."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs/tutorial.ipynb"


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text(cell):
    parts = [one.get("text") or one["data"]["text/plain"] for one in cell["outputs"]]
    return "".join(line for part in parts for line in part)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A dozen seconds: eight trainings, and what `check method` tries."""
    run = subprocess.run([sys.executable, "-m", "tests.tutorial", NOTEBOOK], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def test_it_is_a_notebook_with_the_outputs_of_a_run():
    committed = json.loads(NOTEBOOK.read_text())
    nbformat.validate(committed)
    assert [cell["execution_count"] for cell in code(committed)] == list(range(1, len(code(committed)) + 1))
    assert "claimed" in text(code(committed)[-1])


def test_its_cells_run_and_say_what_they_said(ran):
    pairs = list(zip(code(json.loads(NOTEBOOK.read_text())), code(ran), strict=True))
    for committed, now in pairs:
        assert [one["output_type"] for one in committed["outputs"]] == [one["output_type"] for one in now["outputs"]]
    same = [text(committed) == text(now) for committed, now in pairs]
    assert sum(same) >= 5  # the others show accuracies of releases, whose noise is another one each time
    for before, now in pairs:  # but the guarantee does not depend on it
        told = [line for line in text(before).splitlines() if "ε =" in line or line.startswith(("assumed", "Can this"))]
        assert set(told) <= set(text(now).splitlines())


def test_what_it_shows_holds(ran):
    said = [text(cell) for cell in code(ran)]
    (fitted,) = [one for one in said if "private: mine\n" in one]
    assert "may be published: mine/release" in fitted
    (compared, other) = [one for one in said if "| method |" in one]
    assert "| gnn | no privacy | ∞ |" in compared
    (line,) = [line for line in other.splitlines() if line.startswith("| dp-smoothed ")]
    assert "node-null (claimed); joint | 4 |" in line
    assert "dp-smoothed: its ε is its author's claim, not proved; checks: statement against mechanism (passed)" in other
