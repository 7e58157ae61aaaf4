"""A calibration that is, bit for bit, what these accountants answered needs no accountant when cells are trained."""

import json
import subprocess
import sys

import pytest

from dpgraph.config.cell import Cell
from dpgraph.data.store import save_graph
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.pipeline.stages import calibrate_cell, train_cell
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.planning.run import Run
from dpgraph.privacy import cache, calibration
from dpgraph.privacy.calibration import Calibration
from dpgraph.problems.base import Counts
from tests.contract.cells import CELLS
from tests.contract.conftest import toy_graph

HEAVY = ("dp_accounting", "scipy.stats", "scipy.signal", "pandas", "matplotlib", "sklearn", "sympy")


def asked(**training) -> Cell:
    cell = CELLS["dp-gnn-1-rigorous"].model_dump()
    return resolve({**cell, "training": {**cell["training"], "evaluations": 3, **training}, "seeds": (0,)})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPGRAPH_CACHE", str(tmp_path / "cache"))
    save_graph(toy_graph(), tmp_path / "graph")
    return tmp_path / "graph"


@pytest.fixture
def path(folder, tmp_path):
    calibrate_cell(asked(), folder, tmp_path / "calibration.json")
    return tmp_path / "calibration.json"


def refuse(*_args, **_options):
    raise AssertionError("an accountant was asked")


def test_a_private_training_imports_no_accountant(folder, path, tmp_path):
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from dpgraph.pipeline.stages import train_cell\n"
        "from dpgraph.planning.resolve import resolve\n"
        "cell, out, graph, calibration = json.loads(sys.argv[1])\n"
        "record = train_cell(resolve(cell), Path(out), Path(graph), Path(calibration), device='cpu')\n"
        f"print(record.status, len(record.budgets), [name for name in {HEAVY!r} if name in sys.modules])"
    )
    given = json.dumps([asked().model_dump(mode="json"), *map(str, (tmp_path / "out", folder, path))])
    run = subprocess.run([sys.executable, "-c", code, given], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "ok 2 []"


def test_no_accountant_is_asked_and_the_record_is_the_same(folder, path, tmp_path, monkeypatch):
    evaluated = train_cell(asked(), tmp_path / "evaluated", folder, device="cpu")
    monkeypatch.setattr(Run, "calibrate", refuse)
    monkeypatch.setattr(PoissonTrees, "rigorous", refuse)
    monkeypatch.setattr(PoissonTrees, "published", refuse)
    record = train_cell(asked(), tmp_path / "sealed", folder, path, device="cpu")
    assert [budget.step for budget in record.budgets] == [2, 4]
    assert all(budget.eps_rigorous < record.statement["rigorous"]["epsilon"] for budget in record.budgets)
    assert (record.statement, record.budgets) == (evaluated.statement, evaluated.budgets)


def test_budgets_at_other_steps_are_evaluated(folder, path, tmp_path):
    other = asked(evaluations=2)
    assert other.calibration_key == asked().calibration_key
    record = train_cell(other, tmp_path / "out", folder, path, device="cpu")
    assert record.budgets == train_cell(other, tmp_path / "alone", folder, device="cpu").budgets
    calibrate_cell(asked().for_calibration, folder, path, evaluations=(2, 3))
    assert {budget.step for budget in Calibration.read(path, PoissonTrees).budgets} == {2, 3, 4}


def test_an_edited_budget_is_evaluated_again(folder, path, tmp_path):
    value = json.loads(path.read_text())
    right = value["budgets"][0]["eps_rigorous"]
    value["budgets"][0]["eps_rigorous"] = right / 2
    path.write_text(json.dumps(value))
    record = train_cell(asked(), tmp_path / "out", folder, path, device="cpu")
    assert record.budgets[0].eps_rigorous == right


def test_what_a_seal_is_for(path, monkeypatch):
    """The mechanism, its target and mode, the accountants, their libraries, and every field of the answer."""
    stored, counts = Calibration.read(path, PoissonTrees), Counts(40, 60)
    assert Run.resolve(asked()).accepts(stored, counts)
    for other_counts in (Counts(41, 60), Counts(40, 61)):
        assert not Run.resolve(asked()).accepts(stored, other_counts)
    for change in ({"epsilon": 5.0}, {"max_degree": 2}, {"delta": 2e-3}):
        privacy = asked().privacy.model_copy(update=change)
        assert not Run.resolve(asked().model_copy(update={"privacy": privacy})).accepts(stored, counts), change
    other = calibrate(asked().model_copy(update={"privacy": asked().privacy.model_copy(update={"epsilon": 5.0})}), 40)
    for name in ("mechanism", "target_epsilon", "statement", "budgets"):
        changed = {name: getattr(other, name)}
        assert getattr(stored, name) != getattr(other, name), name
        assert not Run.resolve(asked()).accepts(stored.model_copy(update=changed), counts), name
    monkeypatch.setattr(calibration, "accountants_digest", lambda: "of other code")
    assert not Run.resolve(asked()).accepts(stored, counts)
    assert cache.accountants_digest() != "of other code"


def test_a_file_of_other_accountants_is_solved_again(folder, path, tmp_path, monkeypatch):
    """It agrees, so it is taken; the accountants are asked, which the seal would have spared them."""
    asked_again = []
    real = Run.calibrate
    monkeypatch.setattr(calibration, "accountants_digest", lambda: "of other code")
    monkeypatch.setattr(Run, "calibrate", lambda *args, **options: asked_again.append(1) or real(*args, **options))
    assert train_cell(asked(), tmp_path / "out", folder, path, device="cpu").status == "ok"
    assert asked_again == [1]
