"""Audit of whole runs: one run with many canaries, each in by a fair coin.

A canary is a training record whose clipped gradient points along a direction of its own: one feature of length 10 and a
label, under softmax regression. Where the coin says out, its record is null. Sampler, clipping, noise, loss and votes
are those that the method prepares. The attacker sees every noisy sum, and the buckets.

Three bounds are compared with the claim. Mahloujifar et al. (2025) and Steinke et al. (2023) hold whatever the scores
of several canaries have in common. The third takes each canary for a trial of its own, which independent noise makes
it; that noise is independent is what `facts` and `scale` test.
"""

from __future__ import annotations

import io
import math
from bisect import bisect_left
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch
from scipy.special import log_softmax, ndtri

from dpgraph.audits import theory
from dpgraph.audits.cases import KINDS, Kind, Settings, cell_of, jobs_of, mechanism_of, prepared_step
from dpgraph.audits.graphs import directed_graph, null_records
from dpgraph.audits.result import Audit, AuditResult, Point
from dpgraph.config.cell import Model
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TRAIN
from dpgraph.engine.methods.assembly import set_up
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import expected
from dpgraph.families.registry import method
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.families.votes.sensitivity import vote_norm
from dpgraph.privacy import auditing

TITLE = "one run, canaries in by coin flips"
LENGTH = 10.0  # of a canary's record; that of the records that votes train on
EPSILONS = np.linspace(0.0, 12.0, 97)
RATE = 0.1  # learning rate of the runs that predict, times the canaries: a step of a record moves its logit by as much
ALARM, SHOWN = 1e-6, 0.05  # what may fail: a claim that is refuted, and a share that is printed
SHARES = np.linspace(0.02, 1.1, 109)  # of the claim's 1 / noise
# the settings of each attacked variant, full batches first
RUNS = {
    name: Settings(**vars(kind.canaries), learning_rate=1.0, model={"encoder_layers": 0})
    for name, kind in sorted(KINDS.items(), key=lambda item: -item[1].canaries.rate if item[1].canaries else 0)
    if kind.canaries is not None
}
BOUNDS = ("f-DP", "Steinke et al.", "independent trials")


@dataclass(frozen=True)
class CanaryRun:
    """A run's canaries: their scores, who is in, and the claimed delta at `EPSILONS` for a share of the noise."""

    scores: np.ndarray  # (m,)
    present: np.ndarray  # (m,) bool
    claim: Callable[[float], np.ndarray]  # of the noise over this share

    @property
    def mu(self) -> float:
        """mu of the Gaussian mechanism of the same total variation as the claim."""
        return 2 * float(ndtri((1 + self.claim(1.0)[0]) / 2))

    def shown(self, alarm: float) -> dict[str, float]:
        """Return for each bound the largest of SHARES at which the claim is refuted; `alarm` may fail for each."""
        size = len(self.scores)
        guesses = auditing.planned_guesses(mu=self.mu, canaries=size, confidence=1 - SHOWN / 2)
        correct = auditing.guesses_either_way(self.scores, self.present, guesses)
        errors = auditing.measured_errors(self.scores[self.present], self.scores[~self.present], 1 - alarm)
        known = {"correct": correct, "guesses": guesses, "canaries": size}
        beta, slope = auditing.one_run_tail(**known, epsilon=EPSILONS)

        def refuted(deltas: np.ndarray) -> tuple[bool, bool, bool]:
            curve = auditing.inverse_of(EPSILONS, deltas)
            return (
                auditing.one_run_refutes(**known, inverse=curve, confidence=1 - alarm / 2),
                bool((beta + deltas * slope < alarm / 2).any()),
                auditing.profile_test(errors, lambda epsilons: deltas, EPSILONS).refuted,
            )

        return {name: _largest(lambda share, at=at: refuted(self.claim(share))[at]) for at, name in enumerate(BOUNDS)}  # type: ignore[misc]


def _largest(refuted: Callable[[float], bool]) -> float:
    """Return the largest of SHARES that is refuted; 0: none is. A larger share is a larger claim, refuted less."""
    count = bisect_left(SHARES, True, key=lambda share: not refuted(float(share)))
    return float(SHARES[count - 1]) if count else 0.0


def coins(size: int, name: str) -> np.ndarray:
    """Draw (m,) which canaries are in."""
    return numpy_generator("audits", "one run", name, "coins").random(size) < 0.5


