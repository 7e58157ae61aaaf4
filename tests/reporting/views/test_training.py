"""A metric along the steps of training."""

from __future__ import annotations

import pytest

from dpgraph.experiments.config import Config
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.training.figure import training_points

ARTEFACT = "zhang-ch3/fig3.3b"


@pytest.fixture(scope="module")
def plan():
    return load_plan(Config(suite="images-cpu", artefacts=(ARTEFACT,)))


@pytest.fixture(scope="module")
def frame(plan, rows_of, as_frame):
    """Of every seed 300, 200 and 40 images after 100, 1,000 and 2,000 steps."""
    rows = []
    for entry in plan.entries_of(ARTEFACT):
        made = [row for row in rows_of(entry) if row["final"] and row["metric"] == "accuracy/test"]
        for step, value in ((1000, 200.0), (2000, 40.0), (100, 300.0)):
            told = {"metric": "disagreements/labelled", "step": step, "final": step == 2000, "value": value}
            rows += [row | told for row in made]
    return as_frame(rows)


def test_a_row_for_each_evaluation(plan, frame):
    points = training_points(plan, ARTEFACT, frame)
    assert points["step"].tolist() == [100, 1000, 2000]
    assert points["mean"].tolist() == [300, 200, 40]  # a number of images, no share
    assert (points["n"] == 3).all()
    nothing = training_points(plan, ARTEFACT, None)
    assert nothing["status"].tolist() == ["not run"]


@pytest.mark.parametrize("there", [True, False])
def test_the_figure_is_drawn(plan, frame, there, tmp_path):
    write_figure(plan, ARTEFACT, frame if there else None, tmp_path / "fig3.3b")
    assert {path.suffix for path in tmp_path.rglob("fig3.3b*")} >= {".png", ".svg", ".pdf", ".csv"}
