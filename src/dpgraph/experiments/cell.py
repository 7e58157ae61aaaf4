"""A cell: one fully resolved configuration (data, method, hyper-parameters, privacy) with all its seeds.

Cells are what jobs are made of. Two artefacts that need the same cell share it: identity is the hash of all but the
seeds that differs from the defaults, so that adding a seed trains one more seed, and adding a setting renames nothing.
A default therefore never changes its meaning: what means something new is a new setting.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from dpgraph.errors import invalid
from dpgraph.experiments.frozen import Finite, chosen, digest

SETTINGS = ("transductive", "disjoint", "clustered")
PERCENTAGES = r"([0-9]{1,3})-([0-9]{1,3})-([0-9]{1,3})"
SPLIT = re.compile(rf"public|train-rest|random-{PERCENTAGES}|ratio-{PERCENTAGES}")
FEATURES = re.compile(r"raw|l2|project-[1-9][0-9]{0,4}")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
TaskName = Annotated[str, Field(pattern=f"^{NAME.pattern}$", max_length=100)]
# what the noise does not depend on
NOT_CALIBRATED = {"optimizer": "adam", "learning_rate": 1.0, "momentum": 0.0, "evaluations": 1, "precision": "float32"}
LARGE = 10**9  # no number of steps, nodes or entries is larger; arrays and ranges are made of these


class Task(Finite):
    """What is learnt: a data set, its setting, its split and a public transformation of its features."""

    dataset: TaskName = Field(description="Name in the data set registry")
    setting: Literal["transductive", "disjoint", "clustered"] = Field(
        default="transductive",
        description="Which edges training and inference see: all; none between splits; none between clusters' splits",
    )
    split: str = Field(
        default="public",
        description="public (official), train-rest (public validation and test nodes, all others train: Igamberdiev), "
        "random-A-B-C (percent, keyed by the data set's name), ratio-A-B-C (percent; only with setting clustered)",
    )
    features: str = Field(
        default="raw",
        description="raw, l2 (rows of norm 1) or project-D (rows of norm 1, then a public random projection to D "
        "dimensions): record by record, so it costs no privacy",
    )

    @field_validator("split")
    @classmethod
    def _split(cls, value: str) -> str:
        match = SPLIT.fullmatch(value)
        if not match:
            raise ValueError("expected public, train-rest, random-A-B-C or ratio-A-B-C")
        parts = [int(part) for part in match.groups() if part is not None]
        if parts and (sum(parts) != 100 or parts[0] == 0 or parts[2] == 0):
            raise ValueError("expected three percentages with sum 100, train and test above 0")
        return value

    @field_validator("features")
    @classmethod
    def _features(cls, value: str) -> str:
        if not FEATURES.fullmatch(value):
            raise ValueError("expected raw, l2 or project-D with D in 1..99999")
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
        """The inverse of `folder`.

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

    architecture: Literal["mlp", "gcn", "gin", "gat", "kipf"] = "gcn"
    hops: Annotated[int, Field(ge=0, le=2, description="r, layers of message passing; 0 for an MLP")] = 1
    encoder_layers: Annotated[int, Field(ge=1, le=1000, description="n_enc")] = 1
    decoder_layers: Annotated[int, Field(ge=1, le=1000, description="n_dec, its last layer gives the logits")] = 1
    width: Annotated[
        int, Field(ge=1, le=100_000, description="Latent size of encoder, message passing and decoder")
    ] = 256
    activation: Literal["relu", "tanh"] = "tanh"
    heads: Annotated[int, Field(ge=1, le=1000, description="Attention heads (gat only)")] = 10
    dropout: Annotated[float, Field(ge=0, lt=1, description="After the hidden layer, in training (kipf and mlp)")] = 0.0

    inference_own_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="alpha of predictions: alpha times a node's logits without neighbours plus 1 - alpha times those "
        "with them (a step of power iteration with teleport alpha); gcn, gin and gat",
    )

    @model_validator(mode="after")
    def _hops(self) -> Model:
        if (self.hops == 0) != (self.architecture == "mlp"):
            raise ValueError(f"architecture={self.architecture}, hops={self.hops}: expected hops=0 exactly for mlp")
        if self.architecture == "kipf" and self.hops != 2:
            raise ValueError(f"architecture=kipf, hops={self.hops}: expected hops=2")
        if self.inference_own_weight and self.architecture in ("kipf", "mlp"):
            raise ValueError(
                f"architecture={self.architecture}, inference_own_weight={self.inference_own_weight}: expected 0 for "
                "kipf and mlp"
            )
        if self.dropout and self.architecture not in ("kipf", "mlp"):
            raise ValueError(
                f"architecture={self.architecture}, dropout={self.dropout}: expected 0 but for kipf and mlp"
            )
        return self


