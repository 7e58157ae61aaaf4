"""DP-APPR and its baselines (Zhang 2021, chapter 5)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, NetworkCell, Privacy, RootBatches, UndroppedMlp
from dpgraph.config.frozen import Finite
from dpgraph.engine.methods.cost import network_seconds
from dpgraph.engine.methods.looks import BLACK, BLUE, BROWN, DASHED, GREEN, GREY, ORANGE, PURPLE, TEAL, VERMILION, Look
from dpgraph.engine.methods.spec import OWN_RECORD, AttackCase, MethodSpec, ReadBy, ScoreReads, Variant, captured
from dpgraph.families.pagerank.mechanism import FixedBatchPagerank, PoissonPagerank
from dpgraph.families.pagerank.variants import poisson_pagerank, published_pagerank
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import PredictionInput, Relation
from dpgraph.problems.base import Size


class Pagerank(Finite):
    """Rows of approximate personalised PageRank, which weigh the records that a root's loss reads (Zhang, chapter 5).

    Symbols are the thesis'.
    """

    release: Literal["exact", "identity", "random", "gaussian", "exponential", "exponential-values"]
    """Source of rows: exact (Algorithm 6, not released), identity (a root's own record only), random (K public
    random columns of weight 1/K), gaussian (Algorithm 7), exponential and exponential-values (Algorithm 8, options 1
    and 2)"""
    num_rows: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """M, nodes with a row; null: all training nodes that are kept"""
    losses: Literal["rows", "kept"] = "rows"
    """Which nodes have a loss: rows (those with a row: Algorithm 9 as printed, whose columns only shrink), kept (all
    that are kept, each without a row by its own record, and every column has norm tau: the authors' later code)"""
    node_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """q', share of the training nodes that are kept, with the edges among them"""
    top_k: Annotated[int, Field(ge=1, le=LARGE, description="K, entries of a row that are kept")] = 4
    clip: Annotated[float, Field(gt=0)] | None = None
    """C1, norm of a row (gaussian), or C2, largest entry (exponential); public"""
    epsilon_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """epsilon_pr / epsilon: what the release of the rows may cost; training gets the rest"""
    training_epsilon: Annotated[float, Field(gt=0)] | None = None
    """epsilon_sgd, in place of epsilon_share: the release may cost what is left of epsilon"""
    column_norm: Annotated[float, Field(gt=0, description="tau, L1 norm of a column (variant published)")] = 1.0
    column_cap: Annotated[int, Field(ge=1, le=LARGE, description="Entries that a column keeps (variant rigorous)")] = 1
    own_weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Weight of a root's own record; its row, at L1 norm 1, gets the rest (not the thesis')"""
    teleport: Annotated[float, Field(gt=0, le=1, description="alpha, of rows and of inference")] = 0.25
    sparsity: Annotated[float, Field(gt=0, lt=1, description="rho, weight of the L1 norm")] = 1e-4
    tolerance: Annotated[float, Field(gt=0, lt=1, description="gamma, of Algorithm 6")] = 1e-4
    inference_steps: Annotated[
        int, Field(ge=0, le=LARGE, description="P, power iterations of inference (Eq. 5.19)")
    ] = 2

    @property
    def released(self) -> bool:
        """Tell whether the rows are the output of a private mechanism."""
        return self.release in ("gaussian", "exponential", "exponential-values")

    @model_validator(mode="after")
    def _clip(self) -> Self:
        if (self.clip is not None) != self.released:
            raise ValueError(f"release={self.release}, clip={self.clip}: expected a clip exactly for private releases")
        return self


class PlainPagerank(Pagerank):
    """Rows that need no private release."""

    release: Literal["exact", "identity", "random"]
    epsilon_share: None = None
    training_epsilon: None = None


class RowModel(UndroppedMlp):
    """A perceptron of one hidden layer, whose gradients are known in closed form."""

    encoder_layers: Annotated[int, Field(ge=1, le=1)] = 1
    decoder_layers: Annotated[int, Field(ge=1, le=1)] = 1


class ApprCell(NetworkCell):
    """The settings of training on rows without privacy."""

    model: RowModel
    training: RootBatches
    privacy: None = None
    pagerank: PlainPagerank


class PagerankPrivacy(Privacy):
    """The budget of the release of the rows and of training together."""

    variant: Literal["rigorous", "published"] = "rigorous"
    """rigorous (columns of the released rows capped, Poisson batches of roots), published (Theorems 6 to 8)"""


class RowBatches(RootBatches):
    """Batches of roots whose rows may name one record often."""

    precision: Literal["float32"] = Field(default="float32", description="A product sums slopes by record")


class DpApprCell(NetworkCell):
    """The settings of private training on rows."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        **NetworkCell.NOISE_IGNORES,
        "pagerank": ("own_weight", "teleport", "sparsity", "tolerance"),
    }
    model: RowModel
    training: RowBatches
    privacy: PagerankPrivacy
    pagerank: Pagerank

    @model_validator(mode="after")
    def _release(self) -> Self:
        rows, epsilon = self.pagerank, self.privacy.epsilon
        given = (rows.epsilon_share is not None) + (rows.training_epsilon is not None)
        if given != rows.released or (given and epsilon is None):
            raise ValueError(
                f"pagerank.release={rows.release}, epsilon_share={rows.epsilon_share}, training_epsilon="
                f"{rows.training_epsilon}, epsilon={epsilon}: expected one of the two, and epsilon, exactly for "
                "private releases"
            )
        if epsilon is not None and rows.training_epsilon is not None and rows.training_epsilon >= epsilon:
            raise ValueError(f"training_epsilon={rows.training_epsilon}: expected a number < epsilon = {epsilon:g}")
        return self

    @cached_property
    def for_calibration(self) -> Self:
        """The bound of a row scales its noise; whether predictions read edges is part of the guarantee's scope."""
        cell = cast("Self", super().for_calibration)
        rows = {"inference_steps": min(1, self.pagerank.inference_steps), "clip": 1.0 if self.pagerank.clip else None}
        return cell.model_copy(update={"pagerank": cell.pagerank.model_copy(update=rows)})

    @property
    def release_epsilon(self) -> float | None:
        """Return epsilon_pr, the most that the release of the rows alone may cost; None: no release."""
        if self.privacy.epsilon is None:
            return None
        if self.pagerank.training_epsilon is not None:
            return self.privacy.epsilon - self.pagerank.training_epsilon
        share = self.pagerank.epsilon_share
        return None if share is None else share * self.privacy.epsilon


