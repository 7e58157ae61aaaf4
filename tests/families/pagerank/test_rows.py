from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import undirected_adjacency
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.store import load_graph
from dpgraph.families.pagerank.rows import approximate_pagerank, induced_adjacency
from dpgraph.problems.preprocess import preprocess
from tests.data.offline import fetch_offline


def random_adjacency(nodes: int, density: float, seed: int, hub: bool = False) -> np.ndarray:
    """Dense symmetric zeros and ones; a hub is a neighbour of all."""
    upper = np.triu(np.random.default_rng(seed).random((nodes, nodes)) < density, 1)
    if hub:
        upper[0, 1:] = True
    return (upper | upper.T).astype(float)


def printed_algorithm(adjacency: np.ndarray, root: int, alpha: float, rho: float, gamma: float) -> np.ndarray:
    """Algorithm 6 of the thesis, line by line, with its loops."""
    nodes = len(adjacency)
    degree = adjacency.sum(1)
    indicator = np.eye(nodes)[root]
    p, gradient = np.zeros(nodes), -alpha * indicator / degree
    while np.abs(gradient).max() > (1 + gamma) * rho * alpha:
        active = [i for i in range(nodes) if p[i] - gradient[i] >= rho * alpha]
        delta = {i: -(gradient[i] + rho * alpha) for i in active}
        for i in active:
            p[i] += delta[i]
        following = gradient.copy()
        for i in range(nodes):
            inflow = sum(adjacency[i, j] * delta[j] / degree[j] for j in active)
            if i in delta:
                following[i] = (1 - 1 / degree[i]) * gradient[i] - rho * alpha / degree[i]
                following[i] -= (1 - alpha) / 2 * delta[i] / degree[i]
            following[i] -= (1 - alpha) / (2 * degree[i]) * inflow
        gradient = following
    return p


def gradients(adjacency: sp.csr_matrix, rows: sp.csr_matrix, roots: np.ndarray, alpha: float) -> np.ndarray:
    """(M, n) D^-1/2 Q D^-1/2 p - alpha D^-1 s from the definition of Q; 0 at nodes without neighbours."""
    nodes = adjacency.shape[0]
    degree = np.asarray(adjacency.sum(1)).ravel()
    root = sp.diags_array(np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0))
    laplacian = sp.eye_array(nodes) - root @ adjacency @ root
    quadratic = root @ (alpha * sp.eye_array(nodes) + (1 - alpha) / 2 * laplacian) @ root
    seeds = np.zeros((len(roots), nodes))
    seeds[np.arange(len(roots)), roots] = np.where(degree[roots] > 0, 1 / np.maximum(degree[roots], 1), 0)
    return np.asarray((rows @ quadratic).toarray()) - alpha * seeds


def assert_optimal(adjacency, rows, roots, alpha, rho, gamma) -> None:
    gradient = gradients(adjacency, rows, roots, alpha)
    dense, penalty = rows.toarray(), rho * alpha
    rounding = 1e-15
    connected = np.asarray(adjacency.sum(1)).ravel() > 0
    assert np.all(dense >= 0)
    assert np.all(gradient <= rounding)
    assert np.all(gradient >= -(1 + gamma) * penalty - rounding)
    on = (dense > 0) & connected
    assert np.all(gradient[on] <= -penalty + rounding)
    degree = np.asarray(adjacency.sum(1)).ravel()
    mass = dense.sum(1)
    assert np.all(mass <= 1 + rounding)
    assert np.all(rho * (dense > 0) @ degree <= 1 - mass + 1e-12)


