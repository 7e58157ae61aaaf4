from __future__ import annotations

import re
import sys
from itertools import combinations
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from dpgraph.config.cell import Cell
from dpgraph.core.errors import UserError
from dpgraph.engine.methods.looks import Look
from dpgraph.families.registry import spec, specs
from dpgraph.reporting.drawing import canvas, marks
from dpgraph.reporting.drawing.lines import MOST
from dpgraph.reporting.drawing.palette import APART, allocate, distance, looks_of_methods
from dpgraph.reporting.drawing.words import uncertainty
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.views.privacy_utility import privacy_utility_points
from tests.contract.cells import CELLS, changed
from tests.reporting.conftest import STYLE


@pytest.fixture(scope="module", autouse=True)
def embedded_fonts():
    """The style as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "STYLE", STYLE)
        yield


@pytest.fixture(scope="module")
def figure(plan, results, tmp_path_factory):
    return write_figure(plan, "daigavane/fig2", results, tmp_path_factory.mktemp("figures") / "fig2")


def test_files_and_size(figure):
    assert [path.name for path in figure] == [
        f"fig2.{suffix}" for suffix in ("pdf", "svg", "png", "csv", "txt", "html")
    ]
    assert figure[0].read_bytes().startswith(b"%PDF")
    assert b"/FontFile2" in figure[0].read_bytes()  # journals ask for fonts that are embedded whole
    image = imread(figure[2])
    assert image.shape[1] == 1320  # two columns of 3.3 inches at 200 dpi


def test_the_caption_says_what_labels_leave_out(plan, figure):
    caption = next(path for path in figure if path.suffix == ".txt").read_text(encoding="utf-8")
    assert f"(proved): {plan.experiments['daigavane'].methods['dp-gcn-1'].about}\n" in caption


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


def test_the_interval_of_a_single_point_is_as_high_as_it_is():
    """An area between one place and itself would not be seen."""
    axes = Figure().subplots()
    rows = pd.DataFrame({"mean": [50.0, 60.0, 55.0], "ci_low": [40.0, 55.0, 50.0], "ci_high": [62.0, 70.0, 60.0]})
    style, shown = Look("#000000", "o", "-"), Quantity("accuracy")
    marks.curve(axes, [10.0], rows[:1], style, shown)
    (bar,) = axes.collections
    assert bar.get_segments()[0].tolist() == [[10.0, 40.0], [10.0, 62.0]]
    marks.curve(axes, [10.0, 20.0, 30.0], rows, style, shown)
    assert type(axes.collections[1]) is not type(bar)  # an area, as elsewhere


def test_no_dates_in_the_files(figure):
    assert not re.search(rb"CreationDate|ModDate", figure[0].read_bytes())
    assert "<dc:date>" not in figure[1].read_text()


def test_missing_points_and_no_results_at_all(plan, results, tmp_path):
    entries = plan.entries_of("daigavane/fig2")
    smallest = min(entry.target_epsilon for entry in entries if entry.target_epsilon is not None)
    some = results[results["epsilon_target"] != smallest]
    points = privacy_utility_points(plan, "daigavane/fig2", some)
    left_out = [entry for entry in entries if entry.target_epsilon == smallest]
    assert (points["status"] == "not run").sum() == len(left_out) > 0
    empty = write_figure(plan, "daigavane/fig2", None, tmp_path / "none")
    assert set(pd.read_csv(empty[3])["status"]) == {"not run"}
    assert "<!-- no results: " in (tmp_path / "none.svg").read_text()
    abouts = [method.about for method in plan.experiments["daigavane"].methods.values() if method.about]
    assert not [text for text in abouts if text in (tmp_path / "none.txt").read_text()]


def test_methods_of_a_figure_differ_with_and_without_colour(plan, paper_plan, splits_plan):
    most = 0
    for one in (plan, paper_plan, splits_plan):
        for name, artefact in one.artefacts.items():
            if artefact.kind == "figure":
                looks = looks_of_methods(one.entries_of(name)).values()
                assert len({(style.marker, str(style.line)) for style in looks}) == len(looks), name
                assert all(distance(a.colour, b.colour) >= APART for a, b in combinations(looks, 2)), name
                most = max(most, len(looks))
    assert most >= MOST  # the test has seen as many as a figure draws; `lines` leaves out the rest


def test_what_is_proved_keeps_its_look_beside_what_is_claimed(paper_plan):
    entries = paper_plan.entries_of("daigavane/fig2")
    looks = looks_of_methods(entries)
    for entry in entries:
        if entry.method_id in ("dp-gcn-1", "dp-mlp"):
            assert looks[entry.method_id].colour == spec(entry.cell.method).look(entry.cell).colour


def test_both_node_remove_lines_of_the_votes_curves_have_colours_of_their_own():
    shares = {"own": 0.0, "votes": 0.5, "votes-schema": 0.5, "votes-remove": 0.5}  # the look reads no more of a cell
    cells = {
        name: SimpleNamespace(
            privacy=SimpleNamespace(votes_share=share, variant="node-remove-capped", raw_inference=False)
        )
        for name, share in shares.items()
    }
    looks = allocate({name: spec("dp-votes").look(cell) for name, cell in cells.items()})
    for first, second in combinations(looks.values(), 2):
        assert distance(first.colour, second.colour) >= APART
        assert first.marker != second.marker


OWN_RECORDS = changed("dp-residual-1-rigorous", privacy={"neighbour_clip_ratio": 0.0})
# how a baseline is trained is no other method: it looks the same
DRAWN = {name: cell for name, cell in CELLS.items() if not name.endswith("-stopping")}
CELLS_AND_MORE = {**DRAWN, "dp-residual-1-rigorous-own": OWN_RECORDS}
TREES = ("dpgraph.families.trees", "dpgraph.families.residual")  # methods that are in the same figures


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_every_method_of_the_package_differs_in_print_without_colour(optimizer):
    """All cells of the contract in one figure: every method, mechanism and network."""
    proposed = {name: look_of(cell, optimizer) for name, cell in CELLS_AND_MORE.items()}
    looks = allocate(proposed)
    assert {cell.method for cell in CELLS_AND_MORE.values()} == set(specs())
    assert len({(style.marker, str(style.line)) for style in looks.values()}) == len(looks) > 50


def test_every_network_on_trees_differs_as_proposed():
    """All networks, mechanisms and variants of the methods that are compared most, Adam only: nothing is allocated."""
    cells = [cell for cell in CELLS_AND_MORE.values() if spec(cell.method).train.startswith(TREES)]
    cells = [cell for cell in cells if getattr(cell.training, "engine", "own") == "own"]
    shapes = {(style.marker, str(style.line)) for style in (look_of(cell, "adam") for cell in cells)}
    assert len(shapes) == len(cells) > 20


def look_of(cell: Cell, optimizer: str) -> Look:
    training = cell.training.model_copy(update={"optimizer": optimizer})
    return spec(cell.method).look(cell.model_copy(update={"training": training}))


def test_only_figures_of_the_plan(plan, results, tmp_path):
    with pytest.raises(UserError, match=r"figure=daigavane/table1: expected one of daigavane/fig2.* \(suite demo\)"):
        write_figure(plan, "daigavane/table1", results, tmp_path / "x")


def test_one_seed_has_no_interval():
    points = pd.DataFrame({"source": "ours", "n": [1, 1], "variant": "none", "std": float("nan")})
    assert uncertainty(points) == ["One seed each, so no interval."]
    assert uncertainty(points.assign(n=[1, 3])) == [
        "Bars and shades: 95 % confidence interval of the mean over 3 seeds; one seed: none."
    ]