LOOKS = {
    "exact": Look(VERMILION, "v", "-"),
    "gaussian": Look(BLUE, "o", "-"),
    "exponential": Look(GREEN, "s", "-"),
    "exponential-values": Look(PURPLE, "^", "-"),
    "identity": Look(ORANGE, "D", "-"),
    "random": Look(GREY, "X", "-"),
}
PUBLISHED = {"v": "<", "o": "8", "s": "H", "^": "*", "D": "d", "X": "P"}
OWN_RECORDS = Look(TEAL, "h", (0, (12, 1)))  # rows with a share of the root's own record
ALL_ROOTS = {"identity": Look(BROWN, "p", (0, (9, 1, 3, 1)))}  # all training nodes are roots


def look(cell: Any) -> Look:
    rows = cell.pagerank
    style = LOOKS[rows.release]
    if cell.privacy is None:
        return replace(style, colour=BLACK, line=(0, (1, 1.5)))  # DPSGD reads exact rows, too
    if cell.privacy.variant == "published":
        return replace(style, marker=PUBLISHED[style.marker], line=DASHED)
    if rows.own_weight:
        return OWN_RECORDS
    return ALL_ROOTS.get(rows.release, style) if rows.num_rows is None else style


WITHOUT_DATA, FROM_DATA = ("identity", "random"), ("gaussian", "exponential", "exponential-values")
PROVED = (*WITHOUT_DATA, *FROM_DATA)


