"""Audits of DP-Votes: the content of the one release, what one record moves of it, and what readers look at.

Release, noise and choice are those that dp-votes prepares for its cells. The expected values are computed here a second
time, node by node, from docs/privacy/votes.md. So are the noise and use of the mean of the rows (its step 1).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.audits.cases import prepared_of
from dpgraph.audits.graphs import directed_graph, null_records, random_edges
from dpgraph.audits.result import Audit, AuditResult, in_words, quantile, statistical_result
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.families.votes.mechanism import READERS
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.families.votes.rows import RowMean
from dpgraph.privacy.accountants.gaussian import gaussian_delta
from dpgraph.privacy.auditing import measured_errors, profile_test

CLASSES, MASS, FLOOR = 3, 0.3, 4
NORM = math.sqrt(1 - 1 / CLASSES + MASS**2)  # B
NOISE = 1.0  # noise std of the buckets / B
LEVEL = 5.5  # standard deviations
DELTA = 1e-2
CHANGED = 0  # the node whose record becomes null; a training node
LEAVES = 12
CHOICE = 0.7
TITLE = "the release of votes, and a record's part in it"


def prepared_votes(
    graph: Graph, seed: int, noise: float = NOISE, choice: float | None = None, **others: Any
) -> PreparedVotes:
    """Prepare a run as `make_jobs` does: one full step, with the mu of the votes by the default shares.

    Args:
        graph: The data set.
        seed: Seed of the run.
        noise: Noise multiplier.
        choice: Epsilon of the choice of a reader; None: no choice.
        others: Settings of the budget, such as the variant and its bounds.
    """
    settings = {
        "method": "dp-votes",
        "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
        "training": {"optimizer": "sgd", "learning_rate": 0.1, "steps": 1, "sampling_rate": 1.0},
        "privacy": {
            "noise_multiplier": noise, "vote_mass": MASS, "votes_share": 0.5, "choice_epsilon": choice, "delta": 1e-3,
            **(others or {"degree_floor": FLOOR}),
        },
    }  # fmt: skip
    return prepared_of(PreparedVotes, graph, settings, len(graph.train_nodes), graph.num_nodes, seed=seed)


def _graph(lists: dict[int, list[int]], size: int) -> Graph:
    """Return a graph of `size` nodes, half of them for training; lists keep the given order, even invalid ids."""
    split = np.where(np.arange(size) % 2 == 0, TRAIN, np.where(np.arange(size) % 4 == 1, VALIDATION, TEST))
    graph = directed_graph([], [], np.ones((size, 2)), np.arange(size) % CLASSES, split, CLASSES)
    rows = [lists.get(node, []) for node in range(size)]
    return replace(
        graph,
        out_ptr=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        out_idx=np.array([one for row in rows for one in row], dtype=np.int32),
    )


def cases() -> dict[str, Graph]:
    """Return graphs on which wrong weights would show most: the changed node lists many, is listed by many, or errs."""
    leaves, size = list(range(1, LEAVES + 1)), LEAVES + 2
    hub = LEAVES + 1
    return {
        "fan": _graph({CHANGED: leaves}, size),
        "star": _graph({CHANGED: leaves} | {leaf: [CHANGED] for leaf in leaves}, size),
        "hub": _graph({node: [hub] for node in range(hub)} | {CHANGED: [*leaves, hub], hub: list(range(hub))}, size),
        "copies": _graph({CHANGED: [3] * LEAVES + [CHANGED, size + 5]} | {3: [CHANGED, 4]}, size),
    }


def mixed_graph(size: int = 60) -> Graph:
    """Return a graph on which readers are right about different numbers of nodes."""
    random = numpy_generator("audits", "votes", "mixed")
    edges = random_edges(random, size, 6 / size)
    graph = _graph({node: np.flatnonzero(edges[node]).tolist() for node in range(size)}, size)
    labels = np.where(graph.split == TEST, np.argsort(predictions(graph), axis=1)[:, 1], graph.labels)
    return replace(graph, labels=labels)


def predictions(graph: Graph) -> np.ndarray:
    """Return (N, C) public predictions, which do not depend on the changed record."""
    return numpy_generator("audits", "votes", "predictions").dirichlet(np.ones(CLASSES), graph.num_nodes)


def worked_out(graph: Graph, probabilities: np.ndarray) -> np.ndarray:
    """Return (N, C + 1) sums of votes before noise, vote by vote."""
    result = np.zeros((graph.num_nodes, CLASSES + 1))
    for voter in range(graph.num_nodes):
        label = int(graph.labels[voter]) if graph.split[voter] == TRAIN else -1
        if not graph.features[voter].any() and label < 0:
            continue  # a null record
        share = np.eye(CLASSES)[label] if label >= 0 else probabilities[voter]
        listed = {int(one) for one in graph.out_idx[graph.out_ptr[voter] : graph.out_ptr[voter + 1]]}
        named = {one for one in listed if 0 <= one < graph.num_nodes} - {voter}
        for bucket in named | {voter}:
            result[bucket] += np.append(share - 1 / CLASSES, MASS) / math.sqrt(max(len(named) + 1, FLOOR))
    return result


def releases(graph: Graph, trials: int, side: int) -> np.ndarray:
    """Return (trials, N, C + 1) released buckets."""
    step, probabilities = prepared_votes(graph, side), predictions(graph)
    found = []
    for _ in range(trials):
        step.scores(probabilities)
        if step.released is None:
            raise TypeError("expected a release")
        found.append(step.released)
    return np.stack(found)


def facts(seen: np.ndarray, graph: Graph) -> dict[str, float]:
    """Return the standard deviations by which a release differs from the expected mean and spread."""
    gaps = (seen - worked_out(graph, predictions(graph))) / (NOISE * NORM)
    means = gaps.mean(axis=0) * math.sqrt(len(gaps))
    return {"sums": float(np.abs(means).max()) - 2.5, "noise": quantile(float((gaps**2).sum()), gaps.size)}


def looks_elsewhere(graph: Graph) -> float:
    """Return inf if, for one and the same release, a record changes what another node reads; else 0."""
    released = numpy_generator("audits", "votes", "release").standard_normal((graph.num_nodes, CLASSES + 1))
    probabilities, others = predictions(graph), np.arange(graph.num_nodes) != CHANGED
    found = []
    for one in (graph, null_records(graph, [CHANGED])):
        step = prepared_votes(one, 0)
        ballots = step.ballots()
        cast = ballots.ballots(step.labels_that_vote, probabilities, MASS)
        read = ballots.read(released, cast, MASS, NORM, 1.0)
        found.append(np.stack([ballots.scores(probabilities, read, reader) for reader in READERS]))
    return 0.0 if np.array_equal(found[0][:, others], found[1][:, others]) else math.inf


def choices(graph: Graph, trials: int) -> float:
    """Return the standard deviations by which chosen readers differ from exp(epsilon u); the release has no noise."""
    step, probabilities = prepared_votes(graph, 0, noise=1e-6, choice=CHOICE), predictions(graph)
    labels = np.where(np.isin(graph.split, (TRAIN, VALIDATION)), graph.labels, -1)
    counts = np.zeros(len(READERS))
    for _ in range(trials):
        step.scores(probabilities)
        counts[READERS.index(step.reader) if step.reader is not None else 0] += 1
    released, ballots = step.released, step.ballots()
    if released is None:
        raise TypeError("expected a release")
    cast = ballots.ballots(np.where(graph.split == TRAIN, graph.labels, -1), probabilities, MASS)
    right = np.zeros(len(READERS))
    for place, reader in enumerate(READERS):
        read = ballots.read(released, cast, MASS, 1e-6 * NORM, reader.shrinkage)
        guess = ballots.scores(probabilities, read, reader).argmax(axis=1)
        right[place] = sum(int(guess[node] == labels[node]) for node in range(len(labels)) if labels[node] >= 0)
    weights = np.exp(CHOICE * (right - right.max()))
    wanted = trials * weights / weights.sum()
    statistic = float(((counts - wanted) ** 2 / wanted).sum())
    return quantile(statistic, len(READERS) - 1)


def votes(trials: int) -> AuditResult:
    """Audit every graph with and without the changed record, with `trials` releases a side.

    Facts hold exactly or within `LEVEL` standard deviations. An attack along the direction that the record moves is
    compared with a Gaussian mechanism of mu = 1 / NOISE. The fact "reads" asks what others read of one and the same
    release.
    """
    broken: dict[str, float] = {}
    results, checked = {}, 0
    for name, graph in cases().items():
        nulled = null_records(graph, [CHANGED])
        if name == "copies":  # which no stored graph has: only its owner's list goes
            kept = np.where(np.arange(graph.num_nodes) == CHANGED, 0, np.diff(graph.out_ptr))
            ptr, rest = np.concatenate([[0], np.cumsum(kept)]), graph.out_idx[graph.out_ptr[CHANGED + 1] :]
            nulled = replace(nulled, out_ptr=ptr, out_idx=rest)
        seen = [releases(one, trials, side) for side, one in enumerate((graph, nulled))]
        found = {f"{name}, {what}": score for what, score in facts(seen[0], graph).items()}
        found |= {f"{name} without it, {what}": score for what, score in facts(seen[1], nulled).items()}
        if name != "copies":
            found[f"{name}, reads"] = looks_elsewhere(graph)
        checked += len(found)
        broken |= {fact: score for fact, score in found.items() if not abs(score) < LEVEL}
        way = worked_out(graph, predictions(graph)) - worked_out(nulled, predictions(graph))
        scores = [(one[trials // 2 :] * way).sum(axis=(1, 2)) / np.linalg.norm(way) for one in seen]
        errors = measured_errors(scores[0], scores[1])
        results[name] = errors, profile_test(errors, claimed_curve)
        if results[name][1].refuted:
            broken[f"{name}, measured"] = math.inf
    chosen = choices(mixed_graph(), max(400, trials // 4))
    checked += 1
    broken |= {} if abs(chosen) < LEVEL else {"choice": chosen}
    worst = max(results, key=lambda name: float((results[name][1].measured - results[name][1].claimed).max()))
    errors, test = results[worst]
    claim = f"mu = {1 / NOISE:.3f} whatever the degrees, and {checked} facts"
    result = statistical_result("votes", TITLE, claim, trials, errors, test, DELTA)
    finding = f"{worst}: {result.finding}; {in_words(broken)}"
    return result.model_copy(update={"passed": not broken, "finding": finding})


def claimed_curve(epsilons: np.ndarray) -> np.ndarray:
    """Return the claimed delta at each epsilon."""
    return np.asarray(gaussian_delta(mu=1 / NOISE, epsilon=epsilons))


FEATURES, SHARE = 40, 0.2
ROUNDED = 1e-6  # error of float32 rows and of rounding to a grid
ODD_RECORDS = (0, 1, 2)  # a long record, one with numbers that are none, one of a single feature


def rows_graph() -> Graph:
    """Return counts with a common part; some records are so long that they would drown the others if not scaled."""
    graph = cases()["fan"]
    random = numpy_generator("audits", "votes", "mean")
    features = random.poisson(3.0 / (1 + np.arange(FEATURES)), (graph.num_nodes, FEATURES)).astype(np.float32)
    features[0] *= 1e20
    features[1, 3] = np.nan
    features[2] = 7.0 * np.eye(FEATURES)[5]
    return replace(graph, features=features)


def _prepared(graph: Graph, seed: int) -> tuple[PreparedVotes, RowMean]:
    """Prepare a run that releases the mean of the rows."""
    step = prepared_votes(graph, seed, degree_floor=4, mean_share=SHARE, votes_share=0.5)
    if step.mean is None:
        raise TypeError("expected a mean of the rows")
    return step, step.mean


def summed(graph: Graph) -> np.ndarray:
    """Return (F,) the sum of scaled rows, record by record."""
    total = np.zeros(FEATURES)
    for record in np.asarray(graph.features, dtype=np.float64):
        if np.isfinite(record).all() and record.any():
            total += record / np.linalg.norm(record)
    return total


def row_of(record: np.ndarray, released: np.ndarray, std: float) -> np.ndarray:
    """Return one record as networks read it, computed from the release and the record alone."""
    kept = [place for place in range(FEATURES) if released[place] > std]
    direction = released[kept] / np.linalg.norm(released[kept])
    short = record[kept].astype(np.float64)
    if not np.isfinite(short).all() or not short.any():
        return np.zeros(len(kept))
    short /= np.linalg.norm(short)
    short -= (short @ direction) * direction
    return np.asarray(short / np.linalg.norm(short))


def votes_mean(trials: int) -> AuditResult:
    """Audit `trials` means: their noise, what a record moves of one with the same noise, and the rows."""
    broken: dict[str, float] = {}
    graph = rows_graph()
    squares = 0.0
    for seed in range(trials):
        step, mean = _prepared(graph, seed)
        # stated by the mechanism, whatever ran
        accounted = next(one.noise for one in step.accounted().releases if one.kind == "mean of the rows")
        squares += float((((mean.released - summed(graph)) / accounted) ** 2).sum())
    score = quantile(squares, trials * FEATURES)
    broken |= {} if abs(score) < LEVEL else {"noise": score}
    read = step.data.features.numpy() / 10.0
    features = np.asarray(graph.features)
    for node in range(3, graph.num_nodes):
        gap = float(np.abs(read[node] - row_of(features[node], mean.released, mean.std)).max())
        broken |= {} if gap < 10 * ROUNDED else {f"row of node {node}": gap}
    for node in ODD_RECORDS:
        (_, whole), (_, less) = _prepared(graph, 0), _prepared(null_records(graph, [node]), 0)
        moved = float(np.linalg.norm(whole.released - less.released))
        broken |= {} if moved <= 1 + ROUNDED else {f"record {node} moves": moved}
    return AuditResult(
        audit="votes-mean", title="the mean of the rows, and a record's part in it",
        passed=not broken, trials=trials, curve=(),
        claim="a record moves the sum of the rows by 1 at most; noise as accounted; rows follow "
        "from the release and the own record alone",
        finding=in_words(broken),
    )  # fmt: skip


AUDITS = {"votes": Audit(votes, 4000, quick=500), "votes-mean": Audit(votes_mean, 200)}
