from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from dpgraph.reporting.drawing.epsilon_axis import round_numbers
from dpgraph.reporting.drawing.lines import MOST
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.privacy_utility import (
    Style,
    drawable,
    drawn_from,
    method_labels,
    privacy_utility_points,
)


@pytest.fixture(scope="module")
def results(views_plan, rows_of, as_frame):
    """Private cells have steps 25, 50 and 100, with growing epsilons; residual clipping has no published one."""
    rows = []
    for entry in {entry.cell.slug: entry for entry in views_plan.entries}.values():
        made = [row for row in rows_of(entry) if row["final"] and row["metric"] == "accuracy/test"]
        if entry.cell.method == "dp-residual":
            made = [row | {"eps_published": math.nan, "eps_published_reason": "no paper has it"} for row in made]
        rows += made
        if entry.cell.privacy is not None:
            for step, part in ((25, 0.5), (50, 0.7)):
                less = {"step": step, "final": False}
                rows += [
                    row | less | {name: part * row[name] for name in ("eps_published", "eps_rigorous", "value")}
                    for row in made
                ]
    return as_frame(rows)


def test_both_epsilons_of_every_point(views_plan, results):
    points = privacy_utility_points(views_plan, "daigavane/fig2", results)
    ours = points[(points["source"] == "ours") & (points["epsilon_target"] == 12)].set_index("method")
    assert ours.loc["dp-gcn", "eps_rigorous"] == pytest.approx(0.999 * 12)
    assert ours.loc["dp-gcn", "eps_published"] == pytest.approx(3.1 * 12)
    assert ours.loc["dp-gcn-published", "eps_published"] == 12
    assert math.isnan(ours.loc["dp-gcn-published", "eps_rigorous"])
    assert math.isnan(ours.loc["dp-residual", "eps_published"])
    public = points[(points["source"] == "ours") & (points["method"] == "gcn")]
    assert len(public) == 1
    assert public[["eps_published", "eps_rigorous"]].map(math.isinf).all(axis=None)


def test_the_caption_says_which_epsilon_is_lacking(views_plan, results):
    points = privacy_utility_points(views_plan, "daigavane/fig2", results)
    labels = method_labels(points)
    plain = {method: text.replace("\n", " ").replace("\xa0", " ") for method, text in labels.items()}
    assert plain == {
        "gcn": "GCN",
        "dp-gcn-published": "DP-GCN, paper's mechanism",
        "dp-gcn": "DP-GCN, rigorous",
        "dp-residual": "DP-GCN, residual clipping",
        "mlp": "MLP",
    }
    said = [line for line in drawn_from(views_plan, "daigavane/fig2", points).caption if line.startswith("No ")]
    assert said == ["No proved ε: DP-GCN, paper's mechanism.", "No claimed ε: DP-GCN, residual clipping."]


def test_axes_of_one_figure_share_a_scale(views_plan, results):
    points = privacy_utility_points(views_plan, "daigavane/fig2", results)
    for factor in (1.0, 0.001):
        first = points["epsilon_target"] == points["epsilon_target"].max()
        spread = points.assign(eps_published=points["eps_published"].where(~first, points["eps_published"] * factor))
        axes = [one for one in drawn_from(views_plan, "daigavane/fig2", spread).figure.axes if one.get_xlabel()]
        assert len(axes) > 1
        assert len({one.get_xscale() for one in axes}) == 1


def test_a_figure_without_a_point_has_neither_legend_nor_a_word_on_marks(views_plan):
    points = privacy_utility_points(views_plan, "daigavane/fig2", None)
    made = drawn_from(views_plan, "daigavane/fig2", points[points["source"] == "ours"])
    assert not made.figure.legends
    assert not [line for line in made.caption if "Marks" in line or "confidence" in line]


