"""`fit`: state the assumptions and what the budget affords, train, and write three folders for three readers."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import check_out, make_private, write_rows
from dpgraph.data.adjacency import statistics
from dpgraph.data.records import TRAIN
from dpgraph.families.votes.mechanism import READERS
from dpgraph.families.votes.removed_mechanism import CappedVotes
from dpgraph.families.votes.sensitivity import vote_norm
from dpgraph.own_graph import budget
from dpgraph.own_graph import card as cards
from dpgraph.own_graph.audited import audited, audits_of
from dpgraph.own_graph.classes import FEWEST, ClassSelection, select_classes
from dpgraph.own_graph.edge_features import check_edge_features, check_edges_beside, edges_are_features
from dpgraph.own_graph.graph import OwnGraph, what_was_read
from dpgraph.own_graph.model import FOLDERS, FORMAT, Header, SavedModel, as_json, softmax
from dpgraph.own_graph.objects import own_graph
from dpgraph.own_graph.releases import charge, cost_of
from dpgraph.own_graph.risk import epsilon_with_classes, in_words, risk_warnings, rounded_up, weakness
from dpgraph.own_graph.scales import RangesGiven, check_scales, largest_shares, with_ranges
from dpgraph.own_graph.secret import check_slack
from dpgraph.own_graph.training import TrainedModel, check_exact, train
from dpgraph.privacy.guarantee import at_most
from dpgraph.privacy.relation import Relation

log = logging.getLogger("dpgraph")
SCOPES = ("others", "all-outputs")
LITTLE, ENOUGH = 10.0, 100.0  # labels of a class over the noise of a class sum


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of `fit`; `predictions` (N, C): row i is for node `model.header.ids[i]` alone, unless the scope is all
    outputs. Nodes of CSV files and of NetworkX are in the order of their ids, all others in that of the data.

    So is row i of `buckets` (N, C + 1), which are those of node-remove only: elsewhere they are a part of the model.
    """

    model: SavedModel
    card: dict[str, Any]
    predictions: np.ndarray
    plan: str
    folder: Path | None
    buckets: np.ndarray | None = None


def afford(
    *runs: budget.BudgetedRun, labelled: int, classes: int, all_outputs: bool = False, edges: bool = True
) -> str:
    """Say in words whether the budget is enough, from public numbers; without `edges` nothing of an edge's epsilon.

    Of several runs, each number is the worst one.
    """
    what = runs[0]
    ratio = labelled / classes * min(one.training_mu for one in runs)
    verdict = "yes" if ratio >= ENOUGH else "in part" if ratio >= LITTLE else "no: expect little more than guesses"
    weak = weakness(max(one.trade_off.advantage for one in runs))
    text = (
        f"Can this graph afford epsilon = {what.target:g}? {verdict}{weak and f', but that {weak}'}. "
        f"A class has about {labelled / classes:.0f} labels; they add up to {ratio:.3g} times the noise of one "
        f"coordinate ({ENOUGH:.0f} is ample, {LITTLE:.0f} little)."
    )
    if not all(one.votes for one in runs):
        return f"{text} Neighbours are not read: own records alone."
    needed = math.ceil(max(_neighbours(one, classes, all_outputs) for one in runs))
    if all_outputs:
        text += (
            " Its own record is not read in a node's row (--scope all-outputs), so a node of few neighbours is guessed."
        )
    text += f" Votes exceed their noise where a node has about {needed} neighbours or more."
    learnt = [one.epsilon_of(Relation.EDGE) for one in runs if one.kind == budget.LEARNT] if edges else []
    stated = [one for one in learnt if one is not None]
    if stated:
        told = at_most(max(stated), digits=3)
        text += f" With a learnt reader a single edge has epsilon = {told} if no feature is made from edges."
    return text


