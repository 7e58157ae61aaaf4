"""View bounds: curves of relational learning's bounds, and the settings that an artefact may give."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dpgraph.config.experiment import Artefact
from dpgraph.families.tuples.bounds import DEFAULTS, DELTA, GAUSSIAN, THEOREM_3, THEOREM_C1
from dpgraph.planning.plan import Plan
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.bounds import STEPS, bounds_points
from tests.plans import plan_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of("paper")


def test_curves_are_those_of_the_bounds(plan: Plan) -> None:
    points = bounds_points(plan, "huang/fig2")
    assert list(points["settings"].unique()) == ["noise σ = 0.5", "noise σ = 1"]
    one = points[points["settings"] == "noise σ = 1"]
    rdp, epsilon = (one[one["quantity"] == name] for name in ("rdp", "epsilon"))
    gauss = rdp[rdp["bound"] == GAUSSIAN]
    assert gauss["value"].to_numpy() == pytest.approx(gauss["x"].to_numpy() / 2)  # alpha / (2 sigma^2)
    by_bound = rdp.pivot(index="x", columns="bound", values="value")
    assert (by_bound[THEOREM_3] < by_bound[THEOREM_C1]).all()
    assert (by_bound[THEOREM_3] < by_bound[GAUSSIAN]).all()
    for _, curve in epsilon.groupby("bound"):
        assert (curve["x"].to_numpy() == STEPS).all()
        assert (np.diff(curve["value"]) >= 0).all()
        assert set(curve["delta"]) == {DELTA}
    assert (one[list(DEFAULTS)].drop_duplicates().iloc[0].to_dict()) == {**DEFAULTS, "noise": 1.0}


def test_a_figure_has_two_panels_for_each_setting(plan: Plan, tmp_path: Path) -> None:
    artefact = plan.artefacts["huang/fig2"]
    only = artefact.model_copy(update={"bounds": {"noise σ = 1": artefact.bounds["noise σ = 1"]}})
    experiment = plan.experiments["huang"]
    changed = experiment.model_copy(update={"artefacts": {**experiment.artefacts, "fig2": only}})
    one = dataclasses.replace(plan, experiments={**plan.experiments, "huang": changed})
    files = write_figure(one, "huang/fig2", None, tmp_path / "fig2")
    assert {path.suffix for path in files} >= {".pdf", ".svg", ".png"}
    text = (tmp_path / "fig2.svg").read_text()
    caption = (tmp_path / "fig2.txt").read_text()
    assert "Proposition 4.1, which the bound of adaptive clipping presumes, is false" in caption
    assert artefact.caption in caption
    for expected in (
        "Rényi order α",
        "Rényi divergence",
        "noise σ = 1",
        "adaptive clipping (Theorem 3)",
    ):
        assert expected in text or expected.replace(" ", "") in text.replace(" ", "")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"view": "bounds"}, "view=bounds: expected bounds"),
        ({"view": "statistics", "bounds": {"a": {"noise": 1.0}}}, "view=statistics: expected bounds only with bounds"),
        ({"view": "bounds", "kind": "table", "bounds": {"a": {}}}, "expected kind=figure"),
        ({"view": "bounds", "bounds": {"a": {"noise": 0.0}}}, "greater than 0"),
        ({"view": "bounds", "bounds": {"a": {"sigma": 1.0}}}, "Extra inputs"),
    ],
)
def test_settings_are_checked(changed: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Artefact.model_validate({"kind": "figure", "title": "t", **changed})