def test_printed_numbers_stand_once_beside_ours(views_plan, results):
    points = privacy_utility_points(views_plan, "daigavane/fig2", results)
    printed = points[points["source"] != "ours"].set_index("method")
    # Tables 1 and 3 print the same numbers; two mechanisms of ours are next to one DP-GCN
    assert dict(printed["mean"]) == {"gcn": 67.758, "dp-gcn-published": 61.75, "mlp": 55.236}
    assert set(printed["source"]) == {"paper's table 1"}
    assert printed.loc["dp-gcn-published", "eps_published"] == 12
    assert math.isnan(printed.loc["dp-gcn-published", "eps_rigorous"])
    assert math.isinf(printed.loc["gcn", "eps_published"])


def test_along_training_each_evaluation_has_its_own_epsilon(views_plan, results):
    points = privacy_utility_points(views_plan, "daigavane/fig3b", results)
    run = points[(points["method"] == "dp-gcn") & (points["value"] == "3") & (points["source"] == "ours")]
    assert run["step"].tolist() == [25, 50, 100]
    assert run["eps_rigorous"].tolist() == pytest.approx([0.5 * 0.999 * 12, 0.7 * 0.999 * 12, 0.999 * 12])
    assert run["mean"].is_monotonic_increasing
    assert (run["n"] == 4).all()
    printed = points[points["source"] == "paper's table 6"]
    assert dict(zip(printed["value"], printed["mean"])) == {"3": 62.413, "10": 62.534}


def test_a_failed_run_along_training_is_one_missing_point(views_plan, results):
    entry = next(entry for entry in views_plan.entries_of("daigavane/fig3b") if entry.method_id == "dp-gcn")
    points = privacy_utility_points(views_plan, "daigavane/fig3b", results[results["cell"] != entry.cell.slug])
    missing = points[points["status"] == "not run"]
    assert missing[["method", "value"]].to_numpy().tolist() == [["dp-gcn", entry.value]]


def widest_axis(path):
    """The longest x axis as a share of the image's width: a dark line without a gap."""
    dark = imread(path)[:, :, :3].min(axis=2) < 0.3
    edges = np.flatnonzero(np.diff(np.pad(dark, ((0, 0), (1, 1))).ravel().astype(int)))  # where a line starts and ends
    return np.diff(edges.reshape(-1, 2)).max() / dark.shape[1]


def test_an_epsilon_of_0_alone_has_no_panel(views_plan, results):
    """It has no place on the axis; the claimed epsilon is the only one to show."""
    name = "daigavane/fig2"
    points = privacy_utility_points(views_plan, name, results)
    private = points["variant"] != "none"
    none = points.assign(eps_rigorous=points["eps_rigorous"].mask(private, 0.0))
    said = [line for line in drawn_from(views_plan, name, none).caption if "so no panel of" in line]
    assert said[0].startswith("No run has a proved ε above 0, so no panel of proved ε: ")
    unproved = points.assign(eps_rigorous=points["eps_rigorous"].mask(private))
    said = [line for line in drawn_from(views_plan, name, unproved).caption if "so no panel of" in line]
    assert said[0].startswith("No run has a proved ε, so no panel of proved ε: ")


def test_two_panels_only_where_both_kinds_are(views_plan, results, tmp_path):
    """Two panels share the place of a task; one has all of it."""
    two = widest_axis(write_figure(views_plan, "daigavane/fig2", results, tmp_path / "two")[2])
    one = widest_axis(write_figure(views_plan, "daigavane/residual", results, tmp_path / "one")[2])
    assert two < 0.32 < 0.35 < one < 0.7


def test_proved_only_leaves_out_the_published_panel_and_what_is_said_of_it(views_plan, results, tmp_path, monkeypatch):
    write_figure(views_plan, "daigavane/fig2", results, tmp_path / "two")
    proved = views_plan.artefacts["daigavane/fig2"].model_copy(update={"proved_only": True})
    monkeypatch.setitem(views_plan.artefacts, "daigavane/fig2", proved)
    write_figure(views_plan, "daigavane/fig2", results, tmp_path / "one")
    drawn = {name: (tmp_path / f"{name}.svg").read_text(encoding="utf-8") for name in ("one", "two")}
    assert "rigorous" in drawn["one"]
    for said in ("claimed ε", "claimed\xa0ε"):
        assert said not in drawn["one"]
    assert any(said in drawn["two"] for said in ("claimed ε", "claimed\xa0ε"))


