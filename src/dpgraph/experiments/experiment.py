"""Experiment files: one per paper, data and no code. They name methods, artefacts and claims; suites name the data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dpgraph.experiments.frozen import Frozen

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$")]


class MethodRow(Frozen):
    """A row of the paper's tables: a method of the package with what the paper fixes."""

    label: str
    method: str = Field(description="Name in methods/: gnn, mlp, dp-gnn, dp-mlp")
    set: dict[str, Any] = Field(
        default_factory=dict,
        description="What makes the row this method: a part of a cell that no rule of a suite overrides",
    )
    published: dict[Id, dict[str, str]] = Field(
        default_factory=dict,
        description="Per table of the paper, the columns that identify this method's rows in published/*.csv",
    )


class Sweep(Frozen):
    """One hyper-parameter that an artefact varies; the suite's grids name its values."""

    label: str = Field(description="What is varied, as an axis is labelled: Batch size m")
    published_key: str | None = Field(
        default=None, description="Its key in column other_params of published/results_*.csv; null: not in the paper"
    )


class Search(Frozen):
    """Hyper-parameter search: every trial is a cell; the best on validation data is selected."""

    strategy: Literal["grid", "random"]
    space: dict[str, tuple[Any, ...]] = Field(
        min_length=1, description="Values by dotted path in a cell, e.g. training.learning_rate: [0.001, 0.01]"
    )
    trials: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="random: how many, on average for the distributions below; grid: null"
    )
    distribution: Literal["fixed", "geometric", "poisson"] = Field(
        default="fixed",
        description="Of the number of random trials; geometric and poisson have a theorem that pays for the selection",
    )
    metric: str = "accuracy/val"

    @model_validator(mode="after")
    def _trials(self) -> Search:
        if (self.strategy == "random") != (self.trials is not None):
            raise ValueError(f"strategy={self.strategy}, trials={self.trials}: expected trials exactly when random")
        if self.strategy == "grid" and self.distribution != "fixed":
            raise ValueError(f"distribution={self.distribution}: expected fixed for a grid")
        for path, values in self.space.items():
            if not values:
                raise ValueError(f"space.{path}=[]: expected at least one value")
        return self


class Artefact(Frozen):
    """A table or figure of the paper."""

    kind: Literal["table", "figure"]
    view: Literal["accuracy", "statistics", "privacy-utility", "sweep", "class-wise", "search"] = Field(
        description="How it is made: accuracy (methods by data sets), statistics (of data sets), "
        "privacy-utility (accuracy against epsilon), sweep (accuracy by the values of one hyper-parameter), "
        "class-wise (accuracy of each class, ordered by frequency), search (trials of a hyper-parameter search)"
    )
    title: str
    caption: str = ""
    metric: str = "accuracy/test"
    methods: tuple[Id, ...] = ()
    sweep: Sweep | None = Field(
        default=None, description="What varies: by row in a sweep, one curve for each value in privacy-utility"
    )
    search: Search | None = None
    along_training: bool = Field(
        default=False,
        description="privacy-utility: a private run gives a point at each of its evaluations, with the epsilon of the "
        "steps so far, instead of one at its end",
    )
    published_table: Id | None = Field(default=None, description="Table in published/*.csv; null: the artefact's id")

    @model_validator(mode="after")
    def _view(self) -> Artefact:
        if (self.view == "search") != (self.search is not None):
            raise ValueError(f"view={self.view}: expected search exactly with the view search")
        if (self.view == "sweep" and self.sweep is None) or (
            self.sweep is not None and self.view not in ("sweep", "privacy-utility")
        ):
            raise ValueError(f"view={self.view}: expected sweep with the view sweep, or privacy-utility with one")
        if self.along_training and self.view != "privacy-utility":
            raise ValueError(f"view={self.view}, along_training=true: expected the view privacy-utility")
        return self


Tasks = Annotated[
    tuple[str, ...] | None,
    Field(description="Only these tasks, by the paper's name of the data set; null: all of the artefact"),
]
At = Literal["largest-epsilon", "every-epsilon"]
Points = Annotated[float, Field(gt=0, description="Percentage points")]


