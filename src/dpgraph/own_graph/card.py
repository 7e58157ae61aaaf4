"""The privacy card, and the folder that may be published.

The card states the protection, its assumptions and its limits; it is made of public numbers.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dpgraph import __version__
from dpgraph.core.files import write_rows
from dpgraph.families.votes.epsilon import FALSE_ALARMS, TradeOff
from dpgraph.families.votes.mechanism import BUCKETS, DEGREES, HUBS, LEARNT, MEAN, READER
from dpgraph.own_graph.budget import BudgetedRun, PublicNumbers, delta_warnings
from dpgraph.own_graph.edge_features import FEW_NODES, edge_premises, edges_are_features, feature_premises
from dpgraph.own_graph.graph import OwnGraph
from dpgraph.own_graph.model import SavedModel, as_json, status_of
from dpgraph.own_graph.risk import in_words, risk_warnings, rounded_up
from dpgraph.privacy.guarantee import Guarantee, at_most
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.formats import template

DELTAS = (1e-3, 1e-5, 1e-7, 1e-9)
LIBRARIES = ("numpy", "scipy", "torch", "dp-accounting")
NONE: Mapping[str, str] = MappingProxyType({})
PROTECTED = {Relation.NODE_NULL: "record", Relation.NODE_REMOVE: "node", Relation.EDGE: "edge"}
SECRET = "operating system's generator, rounded Gaussian on a grid, exact probabilities of a choice"
KNOWN_SEED = "the seed is known, so that no one is protected: anyone who has it can take the noise off"
CURVE = "tradeoff.png"
RISK = ("advantage", "true_positives", "false_positives", "risk_in_words")


def assumptions(own: OwnGraph, numbers: PublicNumbers, relation: Relation, others: Sequence[Guarantee]) -> list[str]:
    """Return what the guarantee takes for public and what it and `others` assume of features, a text each."""
    given = (
        "was given" if own.classes_given else
        "was chosen from the data by noisy counts, and a label of another class is none (--classes states it)"
    )  # fmt: skip
    split = "a tenth of the nodes is held out, drawn from N alone" if own.split_is_drawn else "it was given"
    scale = (
        "each row of features is scaled to norm 1 by itself, so columns should have comparable units"
        + ("; the names of columns are public" if own.columns else "")
        if own.features is not None
        else "there are no features: each node has the length of its own list, a part of its record, instead"
    )
    if own.ranges:
        ends = ", ".join(f"{name} {low:g}..{high:g}" for name, low, high in own.ranges)
        scale += f"; these ranges are public, and become -1..1: {ends} (--range)"
    count = {
        "stated": f"the number of labels to train on was stated, {numbers.labelled} (--labelled)",
        "noisy counts": f"settings are made for {numbers.labelled} labels to train on, by noisy counts",
        "nodes that train": f"settings are made for a label of each of the {numbers.labelled} nodes that train; where "
        "fewer have one, the model gets better if their number is stated (--labelled)",
    }
    labels = f"{count[numbers.labelled_by]}; who has one, and how many, is protected"
    if relation is Relation.NODE_REMOVE:
        labels += "; who is in the split's training part votes, with a label or without, all others receive"
    in_arrays = not own.columns and own.ids[-1] == str(len(own.ids) - 1)
    order = "; ids are places in arrays, whose order is public, too: it may not follow labels" if in_arrays else ""
    return [
        f"the ids of the nodes and their number, N = {len(own.ids)}, are public{order}",
        f"the class list, {', '.join(own.classes)}, {given}",
        labels,
        scale,
        f"who is held out of training is public: {split}",
        *feature_premises(own, relation, [one.relation for one in others]),
        *edge_premises(relation),
        _settings(numbers),
        "epsilon is of this release alone: any other release of these data adds to it, and so does a second record of "
        "one person",
    ]


def _settings(numbers: PublicNumbers) -> str:
    """Return the other public numbers that the rule of settings reads."""
    signed = numbers.may_be_negative
    if numbers.words is not None:
        kind = "features of either sign" if signed else "counts as features"
        words = f"{kind}, {numbers.words:g} of a mean record not 0 (--words{', --signed' if signed else ''})"
    elif signed:
        words = "features that are numbers of any kind (--words states that they are counts, and how many are not 0)"
    else:
        words = "features that are never negative, most of them not 0 (--no-signed)"
    text = (
        f"settings, by a public rule, are made for a mean degree of {numbers.mean_degree:g} (--mean-degree) and "
        f"{words}: public numbers; wrong ones make the model worse, not less private"
    )
    if numbers.degree_bound is None:
        return text if numbers.voters is None else f"{text}; no bound on degrees is assumed"
    return f"{text}; no node may have more than {numbers.degree_bound} edges, by a public schema (--degree-bound)"


def released_parts(what: BudgetedRun, numbers: PublicNumbers) -> list[str]:
    """Return the mechanism's releases in words, in their order."""
    mechanism = what.mechanism
    steps, noise = mechanism.closed()
    said = {
        MEAN: "the mean of the rows of all nodes, which says "
        f"{'' if numbers.may_be_negative else 'which features are kept and '}what is taken off each row, also of "
        f"new nodes (noise std {{noise:.4g}} on the sum of the {numbers.nodes} rows of norm 1)",
        HUBS: "who is a hub (noise std {noise:.4g})",
        DEGREES: "degrees of voters, for caps (noise std {noise:.4g})",
        BUCKETS: "buckets of votes, noise std {noise:.4g} times the norm of a vote",
        LEARNT: f"{mechanism.reader_steps} steps in which a reader of buckets is learnt from labels to train on, noise "
        "std {noise:.4g} on each sum of gradients of norm 1; an edge moves two of them",
        READER: "which way to read buckets is best on labels to train on (exponential mechanism, ε = {choice})",
    }
    parts = [said[one.kind].format(noise=one.noise, choice=at_most(one.noise, digits=4)) for one in mechanism.releases]
    place = 1 if mechanism.mean_ratio is not None else 0
    text = f"{steps} step{'s' if steps > 1 else ''} of training on own records, noise std {noise:.4g} clip norms"
    first = [] if what.selection is None else [what.selection.text]
    return [*first, *parts[:place], text, *parts[place:]]


