"""Votes and buckets: who votes where with what weight, what is released, and what a node reads of it.

The list of a node is part of its record. Every row of the arrays here belongs to one record; nothing but the noisy sum
of `release` mixes records.
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
SMALLEST = 1e-3  # of a probability, before its logarithm is taken


@dataclass(frozen=True)
class Ballots:
    """Lists as sets of others' ids, and which nodes vote."""

    readers: ClassVar[tuple[BucketReader, ...]] = READERS  # of a choice

    lists: sp.csr_matrix  # (N, N) 1 where the owner's list names the node
    votes: np.ndarray  # (N,) bool: nodes with a record
    degree_floor: int

    @classmethod
    def from_lists(cls, ptr: np.ndarray, idx: np.ndarray, votes: np.ndarray, degree_floor: int) -> Ballots:
        """From lists by owner, ids in any order: duplicates, the owner's own id and ids out of range are left out.

        Each is a function of one record, so leaving them out is no release; an error would be one.
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
        """(N,) d: ids in a list, the owner left out."""
        return np.diff(self.lists.indptr)

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) g = 1 / sqrt(max(d + 1, m)): a node votes into d + 1 buckets."""
        return np.asarray(1 / np.sqrt(np.maximum(self.degrees + 1, self.degree_floor)))

    def ballots(self, labels: np.ndarray, probabilities: np.ndarray, mass: float) -> np.ndarray:
        """(N, C + 1) V of every node: its label in `labels` (N,), else its probabilities (N, C), less 1 / C, and the
        mass; times its weight.

        Zero for a node without a record. What is no probability vector is made one: numbers that are not finite, or
        negative, count 0, and without any left all classes count alike. The norm is at most B times the weight.
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
        """(N, C + 1): to each node, the ballots of all whose lists name it, and its own."""
        result = np.asarray(self.lists.T @ ballots)
        result += ballots
        return result

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """(N, C) what each node reads: the buckets of its own list and its own, shrunk, less its own share in them.

        `std` is that of the noise on each number of a bucket. A node that never voted has no share.
        """
        trust = bucket_trust(released, mass, std, shrinkage)
        return read_around(self.lists, released, trust, ballots, self.lists @ trust + trust)

    def scores(self, probabilities: np.ndarray, read: np.ndarray, reader: BucketReader) -> np.ndarray:
        """(N, C) from each node's own probabilities and what it read."""
        return scores_of(probabilities, read, reader.strength / np.sqrt(self.degrees + 1.0))


@dataclass(frozen=True)
class OneHopBallots(Ballots):
    """Votes as in `Ballots`, of which a node reads those in its own bucket alone: what its neighbours say."""

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """(N, C) the mean vote in each node's own bucket, shrunk by its mass, less the node's own share in it."""
        trust = bucket_trust(released, mass, std, shrinkage)
        return np.asarray((released[:, :-1] - ballots[:, :-1]) * trust[:, None])

    def scores(self, probabilities: np.ndarray, read: np.ndarray, reader: BucketReader) -> np.ndarray:
        return scores_of(probabilities, read, np.full(len(read), reader.strength))


@dataclass(frozen=True)
class BoundedBallots(OneHopBallots):
    """Votes under a public degree bound D: nobody votes for itself, and a node reads its own bucket alone.

    d counts edges that are in both ends' lists: a node that leaves with all its edges then changes as many weights as
    it has votes. All that concerns single ballots is as in `Ballots`.
    """

    degree_bound: int = 1
    taper: float = 0.0

    @classmethod
    def under(cls, plain: Ballots, degree_bound: int, taper: float) -> BoundedBallots:
        """Over edges that are in both ends' lists. Raises UserError where a list breaks the schema of the guarantee.

        The message is for the holder of the data alone: that a schema is broken tells of a record.
        """
        mutual = plain.lists.multiply(plain.lists.T).tocsr()
        longest = int(np.diff(mutual.indptr).max(initial=0))
        if longest > degree_bound:
            raise invalid("degree_bound", degree_bound, f"at least {longest}, or no guarantee under node-remove")
        return cls(mutual, plain.votes, plain.degree_floor, degree_bound, taper)

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) g = (1 + kappa (1 - 2 sqrt(d / D))) / sqrt(D)."""
        tapered = 1 + self.taper * (1 - 2 * np.sqrt(self.degrees / self.degree_bound))
        return np.asarray(tapered / np.sqrt(self.degree_bound))

    @property
    def one_vote(self) -> float:
        """What one vote weighs without a taper, public."""
        return float(1 / np.sqrt(self.degree_bound))

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        """(N, C + 1): to each node, the ballots of all whose lists name it."""
        return np.asarray(self.lists.T @ ballots)

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """(N, C) the mean vote in each node's own bucket, shrunk by its mass; no list and no degree is read."""
        return np.asarray(released[:, :-1] * bucket_trust(released, mass, std, shrinkage, self.one_vote)[:, None])


