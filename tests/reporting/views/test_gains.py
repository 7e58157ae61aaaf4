"""Gains over a reference: differences of the same seeds, where each graph is, and a figure that keeps the rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from dpgraph.config.experiment import Artefact
from dpgraph.core.errors import UserError
from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing import canvas
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.gains import NO_GRAPH, gain_points
from tests.plans import plan_of
from tests.reporting.conftest import graph_rows, missing_row
from tests.reporting.drawing.test_rules import box, labels, overlapping, panels_of

NAME = "votes/gains"
DEGREES = {"degree-4-": 4.0, "degree-40-": 40.0, "": 12.0}
AGREED = {"most": 0.84, "some": 0.61, "few": 0.44, "least": 0.27}


@pytest.fixture(scope="module")
def votes_plan() -> Plan:
    return plan_of("votes")


def statistics_of(task: str) -> dict[str, Any]:
    degree = next(value for name, value in DEGREES.items() if task.startswith(name))
    return {"statistics": {"mean_degree": degree, "homophily": AGREED[task.rpartition("-")[2]]}}


@pytest.fixture(scope="module")
def given(votes_plan: Plan, rows_of: Callable[..., list[dict]], as_frame: Callable[..., pd.DataFrame]) -> Any:
    """Votes gain 10, 0 and -10 points where most, some and few or least agree, but for what seeds have of their own."""
    rows: list[dict] = []
    for entry in votes_plan.entries_of(NAME):
        gain = {"most": 0.1, "some": 0.0}.get(entry.task_id.rpartition("-")[2], -0.1)
        rows += rows_of(entry, mean=0.6 + (gain if entry.method_id == "votes" else 0.0), std=0.02)
    tasks = votes_plan.tasks_of(NAME)
    return pd.concat([as_frame(rows), graph_rows(votes_plan, NAME, {task: statistics_of(task) for task in tasks})])


def test_a_gain_is_of_the_same_seeds_and_epsilon(votes_plan: Plan, given: Any) -> None:
    points = gain_points(votes_plan, NAME, given)
    assert len(points) == 48
    found = points[(points.method == "votes") & (points.task == "agree-most") & (points.epsilon_target == 4)].iloc[0]
    final = given[given.final & (given.metric == "accuracy/test")]
    cells = {
        one.method_id: one.cell.slug
        for one in votes_plan.entries_of(NAME)
        if one.task_id == "agree-most" and one.target_epsilon == 4
    }
    values = {name: final[final.cell == slug].set_index("seed").value for name, slug in cells.items()}
    gains = 100 * (values["votes"] - values["own"]).to_numpy()
    assert found["mean"] == pytest.approx(gains.mean())
    half = 2.3646243 * gains.std(ddof=1) / math.sqrt(8)  # Student's t of 7 degrees
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((gains.mean() - half, gains.mean() + half))
    assert (found["mean_degree"], found["homophily"], found["n"]) == (12.0, 0.84, 8)
    assert points.loc[points.method == "own", "mean"].isna().all()


def test_what_is_missing_has_its_reason(votes_plan: Plan, given: Any, as_frame: Callable[..., pd.DataFrame]) -> None:
    entries = {(one.method_id, one.task_id, one.target_epsilon): one for one in votes_plan.entries_of(NAME)}
    own = entries["own", "agree-some", 1]
    least = given["dataset"] == votes_plan.task("agree-least").dataset
    frame = given[(given.cell != own.cell.slug) & ~(least & (given.cell == ""))]
    frame = pd.concat([frame, as_frame([missing_row(own, "failed", "diverged")])], ignore_index=True)
    points = gain_points(votes_plan, NAME, frame).set_index(["method", "task", "epsilon_target"])
    assert points.loc[("votes", "agree-some", 1), ["status", "reason", "n"]].tolist() == ["failed", "diverged", 0]
    assert math.isnan(points.loc[("votes", "agree-some", 1), "mean"])
    assert points.loc[("votes", "agree-least", 1), ["status", "reason"]].tolist() == ["not run", NO_GRAPH]
    nothing = gain_points(votes_plan, NAME, None)
    assert set(nothing["status"]) == {"not run"}
    assert nothing["mean"].isna().all()


def drawn(plan: Plan, given: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Figure, str]:
    seen: list[Figure] = []

    def save(figure: Figure, stem: Path) -> list[Path]:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        seen.append(figure)
        path = stem.with_suffix(".png")
        path.write_bytes(b"png")
        return [path]

    monkeypatch.setattr(canvas, "save_all", save)
    *_, text, _ = write_figure(plan, NAME, given, folder / "gains")
    return seen[0], text.read_text(encoding="utf-8")


def test_every_graph_has_its_number_where_it_is(
    votes_plan: Plan, given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, caption = drawn(votes_plan, given, tmp_path, monkeypatch)
    points = gain_points(votes_plan, NAME, given)
    panels = panels_of(figure)
    assert [one.get_title(loc="left") for one in panels] == [f"ε\xa0=\xa0{at}: gain in points" for at in (1, 4)]
    for axes, target in zip(panels, (1, 4), strict=True):
        rows = points[(points.method == "votes") & (points.epsilon_target == target)]
        wanted = {
            (row.mean_degree, row.homophily): f"{row['mean']:+.1f}".replace("-", "−") for _, row in rows.iterrows()
        }
        assert {tuple(text.xy): text.get_text() for text in axes.texts} == wanted
        marked = {line.get_marker(): set(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in axes.lines}
        sure = {"o": AGREED["most"], "v": AGREED["least"]}
        for (marker, share), degree in product(sure.items(), DEGREES.values()):
            assert (degree, share) in marked[marker]
        assert sum(map(len, marked.values())) == 12
        assert all(not line.get_clip_on() for line in axes.lines)
        assert np.allclose(sorted(axes.get_xticks()), [4, 12, 40])
    assert overlapping(figure) == []
    for text in labels(figure):
        left, low, right, high = box(text, figure)
        assert min(left, low) >= -0.001
        assert max(right, high) <= 1.001
    assert "Votes minus that of features only at the same ε" in caption
    assert "95 % confidence interval over 8 seeds" in caption
    assert "a tenth of the labels redrawn" in caption


def test_without_results_the_figure_says_so(votes_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, caption = drawn(votes_plan, None, tmp_path, monkeypatch)
    assert [text.get_text() for axes in figure.axes for text in axes.texts] == [
        "no results: mean degree 4, homophily .85, …"
    ]
    assert "No panel" in caption


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reference": None}, "view=gains, reference=None: expected one of methods"),
        ({"reference": "mlp"}, "reference=mlp: expected one of methods"),
        ({"view": "accuracy", "kind": "table"}, "expected reference only with hard-cases, confusion, gains"),
        ({"kind": "table"}, "view=gains, kind=table: expected kind=figure"),
    ],
)
def test_a_gain_needs_what_it_is_over(changed: dict[str, Any], message: str) -> None:
    whole = {"kind": "figure", "view": "gains", "title": "Gains", "methods": ["own", "votes"], "reference": "own"}
    Artefact.model_validate(whole)
    with pytest.raises((ValueError, UserError), match=message):
        Artefact.model_validate(whole | changed)
