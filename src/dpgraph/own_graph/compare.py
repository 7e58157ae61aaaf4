"""`compare`: methods on one's own graph at one epsilon, one relation and one scope, on the same held-out nodes.

For the curator alone: accuracies on held-out labels are private, and so is the choice of a method by them. No epsilon
covers either. Runs have known seeds and leave no release.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from scipy.stats import ttest_rel

from dpgraph.config.expansion import merged
from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import make_private, write_rows
from dpgraph.core.outside import checks_of
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.records import FIRST_PROBLEM, TEST, TRAIN
from dpgraph.engine.models.sparse import declared_density
from dpgraph.families.jobs import make_jobs
from dpgraph.families.own_graphs import RULE, RULES, rule_for
from dpgraph.families.registry import method, outside_of, spec, specs
from dpgraph.families.votes.epsilon import TradeOff
from dpgraph.own_graph import budget
from dpgraph.own_graph.classes import SHARE
from dpgraph.own_graph.edge_features import check_edge_features
from dpgraph.own_graph.fit import check_features, check_options, model_of
from dpgraph.own_graph.graph import OwnGraph, what_was_read
from dpgraph.own_graph.objects import own_graph
from dpgraph.own_graph.risk import gaussian_budget, weakness
from dpgraph.own_graph.scales import RangesGiven, check_scales, with_ranges
from dpgraph.own_graph.training import sides, train
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.guarantee import Guarantee, PrivacyStatement, at_most
from dpgraph.privacy.public_numbers import gaussian_mu
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.chance import holm
from dpgraph.reporting.formats import template

HELD_OUT = 0.2  # of the nodes, drawn anew for each seed
MOST_SEEDS = 100
NO_PRIVACY = "no privacy"
NO_SETTINGS = "it states no settings for own graphs (rule own-graph of its specification)"
ROUNDING = 1e-6  # of an epsilon that was solved for


@dataclass(frozen=True)
class ComparedMethod:
    """One method: what its epsilon is about, and its accuracy on the held-out nodes of each seed."""

    method: str
    relation: str
    scope: str
    epsilon: float
    accuracies: tuple[float, ...]
    checks: tuple[str, ...] = ()  # of a method from outside the package, whose epsilon is its author's claim
    beside: str = ""  # what an epsilon of an edge says of records

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies))

    @property
    def half(self) -> float:
        """Half of the 95 % Student t interval of the mean over the seeds' splits; nan for one seed."""
        n = len(self.accuracies)
        return float(student.ppf(0.975, n - 1) * np.std(self.accuracies, ddof=1) / math.sqrt(n)) if n > 1 else math.nan


@dataclass(frozen=True)
class MethodsCompared:
    """The result of `compare`: rows of one epsilon, relation and scope, best first, and those without privacy."""

    rows: tuple[ComparedMethod, ...]
    left_out: Mapping[str, str]  # by method, why it cannot keep the promise


@dataclass(frozen=True)
class RequiredPromise:
    """The promise that every private row must keep. `delta` is that of a graph of all nodes, for all methods."""

    relation: Relation
    all_outputs: bool
    epsilon: float
    delta: float

    @property
    def scope(self) -> Scope:
        return Scope.ALL_OUTPUTS if self.all_outputs else Scope.JOINT

    @property
    def place(self) -> str:
        return f"{self.relation}; {self.scope}"

    def check(self, stated: Guarantee) -> float:
        """Return the epsilon of a guarantee; all outputs cover the joint view. Raise UserError if it promises less."""
        if stated.epsilon is None:
            raise UserError(f"no guarantee: {stated.reason}")
        if stated.relation is not self.relation or stated.scope not in (self.scope, Scope.ALL_OUTPUTS):
            found = "nothing" if stated.relation is Relation.NONE else f"{stated.relation}; {stated.scope}"
            raise UserError(f"its settings for own graphs promise {found}: expected {self.place}")
        for name in ("epsilon", "delta"):
            promised, most = getattr(stated, name) or 0.0, getattr(self, name)
            if promised > most * (1 + ROUNDING):
                raise UserError(f"it states {name} = {promised:.4g}: expected at most {most:.4g}")
        return stated.epsilon


@dataclass(frozen=True)
class PlannedMethod:
    """A method on one split: its promise, and the function that trains it and gives (N, C) scores."""

    relation: str
    scope: str
    epsilon: float
    scores: Callable[[], np.ndarray]
    beside: str = ""