class Greater(Frozen):
    """`better` has the higher mean than each of `worse`, on every task, by more than `margin` (metric's unit)."""

    kind: Literal["greater"] = "greater"
    artefact: Id
    better: tuple[Id, ...] = Field(min_length=1)
    worse: tuple[Id, ...] = Field(min_length=1)
    worse_in: Id | None = Field(default=None, description="Artefact of `worse`; null: the same")
    margin: float = Field(default=0.0, description="In percentage points")
    tasks: Tasks = None
    at: At = "largest-epsilon"


class Similar(Frozen):
    """In every pair the means differ by less than `within`, on every task: two one-sided tests per pair."""

    kind: Literal["similar"] = "similar"
    artefact: Id
    pairs: tuple[tuple[Id, Id], ...] = Field(min_length=1)
    second_in: Id | None = Field(default=None, description="Artefact of each pair's second method; null: the same")
    within: Points
    tasks: Tasks = None
    at: At = "largest-epsilon"


class GrowingGap(Frozen):
    """The gap between `better` and each of `worse` grows from the smallest to the largest epsilon, on every task."""

    kind: Literal["growing-gap"] = "growing-gap"
    artefact: Id
    better: Id
    worse: tuple[Id, ...] = Field(min_length=1)
    tasks: Tasks = None


class Monotone(Frozen):
    """Along a sweep, in the suite's order of its values, each of `methods` ends above where it starts.

    No step between neighbouring values falls by `tolerance` or more.
    """

    kind: Literal["monotone"] = "monotone"
    artefact: Id
    methods: tuple[Id, ...] = Field(min_length=1)
    tolerance: Points
    tasks: Tasks = None


class NearBest(Frozen):
    """In a sweep, `methods` at each of `values` are less than `within` below the best value."""

    kind: Literal["near-best"] = "near-best"
    artefact: Id
    methods: tuple[Id, ...] = Field(min_length=1)
    values: tuple[str, ...] = Field(min_length=1, description="Labels of the sweep's values")
    within: Points
    tasks: Tasks = None


class SmallerRange(Frozen):
    """The means of each of `methods` vary less over the sweep `artefact` than over the sweep `than`."""

    kind: Literal["smaller-range"] = "smaller-range"
    artefact: Id
    than: Id
    methods: tuple[Id, ...] = Field(min_length=1)
    tasks: Tasks = None


class RarerClasses(Frozen):
    """The rarer a class in the training data, the more of its accuracy privacy costs (view class-wise).

    Spearman's correlation over classes of training frequency with accuracy(reference) - accuracy(method), one per seed,
    is below 0; with `of: accuracy`, that with the method's own accuracy is above 0.
    """

    kind: Literal["rarer-classes"] = "rarer-classes"
    artefact: Id
    methods: tuple[Id, ...] = Field(min_length=1)
    reference: Id = Field(description="The method without privacy")
    of: Literal["loss", "accuracy"] = "loss"
    tasks: Tasks = None


class Computed(Frozen):
    """A statement that needs no training: decided by a named function of reporting/claims."""

    kind: Literal["computed"] = "computed"
    function: Literal["occurrence-bound", "tighter-than-group-privacy"]


class NotTested(Frozen):
    kind: Literal["not-run"] = "not-run"
    why: str


SimpleTest = Greater | Similar | GrowingGap | Monotone | NearBest | SmallerRange | RarerClasses


class AllOf(Frozen):
    """Several tests that must all hold; their comparisons count together."""

    kind: Literal["all"] = "all"
    tests: tuple[Annotated[SimpleTest, Field(discriminator="kind")], ...] = Field(min_length=2)


def uses(test: SimpleTest) -> list[tuple[Id, tuple[Id, ...]]]:
    """Artefacts that a test reads, each with the methods that it looks for there."""
    match test:
        case Greater():
            return [(test.artefact, test.better), (test.worse_in or test.artefact, test.worse)]
        case Similar():
            first, second = zip(*test.pairs)
            return [(test.artefact, first), (test.second_in or test.artefact, second)]
        case GrowingGap():
            return [(test.artefact, (test.better, *test.worse))]
        case SmallerRange():
            return [(test.artefact, test.methods), (test.than, test.methods)]
        case RarerClasses():
            return [(test.artefact, (*test.methods, test.reference))]
        case _:
            return [(test.artefact, test.methods)]


