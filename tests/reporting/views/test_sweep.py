from __future__ import annotations

import math
import re

import pandas as pd
import pytest
from matplotlib.figure import Figure

from dpgraph.core.errors import UserError
from dpgraph.reporting.chance import shown_as
from dpgraph.reporting.drawing.palette import looks_of_methods
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.sweep.figure import _panel, _tick, drawn_from, positions
from dpgraph.reporting.views.sweep.table import sweep_display, sweep_points, sweep_table

MEANS = {"gcn": 0.70, "dp-gcn": 0.60, "dp-gcn-published": 0.65}


@pytest.fixture(scope="module")
def results(views_plan, rows_of, as_frame):
    """Exact means, so that gaps and differences are known by hand; one cell failed."""
    rows = []
    for entry in {entry.cell.slug: entry for entry in views_plan.entries}.values():
        made = rows_of(entry, mean=MEANS.get(entry.method_id, 0.5), std=0.0)
        if entry.task_id == "other" and entry.value == "full" and entry.method_id == "dp-gcn":
            made = [made[0] | {"seed": -1, "metric": "", "status": "failed", "reason": "diverged", "value": math.nan}]
        rows += made
    return as_frame(rows)


def row(table, **columns):
    for name, value in columns.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_printed_values_and_gaps(views_plan, results):
    table = sweep_table(views_plan, "daigavane/table5", results)
    # Table 5 of the paper: 68.562, 62.343, 6.219 at 10,000; 68.047, 63.662, 4.385 at full batch
    private = row(table, method="dp-gcn", task="arxiv", value="10000")
    assert (private["published_value"], private["gap_published"]) == (62.343, 6.219)
    assert private["difference"] == pytest.approx(60 - 62.343)
    assert (private["gap_reference"], private["gap"]) == ("gcn", pytest.approx(10.0))
    assert private["gap_difference"] == pytest.approx(10 - 6.219)
    public = row(table, method="gcn", task="arxiv", value="full")
    assert public["published_value"] == 68.047
    assert math.isnan(public["gap"])
    assert row(table, method="dp-gcn-published", task="arxiv", value="full")["gap"] == pytest.approx(5.0)


def test_a_gap_and_its_error_are_of_the_seeds_that_both_have(views_plan, rows_of, as_frame):
    """The private method lacks the first seed, and a seed moves both alike: the error is that of the differences."""
    entries = {one.method_id: one for one in views_plan.entries_of("daigavane/table5")
               if (one.task_id, one.value) == ("arxiv", "full")}  # fmt: skip
    reference, private = (rows_of(entries[name], mean=MEANS[name], std=0.05) for name in ("gcn", "dp-gcn"))
    lost = next(row["seed"] for row in private if row["seed"] >= 0)
    frame = as_frame([*reference, *(row for row in private if row["seed"] != lost)])
    final = frame[frame["final"] & (frame["metric"] == "accuracy/test")].set_index(["cell", "seed"])["value"]
    values = [100 * final[entries[name].cell.slug] for name in ("gcn", "dp-gcn")]
    gaps = (values[0] - values[1]).dropna()
    assert len(gaps) == len(values[0]) - 1 == len(values[1])
    found = row(sweep_table(views_plan, "daigavane/table5", frame), method="dp-gcn", task="arxiv", value="full")
    assert found["gap"] == pytest.approx(gaps.mean())
    assert found["gap_error"] == pytest.approx(gaps.std() / math.sqrt(len(gaps)))


def test_the_published_key_names_the_column(views_plan, results):
    table = sweep_table(views_plan, "daigavane/table6", results)
    assert row(table, method="dp-gcn", value="3")["published_value"] == 62.413
    assert row(table, method="dp-gcn", value="10")["gap_published"] == 5.081


def test_nothing_is_printed_of_another_data_set(views_plan, results):
    other = sweep_table(views_plan, "daigavane/table5", results).query("task == 'other'")
    assert (other["published_text"] == "").all()
    assert other["gap_published"].isna().all()
    assert other["gap"].notna().sum() == 5  # six private rows, one of them failed


def test_order_of_values_is_the_suites(views_plan, results):
    table = sweep_table(views_plan, "daigavane/table5", results)
    assert list(dict.fromkeys(table["value"])) == ["2500", "10000", "full"]


def test_rows_of_the_page_are_by_number_and_words_come_last(views_plan, results):
    """Grids of one artefact that each have some of the values must not shuffle them."""
    table = sweep_table(views_plan, "daigavane/table5", results)
    shuffled = pd.concat([table[table["value"] == value] for value in ("full", "10000", "2500")])
    shown = sweep_display("Title", shuffled, quantity("accuracy/test"), "Batch size m")
    assert [row[0].value for row in shown.blocks[0].rows if row[0].value] == ["2500", "10000", "full"]


