from __future__ import annotations

import re
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Cell
from dpgraph.reporting.figures import write_figure
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


def test_same_bytes_again_and_global_state_left_alone(plan, results, figure, tmp_path):
    before = dict(matplotlib.rcParams)
    again = write_figure(plan, "daigavane/fig2", results, tmp_path / "fig2")
    for first, second in zip(figure, again):
        assert first.read_bytes() == second.read_bytes()
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_no_dates_in_the_files(figure):
    assert not re.search(rb"CreationDate|ModDate", figure[0].read_bytes())
    assert "<dc:date>" not in figure[1].read_text()


def test_missing_points_and_no_results_at_all(plan, results, tmp_path):
    entries = plan.entries_of("daigavane/fig2")
    smallest = min(entry.epsilon for entry in entries if entry.epsilon is not None)
    some = results[results["epsilon_target"] != smallest]
    points = privacy_utility_points(plan, "daigavane/fig2", some)
    left_out = [entry for entry in entries if entry.epsilon == smallest]
    assert (points["status"] == "not run").sum() == len(left_out) > 0
    empty = write_figure(plan, "daigavane/fig2", None, tmp_path / "none")
    assert set(pd.read_csv(empty[3])["status"]) == {"not run"}


def test_methods_of_a_figure_differ_in_print_without_colour(plan, paper_plan, splits_plan):
    most = 0
    for one in (plan, paper_plan, splits_plan):
        for name, artefact in one.artefacts.items():
            if artefact.kind == "figure":
                looks = {entry.method_id: look(entry.cell) for entry in one.entries_of(name)}
                assert len({(style.marker, str(style.line)) for style in looks.values()}) == len(looks), name
                most = max(most, len(looks))
    assert most > 6


def test_every_method_of_the_package_differs_in_print_without_colour():
    """All networks, mechanisms and variants that an experiment file can name, Adam only."""
    looks = {}
    for cell in every_network():
        looks[cell.method, cell.model.architecture, cell.model.hops, str(cell.privacy)] = look(cell)
    shapes = {(style.marker, str(style.line)) for style in looks.values()}
    assert len(shapes) == len(looks)


def every_network() -> list[Cell]:
    common = {"task": {"dataset": "cora"}, "seeds": (0,)}
    training = {"learning_rate": 0.1, "batch_size": 10, "steps": 5}
    budget = {"epsilon": 4.0}
    cells = []
    for architecture, hops in [("mlp", 0), *((name, hops) for name in ("gcn", "gin", "gat") for hops in (1, 2))]:
        network = {**common, "model": {"architecture": architecture, "hops": hops}, "training": training}
        plain, private = ("mlp", "dp-mlp") if hops == 0 else ("gnn", "dp-gnn")
        cells.append(Cell(**network, method=plain))
        variants = ["rigorous", "published"] + (["rigorous-fixed-size"] if architecture == "gcn" else [])
        if architecture in ("gcn", "mlp"):
            cells += [Cell(**network, method=private, privacy=budget | {"variant": name}) for name in variants]
        else:
            cells.append(Cell(**network, method=private, privacy=budget))
        if hops:
            cells.append(Cell(**network, method="dp-residual", privacy=budget))
    own = {**common, "model": {"hops": 1}, "training": training}
    return [*cells, Cell(**own, method="dp-residual", privacy=budget | {"neighbour_clip_ratio": 0.0})]


def test_only_figures_of_the_plan(plan, results, tmp_path):
    with pytest.raises(UserError, match=r"figure=daigavane/table1: expected one of daigavane/fig2.* \(suite demo\)"):
        write_figure(plan, "daigavane/table1", results, tmp_path / "x")