@pytest.mark.parametrize(
    ("nodes", "density", "hub"), [(2, 1, False), (6, 0.4, True), (10, 0.3, True), (10, 0.9, False)]
)
@pytest.mark.parametrize(("alpha", "rho"), [(0.25, 1e-4), (0.25, 0.03), (0.6, 0.01), (1.0, 0.05)])
def test_the_printed_algorithm_has_the_same_optimum(nodes, density, hub, alpha, rho):
    adjacency = random_adjacency(nodes, density, seed=nodes, hub=hub)
    assert adjacency.sum(1).min() > 0
    rows = approximate_pagerank(sp.csr_matrix(adjacency), np.arange(nodes), alpha, rho, tolerance=1e-8)
    printed = [printed_algorithm(adjacency, root, alpha, rho, gamma=1e-8) for root in range(nodes)]
    np.testing.assert_allclose(rows.toarray(), printed, rtol=0, atol=nodes * rho * 1e-7)


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(2, 30),
    density=st.floats(0, 0.6),
    hub=st.booleans(),
    alpha=st.floats(0.05, 1),
    rho=st.sampled_from([1e-6, 1e-4, 1e-2, 0.1, 0.5]),
    gamma=st.sampled_from([1e-6, 1e-4, 0.3]),
    seed=st.integers(0, 1000),
)
def test_conditions_of_the_optimum(nodes, density, hub, alpha, rho, gamma, seed):
    """g = -rho alpha on the support, up to the tolerance, and -rho alpha <= g <= 0 elsewhere."""
    adjacency = sp.csr_matrix(random_adjacency(nodes, density, seed, hub))
    roots = np.arange(nodes)
    rows = approximate_pagerank(adjacency, roots, alpha, rho, gamma)
    assert_optimal(adjacency, rows, roots, alpha, rho, gamma)


@settings(max_examples=30, deadline=None)
@given(nodes=st.integers(2, 25), density=st.floats(0, 0.5), seed=st.integers(0, 1000), rho=st.floats(1e-5, 0.1))
def test_rows_grow_with_the_accuracy_and_shrink_with_the_penalty(nodes, density, seed, rho):
    """Iterates stay below the optimum, which falls in rho."""
    adjacency = sp.csr_matrix(random_adjacency(nodes, density, seed))
    roots = np.arange(nodes)
    rough, fine, penalised = (
        approximate_pagerank(adjacency, roots, 0.25, penalty, gamma).toarray()
        for penalty, gamma in ((rho, 0.5), (rho, 1e-6), (2 * rho, 1e-6))
    )
    assert np.all(rough <= fine + 1e-14)
    assert np.all(penalised <= fine * (1 + 1e-12) + 1e-4 * rho)


@pytest.mark.parametrize("alpha", [0.1, 0.25, 1.0])
def test_without_penalty_rows_are_those_of_the_lazy_walk(alpha):
    """alpha (I - (1 - alpha) W)^-1 s with W = (I + A D^-1) / 2: Eq. 5.6."""
    adjacency = random_adjacency(9, 0.4, seed=3, hub=True)
    walk = (np.eye(9) + adjacency / adjacency.sum(0)) / 2
    exact = alpha * np.linalg.inv(np.eye(9) - (1 - alpha) * walk)
    rows = approximate_pagerank(sp.csr_matrix(adjacency), np.arange(9), alpha, sparsity=1e-9, tolerance=1e-3)
    np.testing.assert_allclose(rows.toarray(), exact.T, rtol=0, atol=1e-7)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=0, atol=1e-7)


def test_a_row_depends_on_no_other(monkeypatch):
    adjacency = sp.csr_matrix(random_adjacency(200, 0.02, seed=5, hub=True))
    roots = np.random.default_rng(1).permutation(200)
    together = approximate_pagerank(adjacency, roots)
    assert np.array_equal(together.toarray(), approximate_pagerank(adjacency, np.arange(200)).toarray()[roots])
    monkeypatch.setattr("dpgraph.families.pagerank.rows.BLOCK_ROWS", 7)
    for part in (roots, roots[50:53], roots[[3, 3]]):
        expected = together.toarray()[[np.flatnonzero(roots == root)[0] for root in part]]
        assert np.array_equal(approximate_pagerank(adjacency, part).toarray(), expected)


