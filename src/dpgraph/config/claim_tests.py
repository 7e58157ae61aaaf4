"""The kinds of statistical tests that decide claims. The modules of reporting/claims/kinds run them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dpgraph.config.frozen import Finite

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$", max_length=100)]

Tasks = Annotated[
    tuple[str, ...] | None,
    Field(description="Only these tasks, by the paper's name of the data set; null: all of the artefact"),
]
At = Annotated[
    Literal["largest-epsilon", "every-epsilon"] | Annotated[tuple[float, ...], Field(min_length=1)],
    Field(description="At which target epsilons: the largest, each, or these"),
]
Values = Annotated[
    tuple[str, ...] | None, Field(description="Of a sweep: only at these of its values, by label; null: at each")
]
Across = Annotated[
    Literal["each", "mean"],
    Field(description="Whether it must hold on every data set, or on their mean (a statement that names none)"),
]
Points = Annotated[float, Field(gt=0, description="Percentage points")]
Over = Annotated[
    Literal["values", "epsilon"],
    Field(description="Along what: the values of the artefact's sweep, or the target epsilons, ascending"),
]
End = Annotated[str | None, Field(description="First or last label of the part that is meant; null: the whole curve")]


class PartTest(Finite):
    """A test of a part of the claim's sentence; tests of one name are one part."""

    part: Annotated[str, Field(max_length=160)] = Field(default="", description="What it tests, in a few words")


class OnArtefact(PartTest):
    """A test on the results of an artefact."""

    artefact: Id
    tasks: Tasks = None


class OnDataSets(OnArtefact):
    """A test that is made on every data set of its artefact alike."""

    across: Across = "each"


class Greater(OnDataSets):
    """`better` has the higher mean than each of `worse`, on every task, by more than `margin` (metric's unit).

    A negative margin means that `better` is at least as good: less than so much below.
    """

    kind: Literal["greater"] = "greater"
    better: tuple[Id, ...] = Field(min_length=1)
    worse: tuple[Id, ...] = Field(min_length=1)
    worse_in: Id | None = Field(default=None, description="Artefact of `worse`; null: the same")
    margin: float = Field(default=0.0, description="In percentage points")
    values: Values = None
    at: At = "largest-epsilon"


class Similar(OnDataSets):
    """A test that the means of every pair differ by less than `within`, on every task: two one-sided tests per pair."""

    kind: Literal["similar"] = "similar"
    pairs: tuple[tuple[Id, Id], ...] = Field(min_length=1)
    second_in: Id | None = Field(default=None, description="Artefact of each pair's second method; null: the same")
    within: Points
    values: Values = None
    at: At = "largest-epsilon"


class GrowingGap(OnDataSets):
    """The gap between `better` and each of `worse` grows from the smallest to the largest epsilon, on every task."""

    kind: Literal["growing-gap"] = "growing-gap"
    better: Id
    worse: tuple[Id, ...] = Field(min_length=1)


class Curve(OnDataSets):
    """Fields that tests on curves share: each of `methods` over the sweep's values or over epsilon, between two labels.

    Over values a curve is taken at the target epsilons of `at`, over epsilon at the sweep's `values`.
    """

    methods: tuple[Id, ...] = Field(min_length=1)
    over: Over = "values"
    start: End = None
    end: End = None
    values: Values = None
    at: At = "largest-epsilon"

    @model_validator(mode="after")
    def _one_direction(self) -> Curve:
        if self.over == "values" and self.values is not None:
            raise ValueError("values: expected only over epsilon; start and end choose a part of a sweep")
        if self.over == "epsilon" and self.at != "largest-epsilon":
            raise ValueError(f"at={self.at}: expected only over the values of a sweep")
        return self


class Monotone(Curve):
    """Each curve ends above (rising) or below (falling) where it starts, by more than `by` points.

    With a `tolerance` no step between neighbours goes the other way by so much or more.
    """

    kind: Literal["monotone"] = "monotone"
    direction: Literal["rising", "falling"] = "rising"
    by: Annotated[float, Field(ge=0, description="Percentage points between the ends")] = 0.0
    tolerance: Points | None = None


class Constant(Curve):
    """Any two means of each curve differ by less than `within`: two one-sided tests for each pair."""

    kind: Literal["constant"] = "constant"
    within: Points


class NearBest(OnDataSets):
    """A test that `methods` at each of `values` of a sweep are less than `within` below the best value."""

    kind: Literal["near-best"] = "near-best"
    methods: tuple[Id, ...] = Field(min_length=1)
    values: tuple[str, ...] = Field(min_length=1, description="Labels of the sweep's values")
    within: Points
    at: At = "largest-epsilon"


class SmallerRange(OnDataSets):
    """The means of each of `methods` vary less over the sweep `artefact` than over the sweep `than`."""

    kind: Literal["smaller-range"] = "smaller-range"
    than: Id
    methods: tuple[Id, ...] = Field(min_length=1)


class AboveChance(OnDataSets):
    """Each of `methods` has a higher mean than the share of the largest class of the test nodes."""

    kind: Literal["above-chance"] = "above-chance"
    methods: tuple[Id, ...] = Field(min_length=1)
    values: Values = None
    at: At = "largest-epsilon"


class Regime(OnDataSets):
    """Each of `methods` is less than `within` below what the paper prints for it, or above `least`."""

    kind: Literal["regime"] = "regime"
    methods: tuple[Id, ...] = Field(min_length=1)
    within: Points | None = Field(default=None, description="Below the printed number of each data set")
    least: float | None = Field(default=None, description="Where prose gives the number; in the metric's unit")
    values: Values = None
    at: At = "largest-epsilon"

    @model_validator(mode="after")
    def _one_limit(self) -> Regime:
        if (self.within is None) == (self.least is None):
            raise ValueError(f"within={self.within}, least={self.least}: expected one of them")
        return self