@dataclass(frozen=True)
class CappedBallots(BoundedBallots):
    """Votes of training nodes to all others, one way, with weights whose caps are from noisy degrees (Theorem R).

    `lists` holds voters' rows and receivers' columns only: d counts a voter's receivers. Which node is which is the
    split, public.
    """

    readers: ClassVar[tuple[BucketReader, ...]] = NOISE_READERS

    reads: np.ndarray | None = None  # (N,) bool: receivers that are no hubs
    caps: np.ndarray | None = None  # (N,) K of each voter

    @classmethod
    def one_way(cls, plain: Ballots, degree_bound: int, voters: np.ndarray) -> CappedBallots:
        """Edges that are in both ends' lists and lead from `voters` (N,) bool to others; raises as `under`."""
        bounded = cls.under(plain, degree_bound, 0.0)
        sends, receives = (sp.diags(side.astype(np.float64)) for side in (voters, ~voters))
        lists = without_zeros(sends @ bounded.lists @ receives)
        return cls(lists, bounded.votes, bounded.degree_floor, degree_bound, reads=~voters)

    @property
    def received(self) -> np.ndarray:
        """(N,) voters whose votes a node gets."""
        return np.bincount(self.lists.indices, minlength=len(self.votes))

    def without_hubs(self, noisy: np.ndarray, limit: float) -> CappedBallots:
        """Receivers whose noisy number of voters (N,) exceeds H receive nothing, and count for nobody."""
        stays = noisy <= limit
        reads = stays if self.reads is None else self.reads & stays
        return replace(self, lists=without_zeros(self.lists @ sp.diags(stays.astype(np.float64))), reads=reads)

    def capped(self, noisy: np.ndarray, margin: float, std: float) -> CappedBallots:
        """K = max(noisy degree + 1 + z sigma, m); `std` is sigma."""
        return replace(self, caps=np.maximum(noisy + 1 + margin * std, self.degree_floor))

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) 1 / sqrt(max(d, K))"""
        if self.caps is None:
            raise TypeError("votes have no weights before there are caps")
        return np.asarray(1 / np.sqrt(np.maximum(self.degrees, self.caps)))

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """(N, C) each receiver's own bucket in units of its noise; nothing for voters and hubs.

        That is what independent noise of one std asks for, so that neither the mass nor `shrinkage` is needed.
        """
        reads = np.ones(len(self.votes), dtype=bool) if self.reads is None else self.reads
        return np.asarray(released[:, :-1] * (reads / std)[:, None])


def bucket_trust(released: np.ndarray, mass: float, std: float, shrinkage: float, one_vote: float = 1.0) -> np.ndarray:
    """(N,) w = m / (m^2 + (kappa std)^2) of each bucket, m its noisy mass, at least that of one vote."""
    voters = np.maximum(released[:, -1] / mass, one_vote)
    return np.asarray(voters / (voters**2 + (shrinkage * std) ** 2))


def read_around(
    lists: sp.csr_matrix, released: np.ndarray, trust: np.ndarray, ballots: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """(N, C) buckets of each node's list (N, N) and its own, times their trust (N,), less its ballot times `own`
    (N,): the trust of those that it voted into."""
    trusted = released[:, :-1] * trust[:, None]
    result = np.asarray(lists @ trusted)
    result += trusted
    for rows in _pieces(len(result)):
        result[rows] -= ballots[rows, :-1] * own[rows, None]
    return result


def scores_of(probabilities: np.ndarray, read: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """(N, C) logarithms of the probabilities, plus what was read times each node's factor (N,)."""
    result = probabilities + SMALLEST
    np.log(result, out=result)
    for rows in _pieces(len(result)):
        result[rows] += factors[rows, None] * read[rows]
    return np.asarray(result)


def _pieces(count: int) -> Iterator[slice]:
    """Rows at a time: arrays of all nodes and classes are the largest of a run, and none is made beside the result."""
    return (slice(start, start + PIECE) for start in range(0, count, PIECE))


def without_zeros(matrix: sp.csr_matrix) -> sp.csr_matrix:
    result = matrix.tocsr()
    result.eliminate_zeros()
    result.sort_indices()
    return result