class Training(Finite):
    """Optimisation. Exactly one of `batch_size`, `sampling_rate` and `num_splits` is given."""

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Annotated[float, Field(gt=0)]
    momentum: Annotated[float, Field(ge=0, lt=1, description="SGD only")] = 0.0
    batch_size: (
        Annotated[int, Field(ge=1, le=LARGE, description="m; its expectation under Poisson sampling")] | None
    ) = None
    sampling_rate: Annotated[float, Field(gt=0, le=1, description="q; batches have q * N roots")] | None = None
    num_splits: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None,
        description="s, parts of the training nodes, of which each step reads one; an epoch has s steps (Igamberdiev)",
    )
    train_share: Annotated[float, Field(gt=0, le=1, description="Share of the training nodes that have a loss")] = 1.0
    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty; without privacy only")] = 0.0
    patience: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None, description="Epochs without a better validation loss before stopping; without privacy only"
    )
    steps: Annotated[int, Field(ge=1, le=LARGE)] | Literal["max"] = Field(
        description="T, or max: as many as the privacy target allows at the given noise multiplier"
    )
    evaluations: Annotated[
        int, Field(ge=1, le=100_000, description="Points of the learning curve, the last step included")
    ] = 1
    max_degree: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None,
        description="K of a method without privacy, whose lists are then sampled by Algorithm 1; null: whole lists",
    )
    precision: Literal["float32", "tf32"] = Field(
        default="float32",
        description="Of products of matrices on a GPU: tf32 rounds their operands to 10 bits; clipping allows for it",
    )

    @model_validator(mode="after")
    def _one_batch_size(self) -> Training:
        given = {name: getattr(self, name) for name in ("batch_size", "sampling_rate", "num_splits")}
        if sum(value is not None for value in given.values()) != 1:
            shown = ", ".join(f"{name}={value}" for name, value in given.items())
            raise ValueError(f"{shown}: expected exactly one of them")
        return self

    def evaluation_steps(self, steps: int) -> set[int]:
        """`evaluations` steps at equal distances, the last of all `steps` among them.

        >>> sorted(Training(learning_rate=1, batch_size=1, steps=10, evaluations=3).evaluation_steps(10))
        [4, 7, 10]
        """
        return {math.ceil(steps * (point + 1) / self.evaluations) for point in range(self.evaluations)}


