"""The run that a budget buys: a cell with its calibration, from public numbers alone, and its epsilon at any delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpgraph.config.cell import LARGE
from dpgraph.config.expansion import merged
from dpgraph.core.errors import UserError, invalid
from dpgraph.families.votes import rules
from dpgraph.families.votes.epsilon import TradeOff, moved_parts, released_epsilon
from dpgraph.families.votes.mechanism import PoissonVotes
from dpgraph.families.votes.removed_mechanism import CappedVotes
from dpgraph.families.votes.sensitivity import edge_votes
from dpgraph.own_graph.classes import ClassSelection
from dpgraph.own_graph.graph import DEGREES
from dpgraph.own_graph.risk import check_advantage, epsilon_for, with_classes
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.accountants.parameters import LEAST_PRICE, MOST_PRICE
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.guarantee import at_most
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.privacy.relation import Relation
from dpgraph.problems.base import Size

KINDS = ("votes", "own")  # private votes, or their first stage alone
LEARNT = "votes-learnt"  # votes, read by what labels of training nodes taught: on demand alone
METHODS = (*KINDS, LEARNT)
RELATIONS = (Relation.NODE_NULL, Relation.NODE_REMOVE, Relation.EDGE)
MEAN_DEGREE = 10.0  # assumed by settings where no mean degree is stated
LARGE_DELTA = 1e-3  # above it a promise that may fail is weak for a single node, too, however few there are
MOST_EPSILON = 1000.0  # under node-null, of a run that is solved for an edge
LabelsBy = Literal["stated", "noisy counts", "nodes that train"]


class NothingPromised(UserError):
    """An error: no run of this kind can keep the promise. `reason`: the text for callers who did not name --method."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class PublicNumbers:
    """The public numbers of a graph, all that a plan may read. `voters`: training nodes, for node-remove only.

    `labelled`: labels to train on, as stated, by noisy counts, or all nodes that train (`labelled_by`). `words`: so
    many features are not 0 in a mean record; None: most of them. `signed`: whether features may be negative, so that
    none is dropped for a small sum; None: unless `words` are stated, which are counts.
    """

    nodes: int
    labelled: int
    classes: int
    voters: int | None = None
    mean_degree: float = MEAN_DEGREE
    degree_bound: int | None = None
    features: int | None = None
    words: float | None = None
    signed: bool | None = None
    labelled_by: LabelsBy = "stated"

    def __post_init__(self) -> None:
        most = self.nodes if self.voters is None else self.voters
        if not 1 <= self.labelled <= most:
            raise invalid("--labelled", self.labelled, f"an integer in 1..{most}")
        if not 0 < self.mean_degree <= LARGE:
            raise invalid("--mean-degree", self.mean_degree, f"a number > 0 and at most {LARGE:g}")
        if self.words is not None and not 0 < self.words <= LARGE:
            raise invalid("--words", self.words, f"a number > 0 and at most {LARGE:g}")
        if self.degree_bound is not None and not 1 <= self.degree_bound <= LARGE:
            raise invalid("--degree-bound", self.degree_bound, f"an integer in 1..{LARGE:g}")

    @property
    def may_be_negative(self) -> bool:
        return self.words is None if self.signed is None else self.signed

    @property
    def size(self) -> Size:
        """As public rules read it."""
        entries = max(1, round(self.mean_degree * self.nodes))
        train = self.labelled if self.voters is None else self.voters
        sizes = self.nodes, entries, self.features or 1, self.classes, train
        return Size(*sizes, self.words or self.features, self.degree_bound, self.may_be_negative)


def feature_cases(features: int | None, *, words: float | None, nodes: int, **public: Any) -> list[PublicNumbers]:
    """Return the numbers of a graph with so many features; None: a case of each kind that public rules tell apart."""
    if features == 0:  # lengths of lists are read in their place
        features, words = DEGREES, 1.0 if words is None else words
    kinds = {1, math.ceil(rules.FEW_WORDS), math.ceil(rules.WORDS_PER_NODE * nodes)} if features is None else {features}
    return [PublicNumbers(nodes=nodes, words=words, features=one, **public) for one in sorted(kinds)]


