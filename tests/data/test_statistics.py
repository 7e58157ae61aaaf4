import pytest

from dpgraph.data.records import NO_SPLIT
from dpgraph.data.statistics import statistics


def test_statistics_by_hand(graph_of):
    # path 0-1-2-3, node 4 alone; labels a a b none b; split train train val test -
    graph = graph_of([(0, 1), (1, 2), (2, 3)], [0, 0, 1, 2, NO_SPLIT], labels=[0, 0, 1, -1, 1])
    found = statistics(graph)
    assert found["nodes"] == 5
    assert found["entries"] == 6
    assert found["undirected_edges"] == 3
    assert found["mean_degree"] == pytest.approx(1.2)
    assert found["max_degree"] == 2
    assert found["isolated_nodes"] == 1
    assert found["split_sizes"] == {"train": 2, "val": 1, "test": 1}
    assert found["split_fractions"] == {"train": 0.4, "val": 0.2, "test": 0.2}
    assert found["homophily"] == pytest.approx(1 / 2)  # 0-1 agrees, 1-2 does not, 2-3 has no label
    assert found["entries_within_splits"] == 2
    assert found["within_split"] == pytest.approx(1 / 3)


def test_statistics_of_a_graph_without_edges(graph_of):
    found = statistics(graph_of([], [0, 1]))
    assert found["homophily"] is None
    assert found["within_split"] is None
    assert found["max_degree"] == 0


def test_two_unlabelled_neighbours_are_no_agreement(graph_of):
    assert statistics(graph_of([(0, 1), (1, 2)], [0, 0, 0], labels=[-1, -1, 1]))["homophily"] is None
