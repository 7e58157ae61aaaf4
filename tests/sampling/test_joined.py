"""A joined batch says of each seed what the batch of that seed says."""

import numpy as np
import pytest

from dpgraph.sampling.edge_lists import stable_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.sampling.joined import joined_chunks


@pytest.fixture(scope="module")
def graph(graph_of):
    """40 nodes, of which 36 are roots; node 0 has a list of 30, others 0 to 6."""
    rng = np.random.default_rng(1)
    lists = {
        v: rng.choice(np.setdiff1d(np.arange(40), [v]), 30 if v == 0 else rng.integers(7), False) for v in range(40)
    }
    return graph_of(40, {v: list(map(int, members)) for v, members in lists.items()}, range(36))


def trees_of(graph, hops, seed, chunk_rows):
    roots = graph.train_nodes
    return pack_ego_trees(stable_edge_lists(graph, roots, 4, 4, key=seed), roots, hops, chunk_rows=chunk_rows)


def nested(batch, begin, end):
    """What the roots begin..end read, as ids: lists of lists, whatever the rows are called."""

    def ids(level, row):
        if level == len(batch.hops):
            return int(batch.nodes[row])
        hop = batch.hops[level]
        entries = range(int(hop.ptr[row]), int(hop.ptr[row + 1]))
        return [ids(level + 1, e if hop.columns is None else int(hop.columns[e])) for e in entries]

    return [(int(batch.roots[v]), int(batch.nodes[batch.own[v]]), ids(0, v)) for v in range(begin, end)]


@pytest.mark.parametrize("hops", [0, 1, 2])
@pytest.mark.parametrize("chunk_rows", [1, 40, 10_000])
def test_every_tree_is_there_once_and_reads_what_it_reads_alone(graph, hops, chunk_rows):
    trees = [trees_of(graph, hops, seed, chunk_rows) for seed in range(3)]
    rng = np.random.default_rng(0)
    positions = [rng.choice(trees[0].num_roots, size, replace=False) for size in (9, 0, 30)]
    joined_trees = {seed: [] for seed in range(3)}
    for joined in joined_chunks(trees, positions):
        assert [len(sizes) for sizes in joined.batch.sizes] == [joined.batch.num_roots] * (hops + 1)
        for level, hop in enumerate(joined.batch.hops):
            assert len(hop.ptr) - 1 == joined.batch.sizes[level].sum()
        for at, seed in enumerate(joined.seeds):
            joined_trees[seed] += nested(joined.batch, *joined.bounds[at : at + 2])
    for seed, (one, drawn) in enumerate(zip(trees, positions, strict=True)):
        alone = [tree for batch in one.chunks(drawn) for tree in nested(batch, 0, batch.num_roots)]
        assert sorted(map(str, joined_trees[seed])) == sorted(map(str, alone))
    assert not joined_trees[1]


def test_pieces_share_the_memory_of_one(graph):
    trees = [trees_of(graph, 1, seed, 60) for seed in range(3)]
    positions = [np.arange(trees[0].num_roots)] * 3
    rows = [int(joined.batch.sizes[-1].sum()) for joined in joined_chunks(trees, positions)]
    largest = max(int(one.tree_sizes.max()) for one in trees)
    assert len(rows) > 1
    assert max(rows) <= 3 * (20 + largest)
