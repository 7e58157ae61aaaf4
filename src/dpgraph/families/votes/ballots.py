"""Votes and buckets: the weight of each vote, the sums that are released, and what a node reads of them.

A node's list is part of its record. Every row of the arrays here belongs to one record; only the sums of `buckets` mix
records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import invalid
from dpgraph.families.votes.mechanism import NOISE_READERS, READERS, BucketReader

GRID = 2.0**30  # votes are rounded towards zero to multiples of 1 / GRID: norms never grow, and float64 sums are exact
PIECE = 1 << 14
SMALLEST = 1e-3  # is added to a probability before its logarithm is taken


@dataclass(frozen=True)
class Ballots:
    """Lists as sets of other nodes' ids, and the nodes that vote."""

    readers: ClassVar[tuple[BucketReader, ...]] = READERS  # that a choice is made among

    lists: sp.csr_matrix  # (N, N) 1 where the owner's list names the node
    votes: np.ndarray  # (N,) bool: nodes with a record
    degree_floor: int

    @classmethod
    def from_lists(cls, ptr: np.ndarray, idx: np.ndarray, votes: np.ndarray, degree_floor: int) -> Ballots:
        """Return ballots from lists by owner, without duplicates, the owner's own id and ids out of range.

        Leaving an id out depends on one record alone and is no release. An error would be one.

        Args:
            ptr: (N + 1,) start of each owner's list in `idx`.
            idx: ids, in any order.
            votes: (N,) bool: nodes that vote.
            degree_floor: m, the smallest d + 1 that weights are made of.
        """
        size = len(votes)
        owners = np.repeat(np.arange(size, dtype=np.int32), np.diff(np.asarray(ptr)))
        members = np.asarray(idx)
        good = (members >= 0) & (members < size) & (members != owners)
        if not good.all():
            owners, members = owners[good], members[good]
        ascending = np.ones(len(members), dtype=bool)
        ascending[1:] = (members[1:] > members[:-1]) | (owners[1:] > owners[:-1])
        if not ascending.all():
            keys = np.unique(owners.astype(np.int64) * size + members)
            owners, members = keys // size, keys % size
        clean = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))])
        lists = sp.csr_matrix((np.ones(len(members), dtype=np.float64), members, clean), shape=(size, size))
        return cls(lists, np.asarray(votes, dtype=bool), degree_floor)

    @cached_property
    def degrees(self) -> np.ndarray:
        """(N,) d: number of other ids in each list."""
        return np.diff(self.lists.indptr)

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) weight 1 / sqrt(max(d + 1, m)) of a vote; a node votes into d + 1 buckets."""
        return np.asarray(1 / np.sqrt(np.maximum(self.degrees + 1, self.degree_floor)))

    def ballots(self, labels: np.ndarray, probabilities: np.ndarray, mass: float) -> np.ndarray:
        """Return the weighted vote of every node.

        Vectors that are no probabilities are made some: numbers that are not finite or negative count 0, and if none is
        left all classes count alike. So the norm is at most B times the weight.

        Args:
            labels: (N,) label that votes; -1: the prediction votes.
            probabilities: (N, C) predictions.
            mass: a, which counts voters.

        Returns:
            (N, C + 1): (label or prediction - 1 / C, a) times the weight; zero for a node without a record.
        """
        size = probabilities.shape[1]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            shares = np.where(np.isfinite(probabilities) & (probabilities > 0), probabilities, 0.0).astype(np.float64)
            shares /= shares.max(axis=1, keepdims=True, initial=0)
            shares /= shares.sum(axis=1, keepdims=True)
        shares[~np.isfinite(shares).all(axis=1)] = 1 / size
        labelled = np.flatnonzero((labels >= 0) & (labels < size))
        shares[labelled] = 0
        shares[labelled, labels[labelled]] = 1
        votes = np.empty((len(shares), size + 1))
        np.subtract(shares, 1 / size, out=votes[:, :-1])
        votes[:, -1] = mass
        votes *= (self.votes * self.weights)[:, None]
        votes *= GRID
        np.trunc(votes, out=votes)
        votes /= GRID
        return votes

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        """Return (N, C + 1): for each node, the sum of its own ballot and of all ballots whose owners list it."""
        result = np.asarray(self.lists.T @ ballots)
        result += ballots
        return result

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """Return what each node reads: the shrunk buckets of its list and its own, less its own share in them.

        Args:
            released: (N, C + 1) noisy buckets.
            ballots: (N, C + 1) ballots that were cast; zero for a node that never voted.
            mass: a, which counts voters.
            std: Noise std of each number of a bucket.
            shrinkage: kappa.

        Returns:
            (N, C)
        """
        trust = bucket_trust(released, mass, std, shrinkage)
        return read_around(self.lists, released, trust, ballots, self.lists @ trust + trust)

    def scores(self, probabilities: np.ndarray, read: np.ndarray, reader: BucketReader) -> np.ndarray:
        """Return (N, C) scores from each node's own probabilities (N, C) and its reading (N, C)."""
        return scores_of(probabilities, read, reader.strength / np.sqrt(self.degrees + 1.0))


@dataclass(frozen=True)
class OneHopBallots(Ballots):
    """Votes as in `Ballots`; a node reads its own bucket alone, which holds what its neighbours say."""

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """Return (N, C) the mean vote in each node's own bucket, shrunk by its mass, less the node's own share."""
        trust = bucket_trust(released, mass, std, shrinkage)
        return np.asarray((released[:, :-1] - ballots[:, :-1]) * trust[:, None])

    def scores(self, probabilities: np.ndarray, read: np.ndarray, reader: BucketReader) -> np.ndarray:
        """Return (N, C) scores from each node's own probabilities (N, C) and its reading (N, C)."""
        return scores_of(probabilities, read, np.full(len(read), reader.strength))


