"""Cells and tasks: what jobs are made of."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st

from dpgraph.cli.options import read_cell
from dpgraph.config.cell import Task
from dpgraph.engine.methods.base import evaluation_steps
from dpgraph.families.registry import spec
from dpgraph.planning.resolve import resolve
from tests.contract.cells import raw_cells
from tests.fuzz.harness import SEEDS, fuzzed, told
from tests.fuzz.strategies import JSON_NASTY, damaged, mangled
from tests.plans import plan_of

WORKFLOW = Path(__file__).resolve().parents[2] / "workflow"
CELLS = [
    *(json.loads(one.model_dump_json()) for one in list(plan_of("demo").cells.values())[::9]),
    *raw_cells().values(),  # some of every method
]


@fuzzed(800, seed=SEEDS)
def test_cell_trees(seed):
    random = Random(seed)
    tree = mangled(random.choice(CELLS), random)
    if told(lambda: resolve(tree)) is None:
        cell = resolve(tree)
        assert len(cell.slug) < 400
        assert resolve(json.loads(cell.model_dump_json())) == cell
        assert type(cell) is spec(cell.method).cell
        assert told(lambda: (cell.calibration_key, getattr(cell, "release_epsilon", None))) is None
        assert told(lambda: evaluation_steps(cell.training.evaluations, 100)) is None


@fuzzed(300, seed=SEEDS)
def test_cell_files(tmp_path_factory, seed):
    random = Random(seed)
    content = json.dumps(mangled(random.choice(CELLS), random, JSON_NASTY)).encode()
    path = tmp_path_factory.getbasetemp() / "cell.json"
    path.write_bytes(damaged(content, random) if random.random() < 0.7 else content)
    told(lambda: read_cell(str(path)))


WORDS = """cora transductive disjoint public train-rest random-60-20-20 random-200-0--100 random-1-2-3 ratio-80-10-10
random-060-20-20 l2 project-0 project-99999 .. / . é ٦٠ A -"""
words = st.sampled_from([*WORDS.split(), "", "\x00", "\n", "x" * 300, "project-" + "9" * 400])


@fuzzed(300, parts=st.lists(words | st.text(max_size=4), max_size=6), joint=st.sampled_from((".", "/", "", "./")))
def test_tasks(parts, joint):
    folder = joint.join(parts)
    if told(lambda: Task.from_folder(folder)) is None:
        task = Task.from_folder(folder)
        assert Task.from_folder(task.folder) == task
        assert ".." not in task.folder


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("training", "learning_rate"), float("inf"), "training.learning_rate=inf: expected a finite number"),
        (("training", "learning_rate"), float("nan"), "training.learning_rate=nan: expected"),
        (("training", "steps"), 10**30, "training.steps"),
        (
            ("training", "evaluations"),
            10**12,
            "training.evaluations=1000000000000: expected less than or equal to 100000",
        ),
        (("model", "width"), 10**12, "model.width=1000000000000: expected less than or equal to 100000"),
        (("seeds",), [0, 0], "seeds=[0, 0]: expected each seed once"),
        (("seeds",), [-1], "seeds.0=-1: expected greater than or equal to 0"),
        (("task", "features"), "project-" + "9" * 5000, "expected raw, l1, l2 or project-D with D in 1..99999"),
        (("task", "split"), "random-٦٠-20-20", "expected public, train-rest"),
    ],
    ids=range(9),
)
def test_numbers_that_no_run_could_use(path, value, message):
    tree = json.loads(json.dumps(CELLS[0]))
    *holders, name = path
    holder = tree
    for part in holders:
        holder = holder[part]
    holder[name] = value
    assert message in str(told(lambda: resolve(tree)))
