"""A cell: one fully resolved configuration (data, method, hyper-parameters, privacy) with all its seeds.

This module has the parts from which methods build their settings; which of them a method has, and what it adds, is
defined in its own specification (families/<family>/spec.py).

Cells are what jobs are made of. Two artefacts that need the same cell share it: identity is the hash of all but the
seeds that differs from the defaults, so that adding a seed trains one more seed, and adding a setting renames no cell.
A default therefore never changes its meaning: a new meaning is a new setting.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from dpgraph.config.frozen import Finite, chosen, digest
from dpgraph.core.errors import invalid, meant

PERCENTAGES = r"([0-9]{1,3})-([0-9]{1,3})-([0-9]{1,3})"
PER_CLASS = r"per-class-[1-9][0-9]{0,3}-[1-9][0-9]{0,3}"
SPLIT = re.compile(rf"public|train-rest|random-{PERCENTAGES}|ratio-{PERCENTAGES}|{PER_CLASS}")
FEATURES = re.compile(r"raw|l1|l2|project-[1-9][0-9]{0,4}")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
TaskName = Annotated[str, Field(pattern=f"^{NAME.pattern}$", max_length=100)]
LEAST_CLIP_NORM = 1e-9  # below it, products that underflow would matter: Theorem 2 of docs/privacy/shared.md
MOST_SEEDS = 10_000  # of a cell, and of a trial of a search
LARGE = 10**9  # no number of steps, nodes or entries is larger; arrays and ranges are made of these


class Task(Finite):
    """A learning task: a data set, its setting, its split and a public transformation of its features."""

    dataset: TaskName = Field(description="Name in the data set registry")
    setting: Literal["transductive", "disjoint", "clustered"] = "transductive"
    """Which edges training and inference see: all; none between splits; none between clusters' splits"""
    split: str = "public"
    """public (official), train-rest (public validation and test nodes, all others train: Igamberdiev), random-A-B-C
    (percent, keyed by the data set's name), per-class-A-B (training and validation nodes of each class, drawn by the
    labels), ratio-A-B-C (percent; only with setting clustered)"""
    features: str = "raw"
    """raw, l1 (rows that sum to 1), l2 (rows of norm 1) or project-D (rows of norm 1, then a public random projection
    to D dimensions): record by record, so it costs no privacy"""

    @field_validator("split")
    @classmethod
    def _split(cls, value: str) -> str:
        match = SPLIT.fullmatch(value)
        if not match:
            known = "public, train-rest, random-A-B-C, per-class-A-B or ratio-A-B-C"
            raise ValueError(f"expected {known}{meant(value, ('public', 'train-rest'))}")
        parts = [int(part) for part in match.groups() if part is not None]
        if parts and (sum(parts) != 100 or parts[0] == 0 or parts[2] == 0):
            raise ValueError("expected three percentages with sum 100, train and test above 0")
        return value

    @field_validator("features")
    @classmethod
    def _features(cls, value: str) -> str:
        if not FEATURES.fullmatch(value):
            raise ValueError("expected raw, l1, l2 or project-D with D in 1..99999")
        return value

    @model_validator(mode="after")
    def _ratio_is_clustered(self) -> Task:
        if self.split.startswith("ratio-") != (self.setting == "clustered"):
            raise ValueError(f"setting={self.setting}, split={self.split}: expected ratio-A-B-C exactly when clustered")
        return self

    @property
    def folder(self) -> str:
        """Folder below data/graphs/, e.g. `cora/disjoint.train-rest` or `cora/disjoint.train-rest.project-200`."""
        suffix = "" if self.features == "raw" else f".{self.features}"
        return f"{self.dataset}/{self.setting}.{self.split}{suffix}"

    @classmethod
    def from_folder(cls, folder: str) -> Task:
        """Return the inverse of `folder`.

        >>> Task.from_folder("cora/disjoint.train-rest.project-200").features
        'project-200'
        """
        dataset, _, rest = folder.partition("/")
        setting, *others = rest.split(".")
        if len(others) not in (1, 2):
            raise invalid("task", folder, "DATASET/SETTING.SPLIT or DATASET/SETTING.SPLIT.FEATURES")
        return cls(dataset=dataset, setting=setting, split=others[0], features="".join(others[1:]) or "raw")  # type: ignore[arg-type]