def _neighbours(what: budget.BudgetedRun, classes: int, all_outputs: bool) -> float:
    """Return how many neighbours tell a node more than noise.

    A node of d neighbours reads about d buckets of d votes of weight 1 / sqrt(d): d^1.5 against noise of d^.5 stds.
    With all outputs public it reads its own bucket alone: d votes of weight 1 / sqrt(max(d, floor)) against one std.
    """
    mechanism = what.mechanism
    noise = (mechanism.votes_ratio or 0.0) * mechanism.closed()[1] * vote_norm(num_classes=classes, mass=mechanism.mass)
    if isinstance(mechanism, CappedVotes):  # a vote weighs 1 / sqrt(K), K at least the floor and the noise's margin
        noise *= math.sqrt(max(mechanism.degree_floor, 1 + mechanism.margin * mechanism.degrees_noise))
    return noise * max(math.sqrt(mechanism.degree_floor), noise) if all_outputs else noise


def fit(
    data: Any,
    epsilon: float | None = None,
    *,
    advantage: float | None = None,
    labels: Any = None,
    features: Any = None,
    classes: Sequence[str] | None = None,
    split: Any = None,
    directed: bool | None = None,
    method: str = "auto",
    relation: str = Relation.NODE_NULL,
    scope: str = "others",
    delta: float | None = None,
    labelled: int | None = None,
    mean_degree: float = budget.MEAN_DEGREE,
    words: float | None = None,
    signed: bool | None = None,
    degree_bound: int | None = None,
    public_column: Sequence[str] = (),
    list_column: Sequence[str] = (),
    ranges: RangesGiven | None = None,
    seed: int | None = None,
    audit: bool = True,
    out: str | Path | None = None,
    releases: str | Path | None = None,
    command: str = "dpgraph.fit(...)",
    say: Callable[[str], None] = log.info,
) -> FittedModel:
    """Train a private model of `data`, and return it with its privacy card and its predictions.

    Example: model = dpgraph.fit(data, epsilon=4.0, out="mine"); print(model.card)

    Args:
        data: The graph, as one of these. What was read, and what was left, is said before anything is trained.
            A `Data` of PyTorch Geometric, or a data set of one graph: `edge_index` or `adj_t`, `y`, `x`, masks.
            A NetworkX graph: attributes of nodes that are numbers are features; `label`, `split` and masks.
            A SciPy matrix, a tensor or an array (N, N), or an array of edges (2, E) or (E, 2): with `labels`.
            OGB's pair (graph, labels), or its data set, with the split that it has.
            A dictionary of arrays, or the path of a .npz file, with names such as edge_index, x, y and train_mask.
            The path of a .graphml or .graphml.gz file, read as a NetworkX graph.
            A pair of paths of CSV files, (edges, nodes).
        epsilon: Budget, a number > 0.
        advantage: In the place of epsilon: what an attacker's true positives may exceed false positives by.
        labels: One for each node of a matrix or an edge array: texts, or whole numbers; -1, NaN, None or "": none. For
            NetworkX, GraphML and CSV: the name of the attribute or column (default: label).
        features: (N, F) numbers with a matrix or an edge array, dense or sparse. For NetworkX and GraphML: names of
            the attributes to read (default: all that are numbers).
        classes: The public class list, as texts; labels that are numbers are "0", "1" and so on (default: chosen by
            noisy counts, which a tenth of epsilon pays for).
        split: train, val or test for each node, in the order of the data; or a dictionary of masks or indices, such as
            OGB's; or the name of an attribute or column (default: split or masks of the data; else a tenth is held
            out).
        directed: Whether an edge is in the list of its first end alone (default: no, but as a NetworkX graph or a
            .npz file says).
        method: auto, votes (the default by rule), own (own records alone) or votes-learnt.
        relation: What epsilon protects: node-null (a record), node-remove (a node with all its edges) or edge.
        scope: others (everyone but the node itself), or all-outputs (all predictions may be published).
        delta: Below 1 / N (default: 1 / (10 N)).
        labelled: Public number of labels to train on (default: noisy counts of the classes that are chosen; with
            `classes` all nodes that train).
        mean_degree: Public mean degree, for which settings are made.
        words: Features are counts, and so many of a mean record are not 0: public (default: numbers of any kind).
        signed: Whether features may be negative: public (default: yes, but no with `words`).
        degree_bound: With node-remove: no node has more edges, by a public schema and not by looking.
        ranges: Public (low, high) of columns of features, by name, which become -1..1; None: a column stays as it
            is, and may have nearly all of the norm.
        public_column: Names of columns that tell a node's number of edges and are public. Else they are refused.
        list_column: Names of columns that are made from the node's own list, such as its length; with node-null alone.
        seed: Makes the run reproducible, for research: no release is written. Without it the noise is the operating
            system's.
        audit: Whether audits of the mechanism are run for the card of a release that is written.
        out: Folder to make, with release/, owners/ and curator/ (default: no folder).
        releases: File that lists the releases of these data (default: one next to each input file, or next to `out`).
        say: Called with each line that is said (default: they go to stderr).
        quiet: Whether lines go to the logger `dpgraph` alone, and not to stderr.

    Returns:
        `model` (with `save` and `predict`), `card`, `predictions` (N, C), `plan`, `folder` and `buckets`. Row i of
        predictions is for node `model.header.ids[i]` alone, unless the scope is all-outputs.

    Raises:
        dpgraph.core.errors.UserError: In one line, for data, budgets and scopes without a possible promise.
    """
    check_options(method, relation, scope, epsilon, degree_bound, advantage)
    about = Relation(relation)
    folder = None if out is None else check_out(Path(out))
    own = own_graph(data, labels, features, classes=classes, split=split, directed=directed)
    own = replace(with_ranges(own, ranges or {}), public_columns=tuple(public_column), list_columns=tuple(list_column))
    for text in what_was_read(own):
        say(f"read: {text}")
    check_features(own, about)
    check_edge_features(own, about)
    if about is Relation.NODE_NULL:
        check_edges_beside(own)
    check_scales(own)
    check_split(own, about, method)
    train_side = own.roles == TRAIN
    if not (train_side & (own.labels >= 0)).any():
        raise UserError(f"{own.where}: no node outside the held-out ones has a label: expected some to train on")
    places, charged = int(train_side.sum()), list[str]()
    sure = budget.checked_delta(delta, len(own.ids))
    every = scope == "all-outputs"

    def plan(
        classes: int, counted: int, counted_by: budget.LabelsBy, selection: ClassSelection | None = None
    ) -> tuple[budget.PublicNumbers, budget.BudgetedRun]:
        numbers = budget.PublicNumbers(
            nodes=len(own.ids), labelled=counted if labelled is None else labelled, classes=classes,
            labelled_by=counted_by if labelled is None else "stated",
            voters=places if about is Relation.NODE_REMOVE else None, mean_degree=mean_degree,
            degree_bound=degree_bound, words=own.known_words if words is None else words, signed=signed,
            features=own.num_features,
        )  # fmt: skip
        return numbers, budget.planned(
            method, numbers, epsilon=epsilon, advantage=advantage, delta=sure, relation=about, all_outputs=every,
            selection=selection,
        )  # fmt: skip

    if own.classes_given:
        numbers, what = plan(len(own.classes), places, "nodes that train")
    else:
        if advantage is not None:
            epsilon = epsilon_with_classes(advantage, sure, about)
        selection = ClassSelection.within(epsilon=cast(float, epsilon), delta=sure)
        selection.check(places)
        check_slack(roots=len(own.ids), parameters=0, noise_over_clip=0.0)  # all that is known before the choice
        plan(FEWEST, places, "nodes that train", selection)  # before the charge, refuse what no choice could mend
        promise = {"relation": about, "epsilon": epsilon, "delta": sure, "method": method}
        # a try that fails is charged, too: tries until one succeeds would have no delta
        charged = charge(own, promise, scope, folder, releases) if seed is None else charged
        own, counted = select_classes(own, selection, seed)
        numbers, what = plan(len(own.classes), min(max(counted, 1), places), "noisy counts", selection)
    say(f"risk: {in_words(what.trade_off, about) if seed is None else cards.KNOWN_SEED}")
    others = cards.other_guarantees(own, what)
    for text in cards.assumptions(own, numbers, about, others if seed is None else ()):
        say(f"assumed: {text}")
    for text in own.uncovered:
        say(f"not covered: {text}")
    afforded = afford(what, labelled=numbers.labelled, classes=numbers.classes, all_outputs=every,
                      edges=not edges_are_features(own))  # fmt: skip
    say(afforded)
    for text in cards.released_parts(what, numbers):
        say(f"releases: {text}")
    # before training: a failure ends the release
    audits = audited(what.cell.method, audits_of(what)) if audit and seed is None and folder is not None else {}
    if seed is None:
        check_exact(what.mechanism, nodes=numbers.nodes, classes=numbers.classes, features=own.num_features)
        warnings = *risk_warnings(what.trade_off), *budget.delta_warnings(what.delta, numbers.nodes)
        for text in (*(f"warning: {one}" for one in warnings),
                     *(charged or charge(own, cost_of(what, others), scope, folder, releases))):  # fmt: skip
            say(text)
    trained = train(own, what, seed)
    secret = trained.secret
    stated = cards.card(
        own, what, numbers, others if seed is None else (), scope=scope, secret=secret, command=command, audits=audits
    )
    model = model_of(own, trained, what.kind)
    rows = model.outputs() if scope == "all-outputs" else softmax(trained.scores.astype(np.float64))
    # under node-remove a bucket holds what neighbours say of its owner, and is for the owner alone
    apart = trained.buckets if about is Relation.NODE_REMOVE else None
    fitted = FittedModel(model, stated, rows, afforded, folder, apart)
    if folder is not None:
        _write(fitted, own, scope, secret, what, folder)
    return fitted


