"""Confusions of 9 tested nodes in three classes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpgraph.config.paths import Paths
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.paper_values import paper_confusions
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.confusion import confusion_points, confusions, largest, wrong_classes
from dpgraph.reporting.views.derived import taken_for
from tests.reporting.conftest import with_derived

LABELS = [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.fixture
def run(splits_run, splits_rows_of, as_frame):
    """Plan and results: GCN takes 1 for 2 always, class 0 for 1 once; the private one spreads its errors."""
    predicted = {"sgd": [0, 0, 1, 2, 2, 2, 2, 2, 2], "dp-sgd": [0, 1, 2, 2, 0, 1, 2, 2, -1]}
    rows = []
    for entry in splits_run.entries_of("igamberdiev/confusion"):
        rows += splits_rows_of(entry)
        for seed in entry.cell.seeds:
            path = Paths(splits_run.config).predictions(entry.cell, seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            own = list(predicted[entry.method_id])
            if seed == 0:
                own[:3] = [0, 0, 0]  # a seed that knows class 0
            np.save(path, np.array([*own, 0, 0, 0], dtype=np.int16))
    return splits_run, with_derived(splits_run, as_frame(rows))


def test_counts_by_hand():
    found = {
        (one.metric, one.class_id): one.value for one in taken_for(np.array([0, 0, 1, 2]), np.array([0, 1, -1, 2]))
    }
    assert found == {("taken_for/0", 0): 1, ("taken_for/1", 0): 1, ("taken_for/-1", 1): 1, ("taken_for/2", 2): 1}


def test_shares_of_rows(run):
    plan, frame = run
    gcn, private = confusions(plan, "igamberdiev/confusion", frame)
    assert gcn.shares.shape == (4, 3, 4)
    assert gcn.support.tolist() == [3, 3, 3]
    expected = [[300 - 75, 75, 0, 0], [0, 0, 300, 0], [0, 0, 300, 0]]
    assert gcn.mean == pytest.approx(np.array(expected) / 3)
    assert np.allclose(gcn.mean.sum(axis=1), 100)
    assert private.mean[2].tolist() == pytest.approx([0, 0, 200 / 3, 100 / 3])  # no class


def test_largest_confusions_and_their_spread(run):
    plan, frame = run
    gcn, private = confusions(plan, "igamberdiev/confusion", frame)
    assert largest(gcn) == [(1, 2), (0, 1)]
    assert largest(gcn, 1) == [(1, 2)]
    assert wrong_classes(gcn, 1) == pytest.approx(1.0)
    assert wrong_classes(private, 1) == pytest.approx(2.0)  # half 0, half 2
    assert math.isnan(wrong_classes(gcn, 2))


def test_points(run):
    plan, frame = run
    points = confusion_points(confusions(plan, "igamberdiev/confusion", frame))
    own = points[(points["method"] == "sgd") & (points["true_class"] == 0)]
    assert own["predicted_class"].tolist() == [0, 1]
    assert own["share"].tolist() == pytest.approx([75, 25])
    assert own["share_std"].tolist() == pytest.approx([100 / 6, 100 / 6])
    none = points[(points["method"] == "dp-sgd") & (points["predicted_class"] == -1)]
    assert none["true_class"].tolist() == [2]
    assert {"eps_published", "eps_rigorous"} <= set(points.columns)


def test_table_says_both_epsilons_and_the_paper(run, tmp_path):
    plan, frame = run
    write_table(plan, "igamberdiev/confused", frame, tmp_path / "confused")
    lines = (tmp_path / "confused.md").read_text().splitlines()
    assert any(line.startswith("| True class | Predicted | Test nodes | Paper (%) | GCN, SGD | ") for line in lines)
    assert "| ε claimed / proved |  |  |  | ∞ / ∞ | 2.00 / 3.40 |" in lines
    assert "| relation |  |  |  | – | graph |" in lines
    assert "| scope |  |  |  | – | parameters |" in lines
    assert "| 1 | 2 | 3 | – | 100.0 | 33.3 |" in lines
    assert "| 0 | 1 | 3 | – | 25.0 | 25.0 |" in lines
    assert any(line.startswith("| wrong classes |  |  |  | 1.0 |") for line in lines)


def test_printed_confusions_stand_beside_ours(run):
    """Reddit's three (App. E); the table lists them even where ours are small."""
    plan, _ = run
    entry = plan.entries_of("igamberdiev/confused")[0]
    reddit = entry.suite_task.model_copy(update={"published": "reddit"})
    printed = paper_confusions(plan.experiments["igamberdiev"], dataclasses.replace(entry, suite_task=reddit))
    assert printed == {(10, 39): "93", (18, 9): "95", (21, 16): "83"}
    assert paper_confusions(plan.experiments["igamberdiev"], entry) == {}


def test_figure_is_the_same_on_every_run_and_says_what_is_missing(run, tmp_path):
    plan, frame = run
    first = write_figure(plan, "igamberdiev/confusion", frame, tmp_path / "a")
    second = write_figure(plan, "igamberdiev/confusion", frame, tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    frame = frame[~((frame["seed"] == 1) & frame["metric"].str.startswith("taken_for/"))]
    entries = confusions(plan, "igamberdiev/confusion", frame)
    assert {one.outcome.reason for one in entries} == {
        "no predictions: the graph or the files of the seeds are not there"
    }
    write_figure(plan, "igamberdiev/confusion", frame, tmp_path / "c")
    write_table(plan, "igamberdiev/confused", frame, tmp_path / "none")
    assert "Not run: no predictions" in (tmp_path / "none.md").read_text()
    assert confusion_points(confusions(plan, "igamberdiev/confusion", None))["status"].tolist() == ["not run"] * 2
