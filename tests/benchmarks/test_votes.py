"""The benchmark of votes over a stream: what it counts and extrapolates, not what it measures."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from dpgraph.benchmarks import votes
from dpgraph.benchmarks.votes import CLASSES, COLUMNS, FLOOR, MASS, MEAN_LIST, bench, stream
from dpgraph.errors import UserError
from dpgraph.methods.votes.ballots import Ballots
from dpgraph.methods.votes.stream import one_pass, ranges


def test_it_counts_what_workers_send_and_extrapolates(tmp_path):
    rows = bench(tmp_path / "votes.csv", edges=(2_000, 20_000, 500_000), target=5_000_000, workers=(1, 3))
    with (tmp_path / "votes.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [tuple(row) for row in written] == [COLUMNS] * 6
    assert [row["kind"] for row in written] == ["measured"] * 4 + ["extrapolated"] * 2
    assert (tmp_path / "votes.png").stat().st_size > 10_000
    three, extrapolated = rows[3], rows[5]
    num_nodes = 500_000 // MEAN_LIST
    kept = ranges(num_nodes, 3, CLASSES)
    shards = ((index % 3, shard) for index, shard in enumerate(stream(500_000)))
    sent = one_pass(shards, kept, num_nodes=num_nodes, degree_floor=FLOOR, mass=MASS)
    assert (three["messages"], three["buckets_sent"]) == (sent.messages, sent.buckets)
    assert extrapolated["messages"] == 10 * three["messages"]
    more = (5_000_000 // MEAN_LIST - num_nodes) * (CLASSES + 1) * 8 / 3 / 2**30  # the shard is as large as before
    assert extrapolated["gib_per_worker"] == pytest.approx(three["gib_per_worker"] + more)
    assert rows[2]["messages"] == 0
    expected = rows[4]["cpu_seconds_per_worker"] / 3
    assert extrapolated["cpu_seconds_per_worker"] == pytest.approx(expected)


def test_the_stream_is_one_graph_however_it_is_cut():
    """The shards of a stream hold every node once, and their buckets are those of the whole graph."""
    shards = list(stream(30_000, 7_000))
    size = 30_000 // MEAN_LIST
    assert np.array_equal(np.concatenate([shard.nodes for shard in shards]), np.arange(size))
    kept = ranges(size, 2, CLASSES)
    one_pass(((0, shard) for shard in shards), kept, num_nodes=size, degree_floor=FLOOR, mass=MASS)
    lengths = np.concatenate([np.diff(shard.ptr) for shard in shards])
    ptr, idx = np.append(0, np.cumsum(lengths)), np.concatenate([shard.idx for shard in shards])
    ballots = Ballots.of(ptr, idx, np.ones(size, dtype=bool), FLOOR)
    labels, shares = (np.concatenate([getattr(s, name) for s in shards]) for name in ("labels", "probabilities"))
    expected = ballots.buckets(ballots.ballots(labels, shares, MASS))
    assert np.array_equal(np.concatenate([own.buckets() for own in kept]), expected)


def test_a_fit_needs_two_streams(tmp_path):
    with pytest.raises(UserError, match="edges"):
        bench(tmp_path / "votes.csv", edges=(2_000,))
    assert votes.TARGET == 10**9