def check_options(
    method: str,
    relation: str,
    scope: str,
    epsilon: float | None,
    degree_bound: int | None = None,
    advantage: float | None = None,
) -> None:
    """Raise UserError for options that no promise can be made for, before any data are read."""
    if relation not in budget.RELATIONS:
        raise invalid("--relation", relation, f"one of {', '.join(budget.RELATIONS)}")
    if scope not in SCOPES:
        raise invalid("--scope", scope, f"one of {', '.join(SCOPES)}")
    if scope == "all-outputs" and relation == Relation.NODE_REMOVE:
        raise UserError("--scope all-outputs, --relation node-remove: no epsilon: rows read raw records, and buckets "
                        "are their owners': expected scope others, or relation node-null")  # fmt: skip
    if scope == "all-outputs" and method == "own":
        raise UserError(f"--scope all-outputs, --method {method}: no epsilon: rows read raw records: expected votes")
    budget.check_kind(method, Relation(relation), scope == "all-outputs")
    if degree_bound is not None and relation != Relation.NODE_REMOVE:
        raise invalid("--degree-bound", degree_bound, f"none under {relation}: it is of node-remove")
    budget.check_budget(epsilon, advantage)


def check_features(own: OwnGraph, relation: Relation) -> None:
    """Raise UserError where the lengths of lists, which edges are in, would be read under another relation."""
    if relation is not Relation.NODE_NULL and own.features is None:
        raise UserError(f"--relation {relation}: no features: lengths of lists would be read in their place, and an "
                        f"edge is in them: expected features, or {Relation.NODE_NULL}")  # fmt: skip


