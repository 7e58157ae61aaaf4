"""Experiment files: one per paper, data and no code. They name methods, artefacts and claims."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from dpgraph.config import claim_tests as kinds
from dpgraph.config.cell import MOST_SEEDS
from dpgraph.config.claim import Claim, OwnResults
from dpgraph.config.expansion import ExpandedModel
from dpgraph.config.frozen import Finite
from dpgraph.config.layout import Layout

Setting = Annotated[str, Field(pattern=r"^(epochs|private|[a-z]+\.[a-z_]+)$")]


class Difference(Finite):
    """Why compared cells may differ in a setting."""

    why: Annotated[str, Field(min_length=10)]
    between: tuple[Setting, ...] = ()
    """Only between cells that differ in one of these settings; none: between any methods"""
    methods: tuple[str, ...] = ("*",)
    """Only where one of the two methods is among these; * matches any characters"""
    searched: bool = False
    """Only where each of the two cells has what its method's settings file chose, or, where that did not choose this
    setting, the default"""


Varies = dict[Setting, Difference | tuple[Difference, ...]]
VARIES = (
    "Settings in which compared cells may differ besides those of their methods, the sweep and epsilon, each with the "
    "reason; epochs: how often a record is seen; private: whether there is a budget"
)


PRESENCE = "presence_epsilon/test"  # metric of the view presence
ACCURACY = "accuracy/test"
HARD_CASES = "hard_cases"  # metric of a view of that name, followed by / and the artefact


class MethodRow(Finite):
    """A row of the paper's tables: a method of the package with what the paper fixes."""

    label: str = Field(description="At most 24 characters, as long as a legend has room for")
    about: str | None = Field(default=None, description="What the label leaves out, a sentence of at most 25 words")
    method: str = Field(description="A method by its name: gnn, mlp, dp-gnn, dp-mlp")
    set: dict[str, Any] = Field(default_factory=dict)
    """The row's own part of a cell; no rule of a suite overrides it"""
    published: dict[kinds.Id, dict[str, str]] = Field(default_factory=dict)
    """Per table of the paper, the columns that identify this method's rows in published/*.csv"""


class Sweep(Finite):
    """One hyper-parameter that an artefact varies; the suite's grids name its values."""

    label: str = Field(description="Label of the axis: Batch size m")
    settings: tuple[Setting, ...] = ()
    """Settings that vary with the value, by dotted path: training.batch_size"""
    published_key: str | Annotated[tuple[str, ...], Field(min_length=2)] | None = None
    """Its key in column other_params of published/*.csv; several keys for labels with as many parts (600, 4); null: not
    in the paper"""
    published_default: str | None = None
    """Label of the value that printed rows without the key have"""


class ReleaseAxis(Finite):
    """An axis of the total claimed epsilon: epsilon_pr of released PageRank rows plus a fixed epsilon_sgd of training.

    Zhang's section 5.4.1 has epsilon_pr = factor epsilon - training_epsilon on its axis; captions name it. Methods
    without a release train with all of epsilon, and are where the others have as much.
    """

    training_epsilon: Annotated[float, Field(gt=0)] = Field(description="epsilon_sgd, in units of the axis")
    factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """q', by which the thesis multiplies epsilon; the axis shows epsilon before that"""


