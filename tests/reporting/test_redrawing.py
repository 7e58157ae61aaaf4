"""Figures drawn again from the points that are kept beside them: the same picture and caption, or none and a reason."""

import gzip
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from PIL import Image

from dpgraph.experiments.config import Config
from dpgraph.experiments.paths import Paths
from dpgraph.planning.plan import load_plan
from dpgraph.reporting.figures import read_caption, write_figure
from dpgraph.reporting.redrawing import OTHER_COLUMNS, OTHER_RUNS, POINTS, read_points, redraw
from dpgraph.reporting.reshipping import reship
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.shipping import ship
from dpgraph.reporting.views.registry import redrawn_of, views_with
from tests.reporting.conftest import WORKFLOW

SWEEP, CURVES = "daigavane/batches", "daigavane/fig2"


def test_most_figures_are_functions_of_their_points():
    able = {view for view in views_with("figure") if redrawn_of(view)}
    assert able >= {"bounds", "class-wise", "confusion", "gains", "hard-cases", "matched", "privacy-utility", "sweep"}
    assert "gallery" not in able  # which shows records
    assert redrawn_of("accuracy") is None  # a table


@pytest.fixture(scope="module")
def drawn(plan, views_plan, results, tmp_path_factory):
    """Figures of results, by name: their plan and files."""
    folder = tmp_path_factory.mktemp("drawn")
    return {
        name: (of, write_figure(of, name, results, folder / name.replace("/", "-")))
        for of, name in ((views_plan, SWEEP), (plan, CURVES))
    }


@pytest.mark.parametrize("name", [SWEEP, CURVES])
def test_the_same_picture_from_points_alone(drawn, tmp_path, name):
    plan, files = drawn[name]
    png, points, caption = files[2:5]
    packed = tmp_path / "points.csv.gz"
    packed.write_bytes(gzip.compress(points.read_bytes()))
    made = redraw(plan, {name: packed}, tmp_path)
    assert made.left == {}
    assert made.captions[name] == read_caption(caption)
    # eight digits are kept: a line may be drawn a thousandth of a pixel beside where it was
    assert imread(made.pictures[name]) == pytest.approx(imread(png), abs=0.02)


def test_numbers_are_the_kept_ones(drawn, tmp_path):
    plan, files = drawn[CURVES]
    points = pd.read_csv(files[3])
    lower = tmp_path / "lower.csv"
    write_csv(points.assign(mean=points["mean"] - 20), lower)
    made = redraw(plan, {CURVES: lower}, tmp_path)
    assert np.abs(imread(made.pictures[CURVES]) - imread(files[2])).max() > 0.5


def test_texts_stay_texts(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("value,reason,mean,eps\n10,,1.5,inf\nfull,NA,,\n")
    planned = pd.DataFrame({"value": ["a"], "reason": [""], "mean": [np.nan], "eps": [np.nan]})
    points = read_points(path, planned)
    assert points["value"].tolist() == ["10", "full"]
    assert points["reason"].tolist() == ["", "NA"]
    assert points["eps"].iloc[0] == np.inf
    assert points[["mean", "eps"]].iloc[1].isna().all()


def test_what_is_not_all_kept_is_not_drawn(drawn, tmp_path):
    plan, files = drawn[CURVES]
    points = pd.read_csv(files[3])
    fewer, bare = tmp_path / "fewer.csv", tmp_path / "bare.csv"
    write_csv(points[points["method"] != points["method"].iloc[0]], fewer)
    write_csv(points.drop(columns="ci_low"), bare)
    assert redraw(plan, {CURVES: fewer}, tmp_path).left == {CURVES: OTHER_RUNS}
    assert redraw(plan, {CURVES: bare}, tmp_path).left == {CURVES: OTHER_COLUMNS.format("ci_low")}
    pictured = next(name for name, artefact in plan.artefacts.items() if artefact.view == "embedding")
    assert redraw(plan, {pictured: fewer}, tmp_path).left == {pictured: POINTS}


def test_runs_that_the_plan_no_longer_asks_for_are_left_out(drawn, tmp_path):
    plan, files = drawn[CURVES]
    points = pd.read_csv(files[3])
    other = points[points["method"] == points["method"].iloc[0]].assign(method="another", label="Another method")
    more = tmp_path / "more.csv"
    write_csv(pd.concat([points, other]), more)
    made = redraw(plan, {CURVES: more}, tmp_path)
    assert not any("Another method" in line for line in made.captions[CURVES])
    assert imread(made.pictures[CURVES]) == pytest.approx(imread(files[2]), abs=0.02)


def test_a_kept_suite_has_its_figures_drawn_again(plan, results, claims, tmp_path):
    """Twice with the same bytes; points stay as they are, a figure without its points stays, too."""
    own = load_plan(Config(seeds=3, results=str(tmp_path / "results")), WORKFLOW)
    paths = Paths(own.config)
    paths.suite.mkdir(parents=True)
    results.to_parquet(paths.results)
    write_csv(claims, paths.claims)
    for name, artefact in own.artefacts.items():
        figure = artefact.kind == "figure"
        for suffix in ("png", "csv") if figure else ("md", "csv"):
            path = (paths.figure if figure else paths.table)(name, suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            if suffix == "png":
                Image.new("RGB", (30, 20), "red").save(path)
            else:
                path.write_text("text")
    write_figure(own, CURVES, results, paths.figure(CURVES, "png").with_suffix(""))
    out = tmp_path / "kept"
    ship(own, out)
    folder = out / own.suite.name
    first = (folder / f"figures/{CURVES}.png").read_bytes()
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    Image.new("RGB", (30, 20), "blue").save(folder / f"figures/{CURVES}.png")
    shutil.rmtree(tmp_path / "results")
    done = reship(own, out)
    assert folder / f"figures/{CURVES}.png" in done.files
    assert CURVES not in done.left
    with Image.open(folder / f"figures/{CURVES}.png") as again:
        assert again.mode == "P"
    assert (folder / f"figures/{CURVES}.png").read_bytes() == first
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == kept