class Claim(Frozen):
    statement: str
    source: str = Field(description="Section, table or figure of the paper")
    own_numbers: str = Field(default="", description="What the paper's own printed numbers say of it")
    test: Annotated[SimpleTest | AllOf | Computed | NotTested, Field(discriminator="kind")]

    @property
    def parts(self) -> tuple[SimpleTest, ...]:
        """The tests on results; none where the claim is computed or not run."""
        if isinstance(self.test, AllOf):
            return self.test.tests
        return () if isinstance(self.test, Computed | NotTested) else (self.test,)


class Experiment(Frozen):
    paper: Id
    title: str
    citation: str
    published: str = Field(description="Stem of the paper's files in published/")
    defaults: dict[str, Any] = Field(default_factory=dict, description="Part of a cell, the lowest layer")
    methods: dict[Id, MethodRow]
    artefacts: dict[Id, Artefact]
    claims: dict[Id, Claim] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _references(self) -> Experiment:
        for name, artefact in self.artefacts.items():
            for method in artefact.methods:
                if method not in self.methods:
                    raise ValueError(f"artefacts.{name}.methods={method}: expected one of {', '.join(self.methods)}")
        for name, claim in self.claims.items():
            for used, methods in (use for part in claim.parts for use in uses(part)):
                if used not in self.artefacts:
                    raise ValueError(f"claims.{name}.test.artefact={used}: expected an artefact of this file")
                for method in methods:
                    if method not in self.artefacts[used].methods:
                        raise ValueError(f"claims.{name}.test: {method} is not a method of artefact {used}")
            for part in claim.parts:
                self._view_of(name, part)
        return self

    def _view_of(self, claim: str, test: SimpleTest) -> None:
        """Raises ValueError where a test needs a sweep, or a class-wise artefact, and its artefact is none."""
        for artefact, _ in uses(test):
            described = self.artefacts[artefact]
            if isinstance(test, Monotone | NearBest | SmallerRange) and described.sweep is None:
                raise ValueError(f"claims.{claim}.test.artefact={artefact}: expected an artefact with a sweep")
            if isinstance(test, RarerClasses) and described.view != "class-wise":
                raise ValueError(f"claims.{claim}.test.artefact={artefact}: expected an artefact of view class-wise")


class SuiteTask(Frozen):
    """A data set of the suite, as its tables show it."""

    label: str
    task: dict[str, Any] = Field(description="dataset, setting, split, features")
    published: str | None = Field(default=None, description="The paper's name of it; null: not in the paper")


class Rule(Frozen):
    """Hyper-parameters for the cells that match; later rules win."""

    methods: tuple[str, ...] = Field(default=("*",), description="Method ids; * matches any characters")
    tasks: tuple[str, ...] = ("*",)
    set: dict[str, Any] = Field(default_factory=dict)
    hyperparameter_table: Id | None = Field(
        default=None,
        description="Take learning rate, batch size, activation, depths, noise multiplier and K from this table of "
        "published/hyperparameters.csv, for method and data set as the paper names them",
    )


class Grid(Frozen):
    """Methods crossed with tasks, for private methods with target epsilons, and in a sweep with its values."""

    methods: tuple[str, ...] = Field(default=("*",), description="Method ids of the artefact; * matches any characters")
    tasks: tuple[str, ...] = Field(min_length=1)
    epsilons: tuple[Annotated[float, Field(gt=0)], ...] = ()
    values: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Of a sweep: a part of a cell by its label, which wins over the rules, e.g. "
        "7: {privacy: {max_degree: 7}}",
    )


class SuitePaper(Frozen):
    rules: tuple[Rule, ...] = ()
    artefacts: dict[Id, Annotated[tuple[Grid, ...], Field(min_length=1)]] = Field(
        description="An artefact is the union of its grids"
    )


class Suite(Frozen):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    title: str
    note: str = Field(description="Shown on top of the report: what this suite is and what it is not")
    demonstration: bool = False
    seeds: Annotated[int, Field(ge=1)]
    tasks: dict[str, SuiteTask]
    papers: dict[Id, SuitePaper]

    @model_validator(mode="after")
    def _references(self) -> Suite:
        for paper, part in self.papers.items():
            for name, artefact in part.artefacts.items():
                for task in (task for grid in artefact for task in grid.tasks):
                    if task not in self.tasks:
                        raise ValueError(
                            f"papers.{paper}.artefacts.{name}.tasks={task}: expected one of {', '.join(self.tasks)}"
                        )
        return self