class Model(Finite):
    """Encoder MLP, then `hops` layers of message passing, then decoder MLP (Daigavane et al., section 6, App. E).

    `kipf` is Kipf and Welling's GCN of two layers instead (Igamberdiev and Habernal, Eq. 4): no encoder or decoder.
    """

    DROPPED: ClassVar[tuple[str, ...]] = ("kipf", "mlp")  # architectures with dropout

    architecture: Literal["mlp", "gcn", "gin", "gat", "kipf"] = "gcn"
    hops: int = Field(default=1, ge=0, le=2, description="r, layers of message passing; 0 for an MLP")
    encoder_layers: int = Field(default=1, ge=0, le=1000)
    """n_enc; 0 (mlp only): the decoder reads records, with n_dec = 1 softmax regression"""
    decoder_layers: int = Field(default=1, ge=1, le=1000, description="n_dec, its last layer gives the logits")
    width: int = Field(default=256, ge=1, le=100_000, description="Latent size of encoder, message passing and decoder")
    activation: Literal["relu", "tanh"] = "tanh"
    heads: int = Field(default=10, ge=1, le=1000, description="Attention heads (gat only)")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="After each hidden layer, in training")
    inference_own_weight: float = Field(default=0.0, ge=0, le=1)
    """alpha of predictions: alpha times a node's logits without neighbours plus 1 - alpha times those with them (a step
    of power iteration with teleport alpha); gcn, gin and gat"""

    @model_validator(mode="after")
    def _hops(self) -> Self:
        if (self.hops == 0) != (self.architecture == "mlp"):
            raise ValueError(f"architecture={self.architecture}, hops={self.hops}: expected hops=0 exactly for mlp")
        if self.encoder_layers == 0 and self.architecture != "mlp":
            raise ValueError(f"architecture={self.architecture}, encoder_layers=0: expected at least 1 except for mlp")
        if self.architecture == "kipf" and self.hops != 2:
            raise ValueError(f"architecture=kipf, hops={self.hops}: expected hops=2")
        if self.inference_own_weight and self.architecture in ("kipf", "mlp"):
            raise ValueError(
                f"architecture={self.architecture}, inference_own_weight={self.inference_own_weight}: expected 0 for "
                "kipf and mlp"
            )
        if self.dropout and self.architecture not in self.DROPPED:
            dropped = " and ".join(self.DROPPED)
            raise ValueError(f"architecture={self.architecture}, dropout={self.dropout}: expected 0 but for {dropped}")
        return self


class MlpModel(Model):
    """A model of methods that read no edges in training."""

    architecture: Literal["mlp"]
    hops: Literal[0]


class UndroppedMlp(MlpModel):
    """A model of methods that read no edges in training and have no dropout."""

    dropout: float = Field(default=0.0, ge=0, le=0)