@dataclass(frozen=True)
class BudgetedRun:
    """A cell with its calibration: functions of public numbers, and of the classes that were chosen, if they were.

    What follows a choice of classes may depend on it, and keeps the rest of (epsilon, delta) whatever was chosen: both
    add up (basic composition); no other delta has an epsilon.
    """

    relation: Relation
    target: float  # epsilon, under `relation`
    cell: Any
    calibration: Calibration
    selection: ClassSelection | None = None  # of classes; None: they were stated

    @property
    def paid(self) -> ClassSelection | None:
        """The selection, where `relation` charges it."""
        selection = self.selection
        return selection if selection is not None and selection.charged_under(self.relation) else None

    @property
    def mechanism(self) -> PoissonVotes:
        mechanism = self.calibration.mechanism
        if not isinstance(mechanism, PoissonVotes):
            raise TypeError(f"mechanism={mechanism.kind}: expected one of votes")
        return mechanism

    @property
    def votes(self) -> bool:
        return self.mechanism.votes_ratio is not None

    @property
    def kind(self) -> str:
        """Return the method, one of METHODS."""
        return "own" if not self.votes else "votes" if self.mechanism.reader_ratio is None else LEARNT

    @property
    def training_mu(self) -> float:
        steps, noise = self.mechanism.closed()
        return float(np.sqrt(steps) / noise)

    @property
    def mu(self) -> float:
        """Return mu of the release without its choice, as one Gaussian mechanism under `relation`: batches are full.

        Under node-remove the larger one of a voter's and a receiver's, and but for `failure`.
        """
        mechanism = self.mechanism
        if self.relation is Relation.EDGE:  # moves votes only
            return edge_votes(mass=mechanism.mass, degree_floor=mechanism.degree_floor) * mechanism.votes_mu
        voter = float(np.hypot(self.training_mu, mechanism.release_mu))
        if not isinstance(mechanism, CappedVotes):
            return voter
        return max(voter, float(np.hypot(mechanism.mean_mu, mechanism.received_mu)))

    @property
    def choice(self) -> float:
        """Return the epsilon of the choice of the reader, a pure mechanism; 0 without a choice."""
        if self.mechanism.choice_epsilon and self.relation is not Relation.NODE_NULL:
            raise TypeError(f"relation={self.relation}: no choice is stated")
        return self.mechanism.choice_epsilon

    @property
    def failure(self) -> float:
        """Probability of the events that the theorem charges to delta; 0: there are none."""
        mechanism = self.mechanism
        return mechanism.delta - mechanism.delta_left if isinstance(mechanism, CappedVotes) else 0.0

    @property
    def trade_off(self) -> TradeOff:
        """Return the proved curve of a test under `relation`, whatever classes were chosen."""
        found = TradeOff(mu=self.mu, choice=self.choice, failure=self.failure)
        if self.paid is None:
            return found
        whole = with_classes(self.paid, self.relation, epsilon=self.target, delta=self.delta)
        if found.mu > whole.mu or found.choice + float(self.paid.epsilon) > whole.choice:
            raise TypeError(f"mu={found.mu}, choice={found.choice}: expected what a choice of classes leaves: {whole}")
        return whole

    def trade_off_beside(self, relation: Relation) -> TradeOff:
        """Return the proved curve of a test under another relation that the run is stated under."""
        one = self.mechanism
        if isinstance(one, CappedVotes) or relation is Relation.NODE_REMOVE:
            raise TypeError(f"relation={relation}: no statement")
        moved, mu, choice = moved_parts(
            mean_mu=one.mean_mu, votes_mu=one.votes_mu, reader_mu=one.reader_mu, choice_epsilon=one.choice_epsilon,
            mass=one.mass, degree_floor=one.degree_floor, relation=relation.value,  # type: ignore[arg-type]
        )  # fmt: skip
        return TradeOff(mu=float(np.hypot(moved * self.training_mu, mu)), choice=choice)

    def epsilon_of(self, relation: Relation) -> float | None:
        """Return epsilon at the delta of the run; None: the relation has no statement."""
        stated = self.calibration.statement
        return next((one.epsilon for one in (stated.rigorous, *stated.beside) if one.relation is relation), None)

    def epsilon_at(self, delta: float) -> float | None:
        """Return epsilon at another delta; None: unlikely events use up that delta, or classes were chosen."""
        if self.paid is not None:
            return None
        left = delta - self.failure
        return released_epsilon(mu=self.mu, choice=self.choice, delta=left) if left > 0 else None

    @property
    def epsilon(self) -> float:
        """Return epsilon at the delta of the run, under `relation`."""
        found = self.epsilon_of(self.relation)
        if found is None:
            raise TypeError(f"relation={self.relation}: no statement")
        if self.paid is None:
            return found
        if found > self.target - float(self.paid.epsilon):
            raise TypeError(f"epsilon={found} with a choice of classes: expected at most {self.target} together")
        return self.target  # `found` depends on the classes that were chosen

    @property
    def delta(self) -> float:
        """Return the delta of the whole release, under `relation`."""
        return self.mechanism.delta + (0.0 if self.paid is None else self.paid.delta)