def compare(
    data: Any,
    epsilon: float | None = None,
    *,
    advantage: float | None = None,
    labels: Any = None,
    features: Any = None,
    classes: Sequence[str] | None = None,
    directed: bool | None = None,
    seeds: int = 5,
    methods: Sequence[str] | None = None,
    relation: str = Relation.NODE_NULL,
    scope: str = "others",
    delta: float | None = None,
    mean_degree: float = budget.MEAN_DEGREE,
    words: float | None = None,
    signed: bool | None = None,
    degree_bound: int | None = None,
    ranges: RangesGiven | None = None,
    public_column: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> MethodsCompared:
    """Compare methods on `data` at one epsilon; for the curator alone, since accuracies are private.

    Example: rows = dpgraph.compare(data, epsilon=4.0, relation="edge").rows

    Args:
        data: The graph, in any of the forms that `dpgraph.fit` takes. What was read, and what was left, is said before
            anything is trained.
        epsilon: Budget, a number > 0.
        advantage: In the place of epsilon: what an attacker's true positives may exceed false positives by.
        labels: One for each node of a matrix or an edge array: texts, or whole numbers; -1, NaN, None or "": none. For
            NetworkX, GraphML and CSV: the name of the attribute or column (default: label).
        features: (N, F) numbers with a matrix or an edge array, dense or sparse. For NetworkX and GraphML: names of
            the attributes to read (default: all that are numbers).
        classes: The public class list, as texts; labels that are numbers are "0", "1" and so on (default: all that
            there are; `fit` chooses them by noisy counts).
        directed: Whether an edge is in the list of its first end alone (default: no, but as a NetworkX graph or a
            .npz file says).
        seeds: Number of random splits.
        methods: Names (default: all that state settings for own graphs but votes-learnt).
        relation: What epsilon protects: node-null (a record), node-remove (a node with all its edges) or edge.
        scope: others (everyone but the node itself), or all-outputs (all predictions may be published).
        delta: Below 1 / N (default: 1 / (10 N)).
        mean_degree: Public mean degree, for which settings are made.
        words: Features are counts, and so many of a mean record are not 0: public (default: numbers of any kind).
        signed: Whether features may be negative: public (default: yes, but no with `words`).
        degree_bound: With node-remove: no node has more edges, by a public schema and not by looking.
        ranges: Public (low, high) of columns of features, by name, which become -1..1; None: a column stays as it
            is, and may have nearly all of the norm.
        public_column: Names of columns that tell a node's number of edges and are public. Else they are refused.
        say: Called with each line that is said (default: they go to stderr).
        quiet: Whether lines go to the logger `dpgraph` alone, and not to stderr.

    Returns:
        A row for each method that promises epsilon, and the reasons for which others are left out.

    Raises:
        dpgraph.core.errors.UserError: In one line, for data, budgets and scopes without a possible promise.
    """
    check_options("auto", relation, scope, epsilon, degree_bound, advantage)
    if not 1 <= seeds <= MOST_SEEDS:
        raise invalid("--seeds", seeds, f"an integer in 1..{MOST_SEEDS}")
    others = [name for name, one in specs().items() if any(rule in one.rules for rule in RULES)]
    known = [*budget.KINDS, *others]
    for name in methods or ():
        if name not in (*known, budget.LEARNT):
            raise invalid("--methods", name, f"one of {', '.join((*known, budget.LEARNT))}")
    own = with_ranges(own_graph(data, labels, features, classes=classes, directed=directed), ranges or {})
    own = replace(own, public_columns=tuple(public_column))
    for text in what_was_read(own, f"held out: {HELD_OUT:.0%} of the nodes, drawn anew for each seed"):
        say(f"read: {text}")
    about = Relation(relation)
    check_features(own, about)
    check_edge_features(own, about)
    check_scales(own)
    sure = budget.checked_delta(delta, len(own.ids))
    if epsilon is None:  # methods have curves of several kinds, and all are compared at one epsilon and delta
        epsilon = gaussian_budget(advantage or 0.0, sure)
        say(f"compared at epsilon = {at_most(epsilon, digits=4)}, delta = {at_most(sure, digits=3)}: of a Gaussian "
            f"mechanism whose advantage is {advantage:g}")  # fmt: skip
    weak = weakness(TradeOff(mu=gaussian_mu(epsilon=epsilon, delta=sure)).advantage)
    if weak:
        say(f"warning: of a Gaussian mechanism this epsilon {weak}")
    if not own.classes_given:
        paid = "" if about is Relation.EDGE else f" and has {1 - SHARE:g} of epsilon left"  # an edge changes no label
        say(f"warning: classes are read exactly; without --classes fit chooses them by noisy counts{paid}")
    required = RequiredPromise(about, scope == "all-outputs", epsilon, sure)
    splits = [_held_out(own, seed) for seed in range(seeds)]
    stated = {"mean_degree": mean_degree, "words": words, "signed": signed, "degree_bound": degree_bound}
    numbers = [_numbers(one, about, stated) for one in splits]
    planned: dict[str, list[PlannedMethod]] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(methods or known):
        plan = _own if name in budget.METHODS else _other
        try:  # before anything is trained: a method that one split leaves out is compared on none
            planned[name] = [plan(name, splits[seed], numbers[seed], required, seed) for seed in range(seeds)]
        except budget.NothingPromised as error:
            left_out[name] = error.reason
        except UserError as error:
            left_out[name] = str(error)
    if left_out and all(plans[0].epsilon == math.inf for plans in planned.values()):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UserError(f"--methods: none promises {required.place}: {reasons}")
    if methods is None:
        left_out |= {name: NO_SETTINGS for name in _private_without_settings(known)}
    rows = []
    found: dict[str, list[float]] = {name: [] for name in planned}
    for seed, one in enumerate(splits):
        held = (one.split == TEST) & (one.labels >= 0)
        for name, plans in planned.items():
            found[name].append(float((plans[seed].scores().argmax(axis=1) == one.labels)[held].mean()))
            say(f"split {seed + 1} of {seeds}, {name}: {100 * found[name][-1]:.1f} %")
    for name, plans in planned.items():
        last = plans[-1]
        promised = last.relation, last.scope, max(plan.epsilon for plan in plans)
        rows.append(ComparedMethod(name, *promised, tuple(found[name]), _checks(name), last.beside))
    return MethodsCompared(tuple(sorted(rows, key=lambda row: -row.mean)), left_out)


def _private_without_settings(known: Sequence[str]) -> list[str]:
    """Return private methods on nodes' classes that no rule gives settings for own graphs."""
    others = (name for name, one in specs().items() if one.private and FIRST_PROBLEM in one.problems)
    return [name for name in others if name not in known and not set(budget.KINDS) & set(spec(name).rules)]


def _checks(name: str) -> tuple[str, ...]:
    folder = None if name in budget.METHODS else outside_of(name)
    return () if folder is None else checks_of(folder)


def _held_out(own: OwnGraph, seed: int) -> OwnGraph:
    """Hold out nodes drawn from N and the seed alone; a label has to be on both sides."""
    random = numpy_generator("dpgraph", "compare", len(own.ids), seed)
    split = np.where(random.random(len(own.ids)) < HELD_OUT, TEST, TRAIN).astype(np.uint8)
    for role, where in ((TRAIN, "to train on"), (TEST, "to hold out")):
        if not ((split == role) & (own.labels >= 0)).any():
            raise UserError(f"{own.where}: too few labels: split {seed + 1} has none {where}")
    return replace(own, split=split)


def _numbers(own: OwnGraph, relation: Relation, stated: Mapping[str, Any]) -> budget.PublicNumbers:
    labelled = int(((own.labels >= 0) & (own.roles == TRAIN)).sum())
    stated = {**stated, "words": own.known_words if stated["words"] is None else stated["words"]}
    return budget.PublicNumbers(
        len(own.ids), labelled, len(own.classes), **stated, features=own.num_features,
        voters=int(sides(own, relation).sum()) if relation is Relation.NODE_REMOVE else None,
    )  # fmt: skip


def _own(
    kind: str, own: OwnGraph, numbers: budget.PublicNumbers, required: RequiredPromise, seed: int
) -> PlannedMethod:
    """Plan a method of this package as `fit` does."""
    if kind == "own" and required.all_outputs:
        raise UserError(f"its rows read raw records: expected {required.place}")
    what = budget.budgeted(
        kind, numbers, epsilon=required.epsilon, delta=required.delta, relation=required.relation,
        all_outputs=required.all_outputs,
    )  # fmt: skip
    stated = what.calibration.statement

    def scores() -> np.ndarray:
        trained = train(own, what, seed)
        # where all rows are public they are functions of the buckets alone, and worse: as `fit` releases them
        return model_of(own, trained, kind).outputs() if required.all_outputs else trained.scores

    return PlannedMethod(
        str(required.relation), str(required.scope), what.epsilon, scores, _of_records(required, stated)
    )


def _other(
    name: str, own: OwnGraph, numbers: budget.PublicNumbers, required: RequiredPromise, seed: int
) -> PlannedMethod:
    known, num_nodes = spec(name), len(own.ids)
    num_train = int((own.roles == TRAIN).sum())
    rule = rule_for(required.relation)
    if not known.private or rule not in known.rules:
        rule = RULE  # which may promise the relation as well
    if rule not in known.rules:
        raise UserError(f"it states no settings for own graphs under {required.relation}")
    size = replace(numbers.size, train_nodes=num_train)
    target = {"privacy": {"epsilon": required.epsilon, "delta": required.delta}} if known.private else {}
    shared = {"task": {"dataset": "own-graph"}, "method": name, "seeds": [seed]}
    cell = resolve(merged(shared, known.by_rule(rule, size, required.epsilon), target), name)
    calibration = calibrate(cell, num_train, num_protected=num_nodes)

    def scores() -> np.ndarray:
        with declared_density(size.density):
            (job,) = make_jobs(own.graph(), cell, [seed], calibration, torch.device("cpu"))
            outcome = method(name).run(job, lambda step, logits: {})
        if job.prepared is not None:
            job.prepared.check(outcome.resumed_at)
        return outcome.logits

    if not known.private:
        return PlannedMethod(NO_PRIVACY, NO_PRIVACY, math.inf, scores)
    epsilon = required.check(calibration.statement.rigorous)
    claimed = " (claimed)" if outside_of(name) is not None else ""
    said = _of_records(required, calibration.statement)
    return PlannedMethod(f"{required.relation}{claimed}", str(required.scope), epsilon, scores, said)


def _of_records(required: RequiredPromise, stated: PrivacyStatement) -> str:
    """Return what a row of an edge's epsilon promises a record; such rows may differ in it."""
    if required.relation is not Relation.EDGE:
        return ""
    for one in (stated.rigorous, *stated.beside):
        if one.relation is Relation.NODE_NULL and one.epsilon is not None:
            said = f"records are protected as well: ε = {at_most(one.epsilon, digits=3)} under {one.relation}"
            return f"{said}, if no feature is made from other nodes' records"
    return "features and labels have no guarantee"


def paired_tests(rows: Sequence[ComparedMethod]) -> list[dict[str, Any]]:
    """Return paired t tests of private methods of one relation and scope, with Holm's correction over all of them.

    Pairs are the accuracies of one split. Splits of one graph overlap, so that p values are too small: a small one is
    no proof that a method is better on other graphs.
    """
    pairs = [
        (one, two) for one, two in itertools.combinations([row for row in rows if row.epsilon < math.inf], 2)
        if (one.relation, one.scope) == (two.relation, two.scope) and len(one.accuracies) > 1
    ]  # fmt: skip
    raw: list[dict[str, Any]] = []
    for one, two in pairs:
        gaps = np.subtract(one.accuracies, two.accuracies)
        if np.ptp(gaps) == 0:  # equal gaps: n equal signs, as in a sign test of both sides
            p = 1.0 if gaps[0] == 0 else 0.5 ** (len(gaps) - 1)
        else:
            p = float(ttest_rel(one.accuracies, two.accuracies).pvalue)
        raw.append({"better": one.method, "than": two.method, "points": float(100 * gaps.mean()), "p": p})
    adjusted = holm(np.array([row["p"] for row in raw]))
    return [{**row, "p_holm": p} for row, p in zip(raw, adjusted.tolist(), strict=True)]


def table(found: MethodsCompared) -> str:
    """Return the table of `compare` as Markdown, with remarks and tests."""
    page = template("compare.md", __package__)
    return page.render(**vars(found), tests=paired_tests(found.rows), inf=math.inf, at_most=at_most).removesuffix("\n")


def write(found: MethodsCompared, folder: Path) -> None:
    """Write comparison.csv, left_out.csv, tests.json and README.txt, which says who may read them."""
    folder.mkdir(0o700, parents=True)
    heads = ["method", "relation", "scope", "epsilon", "mean", "ci_half", "checks", "beside", "split", "accuracy"]
    lines: list[list[Any]] = [heads]
    for row in found.rows:
        about = [row.method, row.relation, row.scope, row.epsilon, row.mean, row.half]
        about += [", ".join(row.checks), row.beside]
        lines += [[*about, split, value] for split, value in enumerate(row.accuracies)]
    write_rows(folder / "comparison.csv", lines)
    write_rows(folder / "left_out.csv", [["method", "reason"], *found.left_out.items()])
    (folder / "tests.json").write_text(json.dumps(paired_tests(found.rows), indent=1) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(
        "Not private, not to be released: accuracies on held-out labels, and choices made by them, have no epsilon.\n"
    )
    make_private(folder)