class Training(Finite):
    """Optimisation: what every method that trains has."""

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = Field(gt=0)
    momentum: float = Field(default=0.0, ge=0, lt=1, description="SGD only")
    steps: Annotated[int, Field(ge=1, le=LARGE)] | Literal["max"]
    """T, or max: as many as the privacy target allows at the given noise multiplier"""
    evaluations: int = Field(default=1, ge=1, le=100_000)
    """Points of the learning curve, the last step included"""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Operands of products of matrices: tf32 (10 bits, on a GPU), bf16 (7 bits, on a CPU that has it; on a GPU tf32);
    clipping allows for the rounding"""

    def roots_per_step(self, num_train: int) -> float:
        """Return how many nodes a step has a loss of, to estimate what it costs."""
        return num_train


class RootBatches(Training):
    """Batches of roots. Exactly one of `batch_size` and `sampling_rate` is given."""

    batch_size: int | None = Field(default=None, ge=1, le=LARGE)
    """m; its expectation under Poisson sampling"""
    sampling_rate: float | None = Field(default=None, gt=0, le=1, description="q; batches have q * N roots")

    @model_validator(mode="after")
    def _one_batch_size(self) -> Self:
        if (self.batch_size is None) == (self.sampling_rate is None):
            raise ValueError(
                f"batch_size={self.batch_size}, sampling_rate={self.sampling_rate}: expected exactly one of them"
            )
        return self

    def roots_per_step(self, num_train: int) -> float:
        return min(self.batch_size or num_train, num_train) * (self.sampling_rate or 1.0)


class RecordBatches(RootBatches):
    """Batches of roots whose gradients read one record each."""

    engine: Literal["own", "opacus"] = "own"
    """Code that forms gradients of single records: own (closed forms) or opacus (its GradSampleModule); the clip norm,
    batches, noise and accountant are the same"""

    def check_engine(self, variant: str, known: tuple[str, ...]) -> None:
        """Raise ValueError unless `variant` clips one record's whole gradient in Poisson batches, as Opacus does."""
        if self.engine != "own" and variant not in known:
            raise ValueError(
                f"engine={self.engine}: expected own for variant {variant}: Opacus clips one gradient for each record "
                f"of a Poisson batch, as {' or '.join(known)} does"
            )


class NodeParts(Training):
    """Fixed or fresh parts of the training nodes, of which each step reads one."""

    num_splits: int = Field(ge=1, le=LARGE)
    """s, parts of the training nodes; an epoch has s steps (Igamberdiev)"""
    train_share: float = Field(default=1.0, gt=0, le=1, description="Share of the training nodes in the training graph")

    def roots_per_step(self, num_train: int) -> float:
        return num_train / self.num_splits


class Privacy(Finite):
    """The guarantee that is requested. Of `epsilon`, `noise_multiplier` and `training.steps` two are given."""

    variant: str = Field(default="rigorous", description="Which mechanism; the method's specification names them")
    epsilon: float | None = Field(default=None, gt=0, description="Target, under the accountant of the variant")
    noise_multiplier: float | None = Field(default=None, gt=0)
    """Noise std / clip norm, but where the variant's mechanism says another unit"""
    delta: float | None = Field(default=None, gt=0, lt=1)
    """None: 1 / (10 N), N the roots; N of all protected where that is too large for them"""
    clip_norm: float = Field(default=1.0, ge=LEAST_CLIP_NORM, description="C, public")


