"""DP-MLP when a node leaves with all its edges: training on own records reads no edge, so null is all that is left."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import model_validator

from dpgraph.core.errors import invalid
from dpgraph.families.trees.accountant import double_mixture
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.relation import PredictionInput, Relation
from dpgraph.privacy.statements import Statement

REMOVED_RECORDS = replace(
    double_mixture.statement, relation=Relation.NODE_REMOVE,
    assumptions=(
        "a gradient and a prediction read one record's features, and no list: edges of a node that leaves move nothing",
        "no feature is made from edges, and which ids train is public",
    ),
)  # fmt: skip


class RemovedRecords(PoissonTrees):
    """`PoissonTrees` without hops, under node-remove: a root's gradient and a node's prediction read own features.

    A node that leaves takes its record and all edges at it; the place of its id stays empty, and counts in `num_roots`,
    batches and divisor as a null record does. No other record is read through an edge, so both sides of a step are
    those of node-null: the Poisson-subsampled Gaussian, R = 1 (docs/privacy.md, 3.2, removal without hops).

    Guarantee: node-remove (epsilon, delta)-DP of all parameters ever released, and of the predictions of others. Raises
    UserError with hops, or where predictions read the graph.
    """

    relation: ClassVar[Relation] = REMOVED_RECORDS.relation

    kind: Literal["removed-records"] = "removed-records"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _own_records(self) -> RemovedRecords:
        if self.hops != 0:
            raise invalid("hops", self.hops, "0: with hops an edge is read, and node-remove is not stated")
        if self.inference is PredictionInput.RAW_GRAPH:
            raise invalid("inference", self.inference, "its own record or nothing, under node-remove")
        return self

    def _stated(self, statement: Statement, **numbers: object) -> Statement:
        return REMOVED_RECORDS.filled(numbers)

    def beside(self) -> tuple[Guarantee, ...]:
        """The same run when one record becomes null: the same pair."""
        rigorous = self.rigorous()
        if rigorous.relation is Relation.NONE:
            return ()
        return (rigorous.model_copy(update={"relation": Relation.NODE_NULL}),)