def budgeted(
    kind: str,
    numbers: PublicNumbers,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: Relation = Relation.NODE_NULL,
    all_outputs: bool = False,
    selection: ClassSelection | None = None,
) -> BudgetedRun:
    """Return the run of `kind` (one of METHODS, or auto) whose epsilon under `relation` is the target.

    Settings are by the public rule. `all_outputs`: whether all predictions are to be released. `selection`: of the
    classes in `numbers`, which the budget pays for first. Raises UserError where no run exists.
    """
    check_kind(kind, relation, all_outputs)
    check_epsilon(epsilon)
    chosen = checked_delta(delta, numbers.nodes)
    rule = _rule(kind, numbers, relation, all_outputs)
    if relation is Relation.EDGE:
        return replace(_for_an_edge(rule, numbers, epsilon, chosen), target=epsilon, selection=selection)
    if selection is None:
        return _solved(relation, numbers, rule(epsilon), epsilon, chosen)
    left, rest = epsilon - float(selection.epsilon), chosen - selection.delta
    return replace(_solved(relation, numbers, rule(left), left, rest), target=epsilon, selection=selection)


def planned(
    kind: str,
    numbers: PublicNumbers,
    *,
    epsilon: float | None,
    advantage: float | None,
    delta: float | None,
    relation: Relation,
    all_outputs: bool,
    selection: ClassSelection | None = None,
) -> BudgetedRun:
    """Return `budgeted` at `epsilon`, or where it is None and no classes are chosen at the one of this advantage."""
    sure = checked_delta(delta, numbers.nodes)

    def made(one: float) -> BudgetedRun:
        promise: dict[str, Any] = {"delta": sure, "relation": relation, "all_outputs": all_outputs}
        return budgeted(kind, numbers, epsilon=one, selection=selection, **promise)

    if epsilon is not None:
        return made(epsilon)
    return made(epsilon_for(advantage or 0.0, sure, lambda one: made(one).trade_off))


def check_kind(kind: str, relation: Relation, all_outputs: bool) -> None:
    """Raise UserError for an unknown method, and for a learnt reader without a proof or a gain."""
    if kind not in (*METHODS, "auto"):
        raise invalid("--method", kind, f"one of auto, {', '.join(METHODS)}")
    if kind != LEARNT:
        return
    if all_outputs:
        why = "its rows read raw records: expected scope others"
        raise NothingPromised(f"--scope all-outputs, --method {kind}: no epsilon: {why}", why)
    if relation is Relation.EDGE:
        why = "each step of its reader moves by four for an edge, which would take most of the budget"
    elif relation is not Relation.NODE_NULL:
        why = "its reader has no proof"
    else:
        return
    expected = f"expected votes, or {Relation.NODE_NULL}"
    raise NothingPromised(f"--relation {relation}, --method {kind}: {why}: {expected}", f"{why}: {expected}")


def check_budget(epsilon: float | None, advantage: float | None) -> None:
    """Raise UserError unless exactly one of the two is given, and can be kept."""
    if (epsilon is None) == (advantage is None):
        raise UserError(f"--epsilon, --advantage: expected {'one' if epsilon is None else 'only one'} of the two")
    check_epsilon(epsilon) if epsilon is not None else check_advantage(advantage or 0.0)


def check_epsilon(epsilon: float) -> None:
    if not LEAST_PRICE <= epsilon <= MOST_PRICE:
        raise invalid("--epsilon", epsilon, f"a number from {LEAST_PRICE:g} to {MOST_PRICE:g}")


def checked_delta(delta: float | None, nodes: int) -> float:
    """Return delta as given, or the usual one. Raise UserError for one outside (0, 1 / nodes)."""
    chosen = usual_delta(nodes) if delta is None else delta
    if not 0 < chosen < 1 / nodes:
        raise invalid("--delta", chosen, f"a number > 0 and < 1 / nodes = {1 / nodes:.3g}")
    return chosen


def delta_warnings(delta: float, nodes: int) -> list[str]:
    """Return why a delta is large, in words: above 1 / (10 N), or of so few nodes that 1 / (10 N) is large itself.

    >>> delta_warnings(1e-6, 1000), delta_warnings(usual_delta(100), 100)
    ([], [])
    """
    most = min(usual_delta(nodes), LARGE_DELTA)
    if delta <= most * (1 + 1e-9):
        return []
    return [
        f"delta = {delta:.3g} is large: with a probability of up to delta, 1 in {1 / delta:.3g}, the promise may fail "
        f"for a node; of N = {nodes} nodes {delta * nodes:.2g} may be published whole, on average. "
        f"Expected: at most {most:.3g}"
    ]


