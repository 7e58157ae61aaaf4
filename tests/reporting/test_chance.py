"""Chance level of accuracies: the columns, the test behind them and the correction."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import ttest_rel

from dpgraph.config.config import Config
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.chance import METRIC, chance_columns, holm
from dpgraph.reporting.drawing import marks
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import Results
from dpgraph.reporting.tables import write_table
from dpgraph.reporting.views.privacy_utility import privacy_utility_points
from tests.reporting.conftest import WORKFLOW, result_rows

PANEL = "zhang/fig5.2-k4-sgd4-after-q"


@pytest.fixture(scope="module")
def plan():
    config = {"suite": "paper", "papers": ["zhang"], "artefacts": [PANEL, "zhang/comparison"], "seeds": 4}
    return load_plan(Config.model_validate(config), WORKFLOW)


@pytest.fixture(scope="module")
def results(plan, as_frame):
    """GM is at chance, 0.4, everything else above it."""
    rows = []
    for entry in {entry.cell.slug: entry for entry in plan.entries}.values():
        mean = 0.4 if entry.method_id == "gm-published" else 0.7
        made = [
            row for row in result_rows(entry, mean=mean, std=0.02) if row["final"] and row["metric"] == "accuracy/test"
        ]
        rows += made + [row | {"metric": METRIC, "value": 0.4 + 0.01 * row["seed"]} for row in made]
    return as_frame(rows)


def test_columns_are_a_paired_test_with_holms_correction(plan, results):
    entries = plan.entries_of(PANEL)
    known = Results.of(results)
    columns = chance_columns(entries, known, "accuracy/test")
    raw = []
    for entry, column in zip(entries, columns):
        ours, chance = (known.outcome(entry, name).values for name in ("accuracy/test", METRIC))
        raw.append(ttest_rel(ours, chance, alternative="greater").pvalue)
        assert column["reference"] == pytest.approx(41.5)
        assert column["above_chance"] == ("no" if entry.method_id == "gm-published" else "yes")
    order, running = np.argsort(raw), 0.0
    for place, index in enumerate(order):  # Holm's procedure, step by step
        running = max(running, min(1.0, (len(raw) - place) * raw[index]))
        assert columns[index]["p_chance"] == pytest.approx(running)


def test_nothing_is_said_without_results(plan):
    (column, *_) = chance_columns(plan.entries_of(PANEL), Results.of(None), "accuracy/test")
    assert column["above_chance"] == ""
    assert np.isnan(holm(np.array([np.nan]))).all()


def test_the_axis_is_the_total_epsilon_and_the_caption_has_its_parts(plan, results, tmp_path):
    points = privacy_utility_points(plan, PANEL, results)
    assert points["epsilon_target"].max() == 1200
    write_figure(plan, PANEL, results, tmp_path / "panel")
    text = (tmp_path / "panel.txt").read_text()
    totals = "450, 500, 600, 800 and 1200 (4.5, 5, 6, 8 and 12 after the factor q′ = 0.01)"
    assert f"Total claimed ε = {totals}: ε_sgd = 4, ε_pr = 0.5, 1, 2, 4 and 8." in text
    assert "q' is the share of the training nodes that is drawn" in " ".join(text.split())
    assert "total claimed ε" in (tmp_path / "panel.svg").read_text()


def test_tables_say_whether_a_row_is_above_chance(plan, results, tmp_path):
    write_table(plan, "zhang/comparison", results, tmp_path / "table")
    text = (tmp_path / "table.md").read_text()
    assert "Above chance?" in text.splitlines()[4]
    assert "share of the largest class of the test nodes" in text
    assert "better attack" not in text


def test_what_is_no_better_than_chance_is_shaded_and_the_axes_stay_as_they_are():
    accuracy, error = replace(quantity("accuracy/test"), reference_label="chance"), quantity("degree_rmse/train")
    for shown, better in ((accuracy, 41.0), (error, 39.0)):
        axes = Figure().add_subplot()
        axes.plot([0, 1], [20, 60])
        before = axes.get_ylim()
        marks.reference_line(axes, pd.DataFrame({"reference": [40.0]}), shown)
        assert axes.get_ylim() == before
        (shade,) = axes.patches
        low, high = shade.get_y(), shade.get_y() + shade.get_height()
        assert not low < better < high
        assert low < 80 - better < high
        assert low < -1e5 or high > 1e5
    handles = marks.reference_handle(pd.DataFrame({"reference": [40.0]}), accuracy)
    assert list(handles) == ["no better than chance"]
    assert marks.reference_handle(pd.DataFrame({"mean": [1.0]}), accuracy) == {}
