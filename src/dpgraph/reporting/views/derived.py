"""Metrics that aggregation derives for views from predictions and exposures of cells."""

import math
from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from dpgraph.config.experiment import PRESENCE
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import entropy
from dpgraph.planning.plan import Entry, Plan
from dpgraph.privacy.auditing import CONFIDENCE, one_run_epsilon, one_run_guesses
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.reporting.stored import Predictions, exposures_of, stored_graph
from dpgraph.reporting.views.membership.attacks import ATTACK, SCORES, aligned, attack, measures_of
from dpgraph.reporting.views.registry import Derived, DerivedMetric

EMBEDDING, EMBEDDING_PARTS = "embedding", ("x", "y", "class")
PERPLEXITY = 30.0  # at most a third of the roots
FEWEST = 10  # roots
NOWHERE = np.zeros((0, 2))


def _entries(plan: Plan, view: str) -> Iterator[Entry]:
    """Yield the entries of all artefacts of the view."""
    for name, artefact in plan.artefacts.items():
        if artefact.view == view:
            yield from plan.entries_of(name)


def embedding_metrics(plan: Plan) -> Derived:
    """Return places and classes of training roots by t-SNE, for the first seed of each cell, without node ids."""
    found: Derived = {}
    load_graph = cache(partial(stored_graph, plan))
    for entry in _entries(plan, EMBEDDING):
        if (graph := load_graph(entry.task_id)) is None:
            continue
        for seed, exposure in exposures_of(plan, entry, first=True).items():
            place = entry.paper, entry.cell.slug, seed
            if place not in found:
                found[place] = _embedding(exposure.embeddings, graph.labels[exposure.roots], entry.cell.slug, seed)
    return found


def _embedding(embeddings: np.ndarray, classes: np.ndarray, slug: str, seed: int) -> list[DerivedMetric]:
    places, reason = tsne(embeddings, slug, seed)
    if reason:
        return [DerivedMetric(EMBEDDING, math.nan, reason=reason)]
    order = np.lexsort((places[:, 1], places[:, 0], classes))  # hides the order of node ids
    columns = (places[order, 0], places[order, 1], classes[order])
    return [
        DerivedMetric(f"{EMBEDDING}/{name}", float(value), number)
        for name, values in zip(EMBEDDING_PARTS, columns, strict=True)
        for number, value in enumerate(values)
    ]


def tsne(embeddings: np.ndarray, *names: str | int) -> tuple[np.ndarray, str]:
    """Return ((M, 2) places, "") or (no places, reason).

    The optimisation starts at the principal components; `names` key its random numbers.
    """
    count = len(embeddings)
    if count < FEWEST:
        return NOWHERE, f"{count} roots, fewer than {FEWEST}"
    if not np.isfinite(embeddings).all():
        return NOWHERE, "embeddings are not finite"
    scale = np.abs(embeddings - embeddings.mean(axis=0, dtype=float)).max()
    if not scale > 0:
        return NOWHERE, "all embeddings are equal"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    model = TSNE(
        perplexity=min(PERPLEXITY, (count - 1) / 3),
        init="pca",
        learning_rate="auto",
        random_state=entropy("dpgraph", "t-SNE", *names) % 2**32,
    )
    with threadpool_limits(1):  # sums in another order would end in another picture
        return model.fit_transform((embeddings - embeddings.mean(axis=0, dtype=float)) / scale), ""


def hard_case_share(wrong: np.ndarray, hard: np.ndarray) -> float:
    """Return |errors of the run and hard cases| / |hard cases| (Igamberdiev and Habernal, App. E).

    It is nan without hard cases, and the run's error rate where errors are independent of hard cases.

    >>> hard_case_share(np.array([True, True, False]), np.array([True, False, True]))
    0.5
    """
    return float((wrong & hard).sum() / hard.sum()) if hard.any() else np.nan


def hard_case_metrics(plan: Plan) -> Derived:
    """Return the share of each hard-cases artefact under its metric, `hard_cases/<artefact>`.

    Runs are paired seed by seed. The reference is paired with its next seed, since its own errors would give 1; this
    shows how far hard cases depend on the data, not on the seed. Where each seed has its own split, those two are
    compared on the nodes that both tested.
    """
    predictions, shares = Predictions(plan), Derived()
    for entry in _entries(plan, "hard-cases"):
        metric = str(plan.artefacts[entry.artefact].metric)
        for seed, share in _hard_case_shares(plan, entry, predictions):
            shares.setdefault((entry.paper, entry.cell.slug, seed), []).append(DerivedMetric(metric, share))
    return shares


def _hard_case_shares(plan: Plan, entry: Entry, predictions: Predictions) -> Iterator[tuple[int, float]]:
    reference = plan.reference_entry(entry)
    if reference is None:
        return
    seeds = entry.cell.seeds
    own = reference.cell.slug == entry.cell.slug
    for index, seed in enumerate(seeds):
        other = seeds[(index + 1) % len(seeds)] if own else seed
        errors = predictions.wrong_both(entry, seed, reference, other)
        if errors is None or (own and other == seed):
            continue
        share = hard_case_share(*errors)
        if not np.isnan(share):
            yield seed, share


