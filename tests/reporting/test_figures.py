from __future__ import annotations

import math
import re
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from dpgraph.errors import UserError
from dpgraph.reporting.figures import _labels, write_figure
from dpgraph.reporting.palette import look
from dpgraph.reporting.privacy_utility import privacy_utility_points


@pytest.fixture(scope="module")
def figure(plan, results, tmp_path_factory):
    return write_figure(plan, "daigavane/fig2", results, tmp_path_factory.mktemp("figures") / "fig2")


def test_files_and_size(figure):
    assert [path.name for path in figure] == ["fig2.pdf", "fig2.svg", "fig2.png", "fig2.csv"]
    assert figure[0].read_bytes().startswith(b"%PDF")
    image = imread(figure[2])
    assert image.shape[1] == 990  # 3.3 inches at 300 dpi


def test_nothing_touches_the_edge(figure):
    """A label that is cut off would leave ink on the image's border."""
    image = imread(figure[2])[:, :, :3]
    border = np.concatenate([image[:3].reshape(-1, 3), image[-3:].reshape(-1, 3), image[:, -3:].reshape(-1, 3)])
    assert (border > 0.99).all()


def test_same_bytes_again(plan, results, figure, tmp_path):
    again = write_figure(plan, "daigavane/fig2", results, tmp_path / "fig2")
    for first, second in zip(figure, again):
        assert first.read_bytes() == second.read_bytes()


def test_no_dates_in_the_files(figure):
    assert not re.search(rb"CreationDate|ModDate", figure[0].read_bytes())
    assert "<dc:date>" not in figure[1].read_text()


def test_global_state_of_matplotlib_is_left_alone(plan, results, tmp_path):
    before = dict(matplotlib.rcParams)
    write_figure(plan, "daigavane/fig2", results, tmp_path / "fig2")
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_points_stand_at_the_epsilon_that_is_theirs(plan, results):
    points = privacy_utility_points(plan, "daigavane/fig2", results)
    ours = points[(points["source"] == "ours") & (points["epsilon_target"] == 4)].set_index("method")
    assert ours.loc["dp-gcn-1", "epsilon"] == pytest.approx(0.999 * 4)  # rigorous
    assert ours.loc["dp-gcn-1-published", "epsilon"] == 4  # published; nothing is proved
    assert math.isnan(ours.loc["dp-gcn-1-published", "eps_rigorous"])
    assert math.isinf(points.set_index("method").loc["gcn-1", "epsilon"])


def test_a_published_epsilon_is_labelled_with_what_is_proved(plan, results):
    points = privacy_utility_points(plan, "daigavane/fig2", results)
    labels = _labels(points)
    assert labels["dp-gcn-1-published", "ours"].endswith("published ε; rigorous ε: none")
    assert "published" not in labels["dp-gcn-1", "ours"]


def test_printed_numbers_stand_beside_ours(paper_plan, rows_of, as_frame, tmp_path):
    cells = {entry.cell.slug: entry for entry in paper_plan.entries}
    frame = as_frame([row for entry in cells.values() for row in rows_of(entry)])
    points = pd.read_csv(write_figure(paper_plan, "daigavane/fig2", frame, tmp_path / "fig2")[3])
    printed = points[points["source"] == "paper's table 1"]
    arxiv = printed[printed["task"] == "arxiv"].set_index("method")
    # Table 1 of the paper; DP-GCN once, although two of our methods stand beside it
    assert dict(arxiv["mean"]) == {"gcn-1": 67.758, "dp-gcn-1-published": 61.75, "mlp": 55.236, "dp-mlp": 52.178}
    assert arxiv.loc["dp-mlp", "epsilon"] == 12
    labels = _labels(points)
    assert labels["dp-mlp", "paper's table 1"] == "DP-MLP, paper's table 1\npublished ε; rigorous ε: none"


def test_missing_points_and_no_results_at_all(plan, results, tmp_path):
    some = results[results["epsilon_target"] != 4.0]
    points = pd.read_csv(write_figure(plan, "daigavane/fig2", some, tmp_path / "some")[3])
    assert (points["status"] == "not run").sum() == 3
    empty = write_figure(plan, "daigavane/fig2", None, tmp_path / "none")
    assert set(pd.read_csv(empty[3])["status"]) == {"not run"}


def test_methods_differ_in_print_without_colour(plan, paper_plan):
    entries = {entry.method_id: entry for entry in (*plan.entries, *paper_plan.entries)}
    looks = {name: look(entry.cell) for name, entry in entries.items()}
    shapes = {(style.marker, str(style.line)) for style in looks.values()}
    assert len(shapes) == len(looks)


def test_only_figures_of_the_plan(plan, results, tmp_path):
    with pytest.raises(UserError, match=r"figure=daigavane/table1: expected one of daigavane/fig2 \(suite demo\)"):
        write_figure(plan, "daigavane/table1", results, tmp_path / "x")
