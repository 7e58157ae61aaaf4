"""Edge lists: the bounds that they promise, on every graph that hypothesis can think of, and the one they do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpgraph.core.errors import UserError
from dpgraph.engine.sampling import edge_lists
from dpgraph.engine.sampling.edge_lists import full_edge_lists, sample_edge_lists, stable_edge_lists

N = 11
GRAPHS = st.dictionaries(st.integers(0, N - 1), st.sets(st.integers(0, N - 1)), min_size=1, max_size=N).map(
    lambda lists: {v: sorted(members - {v}) for v, members in lists.items()}
)


def nodes_of(tree) -> set[int]:
    return {tree[0]}.union(*(nodes_of(child) for child in tree[1]))


def occurrence_bound(k: int, r: int) -> int:
    return sum(k**i for i in range(r + 1))


def changed_roots(tree, before, after, roots, node: int, hops: int) -> int:
    """Roots whose trees differ or hold the changed node."""
    pairs = [(tree(before, v, hops), tree(after, v, hops)) for v in roots]
    return sum(a != b or node in nodes_of(a) | nodes_of(b) for a, b in pairs)


def random_lists(seed: int, n: int, longest: int) -> dict[int, list[int]]:
    rng = np.random.default_rng(seed)
    return {
        v: rng.choice(np.setdiff1d(np.arange(n), [v]), rng.integers(0, longest + 1), replace=False).tolist()
        for v in range(n)
    }


def undirected(edges) -> dict[int, list[int]]:
    lists: dict[int, set[int]] = {}
    for a, b in edges:
        lists.setdefault(a, set()).add(b)
        lists.setdefault(b, set()).add(a)
    return {v: sorted(members) for v, members in lists.items()}


SHAPES = {
    "star-out": (40, {0: list(range(1, 40))}),
    "star-in": (40, {v: [0] for v in range(1, 40)}),
    "star": (40, undirected((0, v) for v in range(1, 40))),
    "hubs": (40, undirected((h, v) for h in range(3) for v in range(3, 40))),
    "path": (40, undirected((v, v + 1) for v in range(39))),
    "directed-path": (40, {v: [v + 1] for v in range(39)}),
    "fan": (40, {0: list(range(20, 40))} | {v: [v + 19] for v in range(1, 21)}),
    "complete": (12, {v: [u for u in range(12) if u != v] for v in range(12)}),
    "random": (40, random_lists(0, 40, 8)),
}


@given(GRAPHS, st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2**64 - 1), st.data())
@settings(max_examples=300, deadline=None)
def test_one_null_record_changes_at_most_r_roots(graph_of, tree, lists, k, d, hops, key, data):
    roots = sorted(data.draw(st.sets(st.integers(0, N - 1), min_size=1)))
    node = data.draw(st.sampled_from(range(N)))
    before = graph_of(N, lists, roots)
    after = graph_of(N, lists | {node: []}, roots)
    a, b = (stable_edge_lists(g, np.array(roots), k, d, key) for g in (before, after))
    bound = occurrence_bound(k, hops) + (d * occurrence_bound(k, hops - 1) if hops else 0)
    assert changed_roots(tree, a, b, roots, node, hops) <= bound


@given(GRAPHS, st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2**64 - 1), st.data())
@settings(max_examples=300, deadline=None)
def test_one_removed_node_changes_at_most_r_roots_when_lists_are_short(graph_of, tree, lists, k, d, hops, key, data):
    lists = {v: members[:d] for v, members in lists.items()}
    node = data.draw(st.sampled_from(range(N)))
    roots = list(range(N))
    rest = {v: [u for u in members if u != node] for v, members in lists.items() if v != node}
    left = [v for v in roots if v != node]
    a = stable_edge_lists(graph_of(N, lists, roots), np.array(roots), k, d, key)
    b = stable_edge_lists(graph_of(N, rest, left), np.array(left), k, d, key)
    bound = occurrence_bound(k, hops) + (d * occurrence_bound(k, hops - 1) if hops else 0)
    assert 1 + changed_roots(tree, a, b, left, node, hops) <= bound


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("k", "d", "hops"), [(1, 1, 1), (2, 3, 1), (3, 2, 1), (1, 1, 2), (2, 2, 2)])
def test_stability_on_named_shapes(graph_of, tree, shape, k, d, hops):
    """Each node in turn becomes null, under three keys."""
    n, lists = SHAPES[shape]
    bound = occurrence_bound(k, hops) + d * occurrence_bound(k, hops - 1)
    roots = np.arange(n)
    graph = graph_of(n, lists)
    for key in (0, 1, 2**40 + 7):
        before = stable_edge_lists(graph, roots, k, d, key)
        for node in range(0, n, 3):
            after = stable_edge_lists(graph_of(n, lists | {node: []}), roots, k, d, key)
            assert changed_roots(tree, before, after, roots, node, hops) <= bound


def test_stability_bound_is_reached(graph_of, tree):
    """K = D = 1, r = 1, R = 3: the null record itself, a root that listed it, and a root that gets its place."""
    lists = {0: [1], 2: [1], 3: [0], 4: [1], 5: [0]}
    worst = 0
    for key in range(20):
        a = stable_edge_lists(graph_of(6, lists), np.arange(6), 1, 1, key)
        b = stable_edge_lists(graph_of(6, lists | {0: []}), np.arange(6), 1, 1, key)
        worst = max(worst, changed_roots(tree, a, b, range(6), 0, 1))
    assert worst == 3


@given(GRAPHS, st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_stable_lists_equal_a_loop_over_nodes(graph_of, lists, k, d, key):
    """Propose and accept written out, with priorities computed one pair at a time."""

    def smallest(group, elements, limit, purpose):
        return sorted(
            elements,
            key=lambda e: int(edge_lists._priorities(np.array([group]), np.array([e]), key, purpose)[0]),
        )[:limit]

    proposals = {v: smallest(v, members, d, edge_lists.PROPOSE) for v, members in lists.items()}
    accepted: dict[int, list[int]] = {v: [] for v in range(N)}
    for u in range(N):
        for v in smallest(u, [v for v, p in proposals.items() if u in p], k, edge_lists.ACCEPT):
            accepted[v].append(u)
    result = stable_edge_lists(graph_of(N, lists), np.arange(N), k, d, key)
    assert {v: result.members(v).tolist() for v in range(N)} == accepted


@given(GRAPHS, st.integers(1, 3), st.integers(0, 2), st.integers(0, 2**32), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_node_occurs_in_few_trees(graph_of, tree, lists, k, hops, key, stable):
    """Lemma 1 of Daigavane et al.; both samplers keep it."""
    roots = np.arange(0, N, 2)
    graph = graph_of(N, lists, roots)
    if stable:
        result = stable_edge_lists(graph, roots, k, 3, key)
    else:
        result = sample_edge_lists(graph, roots, k, np.random.default_rng(key))
    assert result.occurrences().max() <= k
    held = [nodes_of(tree(result, int(v), hops)) for v in roots]
    assert all(sum(u in nodes for nodes in held) <= occurrence_bound(k, hops) for u in range(N))


@given(GRAPHS, st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_lists_are_parts_of_the_roots_own_lists(graph_of, lists, key):
    roots = np.arange(1, N, 2)
    graph = graph_of(N, lists, roots)
    full = full_edge_lists(graph, roots)
    for result in (
        full,
        sample_edge_lists(graph, roots, 2, np.random.default_rng(key)),
        stable_edge_lists(graph, roots, 2, 2, key),
    ):
        for v in range(N):
            assert set(result.members(v)) <= (set(lists.get(v, ())) if v % 2 else set())
            assert np.all(np.diff(result.members(v)) > 0)
    assert all(full.members(int(v)).tolist() == lists.get(int(v), []) for v in roots)
    generous = stable_edge_lists(graph, roots, N, N, key)
    assert np.array_equal(generous.idx, full.idx)


def test_algorithm_1_is_not_stable_but_the_stable_sampler_is(graph_of):
    """K = 2, roots w_i -> u_i, and one node that points to all u_i: it changes about n / 2 roots that do not hold it.

    Without it every u_i is in one list and kept with probability 1, with it in two and kept with probability 1/2.
    """
    n, k = 1000, 2
    w, u, node = np.arange(n), np.arange(n, 2 * n), 2 * n
    without = {int(i): [int(i) + n] for i in w}
    roots = np.append(w, node)
    graphs = [graph_of(2 * n + 1, lists, roots) for lists in (without, without | {node: u.tolist()})]
    published = [sample_edge_lists(g, roots, k, np.random.default_rng(1)) for g in graphs]
    lengths = [np.diff(lists.ptr)[:n] for lists in published]
    assert np.all(lengths[0] == 1)
    changed = int((lengths[0] != lengths[1]).sum())
    assert abs(changed - n / 2) < 5 * np.sqrt(n / 4)
    assert not any(node in lists.idx for lists in published)  # no list holds it: no tree but its own does
    stable = [np.diff(stable_edge_lists(g, roots, k, 3, 1).ptr)[:n] for g in graphs]
    assert (stable[0] != stable[1]).sum() <= 3


def test_algorithm_1_keeps_entries_with_its_probability_and_drops_crowded_nodes(graph_of):
    """20 roots list 20,000 nodes: Bin(20, K / 40) entries stay, none if more than K."""
    roots, targets, k = 20, 20_000, 4
    lists = dict.fromkeys(range(roots), range(roots, roots + targets))
    graph = graph_of(roots + targets, lists, range(roots))
    result = sample_edge_lists(graph, np.arange(roots), k, np.random.default_rng(0))
    seen = np.bincount(result.occurrences()[roots:], minlength=k + 1)
    expected = stats.binom.pmf(np.arange(k + 1), roots, k / (2 * roots))
    expected[0] += stats.binom.sf(k, roots, k / (2 * roots))
    assert len(seen) == k + 1
    assert stats.chisquare(seen, targets * expected).pvalue > 1e-4


def test_entries_of_rarely_listed_nodes_all_stay_in_algorithm_1(graph_of):
    """K / (2 |RE|) above 1 means probability 1; a node that no root lists needs no special case."""
    lists = random_lists(1, 30, 2)
    graph = graph_of(30, lists)
    result = sample_edge_lists(graph, np.arange(30), 60, np.random.default_rng(0))
    assert np.array_equal(result.idx, full_edge_lists(graph, np.arange(30)).idx)


def test_priorities_are_permutations_that_differ_between_groups_purposes_and_keys():
    elements = np.arange(50_000)
    draws = [
        edge_lists._priorities(np.full(len(elements), group), elements, key, purpose)
        for group, key, purpose in [(5, 1, 1), (6, 1, 1), (5, 2, 1), (5, 1, 2), (5, 2**64 - 1, 1)]
    ]
    for draw in draws:
        assert len(np.unique(draw)) == len(elements)
        assert stats.kstest(draw / 2**32, "uniform").pvalue > 1e-4
    correlations = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlations).max() < 5 / np.sqrt(len(elements))


def test_choice_within_a_list_is_uniform(graph_of):
    """1,000 owners of the same list of 20: each member is proposed about 250 times."""
    owners, members, d = 1000, 20, 5
    lists = dict.fromkeys(range(members, members + owners), range(members))
    graph = graph_of(members + owners, lists)
    result = stable_edge_lists(graph, np.arange(members + owners), owners, d, 12345)
    assert stats.chisquare(result.occurrences()[:members]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: stable_edge_lists(g, np.arange(3), 0, 1, 0), "max_degree=0: expected an integer >= 1"),
        (lambda g: stable_edge_lists(g, np.arange(3), 1, 0, 0), "list_cap=0: expected an integer >= 1"),
        (
            lambda g: sample_edge_lists(g, np.arange(3), 0, np.random.default_rng(0)),
            "max_degree=0: expected an integer >= 1",
        ),
        (lambda g: full_edge_lists(g, np.array([1, 1])), "roots=[1, 1]...: expected ascending ids without repeats"),
        (lambda g: full_edge_lists(g, np.array([1, 9])), "roots=1..9: expected ids in 0..3"),
    ],
)
def test_user_mistakes(graph_of, call, message):
    with pytest.raises(UserError) as error:
        call(graph_of(4, {0: [1]}))
    assert str(error.value) == message