def test_every_value_of_a_sweep_has_a_legend_entry(views_plan, results, tmp_path):
    points = privacy_utility_points(views_plan, "daigavane/fig3b", results)
    style = Style.from_points(views_plan, "daigavane/fig3b", points)
    handles = style.handles(points, joined=True)
    assert list(handles) == ["K: 3", "K: 10"]  # the methods have panels of their own
    assert len({handle.get_color() for handle in handles.values()}) == 2
    assert style.look("dp-gcn", "3") == style.look("dp-gcn-published", "3")
    paths = write_figure(views_plan, "daigavane/fig3b", results, tmp_path / "fig3b")
    border = imread(paths[2])[:, :, :3]
    edges = [border[:3].reshape(-1, 3), border[-3:].reshape(-1, 3), border[:, -3:].reshape(-1, 3)]
    assert (np.concatenate(edges) > 0.99).all()
    assert len(pd.read_csv(paths[3])) == len(points)


@pytest.mark.parametrize(("low", "high"), [(0.9, 25), (11, 19), (3.2, 3.9), (0.01, 1000)])
def test_round_ticks_lie_inside(low, high):
    ticks = round_numbers(low, high)
    assert ticks
    assert all(low <= tick <= high for tick in ticks)


def test_one_value_of_a_sweep_leaves_colours_to_the_methods(plan):
    """Curves of several methods at one value would otherwise look alike."""
    kept = tuple(one for one in plan.entries if one.artefact != "daigavane/fig3b" or one.value == "2")
    other = plan.experiments["daigavane"].methods["dp-mlp"]
    (only,) = [one for one in kept if one.artefact == "daigavane/fig3b"]
    second = replace(only, method_id="dp-mlp", method=other, cell=only.cell.model_copy(update={"method": "dp-mlp"}))
    single = replace(plan, entries=(*kept, second))
    points = privacy_utility_points(single, "daigavane/fig3b", None).assign(mean=50.0)
    style = Style.from_points(single, "daigavane/fig3b", points)
    assert (style.values, style.label) == ([], "Maximum degree K: 2")
    first, last = (style.look(name, "2") for name in ("dp-gcn-1", "dp-mlp"))
    assert (first.colour, first.marker) != (last.colour, last.marker)
    assert len(style.handles(points, joined=False)) == 2


def test_a_series_without_a_point_has_no_legend_entry(views_plan, results):
    name = "daigavane/fig2"
    points = privacy_utility_points(views_plan, name, results)
    style = Style.from_points(views_plan, name, points)
    assert len(style.handles(points, joined=True)) == 5
    without = points[points["method"] != "dp-residual"]
    gone = pd.concat([without, points[points["method"] == "dp-residual"].assign(mean=math.nan)])
    gone = drawable(gone)
    assert not [text for text in style.handles(gone, joined=True) if "residual" in text]
    assert len(style.handles(gone, joined=True)) == 4


def test_what_six_lines_leave_out_is_named_below_the_picture(views_plan, results, monkeypatch):
    name = "daigavane/fig2"
    points = privacy_utility_points(views_plan, name, results)
    assert not [line for line in drawn_from(views_plan, name, points).caption if "Not drawn" in line]
    monkeypatch.setattr("dpgraph.reporting.drawing.lines.MOST", MOST - 2)
    made = drawn_from(views_plan, name, points)
    said = next(line for line in made.caption if "Not drawn" in line)
    assert "Not drawn, since a figure has at most 4 lines: DP-GCN, rigorous." in said
    assert len(made.points) == len(points)
    assert len([text for one in made.figure.legends for text in one.get_texts()]) <= 4