def membership_metrics(plan: Plan) -> Derived:
    """Return the measures of each attack on each seed, or a reason why an attack has none."""
    found: Derived = {}
    for entry in _entries(plan, "membership"):
        exposed = exposures_of(plan, entry)
        if not exposed or (entry.paper, entry.cell.slug, next(iter(exposed))) in found:
            continue
        by_seed: dict[int, list[DerivedMetric]] = {seed: [] for seed in exposed}
        losses, members = aligned(list(exposed.values()))
        for score in SCORES:
            reason, measured = attack(score, losses, members)
            if reason:
                by_seed[next(iter(exposed))].append(DerivedMetric(f"{ATTACK}/{score}", math.nan, reason=reason))
            for seed, one in zip(exposed, measured, strict=False):
                by_seed[seed] += [
                    DerivedMetric(f"{ATTACK}/{score}/{measure}", float(value), place)
                    for measure, values in measures_of(one).items()
                    for place, value in enumerate(values)
                ]
        found |= {(entry.paper, entry.cell.slug, seed): own for seed, own in by_seed.items() if own}
    return found


GUESSED = (0.2, 0.9)  # shares of the canaries that the attacker guesses: the surest ones, or nearly all


def presence_metrics(plan: Plan) -> Derived:
    """Return lower bounds of epsilon from one run on a graph with canaries.

    A fair coin decides whether each canary's record is present (`data/canaries.py`). The attacker sees the predicted
    classes of tested nodes that list the canary, and guesses "present" the more of them say class 1. Right guesses
    bound epsilon from below (Steinke, Nasr & Jagielski 2023, Theorem 5.2) in the view of nodes that list no canary.
    """
    predictions, shown = Predictions(plan), Derived()
    for entry in _entries(plan, "presence"):
        for seed in entry.cell.seeds:
            if (found := _presence(plan, entry, seed, predictions)) is not None:
                shown[entry.paper, entry.cell.slug, seed] = [DerivedMetric(PRESENCE, found)]
    return shown


def _presence(plan: Plan, entry: Entry, seed: int, predictions: Predictions) -> float | None:
    predicted, tested = predictions.predicted(entry, seed), predictions.tested(entry, seed)
    graph = stored_graph(plan, entry.task_id)
    if predicted is None or tested is None or graph is None:
        return None
    nodes, present = tested
    if not (np.diff(graph.out_ptr)[nodes] == 1).all() or present.max(initial=0) > 1:
        raise UserError(f"{entry.artefact}: {entry.task_id}: expected a data set of canaries for the view presence")
    # the largest delta that a row has: a bound there holds at each smaller one
    delta = usual_delta(len(graph.train_nodes))
    return presence_epsilon(np.asarray(graph.out_idx)[graph.out_ptr[nodes]], predicted == 1, present == 1, delta)


def presence_epsilon(canaries: np.ndarray, says: np.ndarray, present: np.ndarray, delta: float) -> float:
    """Return a lower bound of epsilon at `delta`, at 99 % over the run's own randomness and the coins.

    Each share of `GUESSED` is tried at half of the allowed probability of error.

    Args:
        canaries: (n,) the canary that each node lists.
        says: (n,) whether the node's prediction says "present".
        present: (n,) whether the canary is present.
        delta: Delta of the guarantee that is bounded.
    """
    ids, place = np.unique(canaries, return_inverse=True)
    score = np.bincount(place, says.astype(float))
    coin = np.bincount(place, present) > 0
    level, bounds = 1 - (1 - CONFIDENCE) / len(GUESSED), []
    for share in GUESSED:
        guesses = 2 * max(1, int(share * len(ids) / 2))
        correct = one_run_guesses(score, coin, guesses)
        bounds.append(
            one_run_epsilon(correct=correct, guesses=guesses, canaries=len(ids), delta=delta, confidence=level)
        )
    return max(bounds)


TAKEN_FOR = "taken_for"
NO_CLASS = -1


def confusion_metrics(plan: Plan) -> Derived:
    """Return how many test nodes of each class a run predicts as each class."""
    predictions, found = Predictions(plan), Derived()
    for entry in _entries(plan, "confusion"):
        for seed in entry.cell.seeds:
            tested, predicted = predictions.tested(entry, seed), predictions.predicted(entry, seed)
            if tested is not None and predicted is not None:
                found[entry.paper, entry.cell.slug, seed] = list(taken_for(tested[1], predicted))
    return found


def taken_for(labels: np.ndarray, predicted: np.ndarray) -> Iterator[DerivedMetric]:
    """Yield `taken_for/<predicted>` for each true class: the number of its test nodes, where it is not 0."""
    pairs, counts = np.unique(np.stack([labels, predicted]), axis=1, return_counts=True)
    for true, other, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
        yield DerivedMetric(f"{TAKEN_FOR}/{max(other, NO_CLASS)}", float(count), true)
