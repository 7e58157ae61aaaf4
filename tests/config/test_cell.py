import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpgraph.config.cell import Model, Privacy, RootBatches, Task
from dpgraph.config.frozen import chosen
from dpgraph.core.errors import UserError
from dpgraph.planning.resolve import resolve
from tests.contract.cells import CELLS, PRIVATE, changed


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
    return resolve(value)


def test_round_trip_keeps_identity():
    first = cell()
    again = resolve(json.loads(first.model_dump_json()))
    assert again == first
    assert again.identity == first.identity


@pytest.mark.parametrize("name", CELLS)
def test_identity_is_that_of_what_differs_from_the_defaults(name):
    """Spelling a default out is no other cell; those of the contract are all different ones."""
    first = CELLS[name]
    short = json.loads(json.dumps(chosen(first)))
    for value in (short, first.model_dump(mode="json")):
        assert resolve(value).identity == first.identity
    assert "evaluations" in short["training"]
    assert "precision" not in short["training"]
    assert [other for other, one in CELLS.items() if one.slug == first.slug] == [name]


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


@pytest.mark.parametrize("name", PRIVATE)
def test_every_method_shares_its_calibration_where_its_noise_does_not_depend(name):
    first, new = CELLS[name], {"learning_rate": 0.5, "width": 32, "clip_norm": 3.0, "activation": "relu"}
    for part, fields in type(first).NOISE_IGNORES.items():
        for field in new.keys() & set(fields):
            other = changed(name, **{part: {field: new[field]}})
            assert other.calibration_key == first.calibration_key
            assert other.identity != first.identity
    assert changed(name, training={"steps": 7}).calibration_key != first.calibration_key
    assert changed(name, privacy={"epsilon": 5.0}).calibration_key != first.calibration_key
    others = {"dp-pate": "fashion-mnist-images", "dp-units": "fashion-mnist-images"}
    other = others.get(first.method, "citeseer-relations" if "relation" in first.method else "cora")
    assert changed(name, task={"dataset": other}).calibration_key != first.calibration_key


def test_what_the_noise_of_a_method_of_its_own_depends_on():
    """The bound of a row scales its noise; degrees, parts and what neighbours may add change the mechanism."""
    rows = "dp-appr-gaussian-rigorous"
    for same in ({"clip": 0.5}, {"teleport": 0.5}, {"tolerance": 1e-3}, {"inference_steps": 5}):
        assert changed(rows, pagerank=same).calibration_key == CELLS[rows].calibration_key
    for other in ({"top_k": 5}, {"epsilon_share": 0.4}, {"num_rows": 21}, {"inference_steps": 0}):
        assert changed(rows, pagerank=other).calibration_key != CELLS[rows].calibration_key
    for name, parts in (
        ("dp-gnn-1-rigorous", {"privacy": {"max_degree": 2}}),
        ("dp-residual-1-rigorous", {"privacy": {"neighbour_clip_ratio": 0.2}}),
        ("dp-subgraph-3-cut", {"training": {"num_splits": 4}}),
        ("dp-lots-0-rigorous", {"training": {"sampling_rate": 0.4}}),
    ):
        assert changed(name, **parts).calibration_key != CELLS[name].calibration_key


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
        ({"privacy__variant": "cut"}, "privacy.variant=cut: expected 'rigorous', 'rigorous-fixed-size' or 'published'"),
        ({"training__patience": 3}, "training.patience=3: unknown key"),
        ({"training__max_degree": 3}, "training.max_degree=3: unknown key"),
        ({"training__weight_decay": 0.1}, "training.weight_decay=0.1: unknown key"),
        ({"model__architecture": "kipf"}, "model.architecture=kipf: expected 'mlp', 'gcn', 'gin' or 'gat'"),
        ({"model__architecture": "gat", "training__precision": "bf16"}, "architecture=gat: expected float32"),
        ({"model__dropout": 0.5}, "architecture=gcn, dropout=0.5: expected 0 but for kipf and mlp"),
    ],
)
def test_mistakes_are_named_in_one_line(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        cell(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("dp-pure-noise-1-published", {"model": {"dropout": 0.5}}, "model.dropout=0.5: expected .* 0"),
        ("dp-pure-noise-1-published", {"privacy": {"variant": "rigorous"}}, "variant=rigorous: expected 'published'"),
        ("dp-appr-gaussian-rigorous", {"model": {"dropout": 0.5}}, "model.dropout=0.5: expected .* 0"),
        ("dp-residual-1-rigorous", {"privacy": {"variant": "published"}}, "variant=published: expected 'rigorous'"),
        ("dp-subgraph-1-rigorous", {"model": {"hops": 1}}, "model.hops=1: expected 2"),
        ("dp-subgraph-1-rigorous", {"training": {"num_splits": None}}, "training.num_splits=None: expected"),
        ("dp-mlp-0-rigorous", {"model": {"hops": 1}}, "model.hops=1: expected 0"),
        ("dp-mlp-0-rigorous", {"model": {"architecture": "gcn", "hops": 1}}, "architecture=gcn: expected 'mlp'"),
        ("appr-exact-none", {"pagerank": {"release": "gaussian", "clip": 0.1}}, "release=gaussian: expected 'exact', "),
        ("appr-exact-none", {"pagerank": {"epsilon_share": 0.1}}, "pagerank.epsilon_share=0.1: expected None"),
        ("appr-exact-none", {"pagerank": {"training_epsilon": 0.1}}, "pagerank.training_epsilon=0.1: expected None"),
        (
            "dp-appr-gaussian-rigorous",
            {"pagerank": {"epsilon_share": None}},
            "release=gaussian, epsilon_share=None, training_epsilon=None, epsilon=6.0: expected one of the two",
        ),
        (
            "dp-appr-gaussian-rigorous",
            {"pagerank": {"epsilon_share": None, "training_epsilon": 7}},
            "training_epsilon=7.0: expected a number < epsilon = 6",
        ),
    ],
)
def test_mistakes_in_the_settings_of_a_method_are_named_in_one_line(name, parts, message):
    with pytest.raises(UserError, match=message) as caught:
        changed(name, **parts)
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
    assert RootBatches(learning_rate=1, batch_size=5, steps=1).batch_size == 5


@pytest.mark.parametrize("name", CELLS)
def test_cells_of_every_method_are_frozen(name):
    for part in (CELLS[name], getattr(CELLS[name], "model", None), CELLS[name].training, CELLS[name].privacy):
        if part is not None:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(part, next(iter(type(part).model_fields)), None)