def other_guarantees(own: OwnGraph, what: BudgetedRun) -> list[Guarantee]:
    """Return what the run guarantees under other relations, where no choice of classes is charged.

    That of an edge is left out where an edge may be a feature, too.
    """
    stated, chosen = what.calibration.statement, what.selection
    found = [
        one for one in (stated.rigorous, *stated.beside)
        if one.relation is not what.relation and not (chosen is not None and chosen.charged_under(one.relation))
    ]  # fmt: skip
    return [one for one in found if not (one.relation is Relation.EDGE and edges_are_features(own))]


def card(
    own: OwnGraph,
    what: BudgetedRun,
    numbers: PublicNumbers,
    others: Sequence[Guarantee],
    *,
    scope: str,
    secret: bool,
    command: str,
    audits: Mapping[str, str] = NONE,
) -> dict[str, Any]:
    """Return the card's fields.

    A release of a known seed protects no one. So epsilon, mu, the parts of epsilon and RISK are None, and
    `epsilon_by_delta`, `beside` and `warnings` are empty.
    """
    rigorous, relation, curve = what.calibration.statement.rigorous, what.relation, what.trade_off
    deltas = [one for one in DELTAS if one < 1 / len(own.ids)]
    covered = Scope.ALL_OUTPUTS if scope == "all-outputs" else rigorous.scope
    return {
        "status": status_of(secret, curve.advantage),
        "mechanism": what.mechanism.model_dump(mode="json"),
        "method": what.kind,
        "relation": str(relation),
        "relation_in_words": relation.meaning,
        "scope": str(covered),
        "scope_in_words": covered.meaning,
        "epsilon": what.epsilon if secret else None,
        "delta": what.delta,
        "mu": what.mu if secret and what.paid is None else None,
        "mu_fails_with_probability": what.failure,
        "choice_epsilon": what.choice if secret else None,
        "classes_epsilon": float(what.paid.epsilon) if secret and what.paid is not None else None,
        "classes_delta": what.paid.delta if secret and what.paid is not None else None,
        "releases": released_parts(what, numbers),
        **(_risk(curve, relation) if secret else dict.fromkeys(RISK)),
        "epsilon_by_delta": {f"{d:g}": what.epsilon_at(d) for d in deltas} if secret and what.paid is None else {},
        "beside": [_beside(what, one) for one in others if one.epsilon is not None] if secret else [],
        "assumptions": [
            *(() if secret else (KNOWN_SEED,)), *assumptions(own, numbers, relation, others),
            *_premises(what, secret),
        ],
        "not_covered": _not_covered(own, what, others, everything=scope == "all-outputs"),
        "warnings": [*risk_warnings(curve), *delta_warnings(what.delta, len(own.ids))] if secret else [],
        "checks": {
            "what ran is what was accounted for": "passed",
            "noise": SECRET if secret else "reproducible generator",
            **(audits or {"audits of the mechanism": "not run by this call: dpgraph audit all"}),
        },
        "versions": {
            "dpgraph": __version__, "python": platform.python_version(), **{one: version(one) for one in LIBRARIES},
        },
        "command": command,
    }  # fmt: skip