class Search(Finite):
    """Hyper-parameter search: every trial is a cell; the best on validation data is selected."""

    strategy: Literal["grid", "random", "orthogonal"]
    """grid: every combination; random: so many; orthogonal: of three settings with n values each n * n trials, in which
    each pair of values of two settings occurs once (an orthogonal array of strength 2)"""
    space: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(min_length=1)
    """Values by dotted path in a cell, e.g. training.learning_rate: [0.001, 0.01]"""
    trials: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """random: how many, on average for the distributions below; else null"""
    distribution: Literal["fixed", "geometric", "poisson"] = "fixed"
    """Distribution of the number of random trials; a theorem covers the selection for geometric and poisson"""
    metric: str = "accuracy/val"

    @model_validator(mode="after")
    def _trials(self) -> Search:
        if (self.strategy == "random") != (self.trials is not None):
            raise ValueError(f"strategy={self.strategy}, trials={self.trials}: expected trials exactly when random")
        if self.strategy != "random" and self.distribution != "fixed":
            raise ValueError(f"distribution={self.distribution}: expected fixed with strategy={self.strategy}")
        lengths = [len(values) for values in self.space.values()]
        if self.strategy == "orthogonal" and (len(lengths) != 3 or len(set(lengths)) > 1):
            raise ValueError(f"space: {lengths} values: expected three settings with as many values each")
        return self


class RelationalSettings(Finite):
    """Settings at which the bounds of Huang et al. are computed; null: the default (families/tuples/bounds.py)."""

    nodes: Annotated[int, Field(ge=2, description="n, entities")] | None = None
    relations: Annotated[int, Field(ge=1, description="m")] | None = None
    max_degree: Annotated[int, Field(ge=1, description="K")] | None = None
    negatives: Annotated[int, Field(ge=1, description="k, of each tuple")] | None = None
    rate: Annotated[float, Field(gt=0, lt=1, description="Of Poisson batches of relations")] | None = None
    noise: Annotated[float, Field(gt=0, description="Noise std / sensitivity")] | None = None


Stem = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
Seeds = Annotated[int, Field(ge=1, le=MOST_SEEDS)]

View = Literal[
    "accuracy", "statistics", "privacy-utility", "sweep", "class-wise", "search", "accounting", "hard-cases",
    "confusion", "embedding", "membership", "variance", "hyperparameters", "bounds", "training", "inversion", "matched",
    "gallery", "subclasses", "presence", "shares", "gains",
]  # fmt: skip
TABLES_ONLY = ("accounting", "presence", "shares")
FIGURES_ONLY = ("hard-cases", "embedding", "bounds", "training", "matched", "gallery", "subclasses", "gains")
VIEWS_OF_TESTS = {
    "rarer-classes": "class-wise", "rise-and-fall": "training", "every-class": "inversion",
    "at-equal-accuracy": "matched",
}  # fmt: skip
VIEWS_OF_FIELDS: dict[str, tuple[str, ...]] = {  # of artefacts: which views may have them
    "layout": ("accuracy",),
    "search": ("search",),
    "bounds": ("bounds",),
    "sweep": ("sweep", "privacy-utility", "accounting", "hard-cases", "inversion", "matched", "gallery"),
    "reference": ("hard-cases", "confusion", "gains"),
    "chance": ("accuracy", "sweep", "privacy-utility"),
    **dict.fromkeys(("along_training", "release_axis", "proved_only"), ("privacy-utility",)),
    **dict.fromkeys(("spline", "second_metric"), ("training",)),
}