def check_split(own: OwnGraph, relation: Relation, method: str) -> None:
    """Raise UserError where who votes would follow from who has a label, which neighbours may differ in."""
    if relation is Relation.NODE_REMOVE and own.split is None and method != "own":
        raise UserError(f"--relation {relation}: no column split: who has a label is protected and cannot say who "
                        "votes: expected train (votes) or test (receives) for each node, or --method own")  # fmt: skip


def model_of(own: OwnGraph, trained: TrainedModel, kind: str) -> SavedModel:
    mechanism, classes = trained.budgeted.mechanism, len(own.classes)
    over = (mechanism.votes_ratio or 0.0) * mechanism.closed()[1]
    mean, reader = trained.mean, trained.reader or READERS[0]
    header = Header(
        format=FORMAT, kind=kind, ids=own.ids, classes=own.classes, columns=own.columns,
        num_features=own.num_features,
        degree_features=own.features is None, directed=own.directed, mass=mechanism.mass,
        std=over * vote_norm(num_classes=classes, mass=mechanism.mass), secret=trained.secret, sha256="",
        relation=trained.budgeted.relation, shrinkage=reader.shrinkage, strength=reader.strength,
        mean_std=None if mean is None else mean.std, signed=mean is not None and mean.signed, ranges=own.ranges,
        advantage=rounded_up(trained.budgeted.trade_off.advantage) if trained.secret else None,
    )  # fmt: skip
    buckets = trained.buckets if header.holds_buckets else None
    row_sum = None if mean is None else mean.released
    return SavedModel(header, trained.weight, trained.bias, buckets, row_sum, trained.learnt)