def _not_covered(own: OwnGraph, what: BudgetedRun, others: Sequence[Guarantee], *, everything: bool) -> list[str]:
    """Return what the guarantee leaves out; `everything`: the scope is all outputs."""
    relation = what.relation
    uncovered = ["which ids exist"]
    if relation is not Relation.NODE_REMOVE:
        uncovered = ["which ids exist, and the edges to a node that others' lists contain"]
        if relation is Relation.NODE_NULL and not own.directed and (what.votes or edges_are_features(own)):
            stated_above = any(one.relation is Relation.EDGE for one in others)
            uncovered.append(
                "the copy of a node's own edges in its neighbours' lists: each edge of an undirected graph is in both "
                f"lists, and this one has {'the' if stated_above else 'no'} epsilon of an edge"
            )
    if relation is Relation.EDGE:
        said = "for which no ε is stated where classes are chosen from the data (--classes)"
        if what.selection is None:
            said = "which are protected only as far as node-null says (above)"
        uncovered = [f"which ids exist; features and labels, {said}"]
    if not everything:
        uncovered.append(
            "a node's own prediction, once it is published: it reads its own record. All predictions together have no "
            "epsilon"
        )
    uncovered += own.uncovered
    uncovered.append("that fit accepted the table, and what was changed in it until fit did")
    if relation is Relation.NODE_REMOVE and what.votes:
        uncovered.append("buckets of votes: each is for its owner alone, and none is part of the release")
    if relation is not Relation.EDGE and edges_are_features(own):
        why = f"with fewer than {FEW_NODES} nodes no test finds columns that are made from edges"
        if own.features is None or own.list_columns:
            why = "list lengths are features"
        uncovered.append(f"single edges have no epsilon of their own here: {why}")
    return uncovered


def _premises(what: BudgetedRun, secret: bool) -> list[str]:
    """Return what the mechanism's guarantee assumes, but for what this card says itself, and votes where none are."""
    others = ["a node's own prediction", "covers:"]
    others += [] if secret else ["drawn in secret"]
    others += [] if what.votes else ["vote", "both ends' lists"]
    stated = what.calibration.statement.rigorous.assumptions
    return [one for one in stated if not any(text in one for text in others)]


def _beside(what: BudgetedRun, one: Guarantee) -> dict[str, Any]:
    """Return what a run states under another relation."""
    stated = {"relation": str(one.relation), "in_words": one.relation.meaning, "epsilon": one.epsilon}
    return {**stated, "delta": one.delta, **_risk(what.trade_off_beside(one.relation), one.relation)}


def _risk(curve: TradeOff, relation: Relation) -> dict[str, Any]:
    """Return the fields RISK, rounded up."""
    found = rounded_up(curve.advantage), rounded_up(curve.true_positives), FALSE_ALARMS, in_words(curve, relation)
    return dict(zip(RISK, found))


def markdown(value: dict[str, Any]) -> str:
    return template("card.md", __package__).render(**value, curve=CURVE, at_most=at_most)


def draw_curve(what: BudgetedRun, path: Path) -> None:
    """Draw the trade-off curve: a test's least type II error at each type I error (Dong et al. 2022)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    curve = what.trade_off
    chosen = f", a choice at ε = {at_most(curve.choice, digits=3)}" if curve.choice else ""
    first, second = curve.errors(np.linspace(-curve.reach, curve.reach, 801))
    axes.plot(first, second, label=f"this release, {what.relation}, μ = {at_most(curve.mu, digits=3)}{chosen}")
    axes.plot([0, 1], [1, 0], "--", color="grey", label="no test is better than a guess")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel(f"type I error of a test for one {PROTECTED[what.relation]}")
    axes.set_ylabel("least type II error")
    figure.legend(loc="outside upper left", frameon=False, fontsize="small")
    figure.savefig(path, metadata={"Software": None})


PREDICTIONS = "predictions.csv"


def write_release(folder: Path, model: SavedModel, card: dict[str, Any], what: BudgetedRun, *, scope: str) -> None:
    """Write the model, the card and the curve of a release; no curve for a known seed, which has no promise.

    The graph is not among the arguments: the folder depends on the mechanism's output and on public values alone. Rows
    of predictions, worked out from the model, are in it under the scope of all outputs alone.
    """
    model.save(folder)
    (folder / "card.json").write_text(as_json(card), encoding="utf-8")
    (folder / "card.md").write_text(markdown(card), encoding="utf-8")
    if model.header.secret:
        draw_curve(what, folder / CURVE)
    if scope == "all-outputs":
        write_rows(folder / PREDICTIONS, predictions(model.header.ids, model.header.classes, model.outputs()))


def predictions(ids: Sequence[str], classes: Sequence[str], rows: np.ndarray) -> list[list[Any]]:
    """Return a line of heads and one for each node: its id, the likeliest class, and the probability of each."""
    numbers = zip(ids, rows.argmax(axis=1).tolist(), np.round(rows, 6).tolist(), strict=True)
    heads = ["id", "prediction", *(f"probability of {name}" for name in classes)]
    return [heads, *([name, classes[place], *row] for name, place, row in numbers)]