class Pagerank(Finite):
    """Rows of approximate personalised PageRank, which weigh the records that a root's loss reads (Zhang, chapter 5).

    The methods `appr` and `dp-appr` read it. Symbols are the thesis'.
    """

    release: Literal["exact", "identity", "random", "gaussian", "exponential", "exponential-values"] = Field(
        description="Where rows come from: exact (Algorithm 6, not released), identity (a root's own record only), "
        "random (K public random columns of weight 1/K), gaussian (Algorithm 7), exponential and exponential-values "
        "(Algorithm 8, options 1 and 2)"
    )
    num_rows: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None, description="M, roots: nodes with a row and a loss; null: all training nodes that are kept"
    )
    node_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="q', share of the training nodes that are kept, with the edges among them"
    )
    top_k: Annotated[int, Field(ge=1, le=LARGE, description="K, entries of a row that are kept")] = 4
    clip: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="C1, norm of a row (gaussian), or C2, largest entry (exponential); public"
    )
    epsilon_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="epsilon_pr / epsilon: what the release of the rows may cost; training gets the rest"
    )
    training_epsilon: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="epsilon_sgd, in place of epsilon_share: the release may cost what is left of epsilon"
    )
    column_norm: Annotated[float, Field(gt=0, description="tau, L1 norm of a column (variant published)")] = 1.0
    column_cap: Annotated[int, Field(ge=1, le=LARGE, description="Entries that a column keeps (variant rigorous)")] = 1
    own_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="Weight of a root's own record; its row, at L1 norm 1, gets the rest (not the thesis')"
    )
    teleport: Annotated[float, Field(gt=0, le=1, description="alpha, of rows and of inference")] = 0.25
    sparsity: Annotated[float, Field(gt=0, lt=1, description="rho, weight of the L1 norm")] = 1e-4
    tolerance: Annotated[float, Field(gt=0, lt=1, description="gamma, of Algorithm 6")] = 1e-4
    inference_steps: Annotated[
        int, Field(ge=0, le=LARGE, description="P, power iterations of inference (Eq. 5.19)")
    ] = 2

    @property
    def released(self) -> bool:
        """Whether the rows are the output of a private mechanism."""
        return self.release in ("gaussian", "exponential", "exponential-values")

    @model_validator(mode="after")
    def _clip(self) -> Pagerank:
        if (self.clip is not None) != self.released:
            raise ValueError(f"release={self.release}, clip={self.clip}: expected a clip exactly for private releases")
        return self


class Privacy(Finite):
    """The guarantee that is asked for. Of `epsilon`, `noise_multiplier` and `training.steps` two are given."""

    variant: Literal["rigorous", "rigorous-fixed-size", "cut", "published", "released"] = Field(
        default="rigorous",
        description="dp-gnn: rigorous (stable sampler, Poisson batches, public joint clip norm, double-mixture "
        "accountant), rigorous-fixed-size (the same with batches of fixed size and Theorem 1 at the number of roots "
        "that do change), published (Algorithm 1, fixed-size batches, per-group percentile clipping, Theorem 1). "
        "dp-subgraph: rigorous (a fresh Poisson sample of nodes at each step), cut (fixed parts without the edges "
        "between them), published (fixed parts of the loss over the whole graph, moments accountant), "
        "released (the same without clipping, which is what the released code does). dp-lots: rigorous (Poisson lots), "
        "published, released. dp-appr: rigorous (columns of the released rows capped, Poisson batches of roots), "
        "published (Theorems 6 to 8)",
    )
    epsilon: Annotated[float, Field(gt=0, description="Target, under the accountant of the variant")] | None = None
    noise_multiplier: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="rigorous: noise std / clip norm (rigorous-fixed-size: / 2 C R); published: lambda = "
        "std / (2 C N(K, r))",
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="None: 1 / (10 N), N = number of training nodes"
    )
    max_degree: Annotated[int, Field(ge=1, le=LARGE, description="K: lists in which a node may occur")] = 4
    list_cap: Annotated[int, Field(ge=1, le=LARGE)] | None = Field(
        default=None, description="D of the stable sampler: a list's longest length; None: K"
    )
    clip_norm: Annotated[float, Field(gt=0, description="C, public (rigorous variants); C_s of dp-residual")] = 1.0
    neighbour_clip_ratio: Annotated[float, Field(ge=0)] = Field(
        default=0.1, description="C_n / C_s of dp-residual: what neighbours may add; 0: nothing"
    )
    neighbour_sampling_rate: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="q2 of dp-residual: rate of the batch of neighbour terms; null: as that of self terms"
    )
    choice_epsilon: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="dp-residual: part of epsilon that pays for choosing, on validation nodes, whether inference reads "
        "neighbours; null: it always does",
    )
    clip_percentile: Annotated[float, Field(gt=0, lt=100)] = Field(
        default=75.0, description="Percentile of the initial gradient norms (variant published; data-dependent)"
    )