def canary_graph(size: int, listed: int) -> Graph:
    """Return canaries, each of its own feature and class together, that list `listed` null nodes of their own each."""
    width, place = math.ceil(math.sqrt(size)), np.arange(size)
    features = np.zeros((size * (1 + listed), width), dtype=np.float32)
    features[place, place // width] = LENGTH
    labels, split = np.full(len(features), -1), np.full(len(features), NO_SPLIT, dtype=np.uint8)
    labels[:size], split[:size] = place % width, TRAIN
    owners, members = np.repeat(place, listed), np.arange(size, len(features))
    return directed_graph(owners, members, features, labels, split, width)


def claim_of(kind: Kind, settings: Settings, share: float) -> np.ndarray:
    """Return delta at EPSILONS as docs/privacy has it, for noise over `share`; votes have half of the squared mu."""
    votes = _votes_mu(settings) if kind.votes else 0.0
    if settings.rate == 1:
        return theory.gaussian_delta(share * math.hypot(math.sqrt(settings.steps) / settings.noise, votes), EPSILONS)
    return theory.poisson(1, settings.rate, settings.noise / share, settings.steps, share * votes).delta(EPSILONS)


def _votes_mu(settings: Settings) -> float:
    return math.sqrt(settings.steps) / settings.noise


def attack(name: str, size: int) -> dict[str, CanaryRun]:
    """Run the prepared step of a method on canaries and score each by the likelihood ratio of all that it moved.

    Where they vote, the buckets alone are scored as well: half of their noise would be a smaller part of the whole.
    """
    kind, settings, present = KINDS[name], RUNS[name], coins(size, name)
    # m of votes: how many buckets a vote of full norm goes to
    graph = canary_graph(size, getattr(mechanism_of(kind, settings, 10), "degree_floor", 1) - 1)
    step = prepared_step(PreparedTrees, kind, settings, null_records(graph, np.flatnonzero(~present)))
    scores = _trained(step, settings, size, graph.num_classes)
    whole = cache(partial(claim_of, kind, settings))
    if not kind.votes:
        return {name: CanaryRun(scores, present, whole)}
    votes = expected(step, PreparedVotes)
    votes.scores(np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes))
    read = _vote_scores(votes, settings, graph, size)
    mu = _votes_mu(settings)
    alone = cache(lambda share: theory.gaussian_delta(share * mu, EPSILONS))
    return {name: CanaryRun(scores + read, present, whole), f"{name}, buckets": CanaryRun(read, present, alone)}


