"""Relation prediction trained on tuples with negatives, with entity-level privacy or without (Huang et al. 2025).

Either the entities' vectors stay fixed and a head of few parameters is trained on them, or the encoder of the entities
is fine-tuned: LoRA adapters of a pre-trained transformer on their texts, or a perceptron on dense features.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, Cell, Privacy, RootBatches
from dpgraph.config.frozen import Finite
from dpgraph.engine.methods import spec
from dpgraph.engine.methods.cost import NETWORK, TRANSFORMER, loop_seconds
from dpgraph.engine.methods.looks import BLUE, BROWN, DASH_DOT, DASHED, GREEN, GREY, ORANGE, PURPLE, VERMILION, Look
from dpgraph.engine.methods.spec import AttackCase, MethodSpec, ScoreReads, Variant
from dpgraph.families.tuples import mechanism as mechanisms
from dpgraph.families.tuples.mechanism import MLP, why_not_captured
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import PredictionInput, Relation
from dpgraph.problems.base import Size

HEADS = {None: Look(BLUE, "d", DASH_DOT), "rigorous": Look(GREEN, "^", "-"), "standard": Look(ORANGE, "v", DASHED),
         "published": Look(VERMILION, "*", DASHED), "released": Look(PURPLE, "X", DASHED)}  # fmt: skip
MARKERS = {None: "p", "rigorous": "D", "standard": "<", "published": "P", "released": "8"}


def head_look(cell: Any) -> Look:
    return HEADS[None if cell.privacy is None else cell.privacy.variant]


def encoder_look(cell: Any) -> Look:
    variant = None if cell.privacy is None else cell.privacy.variant
    return Look(BROWN if variant is None else HEADS[variant].colour, MARKERS[variant], HEADS[variant].line)


LARGEST_WIDTH = 100_000
# weights of an encoder besides its vocabulary, by a part of its name
ENCODER_WEIGHTS = {"minilm": 11e6, "bert-base": 85e6, "bert-large": 302e6, "7b": 6.5e9}
ENCODER_FLOPS = 50e9  # of a small transformer on a CPU core, a second
MOST_TOKENS = 64  # of a mean text of unknown length: titles have 15, abstracts 110
MLP_WIDTH = 256


class TupleTraining(RootBatches):
    """Batches, negatives and loss of training on tuples."""

    negatives: Annotated[int, Field(ge=1, le=LARGE, description="k, negatives of each tuple")] = 4
    temperature: Annotated[float, Field(gt=0, le=1000, description="tau of InfoNCE")] = 0.1
    warm_up: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the steps in which the learning rate rises from 0, before it falls to 0, both linearly (Huang et al.);
    null: it is constant"""


class PlainTupleTraining(TupleTraining):
    """Training on tuples without privacy, of which a cap may keep some."""

    max_degree: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """K: tuples capped at both ends, as the paper does; null: all"""


class TuplePrivacy(Privacy):
    """The budget of training on tuples, and the caps that bound an entity's tuples."""

    variant: Literal["rigorous", "standard", "published", "released"] = "rigorous"
    """rigorous (stable tuples, each clipped to C, double-mixture accountant), standard (capped as the paper does, each
    clipped to C, Theorem C.1), published (the same with Algorithm 1's limits and Theorem 3; noise_multiplier is std
    / 2 C), released (the same with half of that noise, as the released code has it)"""
    max_degree: Annotated[int, Field(ge=1, le=LARGE, description="K: of a stable sampler, owners that accept it")] = 4
    list_cap: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """D: tuples that an entity owns (variant rigorous); None: 1"""

    @model_validator(mode="after")
    def _owned(self) -> Self:
        if self.list_cap is not None and self.variant != "rigorous":
            raise ValueError(f"list_cap={self.list_cap}: expected null for variant {self.variant}")
        return self


class HeadSettings(Finite):
    """A head on the entities' fixed vectors."""

    head: Literal["diagonal", "symmetric"] = "diagonal"
    """Score of two vectors: a weight for each coordinate, or a symmetric matrix"""


class EncoderSettings(Finite):
    """The encoder of the entities."""

    encoder: str = Field(min_length=1)
    """mlp (a perceptron on dense features), all-MiniLM-L6-v2 (a package), a folder, or a name in Hugging Face's
    cache"""
    pooling: Literal["mean", "first", "last"] = "mean"
    """State of a text: mean over its tokens, the first (BERT) or the last one (Llama)"""
    unit_states: bool = Field(default=True, description="States of norm 1, so that scores are cosines")
    rank: Annotated[int, Field(ge=1, le=1024, description="Of the LoRA adapters")] = 4
    alpha: Annotated[float, Field(gt=0, description="Adapters are scaled by alpha / rank")] = 16.0
    max_tokens: Annotated[int, Field(ge=2, le=4096, description="Longest text; the rest is cut")] = 32
    width: Annotated[int, Field(ge=1, le=LARGEST_WIDTH, description="Of the perceptron's two layers")] = MLP_WIDTH


