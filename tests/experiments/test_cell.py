import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Cell, Model, Privacy, Task, Training
from dpgraph.experiments.config import parse


def cell(**changes):
    value = {
        "task": {"dataset": "cora", "setting": "disjoint", "split": "train-rest"},
        "method": "dp-gnn",
        "model": {"architecture": "gcn", "hops": 1},
        "training": {"learning_rate": 0.01, "sampling_rate": 0.2, "steps": 100},
        "privacy": {"epsilon": 8.0},
        "seeds": [0, 1],
    }
    for path, new in changes.items():
        *parents, last = path.split("__")
        target = value
        for parent in parents:
            target = target[parent]
        target[last] = new
    return parse(Cell, value, "cell")


def test_round_trip_keeps_identity():
    first = cell()
    again = Cell.model_validate_json(first.model_dump_json())
    assert again == first
    assert again.identity == first.identity


def test_seeds_do_not_change_identity_but_everything_else_does():
    first = cell()
    assert cell(seeds=[0, 1, 2]).identity == first.identity
    assert cell(training__learning_rate=0.02).identity != first.identity
    assert cell(privacy__epsilon=4.0).identity != first.identity
    assert cell(model__width=64).identity != first.identity


def test_calibration_is_shared_by_cells_that_differ_where_noise_does_not_depend():
    first = cell()
    for same in ("training__learning_rate", 0.5), ("model__width", 32), ("privacy__clip_norm", 3.0):
        assert cell(**{same[0]: same[1]}).calibration_key == first.calibration_key
    for other in ("training__steps", 200), ("privacy__max_degree", 7), ("privacy__epsilon", 4.0):
        assert cell(**{other[0]: other[1]}).calibration_key != first.calibration_key


def test_slug_is_readable():
    assert cell().slug.startswith("cora-disjoint.dp-gnn-1hop.rigorous.eps8-")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy__max_degree": 0}, r"privacy.max_degree=0: expected greater than or equal to 1"),
        ({"training__sampling_rate": 1.5}, r"training.sampling_rate=1.5: expected less than or equal to 1"),
        ({"privacy__epsilon": -1}, r"privacy.epsilon=-1: expected greater than 0"),
        ({"privacy__epsilon": None}, "expected exactly two of them"),
        ({"privacy__noise_multiplier": 1.0}, "expected exactly two of them"),
        ({"training__batch_size": 10}, "expected exactly one of them"),
        ({"model__hops": 3}, "model.hops=3: expected less than or equal to 2"),
        ({"model__hops": 0}, "architecture=gcn, hops=0: expected hops=0 exactly for mlp"),
        ({"task__split": "random-50-20-20"}, "task.split=random-50-20-20: expected three percentages with sum 100"),
        ({"task__split": "ratio-60-20-20"}, "expected ratio-A-B-C exactly when clustered"),
        ({"task__nonsense": 1}, "task.nonsense=1: unknown key"),
        ({"seeds": []}, "seeds"),
    ],
)
def test_mistakes_are_named_in_one_line(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        cell(**changes)
    assert "\n" not in str(caught.value)


def test_steps_max_needs_noise():
    found = cell(training__steps="max", privacy__noise_multiplier=2.0)
    assert found.training.steps == "max"


def test_non_private_cell_has_no_calibration():
    found = cell(method="gnn", privacy=None)
    assert found.calibration_key is None
    with pytest.raises(UserError, match="steps=max"):
        cell(method="gnn", privacy=None, training__steps="max")


@given(
    dataset=st.from_regex(r"[a-z0-9]{1,20}(-[a-z0-9]{1,9}){0,5}", fullmatch=True),
    setting_split=st.sampled_from(
        [("transductive", "public"), ("disjoint", "random-70-10-20"), ("clustered", "ratio-67-18-15")]
    ),
    features=st.sampled_from(["raw", "l2", "project-200"]),
)
def test_task_folder_round_trip(dataset, setting_split, features):
    task = Task(dataset=dataset, setting=setting_split[0], split=setting_split[1], features=features)
    assert Task.from_folder(task.folder) == task


def test_models_are_frozen():
    with pytest.raises(ValidationError):
        Model().width = 3
    assert Privacy(epsilon=1).epsilon == 1.0
    assert Training(learning_rate=1, batch_size=5, steps=1).batch_size == 5