def _trained(prepared: PreparedTrees, settings: Settings, size: int, width: int) -> np.ndarray:
    """Return (m,) log-likelihood ratios of what they moved along each canary.

    Of the classes of one feature, every canary that is drawn lowers the others' entries by C / (width - 1), near
    enough; what that is in the mean is added again.
    """
    model = Model(architecture="mlp", hops=0, encoder_layers=0)
    network = Network(model, width, width, torch_generator("audits", "one run"))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    step = prepared.step(network, torch.optim.SGD(network.parameters(), lr=settings.learning_rate))
    weight, place = next(network.parameters()), np.arange(size)
    undo = prepared.divisor / settings.learning_rate / prepared.public_clip_norms[0] / math.sqrt(1 - 1 / width)
    claim, scores = theory.poisson(1, settings.rate, settings.noise, 1), np.zeros(size)
    for _ in range(settings.steps):
        before = weight.detach().double().numpy().copy()
        step()
        moved = weight.detach().double().numpy() - before
        along = (moved - moved.mean(axis=0)) * undo + settings.rate / 2
        scores += claim.log_ratio(along[place % width, place // width])
    return scores


def _vote_scores(prepared: PreparedVotes, settings: Settings, graph: Graph, size: int) -> np.ndarray:
    """Return (m,) log-likelihood ratios of the buckets that a canary votes into: its own and those it lists."""
    if prepared.released is None:
        raise TypeError("expected a release")
    classes, mass = graph.num_classes, prepared.votes_of.mass
    norm = vote_norm(num_classes=classes, mass=mass)
    read = np.append(np.arange(size)[:, None], np.arange(size, graph.num_nodes).reshape(size, -1), axis=1)
    votes = np.eye(classes)[np.asarray(graph.labels)[:size]] - 1 / classes
    buckets = prepared.released[read].sum(axis=1) / math.sqrt(read.shape[1])
    along = ((buckets[:, :classes] * votes).sum(axis=1) + mass * buckets[:, classes]) / norm
    mu = _votes_mu(settings)
    return np.asarray(mu * (along / norm * mu) - mu**2 / 2)


def predictions(name: str, size: int) -> CanaryRun:
    """Run a method on canaries of random records; score each by the loss of its label at a node of the same record.

    That node is not in the training set and has an empty list. The attacker sees what the method predicts for it.
    """
    kind, present = KINDS[name], coins(size, name)
    settings = replace(RUNS[name], learning_rate=RATE * size)
    width, random = math.ceil(math.sqrt(size)), numpy_generator("audits", "one run", name, "records")
    records = random.standard_normal((size, width))
    records *= LENGTH / np.linalg.norm(records, axis=1, keepdims=True)
    labels = random.integers(width, size=size)
    split = np.repeat(np.array([TRAIN, NO_SPLIT], dtype=np.uint8), size)
    both = directed_graph([], [], np.tile(records, (2, 1)), np.tile(labels, 2), split, width)
    graph = null_records(both, np.flatnonzero(~present))
    (job,) = jobs_of(graph, cell_of(kind, settings, size), mechanism_of(kind, settings, size))
    bench = set_up(job)
    before = FullGraph(job.graph).logits(bench.network, bench.features).numpy()
    with redirect_stderr(io.StringIO()):  # no bar
        after = method(kind.method).run(job, lambda done, logits: {}).logits
    losses = log_softmax(np.stack([before, after])[:, size:].astype(float), axis=2)[:, np.arange(size), labels]
    scores = losses[1] - (0.0 if kind.votes else losses[0])  # votes start at zero
    return CanaryRun(scores, present, cache(partial(claim_of, kind, settings)))


def least_shares(canaries: int) -> dict[str, float]:
    """Return the shares of 1 / noise that have to be shown; an attack that lost its strength does not pass."""
    if canaries < 1000:
        return {}
    few = canaries < 5000
    return {"f-DP": 0.4 if few else 0.55, "independent trials": 0.5 if few else 0.7}


def judged(audit: str, runs: dict[str, CanaryRun], trials: int, least: dict[str, float]) -> AuditResult:
    """Return the result of runs with canaries, which have to show `least` of 1 / noise.

    The curve is that of the first run, next to the largest that is refuted.
    """
    broken, found, sure = [], [], list[float]()
    for name, run in runs.items():
        alarms, shown = run.shown(ALARM / len(BOUNDS) / len(runs)), run.shown(SHOWN)
        sure.append(max(float(SHARES[0]), *alarms.values()))
        broken += [f"{name}: {bound} refutes the claim" for bound, share in alarms.items() if share >= 1]
        broken += [
            f"{name}: {bound} shows {shown[bound]:.2f}, expected {share}"
            for bound, share in least.items()
            if shown[bound] < share
        ]
        found.append(f"{name}, mu {run.mu:.2f}: " + ", ".join(f"{bound} {share:.2f}" for bound, share in shown.items()))
    first = next(iter(runs.values()))
    points = zip(EPSILONS.tolist(), first.claim(1.0).tolist(), first.claim(sure[0]).tolist())
    return AuditResult(
        audit=audit, title=TITLE, passed=not broken, trials=trials,
        claim="noise as accounted for; of 1 / noise at least "
        + (", ".join(f"{share:g} by {bound}" for bound, share in least.items()) or "none") + " is shown",
        finding="; ".join(broken + found),
        curve=tuple(Point(epsilon=e, claimed=c, measured=m) for e, c, m in points if e <= 8),
    )  # fmt: skip


def one_run(trials: int) -> AuditResult:
    """Attack own records, votes and lots with `trials` canaries each, and what their methods predict."""
    runs = {part: run for name in RUNS for part, run in attack(name, trials).items()}
    result = judged("one-run", runs, trials, least_shares(trials))
    told, refuted = [], []
    for name in RUNS:
        seen = predictions(name, trials)
        refuted += [name] if seen.shown(ALARM)["f-DP"] >= 1 else []
        told.append(f"{name} {seen.shown(SHOWN)['f-DP']:.2f}")
    finding = f"{result.finding}; predictions: {', '.join(told)}" + "".join(f"; {one}: refuted" for one in refuted)
    return result.model_copy(update={"passed": result.passed and not refuted, "finding": finding})


AUDITS = {"one-run": Audit(one_run, 5000, quick=1000)}