Rule = Callable[[float], dict[str, Any]]  # settings at an epsilon


def _rule(kind: str, numbers: PublicNumbers, relation: Relation, all_outputs: bool) -> Rule:
    """Return the public rule of the mechanism for these numbers (docs/privacy/votes.md#public-rules).

    It leaves out a choice that would cost more than it brings: for an edge, which moves the utilities of both its
    ends, and where rows read one bucket, whose order of classes no reader changes.
    """
    size = numbers.size
    if relation is Relation.NODE_REMOVE:
        return lambda epsilon: _capped(kind, size, epsilon)
    if relation is Relation.EDGE and kind == "own":
        raise NothingPromised(
            "--relation edge, --method own: it reads no edge: expected votes, or another relation",
            "it reads no edge, so no edge needs protection: expected another --relation",
        )
    if relation is Relation.EDGE or all_outputs:
        return lambda epsilon: rules.always_votes(size, epsilon, choice=False)
    of_kind: dict[str, Rule] = {
        "auto": lambda epsilon: rules.votes(size, epsilon),
        "votes": lambda epsilon: rules.always_votes(size, epsilon),
        "own": lambda epsilon: rules.own_records(size, epsilon),
        LEARNT: lambda epsilon: rules.learnt_votes(size, epsilon),
    }
    return of_kind[kind]


def _capped(kind: str, size: Size, epsilon: float) -> dict[str, Any]:
    """Return the rule of node-remove: public caps, or own records where votes would drown in noise."""
    if kind == "own":
        return merged(rules.own_records(size, epsilon), {"privacy": {"variant": "node-remove-capped"}})
    found = (rules.votes_with_caps if size.degree_bound is None else rules.votes_with_schema)(size, epsilon)
    if kind == "votes" and not found["privacy"]["votes_share"]:
        why = "votes would drown in noise, by the public rule"
        how = f"a larger --epsilon, or a {'' if size.degree_bound is None else 'smaller '}--degree-bound"
        raise NothingPromised(f"--method votes: {why}: expected auto, own, {how}", f"{why}: expected {how}")
    return found


def _solved(
    relation: Relation, numbers: PublicNumbers, setting: dict[str, Any], epsilon: float, delta: float
) -> BudgetedRun:
    roots = numbers.nodes if numbers.voters is None else numbers.voters
    budget = {"epsilon": epsilon, "delta": delta, "signed_rows": numbers.may_be_negative}
    cell = resolve(rules.own_graph_cell(setting, roots=roots, labelled=numbers.labelled, privacy=budget), "fit")
    return BudgetedRun(relation, epsilon, cell, calibrate(cell, roots, num_protected=numbers.nodes))


def _for_an_edge(rule: Rule, numbers: PublicNumbers, epsilon: float, delta: float) -> BudgetedRun:
    """Solve for an edge. Training reads none and is free; the epsilon under node-null is what comes out.

    Settings are those of the rule at `epsilon`, then at the epsilon under node-null that this made.
    """
    found = _with_edge_epsilon(rule(epsilon), numbers, epsilon, delta, within=0.1)
    return _with_edge_epsilon(rule(found.target), numbers, epsilon, delta, within=1e-4)


def _with_edge_epsilon(
    setting: dict[str, Any], numbers: PublicNumbers, epsilon: float, delta: float, within: float
) -> BudgetedRun:
    """Solve by bisection, up to `within` of the logarithm of the epsilon under node-null."""
    low, high = math.log(1e-4), math.log(MOST_EPSILON)
    if _solved(Relation.EDGE, numbers, setting, MOST_EPSILON, delta).epsilon < epsilon:
        raise invalid("--epsilon", epsilon, "a smaller one: beyond it the noise on votes would protect no record")
    while high - low >= within:
        middle = (low + high) / 2
        found = _solved(Relation.EDGE, numbers, setting, math.exp(middle), delta)
        low, high = (middle, high) if found.epsilon <= epsilon else (low, middle)
    found = _solved(Relation.EDGE, numbers, setting, math.exp(low), delta)
    if found.epsilon > epsilon:
        raise invalid(
            "--epsilon", epsilon, f"a larger one: at this delta an edge has at least {at_most(found.epsilon, digits=3)}"
        )
    return found
