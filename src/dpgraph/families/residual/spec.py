"""Specification of residual clipping (ours, docs/privacy/residual.md, Theorem 7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dpgraph.config.cell import TreePrivacy
from dpgraph.engine.methods.looks import ANY, BLACK, GREY, SLATE, TEAL, WINE, Look, adapted
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, Terms, Variant, captured, scored_along_edges
from dpgraph.families.trees.mechanism import ResidualTrees, residual_trees
from dpgraph.families.trees.spec import DpGnnCell, TreeModel
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation

LOOKS = {
    ("gcn", 1): Look(BLACK, "D", "-"),
    ("gcn", 2): Look(SLATE, "P", "-"),
    ("gin", 1): Look(TEAL, "D", (0, (7, 1))),
    ("gin", 2): Look(TEAL, "P", (0, (7, 1))),
    ("gat", 1): Look(WINE, "D", (0, (7, 1, 2, 1))),
    ("gat", 2): Look(WINE, "P", (0, (7, 1, 2, 1))),
}
OWN_ONLY = {1: Look(GREY, "d", (0, (2, 0.8))), 2: Look(GREY, "p", (0, (3, 0.8)))}


def look(cell: Any) -> Look:
    """Return black diamonds; grey where neighbours add no gradient."""
    base = LOOKS.get((cell.model.architecture, cell.model.hops), ANY)
    if cell.privacy.neighbour_clip_ratio == 0:
        base = OWN_ONLY.get(cell.model.hops, ANY)
    return adapted(base, cell)


class HopModel(TreeModel):
    """Networks with one or two hops."""

    hops: Annotated[int, Field(ge=1, le=2, description="r, layers of message passing")] = 1


class ResidualPrivacy(TreePrivacy):
    """Budget of residual clipping."""

    variant: Literal["rigorous"] = "rigorous"
    neighbour_clip_ratio: Annotated[float, Field(ge=0)] = 0.1
    """C_n / C_s: what neighbours may add, C_s = clip_norm; 0: no gradient"""


class DpResidualCell(DpGnnCell):
    """A cell of residual clipping."""

    model: HopModel
    privacy: ResidualPrivacy  # type: ignore[assignment]


CONTRACT: dict[str, dict[str, Any]] = {
    f"{hops}-rigorous{'' if architecture == 'gcn' else f'-{architecture}'}": {
        "model": {"architecture": architecture, "hops": hops, "width": 8, "heads": 3},
        "training": {"sampling_rate": 0.3},
        "privacy": {"variant": "rigorous", "epsilon": 6.0, "max_degree": 3, "list_cap": 3},
    }
    for hops in (1, 2)
    for architecture in ("gcn", "gin", "gat")
}


def attack(hops: int, terms: Terms) -> AttackCase:
    """Return how audits attack a depth of trees, with or without the term of neighbours."""
    return AttackCase(
        reads="trees", hops=hops, terms=terms, batches=Batches.POISSON, clipping=Clipped.ROOT,
        relation=Relation.NODE_NULL,
    )  # fmt: skip


SPECS = (
    MethodSpec(
        "dp-residual",
        "Residual clipping: a root's own gradient clipped at C_s, what its neighbours add to it at a smaller C_n.",
        "dpgraph.families.trees.train:DpGnn",
        DpResidualCell,
        CONTRACT,
        {"rigorous": Variant(ResidualTrees, residual_trees, scored_along_edges)},
        (attack(1, "own and neighbours"), attack(2, "own and neighbours"), attack(1, "own")),
        look=look,
        why_not_captured=captured,
    ),
)
