"""Specification of DP-SGD over lots of independent records: the MNIST baseline of Igamberdiev and Habernal, App. F."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, MlpModel, NetworkCell, Privacy, RecordBatches
from dpgraph.engine.methods.cost import DENSE_FLOPS_PER_SECOND, loop_seconds
from dpgraph.engine.methods.looks import ANY, VERMILION, WINE, Look, adapted
from dpgraph.engine.methods.spec import AttackCase, CanarySettings, MethodSpec, Variant, captured, scored_on_own_records
from dpgraph.families.lots import mechanism as mechanisms
from dpgraph.families.trees.records import PoissonLots
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

LOOKS = {("published", "sgd"): Look(VERMILION, "s", (0, (2.5, 1.2))), ("rigorous", "sgd"): Look(WINE, "h", "-")}


def look(cell: Any) -> Look:
    """Return the look of a cell, by variant and optimiser."""
    return LOOKS.get((cell.privacy.variant, cell.training.optimizer)) or adapted(ANY, cell)


class LotsPrivacy(Privacy):
    """Budget of DP-SGD over lots."""

    variant: Literal["rigorous", "components", "published", "released"] = "rigorous"
    """rigorous (Poisson lots, each record clipped), components (the same on noisy principal components, Abadi et al.
    2016), published (disjoint lots, their mean gradient clipped), released (the same without clipping, which is what
    the released code does)"""
    components: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """Principal components that records are projected to (variant components)"""
    components_noise: Annotated[float, Field(gt=0)] | None = None
    """Noise std on the second moments of records of length 1, released once (variant components)"""

    @model_validator(mode="after")
    def _components(self) -> Self:
        wanted = self.variant == "components"
        for name in ("components", "components_noise"):
            value = getattr(self, name)
            if (value is not None) != wanted:
                expected = "a number > 0" if wanted else "null"
                raise ValueError(f"{name}={value}: expected {expected} for variant {self.variant}")
        return self


def seconds(cell: Any, size: Size) -> float:
    """Return the predicted seconds of a perceptron on all features, or on the components."""
    model, training = cell.model, cell.training
    first = (cell.privacy.components or size.features) * model.width
    rest = max(0, model.encoder_layers + model.decoder_layers - 2) * model.width**2 + model.width * size.classes
    step = training.roots_per_step(size.train_nodes) * (4 * first + 6 * rest)
    return loop_seconds(training, step, size.nodes * 2 * (first + rest), DENSE_FLOPS_PER_SECOND)


class DpLotsCell(NetworkCell):
    """A cell of DP-SGD over lots."""

    model: MlpModel
    training: RecordBatches
    privacy: LotsPrivacy

    @model_validator(mode="after")
    def _engine(self) -> Self:
        self.training.check_engine(self.privacy.variant, ("rigorous",))
        return self


VARIANTS = {
    "rigorous": Variant(PoissonLots, mechanisms.poisson_lots, scored_on_own_records),
    "components": Variant(mechanisms.ComponentLots, mechanisms.component_lots, scored_on_own_records),
    "published": Variant(mechanisms.ShuffledLots, mechanisms.shuffled_lots, scored_on_own_records, target="published"),
    "released": Variant(mechanisms.UnclippedLots, mechanisms.unclipped_lots, scored_on_own_records, target="published"),
}
CONTRACT_OF = {"components": {"components": 3, "components_noise": 4.0}}
CONTRACT: dict[str, dict[str, Any]] = {
    f"0-{variant}": {
        "model": {"architecture": "mlp", "hops": 0, "width": 8},
        "training": {"sampling_rate": 0.3},
        "privacy": {"variant": variant, "epsilon": 6.0, **CONTRACT_OF.get(variant, {})},
    }
    for variant in VARIANTS
}
CONTRACT["0-opacus"] = {**CONTRACT["0-rigorous"], "training": {"sampling_rate": 0.3, "engine": "opacus"}}
proved = partial(
    AttackCase, reads="records", batches=Batches.POISSON, clipping=Clipped.ROOT, relation=Relation.RECORD_REMOVE
)
shuffled = partial(AttackCase, reads="records", batches=Batches.SHUFFLED)
ATTACKS = (
    proved(canaries=CanarySettings(noise=1.5, rate=0.25, steps=64)),
    proved(variant="components", components=True),
    shuffled(variant="published", clipping=Clipped.STEP, relation=Relation.RECORD_REPLACE),
    shuffled(variant="released", clipping=Clipped.NOTHING, relation=Relation.NONE),
)


def why_not_captured(cell: Any) -> str:
    """Return why the step of a cell is not captured; empty for Poisson lots without dropout."""
    return captured(cell) if cell.privacy.variant in ("rigorous", "components") else "the host shuffles lots each epoch"


SPECS = (
    MethodSpec(
        "dp-lots",
        "DP-SGD of an MLP on records without neighbours, in lots; the cell's variant states what is clipped.",
        "dpgraph.families.lots.train:DpLots",
        DpLotsCell,
        CONTRACT,
        VARIANTS,
        ATTACKS,
        look=look,
        why_not_captured=why_not_captured,
        problems=("node-classification", "images"),
        seconds=seconds,
    ),
)
