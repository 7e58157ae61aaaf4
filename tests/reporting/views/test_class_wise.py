from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.store import save_graph
from dpgraph.data.stored import save_unavailable
from dpgraph.reporting.aggregate import aggregate
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.results import Results, class_counts, read_results
from dpgraph.reporting.tables import as_markdown, write_table
from dpgraph.reporting.views.class_wise.display import _x_axis, fairness_display
from dpgraph.reporting.views.class_wise.rows import class_values, class_wise_points, fairness_table, rank_correlations
from tests.reporting.conftest import graph_rows

FIG = "daigavane/fig4"
COUNTS = {"arxiv": np.array([5, 80, 20, 40, 0]), "other": np.array([9, 9, 30, 1])}
# by class id; the order of frequency on arxiv is 1, 3, 2, 0 (class 4 has no test nodes)
PUBLIC, PRIVATE = [0.70, 0.90, 0.80, 0.85], [0.10, 0.88, 0.50, 0.70]


@pytest.fixture(scope="module")
def results(views_plan, rows_of, as_frame):
    rows = []
    for entry in {entry.cell.slug: entry for entry in views_plan.entries_of(FIG)}.values():
        made = [row for row in rows_of(entry) if row["final"] and row["metric"] == "accuracy/test"]
        values = PRIVATE if entry.cell.privacy is not None else PUBLIC
        rows += made
        for row in made:
            shift = 0.01 * row["seed"]
            rows += [
                row | {"metric": "class_accuracy/test", "class_id": i, "value": value + shift}
                for i, value in enumerate(values)
            ]
    return as_frame(rows)


def test_classes_by_frequency(views_plan, results):
    points = class_wise_points(views_plan, FIG, results, COUNTS)
    ours = points[(points["task"] == "arxiv") & (points["method"] == "gcn")]
    assert ours["class_id"].tolist() == [-1, 1, 3, 2, 0]
    assert ours["rank"].tolist() == [0, 1, 2, 3, 4]
    assert ours["train_nodes"].tolist() == [145, 80, 40, 20, 5]
    # four seeds with 0.90, 0.91, 0.92, 0.93
    assert ours["mean"].tolist()[1:] == pytest.approx([91.5, 86.5, 81.5, 71.5])
    assert ours["std"].tolist()[1:] == pytest.approx([math.sqrt(5 / 3)] * 4)
    half = 3.182446 * math.sqrt(5 / 3) / 2  # t(0.975, 3) = 3.182446
    assert (ours["ci_high"] - ours["mean"]).tolist()[1:] == pytest.approx([half] * 4, abs=1e-5)


def test_equal_frequencies_keep_the_order_of_ids(views_plan, results):
    points = class_wise_points(views_plan, FIG, results, COUNTS)
    ours = points[(points["task"] == "other") & (points["method"] == "gcn") & (points["class_id"] >= 0)]
    assert ours["class_id"].tolist() == [2, 0, 1, 3]


def test_fairness_by_hand(views_plan, results):
    places = ["task", "method", "epsilon_target"]
    table = fairness_table(views_plan, FIG, results, COUNTS).set_index(places).sort_index()
    row = table.loc["arxiv", "dp-gcn", 12.0]
    assert row["worst_class_mean"] == pytest.approx(11.5)
    assert row["best_minus_worst_mean"] == pytest.approx(78.0)
    assert row["best_minus_worst_std"] == pytest.approx(0.0, abs=1e-9)
    assert row["frequent_minus_rare_mean"] == pytest.approx(78.0)  # thirds of four classes hold one class each
    assert row["loss_correlation_mean"] == pytest.approx(-1.0)  # losses 2, 15, 30, 60 from frequent to rare
    assert row["reference"] == "gcn"
    public = table.loc["arxiv", "gcn"].iloc[0]
    assert math.isnan(public["loss_correlation_mean"])
    assert public["frequent_minus_rare_mean"] == pytest.approx(20.0)


def test_rank_correlation_is_scipys(views_plan, rows_of, as_frame):
    rows = []
    entries = [entry for entry in views_plan.entries_of(FIG) if entry.task_id == "arxiv"]
    for entry in entries:
        made = [row for row in rows_of(entry) if row["final"] and row["metric"] == "accuracy/test"]
        rows += made
        for row in made:
            values = rows_of(entry, mean=0.5, std=0.2)[0]["value"], 0.3, 0.3, 0.1 + 0.1 * row["seed"]
            rows += [row | {"metric": "class_accuracy/test", "class_id": i, "value": v} for i, v in enumerate(values)]
    entries = class_values(views_plan, FIG, Results(as_frame(rows)), COUNTS)
    by_method = {values.entry.method_id: values for values in entries if values.entry.task_id == "arxiv"}
    private, public = by_method["dp-gcn"], by_method["gcn"]
    got = rank_correlations(private, public)
    losses = (public.accuracy[private.accuracy.columns] - private.accuracy).to_numpy()
    expected = [spearmanr(private.frequency, row).statistic for row in losses]
    assert got == pytest.approx(expected)


