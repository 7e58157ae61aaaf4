"""The specification of a method, without torch: its variants with their mechanisms, and where its code is.

A method's specification is in `families/<family>/spec.py`, in a tuple SPECS. No other module knows a method by its
name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpgraph.config.cell import LARGE, Cell, RootBatches, Training
from dpgraph.core.errors import invalid
from dpgraph.data.records import FIRST_PROBLEM
from dpgraph.engine.methods.cost import NETWORK, network_seconds
from dpgraph.engine.methods.looks import Look, any_look
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.privacy.guarantee import Mode
from dpgraph.privacy.mechanisms.base import Mechanism, NoisySteps
from dpgraph.privacy.mechanisms.none import NonPrivate
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import PredictionInput, Relation
from dpgraph.problems.base import Size

Reads = Literal["trees", "records", "parts", "rows", "tuples", "teachers", "node teachers", "sums", "lists", "units"]
Terms = Literal["joint", "own and neighbours", "own"]
NoiseUnit = Literal["C", "2 C", "2 C R", "2 C N(K, r)", "m C"]


@dataclass(frozen=True, kw_only=True)
class CanarySettings:
    """The settings of a run with canaries in which the audit `one-run` has enough power: mu near 1.5."""

    noise: float  # noise std / C of a step
    rate: float = 1.0  # q of Poisson batches
    steps: int = 4


@dataclass(frozen=True, kw_only=True)
class AttackCase:
    """One cell of a variant that all general audits attack, with the requirements of its theorem.

    The requirements are written by hand from the paper or from docs/privacy. They are not read from the mechanism
    that runs, because an audit would then share its mistakes.

    Attributes:
        reads: Ego trees, records alone, parts of the graph, released rows, tuples, teachers of images or of nodes,
            noisy sums alone, ids of lists, or units of images.
        terms: One gradient for each root, or the root's own gradient and the neighbours' addition, clipped separately
            ("own": C_n = 0).
        noise_unit: The factor of the noise multiplier.
        canaries: The run in which the audit `one-run` attacks the variant; None if it does not.
    """

    variant: str = "rigorous"
    reads: Reads
    hops: int = 0
    release: str | None = None  # of rows
    components: bool = False  # whether records are projected to noisy principal components first
    votes: bool = False  # whether nodes vote after the steps, which read records of one norm
    sums: bool = False  # whether noisy sums over neighbours are released between the steps
    terms: Terms = "joint"
    batches: Batches
    clipping: Clipped  # the unit that is clipped at C; ROOT_GROUPS: at percentiles
    noise_unit: NoiseUnit = "C"
    relation: Relation  # NONE: no relation is proved
    canaries: CanarySettings | None = None


class ReadBy(StrEnum):
    """Data that the prediction of a scored node reads, in addition to the released parameters."""

    OWN_RECORD = "own record"
    OWN_LIST = "own list"
    RELEASED = "what the run released to the node"
    RAW_GRAPH = "records along edges"
    CANDIDATES = "records of all that are ranked"


class Public(StrEnum):
    """Why the scored nodes' records and labels are equal in neighbouring data sets, or that they are protected."""

    BY_SPLIT = "validation nodes are declared public: no record of theirs is protected by the run"
    BY_RELATION = "the relation changes no record and no label"
    NO = "they are protected"


@dataclass(frozen=True)
class ScoreReads:
    """Data that the validation score of a run reads; the privacy cost of a search depends on it.

    `labels` names the nodes whose labels judge; `protected` says why they are not public, as part of an error text.
    """

    records: frozenset[ReadBy]
    public: Public = Public.BY_SPLIT
    labels: str = "validation nodes"
    protected: str = ""

    def objections(self, setting: str, splits: int) -> list[str]:
        """Return why the score is not a function of released and public data; an empty list if it is one."""
        found = []
        if ReadBy.RAW_GRAPH in self.records and setting == "transductive":
            found.append("validation scores read training records along edges (setting transductive)")
        if ReadBy.OWN_LIST in self.records:
            found.append("validation scores read own lists, which a node that leaves changes")
        if self.public is Public.NO:
            found.append(f"validation scores read labels of {self.labels}, {self.protected}")
        if self.public is Public.BY_SPLIT and splits > 1:
            found.append(f"the seeds have {splits} splits: validation nodes of one are training nodes of another")
        return found


Score = Callable[[Any], ScoreReads]  # from a cell
OWN_RECORD = frozenset({ReadBy.OWN_RECORD})


def scored_on_own_records(cell: Any) -> ScoreReads:
    """Return that the score reads each validation node's own record."""
    return ScoreReads(OWN_RECORD)


def scored_along_edges(cell: Any) -> ScoreReads:
    """Return that the score reads the raw graph if the model has hops, else own records."""
    return ScoreReads(OWN_RECORD | {ReadBy.RAW_GRAPH}) if cell.model.hops > 0 else ScoreReads(OWN_RECORD)


@dataclass(frozen=True)
class Variant:
    """A variant: `build` makes its mechanism of class `mechanism`.

    A target epsilon holds in the mode `target`.
    """

    mechanism: type[NoisySteps]
    build: Callable[[MechanismRequest], NoisySteps]
    score: Score
    target: Mode = "rigorous"


def reads_edges_with_hops(cell: Any) -> PredictionInput:
    """Return that predictions read the raw graph if the model has hops, else own records."""
    return PredictionInput.RAW_GRAPH if cell.model.hops > 0 else PredictionInput.OWN_RECORD


def own_record(cell: Any) -> PredictionInput:
    """Return that a prediction reads the node's own record and the released parameters."""
    return PredictionInput.OWN_RECORD


