"""Ballots that are read over two hops, for the view of strangers under node-remove (docs/privacy/votes.md#theorem-16).

Lists are the owners' own, whether or not the named nodes name the owner. So a record that becomes null changes no
weight, flag or reading of others: the guarantee towards neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import UserError, invalid
from dpgraph.families.votes.ballots import Ballots, CappedBallots, bucket_trust, read_around, scores_of, without_zeros
from dpgraph.families.votes.mechanism import BucketReader


@dataclass(frozen=True)
class BoundedStrangerBallots(Ballots):
    """Votes under a public degree bound D: no node votes for itself; it reads its own bucket and those of its list."""

    degree_bound: int = 1
    taper: float = 0.0

    @classmethod
    def over(cls, plain: Ballots, degree_bound: int, taper: float) -> BoundedStrangerBallots:
        """Return ballots over the owners' lists.

        With a taper, an edge in one list only is allowed if the other end has no list, as a null record. Otherwise a
        node that leaves could move more weights than it has votes.

        Raises:
            UserError: Lists break the schema of the guarantee. Show the message to the holder of the data alone.
        """
        check_bound(plain, degree_bound)
        if taper:
            one_way = (plain.lists - plain.lists.multiply(plain.lists.T)).tocoo()
            names = one_way.col[one_way.data != 0]
            if (plain.degrees[names] > 0).any():
                raise UserError("lists: expected every edge in both ends' lists, or no guarantee under node-remove")
        return cls(plain.lists, plain.votes, plain.degree_floor, degree_bound, taper)

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) weight (1 + kappa (1 - 2 sqrt(d / D))) / sqrt(D) of a vote."""
        tapered = 1 + self.taper * (1 - 2 * np.sqrt(self.degrees / self.degree_bound))
        return np.asarray(tapered / np.sqrt(self.degree_bound))

    def buckets(self, ballots: np.ndarray) -> np.ndarray:
        """Return (N, C + 1): for each node, the sum of all ballots whose owners list it; none is its own."""
        return np.asarray(self.lists.T @ ballots)

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """Return (N, C) the shrunk buckets of the own list and the own one, less the own share in the former."""
        trust = bucket_trust(released, mass, std, shrinkage, float(1 / np.sqrt(self.degree_bound)))  # without a taper
        return read_around(self.lists, released, trust, ballots, self.lists @ trust)


@dataclass(frozen=True)
class CappedStrangerBallots(CappedBallots):
    """`CappedBallots` by the owners' lists; a node reads its own bucket and those of its list.

    Voters and hubs have no bucket.
    """

    listed: sp.csr_matrix | None = None  # (N, N) the whole own lists

    @classmethod
    def one_way(cls, plain: Ballots, degree_bound: int, voters: np.ndarray) -> CappedStrangerBallots:
        """Return ballots over listed edges that lead from `voters` (N,) bool to the other nodes.

        Raises:
            UserError: Lists break the schema of the guarantee. Show the message to the holder of the data alone.
        """
        check_bound(plain, degree_bound)
        sends, receives = (sp.diags(side.astype(np.float64)) for side in (voters, ~voters))
        lists = without_zeros(sends @ plain.lists @ receives)
        return cls(lists, plain.votes, plain.degree_floor, reads=~voters, listed=plain.lists)

    def read(self, released: np.ndarray, ballots: np.ndarray, mass: float, std: float, shrinkage: float) -> np.ndarray:
        """Return (N, C) as `BoundedStrangerBallots`, over the buckets of receivers that are no hubs."""
        there, listed = self._there
        heaviest = float(1 / np.sqrt(self.degree_floor))
        trust = bucket_trust(released, mass, std, shrinkage, heaviest) * there
        return read_around(listed, released, trust, ballots, self.lists @ trust)

    def scores(self, probabilities: np.ndarray, read: np.ndarray, reader: BucketReader) -> np.ndarray:
        """Return (N, C) scores from each node's own probabilities (N, C) and its reading (N, C)."""
        there, listed = self._there
        return scores_of(probabilities, read, reader.strength / np.sqrt(listed @ there.astype(np.float64) + 1))

    @property
    def _there(self) -> tuple[np.ndarray, sp.csr_matrix]:
        """(N,) bool: nodes with a bucket; and (N, N) the owners' lists."""
        if self.reads is None or self.listed is None:
            raise TypeError("expected ballots made by `one_way`")
        return self.reads, self.listed


def check_bound(plain: Ballots, degree_bound: int) -> None:
    """Raise UserError if a list is longer than `degree_bound`, or if more lists name one node."""
    named = np.bincount(plain.lists.indices, minlength=len(plain.votes))
    longest = int(max(plain.degrees.max(initial=0), named.max(initial=0)))
    if longest > degree_bound:
        raise invalid("degree_bound", degree_bound, f"at least {longest}, or no guarantee under node-remove")