class HeadCell(Cell):
    """The settings of a head that is trained without privacy."""

    model: HeadSettings = HeadSettings()
    training: PlainTupleTraining
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return f"{self.model.head} head", 0


class BaseEncoderCell(Cell):
    """The settings of an encoder that is not trained."""

    model: EncoderSettings
    training: spec.AnyBatches
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return self.model.encoder, 0


class EncoderCell(BaseEncoderCell):
    """The settings of an encoder that is trained without privacy."""

    training: PlainTupleTraining  # type: ignore[assignment]


NOISE_IGNORES = {"training": (*Cell.NOISE_IGNORES["training"], "temperature", "warm_up"), "privacy": ("clip_norm",)}


class DpHeadCell(HeadCell):
    """The settings of a head that is trained privately."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = NOISE_IGNORES
    training: TupleTraining  # type: ignore[assignment]
    privacy: TuplePrivacy  # type: ignore[assignment]


class DpEncoderCell(EncoderCell):
    """The settings of an encoder that is trained privately."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = NOISE_IGNORES
    training: TupleTraining  # type: ignore[assignment]
    privacy: TuplePrivacy  # type: ignore[assignment]


class LinearMap(Finite):
    """A linear map of the entities' features."""

    width: Annotated[int, Field(ge=1, le=LARGEST_WIDTH, description="d, numbers of an entity's state")] = 256


class InfoNce(RootBatches):
    """Training of a linear map with InfoNCE."""

    temperature: Annotated[float, Field(gt=0, le=1000, description="tau of InfoNCE")] = 0.1


class CosineCell(Cell):
    """The settings of a ranking by cosines, which trains no parameter."""

    training: spec.AnyBatches
    privacy: None = None

    @property
    def network(self) -> tuple[str, int]:
        return "linear", 0


class LinearRelationCell(CosineCell):
    """The settings of a linear map."""

    model: LinearMap = LinearMap()
    training: InfoNce  # type: ignore[assignment]


def head_seconds(cell: Any, size: Size) -> float:
    """Return the seconds of a seed: products of tuples with the head, and of all entities at a look."""
    tuples, width = cell.training.roots_per_step(size.train_nodes), size.features
    entities = tuples * (2 + cell.training.negatives) * width
    per_entity = 1 if cell.model.head == "diagonal" else 2 * width
    step = 6 * entities + 2 * tuples * width * per_entity
    return loop_seconds(cell.training, step, 2 * size.nodes * width * per_entity)


def products(cell: Any) -> str:
    """Return the kind of an encoder's products."""
    return NETWORK if cell.model.encoder == MLP else TRANSFORMER


def encoder_seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: passes of each text of a batch, and one of each entity at a look."""
    rows = cell.training.roots_per_step(size.train_nodes) * (2 + cell.training.negatives)
    passes = 2 if products(cell) == TRANSFORMER else 3  # weights below adapters have no gradients
    step, look = 2 * passes * _weights(cell, size, 0) * rows, 2 * _weights(cell, size, 1) * size.nodes
    return loop_seconds(cell.training, step, look, ENCODER_FLOPS)


def _weights(cell: Any, size: Size, of: int) -> float:
    """Return products of an encoder's weights with the tokens of a mean text, of those trained on (0) or of all (1).

    An encoder of unknown size counts as BERT.
    """
    name = cell.model.encoder.lower()
    if name == MLP:
        return float(size.features * cell.model.width)
    known = next((weights for part, weights in ENCODER_WEIGHTS.items() if part in name), ENCODER_WEIGHTS["bert-base"])
    tokens = min(cell.model.max_tokens / 2, MOST_TOKENS) if size.tokens is None else size.tokens[of]
    return known * min(cell.model.max_tokens, tokens)


def base_seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of one pass of every entity."""
    return 2 * _weights(cell, size, 1) * size.nodes / ENCODER_FLOPS


def linear_seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: the map of heads and tails, and the scores of all pairs of a batch."""
    width, batch = cell.model.width, cell.training.roots_per_step(size.train_nodes)
    forward = 2 * batch * size.features * width + batch**2 * width
    return loop_seconds(cell.training, 6 * forward, 2 * size.nodes * size.features * width)


def score(cell: Any) -> ScoreReads:
    """Return the records of a validation tuple's ends and of all other candidates, which are protected entities."""
    return ScoreReads(
        spec.OWN_RECORD | {spec.ReadBy.CANDIDATES}, spec.Public.NO, "validation tuples", "which join protected entities"
    )