def captured(cell: Any) -> str:
    """Return why the step of a cell on ego trees, or on one loss, is not captured on a GPU; empty: it is."""
    private = cell.privacy is not None
    if private and getattr(cell.training, "engine", "own") != "own":
        return "another library forms the gradients"
    return "with dropout gradients have no closed form" if private and cell.model.dropout else ""


def uncaptured(reason: str) -> Callable[[Any], str]:
    """Return a function that gives one reason why the steps of a method are not captured."""
    return lambda cell: reason


NO_STEPS = uncaptured("it makes no steps")

Rule = Callable[[Size, float | None], Mapping[str, Any]]


@lru_cache(maxsize=4096)  # a plan asks for each of its cells, of few data sets and budgets
def _ruled(rule: Rule, size: Size, epsilon: float | None) -> Mapping[str, Any]:
    """Return the settings of a public rule, computed once."""
    return rule(size, epsilon)


@dataclass(frozen=True)
class MethodSpec:
    """A method. `train` is "module:class" of its code (`base.Method`).

    Without `variants` the method has no privacy.
    """

    name: str
    summary: str  # what `dpgraph list methods` shows
    train: str
    cell: type[Cell]  # its settings: what it does not read is refused
    contract: Mapping[str, Mapping[str, Any]]  # by a short name, the cells with which tests/contract tests it
    variants: Mapping[str, Variant] = field(default_factory=dict)
    attacks: tuple[AttackCase, ...] = ()  # at least one for each variant: tests/audits refuses a method without
    without_noise: type[NonPrivate] = NonPrivate  # or NoRecord, whose methods are shown counts only
    look: Callable[[Any], Look] = any_look  # in figures
    # steps of its guarantee between "this node is a root" and "another one is, in its place"; None: no bound is known
    root_exchanges: Callable[[Any], int | None] = lambda cell: None
    inference: Callable[[Any], PredictionInput] = reads_edges_with_hops
    problems: tuple[str, ...] = (FIRST_PROBLEM,)  # whose data it takes
    deterministic: bool = False  # True: every seed of a split predicts the same
    seconds: Callable[[Any, Size], float] = network_seconds  # estimate for one seed on one CPU core
    products: Callable[[Any], str] = lambda cell: NETWORK  # from a cell, the kind of most of its products
    # the work of a seed that all cells share: its name, and its seconds, a part of `seconds`
    shared: Callable[[Any, Size, int], tuple[Hashable, float]] | None = None
    # by name, a part of a cell from what the registry declares of a data set, and the target epsilon: no record is read
    rules: Mapping[str, Rule] = field(default_factory=dict)
    # from a cell, why its step is not captured as one program on a GPU; empty: it is, memory permitting
    why_not_captured: Callable[[Any], str] = lambda cell: "the host puts each batch together"
    # from the mechanism of a result, the name of what replaced its variant; empty: the variant ran
    fallback: Callable[[Mapping[str, Any]], str] = lambda mechanism: ""
    # by relation, its name where its parameters do not depend on the protected data: epsilon is 0
    untouched: Mapping[Relation, str] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        return bool(self.variants)

    def variant(self, cell: Cell) -> Variant:
        """Return the variant of a cell. Raise UserError for a variant that names no mechanism."""
        if cell.privacy is None:
            raise invalid("privacy", None, f"a budget for the method {self.name}")
        if cell.privacy.variant not in self.variants:
            raise invalid("variant", cell.privacy.variant, f"{' or '.join(self.variants)} for {self.name}")
        return self.variants[cell.privacy.variant]

    def by_rule(self, name: str, size: Size, epsilon: float | None) -> Mapping[str, Any]:
        """Return the settings of a public rule. Raise UserError for a rule that the method does not have."""
        if name not in self.rules:
            raise invalid("public_rule", name, f"{' or '.join(self.rules) or 'none'} for {self.name}")
        return _ruled(self.rules[name], size, epsilon)

    def check_runs(self, mechanism: Mechanism) -> None:
        """Raise UserError for a mechanism that the method does not name: it would not account for the run."""
        classes: set[type[Mechanism]] = {one.mechanism for one in self.variants.values()} or {self.without_noise}
        if type(mechanism) not in classes:
            kinds = sorted(kind.model_fields["kind"].default for kind in classes)
            raise invalid("mechanism", mechanism.kind, f"{' or '.join(kinds)} for the method {self.name}")

    def mechanism_class(self, cell: Cell) -> type[NoisySteps] | type[NonPrivate]:
        """Return the class of the mechanism of a cell."""
        return self.variant(cell).mechanism if self.private else self.without_noise


class FreeTraining(RootBatches):
    """Training settings of a method without privacy; each of them reads the data again, at no privacy cost."""

    weight_decay: Annotated[float, Field(ge=0, description="L2 penalty of all parameters")] = 0.0


class StoppedTraining(FreeTraining):
    """Training settings with early stopping on validation nodes."""

    patience: Annotated[int, Field(ge=1, le=LARGE)] | None = None
    """Epochs without a better score on validation nodes before stopping; the best parameters are kept"""
    stop_on: Literal["loss", "accuracy"] = "loss"
    """The score where patience is set: less loss, or more accuracy and among equals less loss"""

    @model_validator(mode="after")
    def _stops(self) -> Self:
        if self.patience is None and self.stop_on != "loss":
            raise ValueError(f"patience=null, stop_on={self.stop_on}: expected stop_on only with patience")
        return self


class AnyBatches(Training):
    """Settings of a baseline without batches, which accepts those of the methods that it is compared with."""

    batch_size: Annotated[int, Field(ge=1, le=LARGE, description="Not read")] | None = None
    sampling_rate: Annotated[float, Field(gt=0, le=1, description="Not read")] | None = None
    num_splits: Annotated[int, Field(ge=1, le=LARGE, description="Not read")] | None = None