class Cell(Finite):
    """One job of the workflow. Methods narrow its parts and add their own."""

    # parts of a cell, and fields in them, that its noise does not depend on: cells that differ only in these share a
    # calibration
    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        "training": ("optimizer", "learning_rate", "momentum", "evaluations", "precision", "engine"),
        "privacy": ("clip_norm",),
    }

    task: Task
    method: TaskName
    training: Training
    privacy: Privacy | None = None
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, le=LARGE)], ...], Field(min_length=1, max_length=MOST_SEEDS)]
    seeds_per_split: int | None = Field(default=None, ge=2, le=MOST_SEEDS)
    """Crossed design of splits and initialisations (view variance): seed s has random split s // n and initialisation s
    % n; null: split s and initialisation s"""

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("expected each seed once")
        return value

    @model_validator(mode="after")
    def _crossed(self) -> Self:
        if self.seeds_per_split is not None and not self.task.split.startswith("random-"):
            raise ValueError(
                f"seeds_per_split={self.seeds_per_split}, split={self.task.split}: expected random-A-B-C, whose seeds "
                "have splits of their own"
            )
        return self

    @model_validator(mode="after")
    def _privacy(self) -> Self:
        if self.privacy is not None:
            given = [
                self.privacy.epsilon is not None,
                self.privacy.noise_multiplier is not None,
                self.training.steps != "max",
            ]
            if sum(given) != 2:
                raise ValueError(
                    f"epsilon={self.privacy.epsilon}, noise_multiplier={self.privacy.noise_multiplier}, "
                    f"steps={self.training.steps}: expected exactly two of them (steps=max leaves steps open)"
                )
        elif self.training.steps == "max":
            raise ValueError("steps=max: expected a number of steps when there is no privacy")
        return self

    @cached_property
    def identity(self) -> str:
        """Hash of everything that differs from the defaults, but the seeds."""
        return digest(chosen(self, exclude={"seeds"}))

    @cached_property
    def slug(self) -> str:
        """Readable name of the cell's folder, e.g. `cora-disjoint.dp-gnn-1hop.rigorous.eps8-3f2a91bc`."""
        budget = ""
        if self.privacy is not None:
            target = self.privacy.epsilon
            budget = f".{self.privacy.variant}" + (f".eps{target:g}" if target is not None else "")
        return f"{self.task.dataset}-{self.task.setting}.{self.method}{self.shape}{budget}-{self.identity}"

    @property
    def shape(self) -> str:
        """Return what a readable name includes of the model, if anything."""
        return ""

    @property
    def network(self) -> tuple[str, int]:
        """Architecture and hops, as tables of results name them; methods with equal ones are counterparts."""
        return "", 0

    @cached_property
    def for_calibration(self) -> Self | None:
        """This cell with all that the noise does not depend on set to defaults. None: no privacy."""
        if self.privacy is None:
            return None
        parts: dict[str, Any] = {"seeds": (0,), "seeds_per_split": None}
        for name, ignored in self.NOISE_IGNORES.items():
            part = getattr(self, name)
            if part is not None:
                fields = {key: type(part).model_fields.get(key) for key in ignored}
                defaults = {key: 1.0 if one.is_required() else one.default for key, one in fields.items() if one}
                parts[name] = part.model_copy(update=defaults)
        return self.model_copy(update=parts)

    @cached_property
    def calibration_key(self) -> str | None:
        """Name of the calibration; cells that agree in `for_calibration` share it. None: no privacy."""
        cell = self.for_calibration
        if cell is None:
            return None
        return f"{self.task.dataset}-{self.task.setting}.{self.method}-{digest(chosen(cell), 12)}"


class NetworkCell(Cell):
    """A cell of methods that train a network of `engine/models/` on nodes or other records."""

    NOISE_IGNORES: ClassVar[dict[str, tuple[str, ...]]] = {
        "model": ("encoder_layers", "decoder_layers", "width", "activation", "heads", "dropout",
                  "inference_own_weight"),
        **Cell.NOISE_IGNORES,
    }  # fmt: skip

    model: Model

    @model_validator(mode="after")
    def _precision(self) -> Self:
        if (self.training.precision, self.model.architecture) == ("bf16", "gat"):
            raise ValueError("precision=bf16, architecture=gat: expected float32 (faster), or tf32 on a GPU")
        return self

    @property
    def shape(self) -> str:
        return f"-{self.model.hops}hop"

    @property
    def network(self) -> tuple[str, int]:
        return self.model.architecture, self.model.hops


class TreePrivacy(Privacy):
    """A cell of methods on ego trees with bounded lists."""

    max_degree: int = Field(default=4, ge=1, le=LARGE, description="K: lists in which a node may occur")
    list_cap: int | None = Field(default=None, ge=1, le=LARGE)
    """D of the stable sampler: a list's longest length; None: K"""
    clip_percentile: float = Field(default=75.0, gt=0, lt=100)
    """Percentile of the initial gradient norms (variant published; data-dependent)"""
