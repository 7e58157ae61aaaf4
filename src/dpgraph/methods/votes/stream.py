"""Buckets of votes in one pass over a stream of records, for graphs that no machine holds.

A record is whole: a node's list, label and own predictions are in one shard, so that its degree, weight and ballot are
known where it is. What a shard adds to buckets is a partial sum. Votes are multiples of 1 / GRID and partial sums are
counted in that unit, in integers: they are merged in any order and any grouping to the same bits, those of
`Ballots.buckets` on the whole graph.

Noise and the choice of a reader come after the last merge, once; partial buckets are not released.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from dpgraph.errors import invalid
from dpgraph.methods.votes.ballots import GRID, Ballots


@dataclass(frozen=True)
class RecordShard:
    """Whole records of some nodes of a graph; every node is in one shard."""

    nodes: np.ndarray  # (n,) int64 ids
    ptr: np.ndarray  # (n + 1,) and
    idx: np.ndarray  # (e,) their lists, ids of the whole graph
    votes: np.ndarray  # (n,) bool: with a record
    labels: np.ndarray  # (n,) classes; -1: none that votes
    probabilities: np.ndarray  # (n, C) own predictions

    def ballots(self, num_nodes: int, degree_floor: int) -> Ballots:
        """Over lists as sets of others' ids, as `Ballots.of` makes them: a function of each record alone."""
        owners = np.repeat(np.arange(len(self.nodes)), np.diff(self.ptr))
        members = np.asarray(self.idx, dtype=np.int64)
        good = (members >= 0) & (members < num_nodes) & (members != self.nodes[owners])
        keys = np.sort(owners[good] * np.int64(num_nodes) + members[good])
        keys = keys[np.diff(keys, prepend=-1) > 0]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(keys // num_nodes, minlength=len(self.nodes)))])
        shape = (len(self.nodes), num_nodes)
        lists = sp.csr_matrix((np.ones(len(keys)), keys % num_nodes, ptr), shape=shape)
        return Ballots(lists, np.asarray(self.votes, dtype=bool), degree_floor)


@dataclass(frozen=True)
class PartialBuckets:
    """Sums over some records, of the buckets that they vote into. Merging is associative and commutative."""

    ids: np.ndarray  # (b,) int64, ascending
    sums: np.ndarray  # (b, C + 1) int64, in units of 1 / GRID

    @classmethod
    def empty(cls, classes: int) -> PartialBuckets:
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, classes + 1), dtype=np.int64))

    @classmethod
    def of(cls, shard: RecordShard, *, num_nodes: int, degree_floor: int, mass: float) -> PartialBuckets:
        """What the records of a shard add: each its ballot to the nodes that it lists, and to itself."""
        ballots = shard.ballots(num_nodes, degree_floor)
        cast = ballots.ballots(shard.labels, shard.probabilities, mass)
        units = np.rint(cast * GRID).astype(np.int64)  # exact: votes are on the grid
        lists = ballots.lists
        members = np.concatenate([lists.indices.astype(np.int64), shard.nodes])
        ids, places = np.unique(members, return_inverse=True)
        owners = np.concatenate([np.repeat(np.arange(len(shard.nodes)), np.diff(lists.indptr)), np.arange(len(units))])
        into = sp.csr_matrix((np.ones(len(members), dtype=np.int64), (places, owners)), shape=(len(ids), len(units)))
        return cls(ids, np.asarray(into @ units))

    def merged(self, other: PartialBuckets) -> PartialBuckets:
        """Of the records of both; no record may be in both."""
        ids = np.concatenate([self.ids, other.ids])
        order = np.argsort(ids, kind="stable")
        ids, sums = ids[order], np.concatenate([self.sums, other.sums])[order]
        first = np.flatnonzero(np.diff(ids, prepend=-1) > 0)
        return PartialBuckets(ids[first], np.add.reduceat(sums, first, axis=0) if len(first) else sums)

    def between(self, first: int, last: int) -> PartialBuckets:
        """Those of the ids `first` to `last` - 1: what is sent to the worker that keeps them."""
        part = slice(*np.searchsorted(self.ids, [first, last]))
        return PartialBuckets(self.ids[part], self.sums[part])

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + self.sums.nbytes)


@dataclass(frozen=True)
class BucketRange:
    """All buckets of the ids `first` to `first` + len(sums) - 1, which one worker keeps; nothing is sparse."""

    first: int
    sums: np.ndarray  # (n, C + 1) int64, in units of 1 / GRID

    def add(self, part: PartialBuckets) -> None:
        """In place. Raises UserError for an id of another range."""
        if len(part.ids) and not self.first <= part.ids[0] <= part.ids[-1] < self.first + len(self.sums):
            last = self.first + len(self.sums) - 1
            raise invalid("bucket", f"{part.ids[0]}..{part.ids[-1]}", f"ids from {self.first} to {last}")
        self.sums[part.ids - self.first] += part.sums  # ids are distinct

    def buckets(self) -> np.ndarray:
        """(n, C + 1) float64, as `Ballots.buckets` gives them; before noise."""
        return self.sums / GRID


def ranges(num_nodes: int, workers: int, classes: int) -> list[BucketRange]:
    """Empty buckets of all nodes, in as many ranges of about equal length."""
    if workers < 1:
        raise invalid("workers", workers, "an integer >= 1")
    cuts = [worker * num_nodes // workers for worker in range(workers + 1)]
    return [BucketRange(first, np.zeros((last - first, classes + 1), dtype=np.int64)) for first, last in pairwise(cuts)]


@dataclass(frozen=True)
class Sent:
    """What one pass sends between workers: parts of shards, the buckets in them, and their bytes."""

    messages: int = 0
    buckets: int = 0
    bytes: int = 0

    def and_part(self, part: PartialBuckets) -> Sent:
        return replace(
            self, messages=self.messages + 1, buckets=self.buckets + len(part.ids), bytes=self.bytes + part.nbytes
        )


def one_pass(
    shards: Iterable[tuple[int, RecordShard]],
    kept: list[BucketRange],
    *,
    num_nodes: int,
    degree_floor: int,
    mass: float,
) -> Sent:
    """Adds the votes of all `shards`, each with the worker that reads it, to the ranges; one shard is held at a time.

    Worker i keeps `kept[i]`; a part of a shard that another worker keeps counts as one message to it.
    """
    sent = Sent()
    for reader, shard in shards:
        part = PartialBuckets.of(shard, num_nodes=num_nodes, degree_floor=degree_floor, mass=mass)
        for keeper, own in enumerate(kept):
            some = part.between(own.first, own.first + len(own.sums))
            if len(some.ids):
                own.add(some)
                sent = sent if keeper == reader else sent.and_part(some)
    return sent
