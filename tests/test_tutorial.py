"""docs/tutorial/private-model.ipynb runs from top to bottom and says what the outputs in the file say.

`python -m tests.test_tutorial` runs it and writes the new outputs into the file.
"""

import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs/tutorial/private-model.ipynb"
# audits of a card take seconds: tests/own_graph/test_audited.py
QUICK = """import dpgraph.own_graph.audited as audited
audited.STEPS = audited.VOTES = audited.REMOVED = (("lists", 4),)"""
# `pip install .` does not bring these: importing one fails, as it does there
ABSENT = """import sys
sys.modules.update(dict.fromkeys({absent}))"""
KERNEL = {"ipykernel"}  # of the extra dev, what runs the notebook


def absent():
    """Return the modules that the extra `dev` alone brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {canonicalize_name(Requirement(line).name) for line in project["optional-dependencies"]["dev"]} - KERNEL
    return sorted(
        module for module, names in packages_distributions().items() if brought & set(map(canonicalize_name, names))
    )


def execute(quick):
    """Return the notebook with the outputs of a kernel that runs it, with shorter audits if `quick`."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    if quick:
        hidden = ABSENT.replace("{absent}", repr(absent()))
        notebook.cells.insert(0, nbformat.v4.new_code_cell(f"{hidden}\n{QUICK}"))
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False, coalesce_streams=True)
    client.execute(cwd=ROOT)
    del notebook.cells[: int(quick)]
    for cell in code(notebook):  # logs hold times and paths
        cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    return notebook


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text(cell):
    return "".join(one.get("text") or one["data"]["text/plain"] for one in cell.outputs)


@pytest.fixture(scope="module")
def committed():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def ran():
    """A dozen seconds: eight trainings, and what `check method` tries."""
    return execute(quick=True)


def test_it_is_a_notebook_with_the_outputs_for_whole_run(committed):
    nbformat.validate(committed)
    assert [cell.execution_count for cell in code(committed)] == list(range(1, len(code(committed)) + 1))
    assert "claimed" in text(code(committed)[-1])


@pytest.mark.slow
def test_its_cells_run_and_say_what_they_said(committed, ran):
    pairs = list(zip(code(committed), code(ran), strict=True))
    for before, now in pairs:
        assert [one.output_type for one in before.outputs] == [one.output_type for one in now.outputs]
    assert sum(text(before) == text(now) for before, now in pairs) >= 4  # releases differ by their noise
    for before, now in pairs:  # but the guarantee does not depend on it
        told = [line for line in text(before).splitlines() if "ε =" in line or line.startswith(("assumed", "Can this"))]
        assert set(told) <= set(text(now).splitlines())


def test_it_needs_no_package_of_the_developers():
    assert {"skimage", "pytest"} <= set(absent())


@pytest.mark.slow
def test_what_it_shows_holds(ran):
    said = [text(cell) for cell in code(ran)]
    (fitted,) = [one for one in said if "private: mine\n" in one]
    assert "may be published: mine/release" in fitted
    (compared, other) = [one for one in said if "| method |" in one]
    assert "| gnn | no privacy | ∞ |" in compared
    (line,) = [line for line in other.splitlines() if line.startswith("| dp-smoothed ")]
    assert "node-null (claimed); joint | 4 |" in line
    assert "dp-smoothed: its ε is its author's claim, not proved; checks: statement against mechanism (passed)" in other


if __name__ == "__main__":
    done = execute(quick=False)
    nbformat.write(done, NOTEBOOK)
