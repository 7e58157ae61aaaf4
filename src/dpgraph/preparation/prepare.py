"""From a mechanism to its prepared step. Nothing falls through: a mechanism without one is refused."""

from __future__ import annotations

from dpgraph.errors import invalid
from dpgraph.preparation.base import Order, PreparedStep
from dpgraph.preparation.lots import PreparedLots
from dpgraph.preparation.parts import PreparedParts
from dpgraph.preparation.rows import PreparedRows
from dpgraph.preparation.trees import PreparedTrees

PREPARATIONS: dict[str, type[PreparedStep]] = {
    "poisson-trees": PreparedTrees,
    "residual-trees": PreparedTrees,
    "fixed-size-stable-trees": PreparedTrees,
    "fixed-batch-trees": PreparedTrees,
    "poisson-lots": PreparedTrees,
    "shuffled-lots": PreparedLots,
    "unclipped-lots": PreparedLots,
    "masked-subgraphs": PreparedParts,
    "cut-subgraphs": PreparedParts,
    "poisson-subgraphs": PreparedParts,
    "unclipped-subgraphs": PreparedParts,
    "pure-noise": PreparedParts,
    "poisson-pagerank": PreparedRows,
    "fixed-batch-pagerank": PreparedRows,
}


def prepare(order: Order) -> PreparedStep:
    """The private part of one seed's run; raises UserError for a mechanism that nothing prepares."""
    kind = order.mechanism.kind
    if kind not in PREPARATIONS:
        raise invalid("mechanism", kind, f"one of {', '.join(PREPARATIONS)}")
    return PREPARATIONS[kind](order)