def test_written_table(views_plan, results, tmp_path):
    csv, markdown, latex, page = write_table(views_plan, "daigavane/table5", results, tmp_path / "table5")
    text = markdown.read_text()
    assert "| 2500 | ours | 70.00 ± 0.00 (4) | 65.00 ± 0.00 (4) | 60.00 ± 0.00 (4) |" in text
    assert "|  | ε claimed / proved | ∞ / ∞ | 12.0 / none<sup>1</sup> | 37.2 / 12.0 |" in text
    assert text.count("|  | relation | – | node-remove / none | node-remove / node-null |") == 2  # once in each block
    assert text.count("|  | scope | – | parameters / none | parameters |") == 2
    assert "|  | paper’s | 68.809 (+1.19) | 53.514 (+11.49) | 53.514 (+6.49) |" in text
    assert "|  | gap | – | 5.00 ± 0.00 | 10.00 ± 0.00 |" in text
    assert "|  | paper’s gap | – | 15.295 (−10.29) | 15.295 (−5.29) |" in text
    assert "| full | ours | 70.00 ± 0.00 (4) | 65.00 ± 0.00 (4) | failed<sup>2</sup> |" in text
    arxiv, other = text.split("Another graph", 1)
    assert "paper’s" in arxiv
    assert not re.search(r"^.*paper’s \|", other, flags=re.M)
    assert latex.read_text().isascii()
    assert page.read_text().count("diverged") == 1
    assert set(pd.read_csv(csv)["value"]) == {"2500", "10000", "full"}


def test_without_results_nothing_is_made_up(views_plan, tmp_path):
    _, markdown, *_ = write_table(views_plan, "daigavane/table5", None, tmp_path / "table5")
    assert "| 2500 | ours | not run | not run | not run |" in markdown.read_text()
    assert "± " not in markdown.read_text().split("One fixed split")[0]


def test_figure_has_printed_points_once(views_plan, results, tmp_path):
    paths = write_figure(views_plan, "daigavane/batches", results, tmp_path / "batches")
    points = pd.read_csv(paths[3])
    printed = points[points["source"] == "paper's table 5"]
    # two mechanisms of ours are next to one printed DP-GCN
    assert sorted(printed["mean"]) == [53.514, 62.343, 63.662, 68.047, 68.562, 68.809]
    assert printed.loc[printed["variant"] != "none", "eps_rigorous"].isna().all()
    ours = points[points["source"] == "ours"]
    assert len(ours) == len(views_plan.entries_of("daigavane/batches"))


def test_a_value_that_was_not_run_has_no_place_on_the_axis(views_plan, results):
    name = "daigavane/batches"
    points = sweep_points(views_plan, name, results)
    rows = points[points["task"] == points["task"].iloc[0]]
    looks, shown = looks_of_methods(views_plan.entries_of(name)), shown_as(views_plan.artefacts[name])
    for missing in ("full", "2500"):
        axes = Figure().subplots()
        kept = rows.assign(mean=rows["mean"].where(rows["value"] != missing))
        _panel(axes, kept, looks, shown)
        ticks = [text.get_text() for text in axes.get_xticklabels()]
        assert ticks == [_tick(value) for value in dict.fromkeys(rows["value"]) if value != missing]


def test_a_panel_of_one_value_is_left_out_beside_a_sweep(views_plan, results):
    name = "daigavane/batches"
    points = sweep_points(views_plan, name, results)
    private = points["epsilon_target"].notna()
    target = points.loc[private, "epsilon_target"].iloc[0]
    value = points.loc[private, "value"].iloc[0]
    single = points[private & (points["value"] == value)].assign(epsilon_target=2 * target)
    only_private = points[private]
    drawn = drawn_from(views_plan, name, pd.concat([only_private, single]))
    told = [line for line in drawn.caption if line.startswith("Not drawn, since one value was run: ")]
    assert len(told) == 1
    assert f"ε\xa0=\xa0{2 * target:g}" in told[0]
    alone = drawn_from(views_plan, name, single)
    assert not any("one value" in line for line in alone.caption)


def test_points_without_results(views_plan):
    points = sweep_points(views_plan, "daigavane/batches", None)
    assert set(points.loc[points["source"] == "ours", "status"]) == {"not run"}
    assert len(points[points["source"] != "ours"]) == 6


def test_axis_of_numbers_and_other_labels():
    wide = positions(["2500", "5000", "10000", "20000", "full"])
    assert wide.logarithmic
    assert wide.x["full"] == pytest.approx(40000)  # one step beyond, on the logarithmic axis
    narrow = positions(["3", "5", "7", "none"])
    assert not narrow.logarithmic
    assert narrow.x["none"] == 9.0
    zero = positions(["0", "0.01", "0.02", "0.05", "0.1", "0.2"])  # to scale, the first three would touch
    assert zero.logarithmic
    assert 0.002 < zero.x["0"] < zero.x["0.01"] == 0.01
    assert not positions(["0", "0.25", "0.5", "1"]).logarithmic
    assert not positions(["-1", "0.1", "1"]).logarithmic
    assert positions(["a", "b"]).x == {"a": 0.0, "b": 1.0}
    assert positions(["7"]).x == {"7": 7.0}
    assert [_tick(text) for text in ("2500", "10,000", "0.1", "999", "full")] == ["2.5k", "10k", "0.1", "999", "full"]


def test_two_rows_that_fit_are_refused(views_plan, results):
    """The published table has rows for several values; without a key none of them is ours."""
    artefact = views_plan.artefacts["daigavane/table5"]
    experiment = views_plan.experiments["daigavane"]
    plain = artefact.model_copy(update={"sweep": None, "view": "accuracy"})
    changed = experiment.model_copy(update={"artefacts": experiment.artefacts | {"table5": plain}})
    plan = views_plan.__class__(views_plan.config, views_plan.suite, {"daigavane": changed}, views_plan.entries)
    with pytest.raises(UserError, match=r"table5, gcn on ogbn-arxiv: expected one row, found 6"):
        sweep_table(plan, "daigavane/table5", results)
