"""Buckets from a stream of shards are those of the whole graph, bit for bit, however records are cut and merged."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.errors import UserError
from dpgraph.methods.votes.ballots import Ballots
from dpgraph.methods.votes.stream import PartialBuckets, RecordShard, one_pass, ranges

CLASSES, MASS, FLOOR = 3, 0.7, 2
HOW = {"degree_floor": FLOOR, "mass": MASS}


@st.composite
def graphs(draw):
    """Lists with repeats, own ids and ids out of range; probabilities that are none; nodes without a record."""
    size = draw(st.integers(1, 9))
    lists = [draw(st.lists(st.integers(-1, size), max_size=7)) for _ in range(size)]
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    probabilities = generator.normal(size=(size, CLASSES)) ** 3
    probabilities[generator.random(size) < 0.2] = np.nan
    labels = generator.integers(-1, CLASSES, size)
    return lists, generator.random(size) < 0.8, labels, probabilities


def shard_of(graph, nodes):
    lists, votes, labels, probabilities = graph
    nodes = np.array(nodes, dtype=np.int64)
    ptr = np.concatenate([[0], np.cumsum([len(lists[v]) for v in nodes])]).astype(np.int64)
    idx = np.array([u for v in nodes for u in lists[v]], dtype=np.int64)
    return RecordShard(nodes, ptr, idx, votes[nodes], labels[nodes], probabilities[nodes])


def whole(graph):
    lists, votes, labels, probabilities = graph
    shard = shard_of(graph, range(len(lists)))
    ballots = Ballots.of(shard.ptr, shard.idx, votes, FLOOR)
    return ballots.buckets(ballots.ballots(labels, probabilities, MASS))


@given(graphs(), st.data())
def test_one_pass_over_shards_is_the_whole_graph(graph, data):
    size = len(graph[0])
    order = data.draw(st.permutations(range(size)))
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    workers = data.draw(st.integers(1, size))
    kept = ranges(size, workers, CLASSES)
    stream = ((index % workers, shard_of(graph, nodes)) for index, nodes in enumerate(parts))
    sent = one_pass(stream, kept, num_nodes=size, **HOW)
    assert np.array_equal(np.concatenate([own.buckets() for own in kept]), whole(graph))
    assert sent.bytes == 8 * (2 + CLASSES) * sent.buckets
    assert workers > 1 or not sent.messages


@given(graphs(), st.data())
def test_partial_buckets_merge_in_any_order_and_grouping(graph, data):
    size = len(graph[0])
    parts = [PartialBuckets.of(shard_of(graph, [v]), num_nodes=size, **HOW) for v in range(size)]
    order = data.draw(st.permutations(parts))
    cut = data.draw(st.integers(0, size))
    empty = PartialBuckets.empty(CLASSES)
    left, right = (reduce(PartialBuckets.merged, some, empty) for some in (order[:cut], order[cut:]))
    result, other = left.merged(right), reduce(PartialBuckets.merged, reversed(parts), empty)
    for a, b in ((result.ids, other.ids), (result.sums, other.sums), (result.ids, np.arange(size))):
        assert np.array_equal(a, b)
    assert np.array_equal(result.sums / 2.0**30, whole(graph))


def test_a_worker_keeps_its_own_range_only():
    part = PartialBuckets(np.array([3, 5]), np.ones((2, CLASSES + 1), dtype=np.int64))
    first, second = ranges(8, 2, CLASSES)
    second.add(part.between(4, 8))
    assert second.sums.sum() == CLASSES + 1
    with pytest.raises(UserError, match=r"bucket=3\.\.5: expected ids from 4 to 7"):
        second.add(part)
    assert first.sums.sum() == 0
    with pytest.raises(UserError, match="workers"):
        ranges(8, 0, CLASSES)
