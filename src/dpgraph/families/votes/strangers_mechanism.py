"""Votes under node-remove of which a node reads two hops: the view of strangers (docs/privacy.md, 12.11).

A stranger is everybody but the protected node and its neighbours: its record and list stay when that node leaves, so
that what it reads of released buckets is post-processing. Neighbours lose an id of their lists, and see their
predictions change without noise: towards them the same run is stated under node-null, in whose data sets they keep it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dpgraph.core.errors import invalid
from dpgraph.families.votes.accountant import capped_votes, private_votes
from dpgraph.families.votes.mechanism import BoundedVotes, CappedVotes, PoissonVotes
from dpgraph.families.votes.sensitivity import bounded_null_votes
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.relation import PredictionInput, Relation, Scope
from dpgraph.privacy.statements import Statement

TWO_HOPS = (
    "a node reads its own bucket and those of its own list, so that what neighbours of the protected node predict is "
    "not covered under this relation; no reader is chosen by data"
)
STRANGER_VOTES = replace(
    private_votes.statement, relation=Relation.NODE_REMOVE, scope=Scope.STRANGERS,
    assumptions=(
        "a public schema bounds every list, and the lists that name one node, by {D}; an edge is in both ends' lists, "
        "but where an end has no list, or where all votes weigh the same",
        private_votes.statement.assumptions[0],
        TWO_HOPS,
        *private_votes.statement.assumptions[2:],
    ),
)  # fmt: skip
CAPPED_STRANGER_VOTES = replace(
    capped_votes.statement, scope=Scope.STRANGERS,
    assumptions=(
        "a node lists at most {T0} others, and is in as many lists: {why}",
        private_votes.statement.assumptions[0],
        TWO_HOPS,
        *capped_votes.statement.assumptions[2:],
    ),
)  # fmt: skip


class _ForStrangers(PoissonVotes):
    """Scope and refusals of both; lists are the owners' own, whether the named name the owner or not."""

    @model_validator(mode="after")
    def _no_choice(self) -> Self:
        if self.choice_epsilon:
            raise invalid("choice_epsilon", self.choice_epsilon, "0: who leaves moves its neighbours' utilities")
        return self

    @property
    def scope(self) -> Scope:
        return Scope.STRANGERS if self.inference is PredictionInput.OWN_RECORD else self.inference.scope

    def _null(self, epsilon: float) -> Guarantee:
        """Node-null, in the view of all others, neighbours included."""
        stated = replace(self._stated, relation=Relation.NODE_NULL)
        given = "what others see is what they read, and not others' buckets or noisy degrees"
        return self._proved(stated, epsilon, given, scope=self.inference.scope)


class BoundedStrangerVotes(BoundedVotes, _ForStrangers):
    """`BoundedVotes` read over two hops, in the view of strangers (Theorem R4).

    Votes weigh g(d) of the own list's length d. Buckets of all others move by at most B when a node leaves that is in
    as many lists as it lists; and by (1 + kappa)^2 / (8 kappa) B, or (1 - kappa) B, when a record becomes null.
    """

    says: ClassVar[Statement] = STRANGER_VOTES
    kind: Literal["bounded-stranger-votes"] = "bounded-stranger-votes"  # type: ignore[assignment]

    def beside(self) -> tuple[Guarantee, ...]:
        """An edge, and a record that becomes null: both in the view of all others."""
        moved = bounded_null_votes(self.taper)
        less = self if self.votes_ratio is None else self.model_copy(update={"votes_ratio": self.votes_ratio / moved})
        return *super().beside(), self._null(less._epsilon_under("node-null"))


class CappedStrangerVotes(CappedVotes, _ForStrangers):
    """`CappedVotes` read over two hops, in the view of strangers (Theorem R4): lists need not be mutual.

    A record that becomes null moves training and, of a voter, (a) and its own votes: a voter's part of epsilon. Nobody
    else reads the list of a receiver, not even the count of (a), which is of voters' lists.
    """

    says: ClassVar[Statement] = CAPPED_STRANGER_VOTES
    kind: Literal["capped-stranger-votes"] = "capped-stranger-votes"  # type: ignore[assignment]

    def beside(self) -> tuple[Guarantee, ...]:
        return (self._null(PoissonVotes._epsilon_under(self, "node-null")),)