def test_a_row_does_not_read_what_is_far_away():
    """The component of a root alone: relabelling and removing the rest changes nothing but rounding."""
    left, right = random_adjacency(12, 0.4, seed=1, hub=True), random_adjacency(40, 0.3, seed=2)
    joint = sp.block_diag([sp.csr_matrix(right), sp.csr_matrix(left)], format="csr")
    rows = approximate_pagerank(joint, np.arange(40, 52)).toarray()
    alone = approximate_pagerank(sp.csr_matrix(left), np.arange(12)).toarray()
    assert not rows[:, :40].any()
    np.testing.assert_allclose(rows[:, 40:], alone, rtol=1e-12, atol=0)


def test_edges_count_in_both_directions(graph_of):
    graph = graph_of(5, {0: [1, 2], 3: [0], 2: [0]})
    expected = np.zeros((5, 5))
    for u, v in ((0, 1), (0, 2), (0, 3)):
        expected[u, v] = expected[v, u] = 1
    assert np.array_equal(undirected_adjacency(graph).toarray(), expected)
    rows = approximate_pagerank(undirected_adjacency(graph), np.arange(5)).toarray()
    assert np.array_equal(rows[4], np.eye(5)[4])


def test_roots_without_neighbours_and_roots_with_too_many(graph_of):
    star = undirected_adjacency(graph_of(8, {0: [1, 2, 3, 4, 5]}))
    rows = approximate_pagerank(star, np.array([6, 0, 1]), sparsity=0.2)
    assert np.array_equal(rows[[0]].toarray()[0], np.eye(8)[6])
    assert rows[[1]].nnz == 0  # 1 / rho = 5 neighbours
    assert rows[[2]].nnz > 0
    assert approximate_pagerank(star, np.array([], dtype=np.int64)).shape == (0, 8)


def test_form_of_the_result(graph_of):
    rows = approximate_pagerank(undirected_adjacency(graph_of(4, {0: [1], 1: [2]})), np.array([2, 0]))
    assert sp.isspmatrix_csr(rows)
    assert (rows.shape, rows.dtype) == ((2, 4), np.float64)
    assert rows.has_canonical_format
    assert rows.data.min() > 0


def test_induced_adjacency_keeps_ids_and_drops_edges_that_leave(graph_of):
    graph = graph_of(6, {0: [1, 2], 1: [2], 2: [3], 4: [0, 5]})
    whole = undirected_adjacency(graph).toarray()
    for nodes in ([0, 1, 2], [5, 4, 0], [3], []):
        inside = np.isin(np.arange(6), nodes)
        kept = induced_adjacency(graph, np.array(nodes, dtype=np.int64))
        assert np.array_equal(kept.toarray(), whole * np.outer(inside, inside))
    assert np.array_equal(induced_adjacency(graph, np.arange(6)).toarray(), whole)


def test_parameters_whose_excess_drowns_in_rounding(graph_of):
    adjacency = undirected_adjacency(graph_of(3, {0: [1]}))
    with pytest.raises(UserError) as error:
        approximate_pagerank(adjacency, np.array([0]), sparsity=1e-9, tolerance=1e-9)
    assert str(error.value) == "teleport * sparsity * tolerance=2.5e-19: expected at least 1e-14 (rounding)"


@pytest.mark.real_data
@pytest.mark.parametrize("dataset", ["cora-ml", "pubmed"])
def test_conditions_of_the_optimum_on_a_real_graph(dataset, tmp_path):
    if not os.environ.get("DPGRAPH_MIRROR"):
        pytest.skip("DPGRAPH_MIRROR names no mirror of the real data")
    task = Task(dataset=dataset, setting="disjoint", split="random-80-0-20", features="project-2")
    fetch_offline(dataset, tmp_path / "raw", mirrors_from([], os.environ))
    preprocess(task, tmp_path / "raw", tmp_path / "graph")
    graph = load_graph(tmp_path / "graph")
    adjacency = undirected_adjacency(graph)
    hub = int(np.argmax(np.diff(graph.out_ptr)))
    roots = np.append(np.random.default_rng(0).choice(graph.train_nodes, 40, replace=False), hub)
    rows = approximate_pagerank(adjacency, roots)
    assert_optimal(adjacency, rows, roots, 0.25, 1e-4, 1e-4)
