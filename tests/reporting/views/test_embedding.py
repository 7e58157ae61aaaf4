"""t-SNE of made-up embeddings: three classes that separate as epsilon grows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from dpgraph.config.experiment import Artefact
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.reporting.drawing.palette import looks_of_classes
from dpgraph.reporting.figures import write_figure
from dpgraph.reporting.views.derived import embedding_metrics, tsne
from dpgraph.reporting.views.embedding import embedded, embedding_points
from tests.reporting.conftest import with_derived
from tests.reporting.exposed import ROOTS, expose, exposure, plan_in


@pytest.fixture(scope="module")
def run(tmp_path_factory, rows_of, as_frame):
    folder = tmp_path_factory.mktemp("embedding")
    plan = plan_in(folder, seeds=2)
    expose(plan, 1.0, "zhang/clusters")
    rows = [row for entry in plan.entries_of("zhang/clusters") for row in rows_of(entry)]
    return plan, with_derived(plan, as_frame(rows))


@pytest.fixture(scope="module")
def figure(run, tmp_path_factory):
    return write_figure(*_named(run), tmp_path_factory.mktemp("figure") / "clusters")


def _named(run):
    plan, frame = run
    return plan, "zhang/clusters", frame


def test_files_points_and_nothing_of_nodes_but_place_and_class(run, figure):
    assert [path.suffix for path in figure] == [".pdf", ".svg", ".png", ".csv", ".txt", ".html"]
    points = pd.read_csv(figure[3])
    assert len(points) == 3 * ROOTS
    assert {"x", "y", "class_id", "seed", "eps_published", "eps_rigorous"} <= set(points.columns)
    assert not {"node", "root", "id"} & set(points.columns)
    own = points[points["method"] == "vanilla"]
    assert own["class_id"].is_monotonic_increasing  # not in the order of node ids


def test_classes_of_the_roots(run):
    plan, frame = run
    labels = numpy_generator("labels").integers(3, size=700)
    for one in embedded(plan, "zhang/clusters", frame):
        assert np.array_equal(one.classes, np.sort(labels[exposure(0, 0.0).roots]))


def test_separated_classes_stay_separated(run):
    plan, frame = run
    shares = []
    for one in embedded(plan, "zhang/clusters", frame):
        distances = np.linalg.norm(one.places[:, None] - one.places[None], axis=2)
        np.fill_diagonal(distances, np.inf)
        shares.append(np.mean(one.classes[distances.argmin(axis=1)] == one.classes))
    vanilla, weak, strong = shares
    assert vanilla > 0.85
    assert weak < 0.6
    assert strong > weak


@pytest.mark.slow
def test_same_bytes_again(run, figure, tmp_path):
    again = write_figure(*_named(run), tmp_path / "clusters")
    assert [path.read_bytes() for path in figure] == [path.read_bytes() for path in again]


def test_axes_and_budgets_are_named_and_nothing_touches_the_edge(figure):
    svg = figure[1].read_text()
    for text in ("t-SNE 1", "t-SNE 2", "target ε\xa0=\xa08", "no privacy", "class 2"):
        assert f"<!-- {text} -->" in svg
    assert "proved 0.999" in svg
    image = imread(figure[2])[:, :, :3]
    border = [image[:3], image[-3:], image[:, :3].swapaxes(0, 1), image[:, -3:].swapaxes(0, 1)]
    assert all((part > 0.99).all() for part in border)


def test_embeddings_that_give_no_picture_say_why():
    random = numpy_generator("picture")
    assert tsne(random.random((9, 2)), "x")[1] == "9 roots, fewer than 10"
    assert tsne(np.ones((20, 2)), "x")[1] == "all embeddings are equal"
    assert tsne(np.full((20, 2), np.nan), "x")[1] == "embeddings are not finite"
    places, reason = tsne((1e30 * random.random((10, 2))).astype(np.float32), "x")
    assert reason == ""
    assert np.isfinite(places).all()


def test_missing_files_and_results(run, tmp_path):
    _, frame = run
    bare = plan_in(tmp_path, seeds=2)
    frame = frame[~frame["metric"].str.startswith("embedding")]
    assert embedding_metrics(bare) == {}
    entries = embedded(bare, "zhang/clusters", frame)
    assert {one.outcome.status for one in entries} == {"not run"}
    assert all("no exposure" in one.outcome.reason for one in entries)
    write_figure(bare, "zhang/clusters", None, tmp_path / "none")
    assert pd.read_csv(tmp_path / "none.csv")["x"].isna().all()
    expose(bare, 1.0, "zhang/clusters")
    entry = bare.entries_of("zhang/clusters")[0]
    Paths(bare.config).exposure(entry.cell, 0).write_bytes(b"x")
    with pytest.raises(UserError, match="damaged"):
        embedding_metrics(bare)
    assert math.isnan(embedding_points(embedded(bare, "zhang/clusters", None))["x"].iloc[0])


def test_looks_of_classes_differ():
    classes = list(range(70))
    looks = looks_of_classes(classes)
    assert len({(looks[name].colour, looks[name].marker) for name in classes}) == 70
    assert len({looks[name].colour for name in range(7)}) == 7


def test_there_is_no_table_of_embeddings():
    with pytest.raises(ValueError, match="view=embedding, kind=table: expected kind=figure"):
        Artefact(kind="table", view="embedding", title="x")