class Artefact(Finite):
    """A table or figure of the paper."""

    kind: Literal["table", "figure"]
    view: View
    """Kind of table or figure; docs/reference/workflow-files.md describes each view"""
    title: str
    caption: str = ""
    metric: str = Field(default=ACCURACY, description="hard-cases and presence: not given, they have their own")
    second_metric: str | None = Field(default=None, description="training: another metric, drawn with dashes")
    spline: bool = False
    """training: a smoothing spline through the means, its smoothness by generalised cross-validation"""
    methods: tuple[kinds.Id, ...] = ()
    layout: Layout | None = Field(default=None, description="accuracy, of its wide form; null: methods by data sets")
    sweep: Sweep | None = None
    """Settings that vary: by row in a sweep, one curve for each value in privacy-utility"""
    search: Search | None = None
    bounds: dict[str, RelationalSettings] = Field(default_factory=dict)
    """bounds: settings by label, each a pair of panels"""
    reference: kinds.Id | dict[kinds.Id, kinds.Id] | None = None
    """hard-cases: the method whose errors are the hard cases, for all methods or by method (one that is not named is
    its own); confusion: the method whose largest confusions the table lists (null: the first one); gains: the method
    that others are compared with"""
    reference_value: str | None = None
    """hard-cases in a sweep: label of the value at which the reference is"""
    varies: Varies = Field(default_factory=dict, description=VARIES)
    along_training: bool = False
    """privacy-utility: a private run gives a point at each of its evaluations, with the epsilon of the steps so far,
    instead of one at its end"""
    release_axis: ReleaseAxis | None = None
    """privacy-utility: the x axis is the total claimed epsilon, of release and training, in place of both epsilons"""
    proved_only: bool = Field(default=False, description="privacy-utility: over the proved epsilon alone")
    chance: bool = False
    """accuracy, sweep, privacy-utility: chance level (share of the largest class of the test nodes) and whether each
    row is above it, by a test of the differences of each seed (5 %, Holm's correction)"""
    published_table: kinds.Id | tuple[kinds.Id, ...] | None = None
    """Table in published/*.csv, in prose on a figure its id (fig3); several: the first one that prints a number counts,
    figures show all; null: the artefact's id"""

    @model_validator(mode="after")
    def _view(self) -> Artefact:
        for name, views in VIEWS_OF_FIELDS.items():
            if getattr(self, name) and self.view not in views:
                raise ValueError(f"view={self.view}: expected {name} only with {', '.join(views)}")
        if self.view in ("search", "bounds", "sweep") and not getattr(self, self.view):
            raise ValueError(f"view={self.view}: expected {self.view}")
        if self.layout is not None:
            self.layout.check(self.methods)
        if self.release_axis is not None and (self.along_training or self.proved_only):
            raise ValueError("release_axis: expected without along_training and proved_only")
        if self.chance and self.metric != ACCURACY:
            raise ValueError(f"metric={self.metric}, chance=true: expected {ACCURACY}")
        if self.view in TABLES_ONLY and self.kind != "table":
            raise ValueError(f"view={self.view}, kind={self.kind}: expected kind=table")
        if self.view in FIGURES_ONLY and self.kind != "figure":
            raise ValueError(f"view={self.view}, kind={self.kind}: expected kind=figure")
        return self

    @model_validator(mode="after")
    def _reference(self) -> Artefact:
        if self.view == "gains" and not isinstance(self.reference, str):
            raise ValueError(f"view=gains, reference={self.reference}: expected one of methods")
        if self.view in ("hard-cases", "presence") and self.metric != ACCURACY:
            raise ValueError(f"view={self.view}, metric={self.metric}: expected none, it has its own")
        if self.view == "hard-cases":
            for method in self.methods:
                if self.reference_of(method) not in self.methods:
                    raise ValueError(f"reference of {method}={self.reference_of(method)}: expected one of methods")
        if isinstance(self.reference, str) and self.reference not in self.methods:
            raise ValueError(f"reference={self.reference}: expected one of methods")
        if isinstance(self.reference, dict) and self.view == "confusion":
            raise ValueError("view=confusion: expected one reference for all methods")
        if (self.reference_value is not None) != (self.view == "hard-cases" and self.sweep is not None):
            raise ValueError(
                f"view={self.view}, reference_value={self.reference_value}: expected exactly with hard-cases in a sweep"
            )
        return self

    def reference_of(self, method: kinds.Id) -> kinds.Id | None:
        return self.reference.get(method, method) if isinstance(self.reference, dict) else self.reference

    def tables(self, name: kinds.Id) -> tuple[kinds.Id, ...]:
        """Return the tables of the paper that print its numbers; `name` is the artefact's id."""
        if self.published_table is None:
            return (name,)
        return (self.published_table,) if isinstance(self.published_table, str) else self.published_table

    def named(self, name: kinds.Id) -> Artefact:
        """Return the artefact with the metric that its results have under this id."""
        own = {"hard-cases": f"{HARD_CASES}/{name}", "presence": PRESENCE}
        return self.model_copy(update={"metric": own[self.view]}) if self.view in own else self


