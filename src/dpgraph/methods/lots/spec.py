"""DP-SGD over lots of independent records: the MNIST baseline of Igamberdiev and Habernal, App. F."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from dpgraph.experiments.cell import MlpModel, NetworkCell, Privacy, RootBatches
from dpgraph.methods.attacks import AttackCase
from dpgraph.methods.lots.look import look
from dpgraph.methods.lots.mechanism import poisson_lots, shuffled_lots, unclipped_lots
from dpgraph.methods.spec import MethodSpec, Variant
from dpgraph.privacy.mechanisms.lots import PoissonLots, ShuffledLots, UnclippedLots
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation


class LotsPrivacy(Privacy):
    variant: Literal["rigorous", "published", "released"] = Field(
        default="rigorous",
        description="rigorous (Poisson lots, each record clipped), published (disjoint lots, their mean gradient "
        "clipped), released (the same without clipping, which is what the released code does)",
    )


class DpLotsCell(NetworkCell):
    model: MlpModel
    training: RootBatches
    privacy: LotsPrivacy


VARIANTS = {
    "rigorous": Variant(PoissonLots, poisson_lots),
    "published": Variant(ShuffledLots, shuffled_lots, target="published"),
    "released": Variant(UnclippedLots, unclipped_lots, target="published"),
}
CONTRACT: dict[str, dict[str, Any]] = {
    f"0-{variant}": {
        "model": {"architecture": "mlp", "hops": 0, "width": 8},
        "training": {"sampling_rate": 0.3},
        "privacy": {"variant": variant, "epsilon": 6.0},
    }
    for variant in VARIANTS
}
ATTACKS = (
    AttackCase(
        reads="records",
        batches=Batches.POISSON,
        clipping=Clipped.ROOT,
        relation=Relation.RECORD_REMOVE,
        run_attack="trees",  # each record is a tree of its own
    ),
    AttackCase(
        variant="published",
        reads="records",
        batches=Batches.SHUFFLED,
        clipping=Clipped.STEP,
        relation=Relation.RECORD_REPLACE,
        run_attack="lots",
    ),
    AttackCase(
        variant="released",
        reads="records",
        batches=Batches.SHUFFLED,
        clipping=Clipped.NOTHING,
        relation=Relation.NONE,
    ),
)

SPECS = (
    MethodSpec(
        "dp-lots",
        "DP-SGD of an MLP on records without neighbours, in lots; the cell's variant states what is clipped.",
        "dpgraph.methods.lots.train:DpLots",
        DpLotsCell,
        CONTRACT,
        VARIANTS,
        ATTACKS,
        look=look,
        problems=("node-classification", "images"),
    ),
)