SECONDS_PER_ROW = 7e-4  # of PageRank, on one CPU core: measured on PubMed


def seconds(cell: Any, size: Size) -> float:
    """Estimate the seconds of a seed: training, and the rows that it reads."""
    rows = cell.pagerank.num_rows or cell.pagerank.node_share * size.train_nodes
    return network_seconds(cell, size) + SECONDS_PER_ROW * rows


def inference(cell: Any) -> PredictionInput:
    """Return what predictions read: the raw graph if power iteration walks it."""
    return PredictionInput.RAW_GRAPH if cell.pagerank.inference_steps > 0 else PredictionInput.OWN_RECORD


def score(cell: Any) -> ScoreReads:
    """Return the raw graph where inference walks it; training reads training nodes and the edges among them alone."""
    walks = inference(cell) is PredictionInput.RAW_GRAPH
    return ScoreReads(OWN_RECORD | {ReadBy.RAW_GRAPH}) if walks else ScoreReads(OWN_RECORD)


def root_exchanges(cell: Any) -> int:
    """Return how often a step's guarantee is charged when a root is exchanged for another node.

    Two: the root's record becomes null, then null becomes the other's record; the release is accounted for any change
    of all rows, once. One if both nodes are kept anyway and a root reads others, too: then one row and one loss term
    change, by up to 2 C, and a step is accounted for one such root in addition to the node's own (mixture pairs of R >=
    2; Theorem 1 at R = M).
    """
    return 2 if cell.pagerank.release == "identity" or cell.pagerank.node_share < 1 else 1


def contract(release: str, variant: str | None, **more: str) -> dict[str, Any]:
    """Return a cell that the tests put through the contract of methods."""
    pagerank: dict[str, Any] = {"release": release, "num_rows": 20, **more}
    if variant == "published":
        pagerank["node_share"] = 0.8
    if release in FROM_DATA:
        pagerank |= {"clip": 0.1, "epsilon_share": 0.5}
    return {
        "model": {"architecture": "mlp", "hops": 0, "width": 8, "heads": 3},
        "training": {"batch_size": 8} if variant == "published" else {"sampling_rate": 0.3},
        **({} if variant is None else {"privacy": {"variant": variant, "epsilon": 6.0}}),
        "pagerank": pagerank,
    }


def attack(release: str, variant: str) -> AttackCase:
    rigorous = variant == "rigorous"
    return AttackCase(
        variant=variant,
        reads="rows",
        release=release,
        batches=Batches.POISSON if rigorous else Batches.FIXED_SIZE,
        clipping=Clipped.ROOT,
        noise_unit="m C" if release == "exact" else "C",
        relation=Relation.NODE_NULL,
    )


on_rows = partial(
    MethodSpec, inference=inference, look=look, root_exchanges=root_exchanges, why_not_captured=captured,
    seconds=seconds,
)  # fmt: skip

SPECS = (
    on_rows(
        "appr",
        "A two-layer perceptron over exact rows of PageRank, without privacy: Vanilla of the thesis.",
        "dpgraph.families.pagerank.train:Appr",
        ApprCell,
        {f"{release}-none": contract(release, None) for release in ("exact", *WITHOUT_DATA)},
    ),
    on_rows(
        "dp-appr",
        "Rows of PageRank released privately, then DP-SGD or DP-Adam on them (Algorithms 6 to 9).",
        "dpgraph.families.pagerank.train:DpAppr",
        DpApprCell,
        {
            **{f"{release}-rigorous": contract(release, "rigorous") for release in PROVED},
            **{f"{release}-published": contract(release, "published") for release in ("exact", *PROVED)},
            "gaussian-rigorous-kept": contract("gaussian", "rigorous", losses="kept"),
        },
        {
            "rigorous": Variant(PoissonPagerank, poisson_pagerank, score),
            "published": Variant(FixedBatchPagerank, published_pagerank, score, target="published"),
        },
        (
            *(attack(release, "rigorous") for release in PROVED),
            *(attack(release, "published") for release in ("exact", *PROVED)),
        ),
    ),
)