class Acted(OnDataSets):
    """A test that in every pair the two methods differ from seed to seed: the mean absolute difference is above 0."""

    kind: Literal["acted"] = "acted"
    pairs: tuple[tuple[Id, Id], ...] = Field(min_length=1)
    at: At = "largest-epsilon"


class RarerClasses(OnArtefact):
    """The rarer a class in the training data, the more of its accuracy privacy costs (view class-wise).

    Spearman's correlation over classes of training frequency with accuracy(reference) - accuracy(method), means over
    seeds, is below 0. Classes are the sample; all data sets are one test, of the mean correlation, in which each weighs
    as much as it has classes less one.
    """

    kind: Literal["rarer-classes"] = "rarer-classes"
    methods: tuple[Id, ...] = Field(min_length=1)
    reference: Id = Field(description="The method without privacy")


class WeightedMean(Finite):
    """One mean of a weighted sum."""

    method: Id
    times: float = Field(default=1.0, description="Its weight")
    artefact: Id | None = Field(default=None, description="null: the test's")
    task: str | None = Field(default=None, description="By the paper's name; null: the task at hand")
    value: str | None = Field(default=None, description="Label of the sweep's value; in a sweep required")
    epsilon: float | None = Field(default=None, description="Target; null: the largest")


class WeightedSum(OnDataSets):
    """A weighted sum of means is above `above` (in the metric's unit, percentage points).

    Says what compares differences or ratios: a smaller drop on one task than on another (weights 1, -1, -1, 1), or at
    least 87 % of the accuracy without privacy (weights 1 and -0.87). Terms name their tasks, or none does: then the
    test runs on every task of the artefact.
    """

    kind: Literal["weighted-sum"] = "weighted-sum"
    terms: tuple[WeightedMean, ...] = Field(min_length=1)
    above: float = 0.0

    @model_validator(mode="after")
    def _tasks(self) -> WeightedSum:
        named = [term.task is not None for term in self.terms]
        if any(named) and (not all(named) or self.tasks is not None or self.across != "each"):
            raise ValueError("terms.task: expected in every term, without tasks and across, or in none")
        return self


class Computed(PartTest):
    """A statement that needs no training: a family decides it (`CLAIMS` of families/*/reported.py)."""

    kind: Literal["computed"] = "computed"
    function: Literal[
        "occurrence-bound",
        "tighter-than-group-privacy",
        "epsilon-one-without-splits",
        "privacy-bound-factor",
        "lot-size-accounting",
        "bound-of-theorem-3",
        "bounds-elsewhere",
        "constant-sensitivity",
        "paired-negatives-are-rarely-true",
        "printed-budgets-of-classes",
    ]


class RiseAndFall(OnArtefact):
    """Along training (view training) a metric rises from its first evaluation to one between, and then falls.

    Evaluations at which one seed has no value are left out. The highest one between is chosen for each seed by the
    mean of all other seeds, so that no seed's own noise makes it high.
    """

    kind: Literal["rise-and-fall"] = "rise-and-fall"
    methods: tuple[Id, ...] = Field(min_length=1)


class EveryClass(OnArtefact):
    """The distance (view inversion) is larger for `higher` than for `lower`, one comparison for each class."""

    kind: Literal["every-class"] = "every-class"
    higher: Id
    lower: Id


class AtEqualAccuracy(OnArtefact):
    """`higher` is above each of `lower` at equal test accuracy, where both reach it (view matched).

    Each seed's values are joined by straight lines along the accuracy of its runs, and compared at the ends and the
    middle of what all seeds of both methods reach. Without a common range there is no comparison.
    """

    kind: Literal["at-equal-accuracy"] = "at-equal-accuracy"
    higher: Id
    lower: tuple[Id, ...] = Field(min_length=1)


class NotTested(PartTest):
    kind: Literal["not-run"] = "not-run"
    why: str


PairTest = Greater | Similar | GrowingGap
CurveTest = Monotone | Constant | NearBest | SmallerRange
MeanTest = AboveChance | Regime | Acted
SimpleTest = PairTest | CurveTest | RarerClasses | WeightedSum | RiseAndFall | EveryClass | AtEqualAccuracy | MeanTest
OtherTest = Computed | NotTested


def uses(test: SimpleTest) -> list[tuple[Id, tuple[Id, ...]]]:
    """Return artefacts that a test reads, each with the methods that it looks for there."""
    match test:
        case Greater():
            return [(test.artefact, test.better), (test.worse_in or test.artefact, test.worse)]
        case Similar():
            first, second = zip(*test.pairs)
            return [(test.artefact, first), (test.second_in or test.artefact, second)]
        case Acted():
            return [(test.artefact, tuple(dict.fromkeys(name for pair in test.pairs for name in pair)))]
        case GrowingGap():
            return [(test.artefact, (test.better, *test.worse))]
        case SmallerRange():
            return [(test.artefact, test.methods), (test.than, test.methods)]
        case RarerClasses():
            return [(test.artefact, (*test.methods, test.reference))]
        case WeightedSum():
            methods_of: dict[Id, dict[Id, None]] = {}
            for term in test.terms:
                methods_of.setdefault(term.artefact or test.artefact, {})[term.method] = None
            return [(artefact, tuple(methods)) for artefact, methods in methods_of.items()]
        case EveryClass():
            return [(test.artefact, (test.higher, test.lower))]
        case AtEqualAccuracy():
            return [(test.artefact, (test.higher, *test.lower))]
        case _:
            return [(test.artefact, test.methods)]