class Experiment(ExpandedModel):
    SECTIONS: ClassVar = {"published_as": "published"}

    paper: kinds.Id
    title: str
    citation: str
    cited_as: str = Field(default="", description="as a sentence names the paper, e.g. Daigavane et al. (2022)")
    published: Stem = "none"
    """Stem of the paper's files in published/; none: no printed numbers"""
    defaults: dict[str, Any] = Field(default_factory=dict, description="Part of a cell, the lowest layer")
    varies: Varies = Field(default_factory=dict, description=VARIES)
    methods: dict[kinds.Id, MethodRow]
    artefacts: dict[kinds.Id, Artefact]
    own: OwnResults | None = Field(default=None, description="The paper's own data and mechanisms; required by claims")
    claims: dict[kinds.Id, Claim] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _references(self) -> Experiment:
        for name, artefact in self.artefacts.items():
            for method in artefact.methods:
                if method not in self.methods:
                    raise ValueError(f"artefacts.{name}.methods={method}: expected one of {', '.join(self.methods)}")
        for name, claim in self.claims.items():
            if claim.sentence is not None and self.own is None:
                raise ValueError(
                    f"claims.{name}.sentence: expected `own`, the paper's data and mechanisms, in this file"
                )
            for part in (*claim.parts, *claim.premises):
                for used, methods in kinds.uses(part):
                    self._known(f"claims.{name}.test", used, methods)
                    for method in methods:
                        if method not in self.artefacts[used].methods:
                            raise ValueError(f"claims.{name}.test: {method} is not a method of artefact {used}")
                self._view_of(name, part)
            for reading, one in claim.read.items():
                for used, methods in (use for part in one.parts for use in kinds.uses(part)):
                    self._known(f"claims.{name}.readings.{reading}", used, methods)
        return self

    def _known(self, where: str, artefact: kinds.Id, methods: tuple[kinds.Id, ...]) -> None:
        """Raise ValueError for an artefact or a method that the file has not."""
        if artefact not in self.artefacts:
            raise ValueError(f"{where}.artefact={artefact}: expected an artefact of this file")
        for method in methods:
            if method not in self.methods:
                raise ValueError(f"{where}: {method} is not a method of this file")

    def _view_of(self, claim: str, test: kinds.SimpleTest) -> None:
        """Raise ValueError where a test needs a sweep, or a class-wise artefact, and its artefact is none."""
        for artefact, _ in kinds.uses(test):
            described = self.artefacts[artefact]
            if described.view == "variance":
                raise ValueError(
                    f"claims.{claim}.test.artefact={artefact}: its seeds share splits, tests take them as "
                    "independent; expected an artefact of another view"
                )
            curve = isinstance(test, kinds.Monotone | kinds.Constant) and test.over == "values"
            if (curve or isinstance(test, kinds.NearBest | kinds.SmallerRange)) and described.sweep is None:
                raise ValueError(f"claims.{claim}.test.artefact={artefact}: expected an artefact with a sweep")
            if isinstance(test, kinds.WeightedSum):
                self._values_of(claim, test)
            if (view := VIEWS_OF_TESTS.get(test.kind, described.view)) != described.view:
                raise ValueError(f"claims.{claim}.test.artefact={artefact}: expected an artefact of view {view}")

    def _values_of(self, claim: str, test: kinds.WeightedSum) -> None:
        for term in test.terms:
            artefact = term.artefact or test.artefact
            if (term.value is not None) != (self.artefacts[artefact].sweep is not None):
                raise ValueError(
                    f"claims.{claim}.test.terms.value={term.value}: expected one exactly where {artefact} has a sweep"
                )