def mutual_lists(plain: Ballots, degree_bound: int) -> sp.csr_matrix:
    """Return (N, N) the edges that are in both ends' lists, so that a node that leaves takes all of them along.

    Raises:
        UserError: A list is longer than `degree_bound`. Show the message to the holder of the data alone: it tells of
            a record.
    """
    mutual = plain.lists.multiply(plain.lists.T).tocsr()
    longest = int(np.diff(mutual.indptr).max(initial=0))
    if longest > degree_bound:
        raise invalid("degree_bound", degree_bound, f"at least {longest}, or no guarantee under node-remove")
    return mutual


@dataclass(frozen=True)
class CappedBallots(OneHopBallots):
    """Votes of training nodes to all others, one way, with weights capped by noisy degrees (Theorem 15).

    `lists` holds the rows of voters and the columns of receivers: d counts a voter's receivers. The public split says
    which node is which.
    """

    readers: ClassVar[tuple[BucketReader, ...]] = NOISE_READERS

    reads: np.ndarray | None = None  # (N,) bool: receivers that are no hubs
    caps: np.ndarray | None = None  # (N,) K of each voter

    @classmethod
    def one_way(cls, plain: Ballots, degree_bound: int, voters: np.ndarray) -> CappedBallots:
        """Return ballots over mutual edges that lead from `voters` (N,) bool to the other nodes.

        Raises:
            UserError: As `mutual_lists`.
        """
        sends, receives = (sp.diags(side.astype(np.float64)) for side in (voters, ~voters))
        lists = without_zeros(sends @ mutual_lists(plain, degree_bound) @ receives)
        return cls(lists, plain.votes, plain.degree_floor, reads=~voters)

    @property
    def received(self) -> np.ndarray:
        """(N,) number of voters whose votes a node receives."""
        return np.bincount(self.lists.indices, minlength=len(self.votes))

    def without_hubs(self, noisy: np.ndarray, limit: float) -> CappedBallots:
        """Return ballots without receivers whose noisy number of voters (N,) exceeds H = `limit`.

        They receive no votes and count in no degree.
        """
        stays = noisy <= limit
        reads = stays if self.reads is None else self.reads & stays
        return replace(self, lists=without_zeros(self.lists @ sp.diags(stays.astype(np.float64))), reads=reads)

    def capped(self, noisy: np.ndarray, margin: float, std: float) -> CappedBallots:
        """Return ballots with the caps K = max(noisy degree + 1 + z sigma, m).

        Args:
            noisy: (N,) noisy degrees.
            margin: z.
            std: sigma.
        """
        return replace(self, caps=np.maximum(noisy + 1 + margin * std, self.degree_floor))

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) weight 1 / sqrt(max(d, K)) of a vote."""
        if self.caps is None:
            raise TypeError("votes have no weights before there are caps")
        return np.asarray(1 / np.sqrt(np.maximum(self.degrees, self.caps)))

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        """Return (N, C + 1): for each node, the sum of all ballots whose owners list it; none is its own."""
        return np.asarray(self.lists.T @ ballots)

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """Return (N, C) each receiver's own bucket in units of its noise; zero for voters and hubs.

        Noise of one std in all buckets needs neither the mass nor `shrinkage`.
        """
        reads = np.ones(len(self.votes), dtype=bool) if self.reads is None else self.reads
        return np.asarray(released[:, :-1] * (reads / std)[:, None])


def bucket_trust(released: np.ndarray, mass: float, std: float, shrinkage: float, one_vote: float = 1.0) -> np.ndarray:
    """Return (N,) the weight w = m / (m^2 + (kappa std)^2) of each bucket.

    m is its noisy mass, or that of one vote if that is larger.
    """
    voters = np.maximum(released[:, -1] / mass, one_vote)
    return np.asarray(voters / (voters**2 + (shrinkage * std) ** 2))


def read_around(
    lists: sp.csr_matrix, released: np.ndarray, trust: np.ndarray, ballots: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """Return (N, C) the trusted buckets of each node's list and its own, less its own ballot.

    Args:
        lists: (N, N) 1 where the owner lists the node.
        released: (N, C + 1) noisy buckets.
        trust: (N,) weight of each bucket.
        ballots: (N, C + 1) ballots that were cast.
        own: (N,) trust of all buckets that a node voted into.
    """
    trusted = released[:, :-1] * trust[:, None]
    result = np.asarray(lists @ trusted)
    result += trusted
    for rows in pieces(len(result), PIECE):
        result[rows] -= ballots[rows, :-1] * own[rows, None]
    return result


def scores_of(probabilities: np.ndarray, read: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return (N, C) logarithms of the probabilities (N, C) plus each node's factor (N,) times its reading (N, C)."""
    result = probabilities + SMALLEST
    np.log(result, out=result)
    for rows in pieces(len(result), PIECE):
        result[rows] += factors[rows, None] * read[rows]
    return np.asarray(result)


def pieces(count: int, most: int) -> Iterator[slice]:
    """Return slices of at most `most` rows, so that no array of all of them is made besides the result."""
    return (slice(start, start + most) for start in range(0, count, most))


def without_zeros(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return the matrix without stored zeros, its indices sorted."""
    result = matrix.tocsr()
    result.eliminate_zeros()
    result.sort_indices()
    return result
