"""The attack on degrees, and what of an outcome is stored for the attacks of reports."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.store import save_graph
from dpgraph.families.registry import method
from dpgraph.pipeline import execute
from dpgraph.pipeline.stages import train_cell
from dpgraph.problems.node_classification.exposure import Exposure, degree_attack, degrees, exposure_metrics, silhouette
from tests.contract.cells import cell as toy_cell
from tests.contract.conftest import toy_graph

CELL = toy_cell("gnn", 1, None)


def exposure_of(graph: Graph, seed: int = 0) -> Exposure:
    random = numpy_generator("test exposure", seed)
    candidates = graph.train_nodes
    roots = np.sort(random.choice(candidates, len(candidates) // 2, replace=False))
    embeddings = random.normal(size=(len(roots), 4)).astype(np.float32)
    return Exposure(roots, embeddings, candidates, random.random(len(candidates)).astype(np.float32))


def directed(pairs: list[tuple[int, int]], nodes: int) -> Graph:
    def lists(ends: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        ordered = sorted(ends)
        counts = np.bincount([owner for owner, _ in ordered], minlength=nodes)
        return np.concatenate([[0], np.cumsum(counts)]), np.array([member for _, member in ordered], np.int32)

    toy = toy_graph(nodes)
    out, back = lists(pairs), lists([(v, u) for u, v in pairs])
    return dataclasses.replace(toy, out_ptr=out[0], out_idx=out[1], in_ptr=back[0], in_idx=back[1])


def test_degrees_count_each_neighbour_once():
    """0-1 is in both directions, 0-2 and 3-0 in one; 5 has none."""
    graph = directed([(0, 1), (1, 0), (0, 2), (3, 0), (3, 4)], 6)
    assert degrees(graph, np.arange(6)).tolist() == [3, 1, 1, 2, 1, 0]
    assert degrees(graph, np.array([3, 0])).tolist() == [2, 3]


def test_degrees_of_an_undirected_graph_are_the_lengths_of_its_lists():
    graph = toy_graph()
    assert degrees(graph, graph.train_nodes).tolist() == np.diff(graph.out_ptr)[graph.train_nodes].tolist()


def test_a_planted_linear_leak_is_found_and_noise_is_not():
    random = numpy_generator("test leak")
    degree = random.poisson(6, 400).astype(float)
    noise = random.normal(size=(400, 8))
    leak = noise.copy()
    leak[:, 3] = 100 * degree + 0.1 * noise[:, 3]
    found, constant = degree_attack(leak, degree, numpy_generator("folds"))
    assert found < 0.1  # a degree outside of those of the training folds cannot be reached
    assert constant == pytest.approx(degree.std(), rel=0.02)
    blind, same = degree_attack(noise, degree, numpy_generator("folds"))
    assert same == constant
    assert blind == pytest.approx(constant, rel=0.05)


def test_errors_are_those_of_held_out_nodes():
    """As many dimensions as nodes fit any degrees in training, and say nothing of the others."""
    random = numpy_generator("test held out")
    degree = random.poisson(6, 60).astype(float)
    found, constant = degree_attack(random.normal(size=(60, 80)), degree, numpy_generator("folds"))
    assert found > 0.8 * constant


def test_folds_come_from_the_generator_alone():
    random = numpy_generator("test folds")
    arguments = random.normal(size=(50, 3)), random.poisson(3, 50)
    one, two = (degree_attack(*arguments, numpy_generator("folds", name)) for name in "ab")
    assert one == degree_attack(*arguments, numpy_generator("folds", "a"))
    assert one != two


@pytest.mark.filterwarnings("error")
def test_embeddings_that_are_not_finite_or_do_not_vary_tell_nothing():
    graph = toy_graph()
    exposure = exposure_of(graph)
    for value, note, separation in ((np.nan, "20 of 20 are not finite", None), (0.5, None, 0.0)):
        broken = dataclasses.replace(exposure, embeddings=np.full((20, 4), value, np.float32))
        metrics, notes = exposure_metrics(graph, broken, 7, "test")
        found = {metric.metric: metric.value for metric in metrics}
        assert found["degree_rmse/train"] == pytest.approx(found["degree_rmse_constant/train"])
        assert found.get("silhouette/train") == separation
        assert notes.get("embeddings") == note


def test_silhouette_by_hand():
    """Two pairs at distance 1, 10 apart: (10.5 - 1) / 10.5 for the outer nodes, (9.5 - 1) / 9.5 for the inner ones."""
    places, random = np.array([[0.0], [1.0], [10.0], [11.0]]), numpy_generator("silhouette")
    expected = ((10.5 - 1) / 10.5 + (9.5 - 1) / 9.5) / 2
    assert silhouette(places, np.array([0, 0, 1, 1]), random) == pytest.approx(expected)
    assert silhouette(places, np.array([0, 1, 0, 1]), random) < 0
    assert silhouette(places, np.zeros(4), random) is None
    assert silhouette(places, np.arange(4), random) is None


@pytest.mark.filterwarnings("error")
def test_one_wild_embedding_does_not_lead_predictions_out_of_the_range_of_degrees():
    random = numpy_generator("test wild")
    degree = random.poisson(6, 50)
    embeddings = degree[:, None] + random.normal(size=(50, 2))
    embeddings[7] = 1e30
    found, _ = degree_attack(embeddings.astype(np.float32), degree, numpy_generator("folds"))
    assert found < np.ptp(degree)


def test_too_few_roots_are_a_note():
    graph = toy_graph()
    few = dataclasses.replace(exposure_of(graph), roots=np.arange(9), embeddings=np.zeros((9, 4), np.float32))
    metrics, notes = exposure_metrics(graph, few, 1, "test")
    assert (metrics, notes) == ((), {"embeddings": "9 roots, fewer than 10: no attack"})


def test_files_are_read_back_and_damaged_ones_named(tmp_path):
    path = tmp_path / "seed=0.exposure.npz"
    exposure = exposure_of(toy_graph())
    exposure.save(path)
    again = Exposure.load(path)
    for field in dataclasses.fields(Exposure):
        one, two = getattr(exposure, field.name), getattr(again, field.name)
        assert one.dtype == two.dtype
        assert np.array_equal(one, two)
    dataclasses.replace(exposure, losses=exposure.losses[1:]).save(path)
    with pytest.raises(UserError, match="different lengths; delete result"):
        Exposure.load(path)
    np.savez(path, roots=np.arange(3))
    with pytest.raises(UserError, match=r"exposure\.npz: damaged; delete result\.json next to it and train"):
        Exposure.load(path)
    path.write_bytes(b"PK")
    with pytest.raises(UserError, match="damaged"):
        Exposure.load(path)


@pytest.fixture
def exposing(monkeypatch):
    """A method that offers an exposure, of the truth that it must not see: labels of test nodes are hidden from it."""
    real = method("gnn")

    class Exposing:
        def run(self, job, observe):
            return dataclasses.replace(real.run(job, observe), exposure=exposure_of(job.graph, job.seed))

    monkeypatch.setattr(execute, "trainer_of", lambda known: Exposing())


def test_the_stage_stores_exposures_and_records_their_metrics(exposing, tmp_path):
    graph = toy_graph()
    save_graph(graph, tmp_path / "graph")
    out = tmp_path / "out"
    record = train_cell(CELL, out, tmp_path / "graph", device="cpu")
    stored = Exposure.load(out / "seed=0.exposure.npz")
    assert np.array_equal(stored.embeddings, exposure_of(graph).embeddings)
    metrics = {metric.metric: metric for metric in record.seeds[0].metrics if metric.final}
    assert {"accuracy/test", "degree_rmse/train", "degree_rmse_constant/train", "silhouette/train"} <= set(metrics)
    assert metrics["degree_rmse/train"].step == metrics["accuracy/test"].step
    folds = numpy_generator("dpgraph", CELL.task.folder, 0, "degree folds")
    expected = degree_attack(stored.embeddings, degrees(graph, stored.roots), folds)
    assert metrics["degree_rmse/train"].value == expected[0]
    before = (out / "seed=0.exposure.npz").read_bytes()
    again = train_cell(CELL, out, tmp_path / "graph", device="cpu", again=True)
    assert again.seeds[0].metrics == record.seeds[0].metrics
    assert (out / "seed=0.exposure.npz").read_bytes() == before


def test_a_forced_rerun_leaves_nothing_of_the_last_one(exposing, monkeypatch, tmp_path):
    save_graph(toy_graph(), tmp_path / "graph")
    out = tmp_path / "out"
    train_cell(CELL, out, tmp_path / "graph", device="cpu")

    class Hungry:
        def run(self, job, observe):
            raise MemoryError("no room")

    monkeypatch.setattr(execute, "trainer_of", lambda known: Hungry())
    assert train_cell(CELL, out, tmp_path / "graph", device="cpu", again=True).status == "failed"
    assert not list(out.glob("*.np?"))


def test_methods_that_offer_nothing_have_no_exposure(tmp_path):
    save_graph(toy_graph(), tmp_path / "graph")
    record = train_cell(CELL, tmp_path / "out", tmp_path / "graph", device="cpu")
    assert not list((tmp_path / "out").glob("*.npz"))
    assert "degree_rmse" not in json.dumps(record.model_dump(mode="json"))
