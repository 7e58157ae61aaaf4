"""A metric along the steps of training."""

from __future__ import annotations

import numpy as np
import pytest

from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.training import draw, spline, training_points
from tests.plans import plan_of

ARTEFACT = "zhang-ch3/fig3.3b"


@pytest.fixture(scope="module")
def plan():
    return plan_of("images-cpu", artefacts=(ARTEFACT,))


@pytest.fixture(scope="module")
def frame(plan, rows_of, as_frame):
    """Of every seed 300, 200 and 40 images after 100, 1,000 and 2,000 steps."""
    rows = []
    for entry in plan.entries_of(ARTEFACT)[:1]:
        made = [row for row in rows_of(entry) if row["final"] and row["metric"] == "accuracy/test"]
        for step, value in ((1000, 200.0), (2000, 40.0), (100, 300.0)):
            told = {"metric": "disagreements/labelled", "step": step, "final": step == 2000, "value": value}
            rows += [row | told for row in made]
    return as_frame(rows)


def test_a_row_for_each_evaluation(plan, frame):
    points = training_points(plan, ARTEFACT, frame)
    assert points["method"].tolist() == [*["pate-plus-long"] * 3, "pate-plus-long-thesis"]
    points = points[:3]
    assert points["step"].tolist() == [100, 1000, 2000]
    assert points["mean"].tolist() == [300, 200, 40]  # a number of images, no share
    assert (points["n"] == 5).all()
    nothing = training_points(plan, ARTEFACT, None)
    assert nothing["status"].tolist() == ["not run", "not run"]


@pytest.mark.parametrize("there", [True, False])
def test_the_figure_is_drawn(plan, frame, there, tmp_path):
    write_figure(plan, ARTEFACT, frame if there else None, tmp_path / "fig3.3b")
    assert {path.suffix for path in tmp_path.rglob("fig3.3b*")} >= {".png", ".svg", ".pdf", ".csv"}


def test_both_discriminators_are_curves_of_one_panel(as_frame, rows_of):
    """Figure 3.3(a): a row for each metric and evaluation, and two lines."""
    name = "zhang-ch3/fig3.3a"
    made = plan_of("images-cpu", artefacts=(name,))
    entry = made.entries_of(name)[0]
    finals = [row for row in rows_of(entry) if row["final"] and row["metric"] == "accuracy/test"]
    rows = [
        row | {"metric": f"training_accuracy_{peer}/labelled", "step": step, "final": step == 300, "value": value}
        for peer, values in ((1, (0.5, 0.6, 0.7)), (2, (0.4, 0.5, 0.9)))
        for step, value in zip((100, 200, 300), values, strict=True)
        for row in finals
    ]
    points = training_points(made, name, as_frame(rows)).dropna(subset="step")
    assert points["metric"].tolist() == [f"training_accuracy_{peer}/labelled" for peer in (1, 1, 1, 2, 2, 2)]
    assert points["mean"].tolist() == pytest.approx([50, 60, 70, 40, 50, 90])
    drawn = draw(made, name, as_frame(rows))
    dashed = [line for line in drawn.figure.axes[0].get_lines() if line.get_linestyle() == "--"]
    assert [line.get_ydata().tolist() for line in dashed] == [pytest.approx([40, 50, 90])]


def test_a_smoothing_spline_is_drawn_through_the_means():
    """A line stays a line, noise does not; four points have none."""
    steps = np.arange(0.0, 4000.0, 100.0)
    places, line = spline(steps, 5 + steps / 100)
    assert line == pytest.approx(5 + places / 100, abs=1e-6)
    hill = np.sin(steps / 700)
    _, fitted = spline(steps, hill + 0.2 * numpy_generator("test", "spline").standard_normal(len(steps)))
    assert np.abs(fitted - np.sin(places / 700)).mean() < 0.1
    assert spline(steps[:4], steps[:4]) is None
