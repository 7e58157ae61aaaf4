from __future__ import annotations

import numpy as np
import pytest

from dpgraph.benchmarks.sampling import bench, bench_pagerank, random_edges
from dpgraph.data.store import save_graph
from dpgraph.errors import UserError
from dpgraph.files import read_json
from dpgraph.sampling.pagerank import approximate_pagerank


def test_every_stage_is_measured(tmp_path):
    path = tmp_path / "sampling.json"
    assert bench(path, nodes=3000, mean_degree=12, repeats=2) == read_json(path)
    record = read_json(path)
    stages, small = record["stages"], record["small"]
    assert (small["nodes"], small["repeats"]) == (3000, 2)
    assert all(stage["cpu_ms"] >= stage["least"] > 0 for stage in small["stages"].values())
    assert {"stable, training roots", "algorithm 1, all nodes", "pack r=2", "batch of 100, r=1"} <= small[
        "stages"
    ].keys()
    assert stages["block model"]["entries"] == 2 * round(3000 * 13.7 / 2)
    assert stages["csr"]["entries"] == pytest.approx(3000 * 12, rel=0.1)
    for sampler in ("algorithm 1", "stable"):
        for name in (name for name in stages if name.startswith(sampler)):
            assert stages[name]["seconds"] > 0
            assert 0.01 < stages[name]["peak_gib"] < 100
    packed = [name for name in stages if "pack" in name]
    assert len(packed) == 8
    # a root's tree holds itself and its list; one more hop adds rows
    roots, entries = stages["graph"]["roots"], stages["stable, D=K=7"]["entries"]
    assert stages["stable, D=K=7, pack r=1"]["rows"] == roots + entries
    assert stages["stable, D=K=7, pack r=2"]["rows"] > roots + entries


def test_degrees_follow_a_power_law():
    source, target = random_edges(20_000, 50.5)
    degree = np.bincount(np.concatenate([source, target]), minlength=20_000)
    assert degree.mean() == pytest.approx(50.5, rel=0.02)
    assert degree.max() > 20 * np.median(degree)
    # P(degree > x) falls as x^-1.3
    assert np.mean(degree > 400) / np.mean(degree > 100) == pytest.approx(4**-1.3, rel=0.2)


def test_a_stored_graph_for_what_is_repeated(tmp_path, graph_of):
    save_graph(graph_of(9, {0: [1, 2, 3], 1: [0], 4: [3]}, roots=[0, 3, 7]), tmp_path / "graph")
    small = bench(tmp_path / "b.json", nodes=200, mean_degree=12, folder=tmp_path / "graph", repeats=1)["small"]
    assert {name: small[name] for name in ("nodes", "entries", "roots", "entries_of_roots", "max_degree")} == {
        "nodes": 9, "entries": 5, "roots": 3, "entries_of_roots": 3, "max_degree": 3,
    }  # fmt: skip
    assert not any(name.startswith("batch") for name in small["stages"])  # of more roots than there are


def test_too_few_repetitions(tmp_path):
    with pytest.raises(UserError, match=r"^repeats=0: expected an integer >= 1$"):
        bench(tmp_path / "b.json", nodes=200, repeats=0)


def test_too_few_nodes(tmp_path):
    with pytest.raises(UserError, match=r"^nodes=3: expected an integer >= 100$"):
        bench(tmp_path / "b.json", nodes=3)


def test_rows_of_the_training_nodes_are_measured(tmp_path, graph_of):
    graph = graph_of(9, {0: [1, 2, 3], 1: [0], 2: [0], 3: [0, 4], 4: [3]}, roots=[0, 3, 7])
    save_graph(graph, tmp_path / "graph")
    record = bench_pagerank(tmp_path / "graph", tmp_path / "out/pagerank.json")
    assert record == read_json(tmp_path / "out/pagerank.json")
    rows = approximate_pagerank(graph, np.array([0, 3, 7]))
    assert (record["rows"], record["entries"], record["largest_row"]) == (3, rows.nnz, 5)
    assert record["seconds"] > 0
    assert record["cpu_seconds"] > 0
    assert 0.01 < record["peak_gib"] < 100
    with pytest.raises(UserError, match=r"graph\.json: no such file"):
        bench_pagerank(tmp_path / "nothing", tmp_path / "out/pagerank.json")