class Cell(Finite):
    """One job of the workflow."""

    task: Task
    method: TaskName
    model: Model
    training: Training
    privacy: Privacy | None = None
    pagerank: Pagerank | None = None
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, le=LARGE)], ...], Field(min_length=1, max_length=10_000)]

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("expected each seed once")
        return value

    @model_validator(mode="after")
    def _privacy(self) -> Cell:
        if self.privacy is not None:
            given = [
                self.privacy.epsilon is not None,
                self.privacy.noise_multiplier is not None,
                self.training.steps != "max",
            ]
            if self.training.max_degree is not None:
                raise ValueError(
                    f"training.max_degree={self.training.max_degree}: expected null with privacy, whose K is "
                    "privacy.max_degree"
                )
            if sum(given) != 2:
                raise ValueError(
                    f"epsilon={self.privacy.epsilon}, noise_multiplier={self.privacy.noise_multiplier}, "
                    f"steps={self.training.steps}: expected exactly two of them (steps=max leaves steps open)"
                )
            for name, default in (("patience", None), ("weight_decay", 0.0)):
                value = getattr(self.training, name)
                if value != default:
                    raise ValueError(f"training.{name}={value}: expected {default} with privacy")
        elif self.training.steps == "max":
            raise ValueError("steps=max: expected a number of steps when there is no privacy")
        return self

    @model_validator(mode="after")
    def _release(self) -> Cell:
        if self.pagerank is None:
            return self
        rows, epsilon = self.pagerank, None if self.privacy is None else self.privacy.epsilon
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

    @property
    def release_epsilon(self) -> float | None:
        """epsilon_pr, what the release of the rows alone may cost; None: nothing is released."""
        if self.pagerank is None or self.privacy is None or self.privacy.epsilon is None:
            return None
        if self.pagerank.training_epsilon is not None:
            return self.privacy.epsilon - self.pagerank.training_epsilon
        share = self.pagerank.epsilon_share
        return None if share is None else share * self.privacy.epsilon

    @cached_property
    def identity(self) -> str:
        """Hash of everything that differs from the defaults, but the seeds."""
        return digest(chosen(self, exclude={"seeds"}))

    @cached_property
    def slug(self) -> str:
        """Readable name of the cell's folder, e.g. `cora-disjoint.dp-gnn.eps8-3f2a91bc`."""
        budget = ""
        if self.privacy is not None:
            target = self.privacy.epsilon
            budget = f".{self.privacy.variant}" + (f".eps{target:g}" if target is not None else "")
        return f"{self.task.dataset}-{self.task.setting}.{self.method}-{self.model.hops}hop{budget}-{self.identity}"

    @cached_property
    def for_calibration(self) -> Cell | None:
        """This cell with all that the noise does not depend on set to defaults. None: no privacy."""
        if self.privacy is None:
            return None
        defaults = Privacy.model_fields
        return self.model_copy(
            update={
                "model": Model(architecture=self.model.architecture, hops=self.model.hops),
                "training": self.training.model_copy(update=NOT_CALIBRATED),
                "privacy": self.privacy.model_copy(
                    update={name: defaults[name].default for name in ("clip_norm", "clip_percentile")}
                ),
                "pagerank": self._pagerank_for_calibration,
                "seeds": (0,),
            }
        )

    @property
    def _pagerank_for_calibration(self) -> Pagerank | None:
        if self.pagerank is None:
            return None
        unread = ("own_weight", "teleport", "sparsity", "tolerance")
        defaults = {name: Pagerank.model_fields[name].default for name in unread}
        # whether predictions read edges is part of the guarantee's scope
        defaults["inference_steps"] = min(1, self.pagerank.inference_steps)
        return self.pagerank.model_copy(update=defaults | ({"clip": 1.0} if self.pagerank.released else {}))

    @cached_property
    def calibration_key(self) -> str | None:
        """Name of the calibration; cells that agree in `for_calibration` share it. None: no privacy."""
        cell = self.for_calibration
        if cell is None:
            return None
        return f"{self.task.dataset}-{self.task.setting}.{self.method}-{digest(chosen(cell), 12)}"