def _write(
    fitted: FittedModel, own: OwnGraph, scope: str, secret: bool, what: budget.BudgetedRun, folder: Path
) -> None:
    """Write all folders at once, or none: they are made under another name and renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        # a folder made with a known seed protects no one and is never called a release
        cards.write_release(made / FOLDERS[0 if secret else 1], fitted.model, fitted.card, what, scope=scope)
        if scope != "all-outputs":
            _write_owners(made / "owners", fitted, own)
        curator = made / "curator"
        curator.mkdir()
        checks = {"status": "not private, not to be released", **private_checks(own, fitted.predictions)}
        (curator / "checks.json").write_text(as_json(checks), encoding="utf-8")
        for private in made.iterdir():
            if private.name != FOLDERS[0]:
                make_private(private)
        made.chmod(0o755)  # so that everybody reaches release/; until here the folder is its owner's
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _write_owners(folder: Path, fitted: FittedModel, own: OwnGraph) -> None:
    """Write a row for each node and for it alone: it reads the node's own record, or what neighbours say of it."""
    folder.mkdir()
    write_rows(folder / cards.PREDICTIONS, cards.predictions(own.ids, own.classes, fitted.predictions))
    if fitted.buckets is not None:
        heads = ["id", *(f"votes for {name}" for name in own.classes), "mass of voters"]
        buckets = ([name, *row] for name, row in zip(own.ids, fitted.buckets.tolist(), strict=True))
        write_rows(folder / "buckets.csv", [heads, *buckets])
    (folder / "README.txt").write_text(
        "Each row is for the node that it names, and for no one else. All rows together have no epsilon.\n"
    )


def private_checks(own: OwnGraph, rows: np.ndarray) -> dict[str, Any]:
    """Return statistics of private data, for the curator alone."""
    graph = own.graph()
    degrees = np.diff(graph.out_ptr)
    held = (own.labels >= 0) & (own.roles != TRAIN)
    right = rows.argmax(axis=1) == own.labels
    bounds = [0, 1, 2, 4, 8, 16, 32, 64, 128, 1 << 62]
    return {
        "held_out_labels": int(held.sum()),
        "accuracy_on_held_out": float(right[held].mean()) if held.any() else None,
        "share_of_largest_class": float(np.bincount(own.labels[held]).max() / held.sum()) if held.any() else None,
        "homophily": statistics(graph)["homophily"],
        "degrees_from": bounds[:-1],
        "degree_histogram": np.histogram(degrees, bounds)[0].tolist(),
        "self_loops_left_out": int((own.source == own.target).sum()),
        "edges_given": len(own.source),
        "list_entries_kept": int(degrees.sum()),
        "largest_shares_of_norm": largest_shares(own),
    }