VARIANTS = {
    "rigorous": Variant(mechanisms.StaticTuples, mechanisms.static_tuples, score),
    "standard": Variant(mechanisms.StandardTuples, mechanisms.standard_tuples, score, target="published"),
    "published": Variant(mechanisms.AdaptiveTuples, mechanisms.adaptive_tuples, score, target="published"),
    "released": Variant(mechanisms.ReleasedTuples, mechanisms.released_tuples, score, target="published"),
}
TASK = {"dataset": "demo-relations", "split": "random-60-15-25"}
BATCHES = {"sampling_rate": 0.005, "negatives": 2}
ENCODER = {"encoder": MLP, "width": 4}


def contract(model: dict[str, Any], variants: tuple[str | None, ...]) -> dict[str, dict[str, Any]]:
    """Return small cells of these variants for the contract of methods."""
    cells: dict[str, dict[str, Any]] = {}
    for variant in variants:
        cells[variant or "none"] = {"task": TASK, "model": model, "training": BATCHES}
        if variant is not None:
            cells[variant]["privacy"] = {"variant": variant, "epsilon": 6.0}
    return cells


ATTACKS = tuple(
    AttackCase(
        variant=variant,
        reads="tuples",
        batches=Batches.POISSON,
        clipping=Clipped.ROOT if variant in ("rigorous", "standard") else Clipped.ROOT_COUNTS,
        noise_unit="2 C" if variant == "published" else "C",
        relation=Relation.ENTITY if variant == "rigorous" else Relation.NONE,
    )
    for variant in VARIANTS
)
TRAIN = "dpgraph.families.tuples.train"
HEAD = "on tuples with negatives: a head on the entities' fixed vectors"
TUNED = "on tuples with negatives: the entities' encoder, LoRA adapters or a perceptron"


def inference(cell: Any) -> PredictionInput:
    """Return that a prediction reads more than its own record: it ranks the raw records of all candidates."""
    return PredictionInput.RAW_GRAPH


on_relations = partial(MethodSpec, inference=inference, problems=("relations",))
on_tuples = partial(on_relations, why_not_captured=why_not_captured)
of_head = partial(on_tuples, train=f"{TRAIN}:RelationHead", look=head_look, seconds=head_seconds)
of_encoder = partial(
    on_tuples, train=f"{TRAIN}:RelationEncoder", look=encoder_look, seconds=encoder_seconds, products=products
)

SPECS = (
    of_head(
        "relation-head",
        f"Relation prediction trained without privacy {HEAD}.",
        cell=HeadCell,
        contract=contract({}, (None,)),
    ),
    of_head(
        "dp-relation-head",
        f"Entity-level private relation prediction trained {HEAD}; the variant states which mechanism.",
        cell=DpHeadCell,
        contract=contract({}, tuple(VARIANTS)),
        variants=VARIANTS,
        attacks=ATTACKS,
    ),
    on_relations(
        "base-encoder",
        "Ranks entities by the cosine of an encoder's states as they are; without training.",
        f"{TRAIN}:BaseEncoder",
        BaseEncoderCell,
        {"none": {"task": TASK, "model": ENCODER, "training": {"sampling_rate": 0.1}}},
        look=lambda _: Look(GREY, "+", ":", neutral=True),
        why_not_captured=spec.NO_STEPS,
        seconds=base_seconds,
        products=products,
        untouched={Relation.ENTITY: "the encoder as it is"},
    ),
    of_encoder(
        "relation-encoder",
        f"Relation prediction trained without privacy {TUNED}.",
        cell=EncoderCell,
        contract=contract(ENCODER, (None,)),
    ),
    of_encoder(
        "dp-relation-encoder",
        f"Entity-level private relation prediction trained {TUNED}; the variant states which mechanism.",
        cell=DpEncoderCell,
        contract=contract(ENCODER, tuple(VARIANTS)),
        variants=VARIANTS,
        attacks=ATTACKS,
    ),
    on_relations(
        "cosine",
        "Ranks entities by the cosine of their features; without training.",
        "dpgraph.families.tuples.train:Cosine",
        CosineCell,
        {"none": {"task": TASK, "training": {"sampling_rate": 0.1}}},
        look=lambda _: Look(GREY, "x", ":", neutral=True),
        why_not_captured=spec.NO_STEPS,
        seconds=lambda cell, size: 1.0,
        deterministic=True,
        untouched={Relation.ENTITY: "untrained vectors"},
    ),
    on_relations(
        "linear-relation",
        "Ranks entities by inner products of a linear map of their features, trained with InfoNCE without privacy.",
        "dpgraph.families.tuples.train:LinearRelation",
        LinearRelationCell,
        {"none": {"task": TASK, "model": {"width": 4}, "training": {"sampling_rate": 0.01}}},
        look=lambda _: Look(BLUE, ">", DASH_DOT),
        why_not_captured=spec.captured,
        seconds=linear_seconds,
    ),
)