def test_no_correlation_without_variation_or_classes(views_plan, results):
    entries = class_values(views_plan, FIG, Results(results), COUNTS)
    public = next(values for values in entries if values.entry.method_id == "gcn")
    assert np.isnan(rank_correlations(public, public)).all()  # every loss is 0


def test_unknown_frequencies_and_failures_are_said(views_plan, results):
    some = results[~((results["method"] == "mlp") & (results["dataset"] == "cora"))]
    points = class_wise_points(views_plan, FIG, some, {"other": COUNTS["other"]})
    status = points.groupby(["task", "method"])["status"].agg(set)
    assert status["arxiv", "gcn"] == {"not run"}
    assert status["other", "gcn"] == {"ok"}
    assert status["other", "mlp"] == {"not run"}
    reasons = set(points.loc[points["task"] == "arxiv", "reason"])
    assert reasons == {"class frequencies are not known: the graph is not there"}


def test_counts_come_from_stored_graphs(views_plan, tmp_path):
    plan = views_plan.__class__(
        Config(suite="views", data=str(tmp_path), results=str(tmp_path)), views_plan.suite, views_plan.experiments, ()
    )
    ptr = np.zeros(7, dtype=np.int64)
    none = np.array([], dtype=np.int32)
    labels = np.array([2, 2, 0, 1, -1, 0])
    split = np.array([TRAIN, TRAIN, TRAIN, TEST, TRAIN, TEST], dtype=np.uint8)
    graph = Graph(
        name="cora",
        out_ptr=ptr,
        out_idx=none,
        in_ptr=ptr,
        in_idx=none,
        features=np.zeros((6, 1), dtype=np.float32),
        labels=labels,
        split=split,
        num_classes=3,
    )
    tasks = plan.tasks_of(FIG)
    save_graph(graph, Paths(plan.config).graph(tasks["other"][1]))
    save_unavailable("ogbn-arxiv", "404", Paths(plan.config).graph(tasks["arxiv"][1]))
    aggregate(plan, tmp_path / "results.parquet")
    counts = class_counts(plan, FIG, read_results(tmp_path / "results.parquet"))
    assert list(counts) == ["other"]
    assert counts["other"].tolist() == [1, 0, 2]  # the unlabelled node counts nowhere


def test_fairness_page(views_plan, results):
    text = as_markdown(fairness_display("What privacy does", fairness_table(views_plan, FIG, results, COUNTS)))
    assert "**What privacy does**" in text
    assert "ogbn-arxiv, 4 classes" in text
    assert (
        "| DP-GCN, paper's mechanism | 12 | 12.0 | none<sup>1</sup> | node-remove / none | parameters / none | 4 |"
        in text
    )


def test_figure(views_plan, results, tmp_path):
    rows = pd.concat([results, graph_rows(views_plan, FIG, {}, COUNTS)])
    paths = write_figure(views_plan, FIG, rows, tmp_path / "fig4")
    assert [path.name for path in paths] == [f"fig4.{suffix}" for suffix in ("pdf", "svg", "png", "csv", "txt", "html")]
    empty = write_figure(views_plan, FIG, None, tmp_path / "none")
    assert set(pd.read_csv(empty[3])["status"]) == {"not run"}


@pytest.mark.parametrize(("classes", "gap", "shown"), [
    (15, 0.2, ["1", "3", "5", "7", "9", "11", "13", "15", "all"]),
    (40, 0.14, ["5", "10", "15", "20", "25", "30", "35", "40", "all"]),
    (3, 0.7, ["1", "2", "3", "all"]),
])  # fmt: skip
def test_labelled_classes_are_equal_steps_apart(classes, gap, shown):
    axes = Figure().subplots()
    _x_axis(axes, pd.Series(100, index=range(1, classes + 1)), gap)
    assert [text.get_text().split("\n")[0] for text in axes.get_xticklabels()] == shown


def test_as_a_table(views_plan, results, tmp_path):
    rows = pd.concat([results, graph_rows(views_plan, FIG, {}, COUNTS)])
    _, markdown, latex, _ = write_table(views_plan, "daigavane/classes", rows, tmp_path / "classes")
    assert "| −1.00 ± 0.00 |" in markdown.read_text()
    assert latex.read_text().isascii()
