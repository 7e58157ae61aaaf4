"""The benchmark of the samplers on a small graph: what it writes, not what it measures."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from bench.sampling import COLUMNS, bench, random_graph
from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.families.pagerank.rows import approximate_pagerank


def test_every_stage_is_measured(tmp_path):
    path, graph = tmp_path / "sampling.csv", random_graph(3000, 12)
    rows = {row["stage"]: row for row in bench(path, graph, repeats=2)}
    with path.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [tuple(row) for row in written] == [COLUMNS] * len(rows)
    assert sum("pack" in name for name in rows) == 8
    assert all(row["seconds"] > 0 and 0.01 < row["peak_gib"] < 100 for row in rows.values())
    # a root's tree holds itself and its list; one more hop adds rows
    own = len(graph.train_nodes) + rows["stable, D=K=7"]["entries"]
    assert rows["stable, D=K=7, pack r=1"]["entries"] == own
    assert rows["stable, D=K=7, pack r=2"]["entries"] > own


def test_rows_of_pagerank_are_those_of_the_training_nodes(tmp_path):
    graph = random_graph(200, 6)
    last = bench(tmp_path / "sampling.csv", graph, pagerank=True)[-1]
    assert (last["stage"], last["training_nodes"]) == ("PageRank rows", len(graph.train_nodes))
    assert last["entries"] == approximate_pagerank(undirected_adjacency(graph), graph.train_nodes).nnz


def test_degrees_follow_a_power_law():
    degree = np.diff(random_graph(20_000, 50.5).out_ptr)
    assert degree.mean() == pytest.approx(50.5, rel=0.05)
    assert degree.max() > 20 * np.median(degree)
    # P(degree > x) falls as x^-1.3
    assert np.mean(degree > 400) / np.mean(degree > 100) == pytest.approx(4**-1.3, rel=0.2)
