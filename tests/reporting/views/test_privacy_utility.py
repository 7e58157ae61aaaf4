from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from dpgraph.reporting.drawing.epsilon_axis import round_numbers
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.privacy_utility import (
    MODES,
    MOST,
    Style,
    at_most,
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


def test_labels_say_which_epsilon_is_lacking(views_plan, results):
    labels = method_labels(privacy_utility_points(views_plan, "daigavane/fig2", results))
    plain = {method: text.replace("\n", " ").replace("\xa0", " ") for method, text in labels.items()}
    assert plain == {
        "gcn": "GCN",
        "dp-gcn-published": "DP-GCN, paper's mechanism; rigorous ε: none",
        "dp-gcn": "DP-GCN, rigorous",
        "dp-residual": "DP-GCN, residual clipping; published ε: none",
        "mlp": "MLP",
    }


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
    """It has no place on the axis; the published epsilon is the only one to show."""
    name = "daigavane/fig2"
    points = privacy_utility_points(views_plan, name, results)
    private = points["variant"] != "none"
    none = points.assign(eps_rigorous=points["eps_rigorous"].mask(private, 0.0))
    said = [line for line in drawn_from(views_plan, name, none).caption if "so no panel of" in line]
    assert said[0].startswith("No run has a rigorous ε above 0, so no panel of rigorous ε: ")
    unproved = points.assign(eps_rigorous=points["eps_rigorous"].mask(private))
    said = [line for line in drawn_from(views_plan, name, unproved).caption if "so no panel of" in line]
    assert said[0].startswith("Nothing is proved of any run, so no panel of rigorous ε: ")


def test_two_panels_only_where_both_kinds_are(views_plan, results, tmp_path):
    """Two panels share the place of a task; one has all of it."""
    two = widest_axis(write_figure(views_plan, "daigavane/fig2", results, tmp_path / "two")[2])
    one = widest_axis(write_figure(views_plan, "daigavane/residual", results, tmp_path / "one")[2])
    assert two < 0.25 < 0.35 < one < 0.6


def test_proved_only_leaves_out_the_published_panel_and_what_is_said_of_it(views_plan, results, tmp_path, monkeypatch):
    write_figure(views_plan, "daigavane/fig2", results, tmp_path / "two")
    proved = views_plan.artefacts["daigavane/fig2"].model_copy(update={"proved_only": True})
    monkeypatch.setitem(views_plan.artefacts, "daigavane/fig2", proved)
    write_figure(views_plan, "daigavane/fig2", results, tmp_path / "one")
    drawn = {name: (tmp_path / f"{name}.svg").read_text(encoding="utf-8") for name in ("one", "two")}
    assert "rigorous" in drawn["one"]
    for said in ("published ε", "published\xa0ε"):
        assert said not in drawn["one"]
    assert any(said in drawn["two"] for said in ("published ε", "published\xa0ε"))


def test_every_value_of_a_sweep_has_a_legend_entry(views_plan, results, tmp_path):
    points = privacy_utility_points(views_plan, "daigavane/fig3b", results)
    style = Style.of(views_plan, "daigavane/fig3b", points)
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
    style = Style.of(single, "daigavane/fig3b", points)
    assert (style.values, style.label) == ([], "Maximum degree K: 2")
    first, last = (style.look(name, "2") for name in ("dp-gcn-1", "dp-mlp"))
    assert (first.colour, first.marker) != (last.colour, last.marker)
    assert len(style.handles(points, joined=False)) == 2


def of_methods(names: dict[str, str], data_sets: str = "AB") -> pd.DataFrame:
    """Points of ours at two epsilons; a method is the better the later it stands."""
    rows = [
        (task, method, variant, "ours", epsilon, 50.0 + (100 if task == "B" else 1) * place * epsilon)
        for task in data_sets
        for place, (method, variant) in enumerate(names.items())
        for epsilon in (1.0, 4.0)
    ]
    points = pd.DataFrame(rows, columns=["task", "method", "variant", "source", "epsilon_target", "mean"])
    return points.assign(eps_published=points["epsilon_target"], eps_rigorous=points["epsilon_target"])


def kept_of(most: int, points: pd.DataFrame, families: dict[str, str], modes: tuple[str, ...] = MODES) -> list[str]:
    return list(dict.fromkeys(at_most(most, points, families, modes)["method"]))


def test_a_legend_has_six_lines_of_what_has_points():
    """Without privacy, the paper's own mechanism, then the nearest to the best of each data set."""
    names = {"mlp": "none", "paper": "published", **{f"ours-{place}": "rigorous" for place in range(6)}}
    families, points = {name: "dp-gnn" for name in names}, of_methods(names)
    printed = points[(points["task"] == "A") & (points["epsilon_target"] == 4.0) & (points["method"] == "ours-0")]
    points = pd.concat([points, printed.assign(source="paper's table 1", mean=90.0)], ignore_index=True)
    kept = at_most(6, points, families)
    assert list(dict.fromkeys(kept["method"])) == ["mlp", "paper", "ours-2", "ours-3", "ours-4", "ours-5"]
    assert len(kept) == 6 * 2 * 2
    missing = points.assign(mean=points["mean"].mask(points["method"].isin(["ours-4", "ours-5"])))
    assert at_most(6, missing, families).equals(missing)
    claimed = points.assign(eps_rigorous=points["eps_rigorous"].mask(points["method"].isin(["paper", "ours-5"])))
    proved = kept_of(5, claimed, families, ("rigorous",))  # what has no place takes no line
    assert [one for one in proved if one not in ("paper", "ours-5")] == ["mlp", "ours-1", "ours-2", "ours-3", "ours-4"]
    assert not {"paper", "ours-5"} & set(drawable(claimed, ("rigorous",))["method"])


def test_six_lines_show_the_best_of_each_family_before_its_second_variant():
    names = {"floor": "rigorous", "gap": "rigorous", "paper-2": "published", "paper": "published", "ours-0": "rigorous"}
    names |= {"ours-1": "rigorous", "ours-2": "rigorous"}
    families = {"paper": "dp-gnn", "paper-2": "dp-gnn", "floor": "dp-mlp", "gap": "dp-gap"}
    families |= {f"ours-{place}": "dp-gnn" for place in range(3)}
    assert kept_of(4, of_methods(names), families) == ["floor", "gap", "paper", "ours-2"]
    assert kept_of(5, of_methods(names), families) == ["floor", "gap", "paper", "ours-1", "ours-2"]


def test_at_most_two_lines_are_without_privacy_those_of_most_data_sets_first():
    names = {"gcn": "none", "mlp": "none", "best": "none", **{f"ours-{place}": "rigorous" for place in range(4)}}
    points = of_methods(names)
    families = {name: name for name in names}
    assert set(kept_of(6, points, families)) - {"ours-0", "ours-1", "ours-2", "ours-3"} == {"mlp", "best"}
    fewer = points[(points["method"] != "best") | (points["task"] == "A")]
    assert set(kept_of(6, fewer, families)) - {"ours-0", "ours-1", "ours-2", "ours-3"} == {"gcn", "mlp"}


def test_a_series_without_a_point_has_no_legend_entry(views_plan, results):
    name = "daigavane/fig2"
    points = privacy_utility_points(views_plan, name, results)
    style = Style.of(views_plan, name, points)
    assert len(style.handles(points, joined=True)) == 5
    without = points[points["method"] != "dp-residual"]
    gone = pd.concat([without, points[points["method"] == "dp-residual"].assign(mean=math.nan)])
    gone = drawable(gone)
    assert not [text for text in style.handles(gone, joined=True) if "residual" in text]
    assert len(style.handles(gone, joined=True)) == 4


def test_what_six_lines_leave_out_is_named_below_the_picture(views_plan, results, monkeypatch):
    name = "daigavane/fig2"
    points = privacy_utility_points(views_plan, name, results)
    assert not [line for line in drawn_from(views_plan, name, points).caption if "in the picture" in line]
    monkeypatch.setattr("dpgraph.reporting.views.privacy_utility.MOST", MOST - 2)
    made = drawn_from(views_plan, name, points)
    said = next(line for line in made.caption if "in the picture" in line)
    assert "In the CSV file, but not in the picture, which has at most 4 lines: DP-GCN, " in said
    assert len(made.points) == len(points)
    assert len([text for one in made.figure.legends for text in one.get_texts()]) <= 4
