"""Audits of steps over tuples: what each prepared step draws, limits and adds, and what one entity moves.

`tuple-facts` takes the prepared step of every variant as its method gets it, with a head on random vectors, and
compares batches, negatives, limits and noise with what the theorem of the variant wants, worked out here again.
`tuple-sensitivity` is exact: the change of a batch's clipped sum when an entity's tuples leave, on the batch for which
Proposition 4.1 of Huang et al. fails most, and how many tuples a null entity moves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import chi2
from torch import Tensor

from dpgraph.audits.cases import CLIP_NORM, CPU, TUPLE_KINDS, Kind, prepared_of
from dpgraph.audits.graphs import null_records
from dpgraph.audits.result import Audit, AuditResult, largest
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.families.tuples.heads import Head, HeadModel
from dpgraph.families.tuples.prepared import PreparedRelations
from dpgraph.families.tuples.sampling import Negatives, TupleBatches, Tuples, stable_tuples, worst_batch
from dpgraph.families.tuples.steps import ClippedTuples, RelationStep, TupleLoss
from dpgraph.privacy.procedure import Clipped, Lists
from dpgraph.problems.relations.value import Relations
from dpgraph.problems.relations.work import RelationPrediction

LEVEL = 5.0  # standard deviations
ENTITIES, PRIVATE, PAIRS = 120, 100, 260  # the others are of another graph: no negative is drawn of them
RATE, NEGATIVES, DEGREE, NOISE, LEARNING_RATE = 0.04, 2, 3, 0.7, 0.25
PARAMETERS = 40


def probe_relation() -> Relations:
    """Return a random relation of `ENTITIES` entities, of which `PRIVATE` are private."""
    generator = numpy_generator("audits", "tuples")
    ends = np.concatenate([generator.integers(0, PRIVATE, (PAIRS, 2)), generator.integers(PRIVATE, ENTITIES, (30, 2))])
    pairs = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0).astype(np.int32)
    domain = np.where(np.arange(ENTITIES) < PRIVATE, TRAIN, TEST).astype(np.uint8)
    return Relations(
        name="audit", features=generator.standard_normal((ENTITIES, PARAMETERS)).astype(np.float32), tuples=pairs,
        split=domain[pairs[:, 0]], domain=domain, letters=np.zeros(0, dtype=np.uint8),
        text_ends=np.zeros(ENTITIES, dtype=np.int64),
    )  # fmt: skip


class Watching:
    """A head whose gradients exceed every limit; it keeps the batches, the limits and the sums that it returns."""

    def __init__(self, vectors: Tensor) -> None:
        self.inner = HeadModel(Head("diagonal", PARAMETERS), vectors, TupleLoss(0.1))
        self.network = self.inner.network
        self.batches: list[np.ndarray] = []
        self.limits: list[np.ndarray] = []
        self.sums: list[np.ndarray] = []

    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        found = self.inner.clipped(batch, limits)
        self.batches.append(batch.numpy().copy())
        self.limits.append(limits.numpy().copy())
        self.sums.append(found.sums[0].numpy().copy())
        return found

    def states(self) -> Tensor:
        return self.inner.states()


def facts_of(kind: Kind, steps: int) -> dict[str, float]:
    """Measure the facts of one variant by name: standard deviations from the law, inf for a broken equality."""
    value = probe_relation()
    model = {"encoder": "mlp"} if "encoder" in kind.method else {}
    unit = 2.0 if kind.noise_unit == "2 C" else 1.0
    settings = {
        "task": {"dataset": "demo-relations", "split": "random-60-15-25"}, "method": kind.method, "model": model,
        "training": {"optimizer": "sgd", "learning_rate": LEARNING_RATE, "steps": steps, "sampling_rate": RATE,
                     "negatives": NEGATIVES},
        "privacy": {"variant": kind.variant, "clip_norm": CLIP_NORM, "noise_multiplier": NOISE / unit,
                    "max_degree": DEGREE},
    }  # fmt: skip
    tuples = len(value.tuples_of("train"))
    counted = PRIVATE if kind.variant == "rigorous" else tuples  # places: an entity owns one tuple at most
    prepared = prepared_of(PreparedRelations, value, settings, tuples, PRIVATE)
    watching = Watching(torch.from_numpy(np.array(value.features)))
    optimizer = torch.optim.SGD(watching.network.parameters(), lr=LEARNING_RATE)
    step = prepared.step(watching, optimizer)
    places = [watching.inner.network.weight.detach().clone()]
    for _ in range(steps):
        step()
        places.append(watching.inner.network.weight.detach().clone())
    moves = -np.diff(torch.stack(places).double().numpy(), axis=0) / LEARNING_RATE * (RATE * counted)
    return _facts(kind, value, step.batches.tuples, watching, moves)


def _facts(kind: Kind, value: Relations, kept: Tuples, seen: Watching, moves: np.ndarray) -> dict[str, float]:
    steps, known = len(moves), {tuple(sorted(one)) for one in value.tuples_of("train").tolist()}
    noise = (moves - np.stack(seen.sums)) / (NOISE * CLIP_NORM)
    sizes = np.array([len(batch) for batch in seen.batches])
    mean, std = len(kept) * RATE * steps, math.sqrt(len(kept) * RATE * (1 - RATE) * steps)
    most = int(np.bincount(kept.pairs.ravel()).max())
    counts = np.zeros(ENTITIES)
    exact = {"tuples are training tuples": True, "negatives once and private": True, "limits": True, "lengths": True}
    for batch, limits, total in zip(seen.batches, seen.limits, seen.sums):
        exact["tuples are training tuples"] &= {tuple(sorted(one)) for one in batch[:, :2].tolist()} <= known
        negatives = batch[:, 2:].ravel()
        counts += np.bincount(negatives, minlength=ENTITIES)
        exact["negatives once and private"] &= len(np.unique(negatives)) == len(negatives) and bool(
            (negatives < PRIVATE).all()
        )
        wanted = np.full(len(batch), CLIP_NORM)
        if kind.clipping is Clipped.ROOT_COUNTS:
            occurs = Counter(entity for one in batch.tolist() for entity in set(one))
            wanted = np.array([CLIP_NORM / max(occurs[entity] for entity in one) for one in batch.tolist()])
        exact["limits"] &= np.allclose(limits, wanted, rtol=1e-6)
        exact["lengths"] &= bool(np.linalg.norm(total) <= wanted.sum() * (1 + 1e-5))
    share = NEGATIVES * sizes.sum() / PRIVATE
    return {
        "noise": (noise.size - float((noise**2).sum())) / math.sqrt(2 * noise.size),
        "batches": (sizes.sum() - mean) / std,
        "entities in too many tuples": math.inf if most > DEGREE + int(kind.variant == "rigorous") else 0.0,
        "negatives": _normal(float(((counts[:PRIVATE] - share) ** 2 / share).sum()), PRIVATE - 1),
        **{name: 0.0 if holds else math.inf for name, holds in exact.items()},
    }


def _normal(statistic: float, freedom: int) -> float:
    """Return how far a chi-square is above its mean, in standard deviations.

    Drawing without replacement only lowers it.
    """
    return max(0.0, (statistic - freedom) / math.sqrt(2 * freedom)) if chi2.sf(statistic, freedom) < 1e-6 else 0.0


def tuple_facts(trials: int) -> AuditResult:
    """Test every variant of every method on tuples over `trials` steps each."""
    broken, worst = [], 0.0
    for name, kind in TUPLE_KINDS.items():
        found = facts_of(kind, trials)
        worst = largest(worst, *(abs(score) for score in found.values()))
        broken += [f"{name}: {fact}" for fact, score in found.items() if not abs(score) < LEVEL]
    return AuditResult(
        audit="tuple-facts", title="batches, negatives, limits and noise of steps over tuples",
        passed=not broken, trials=trials, claim=f"as the theorems of {len(TUPLE_KINDS)} variants want",
        finding="; ".join(broken[:3]) or f"at most {worst:.2g} standard deviations away",
    )  # fmt: skip


class Charged:
    """Tuples that hold entity 0 pull against all others, with gradients as long as their limits allow."""

    def __init__(self) -> None:
        self.network = torch.nn.Linear(1, 1, bias=False)

    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        sign = torch.where((batch == 0).any(dim=1), -1.0, 1.0)
        return ClippedTuples([(sign * limits).sum().reshape(1, 1)], torch.full((len(batch),), math.inf))

    def states(self) -> Tensor:
        return torch.zeros(1, 1)


def moved(clipped: Clipped, own: int = 5) -> float:
    """Return the change of the clipped sum, over C, when the tuples of entity 0 leave the batch."""
    batch, model = worst_batch(own), Charged()
    generator = numpy_generator("audits", "unused")
    draws = Draws(PoissonSampler(1, 1.0), generator)
    batches = TupleBatches(Tuples(batch[:, :2], Lists.STABLE_TUPLES, 1), draws, Negatives(np.arange(1), 1, generator))
    noise = GaussianNoise(0.0, torch_generator("audits", "unused"))
    optimizer = torch.optim.SGD(model.network.parameters(), lr=1.0)
    step = RelationStep(model, optimizer, batches, clipped, CLIP_NORM, noise, 1.0, CPU)

    def total(some: np.ndarray) -> float:
        tuples = torch.from_numpy(some)
        return float(model.clipped(tuples, step.limits(tuples)).sums[0])

    return abs(total(batch) - total(batch[own:])) / CLIP_NORM


def null_entity(graph: Graph, entity: int) -> Graph:
    """Return the graph with the entity's own list removed; its places in others' lists stay."""
    split = graph.split.copy()
    split[entity] = NO_SPLIT
    return replace(null_records(graph, [entity]), split=split)


def _hub(partners: int) -> Graph:
    """Return a graph in which entity 0 has many partners, each of which has one more."""
    value = probe_relation()
    ids = 1 + np.arange(partners)
    pairs = np.concatenate([np.stack([0 * ids, ids], axis=1), np.stack([ids, ids + partners], axis=1)]).astype(np.int32)
    return RelationPrediction().graph(replace(value, tuples=pairs, split=np.zeros(len(pairs), dtype=np.uint8)))


def changed_tuples(sampler: Callable[[Graph, int], Tuples], key: int) -> tuple[int, int]:
    """Return the most tuples that leave, and that enter, when one entity of a hub or of the probe becomes null."""
    gone, new = 0, 0
    probe = RelationPrediction().graph(probe_relation())
    for graph, entities in ((_hub(49), range(3)), (probe, range(0, PRIVATE, 17))):
        before = {tuple(sorted(one)) for one in sampler(graph, key).pairs.tolist()}
        for entity in entities:
            after = {tuple(sorted(one)) for one in sampler(null_entity(graph, entity), key).pairs.tolist()}
            gone, new = max(gone, len(before - after)), max(new, len(after - before))
    return gone, new


def tuple_sensitivity(trials: int) -> AuditResult:
    """Test exactly that static limits keep K C, and that stable tuples keep K + D and D."""
    own = 5
    change, claimed = moved(Clipped.ROOT, own), float(own)
    gone, new = 0, 0
    for key in range(trials):
        found = changed_tuples(lambda graph, key: stable_tuples(graph, 2, 1, key), key)
        gone, new = max(gone, found[0]), max(new, found[1])
    return AuditResult(
        audit="tuple-sensitivity", title="what one entity moves in a batch of tuples",
        passed=change <= claimed * (1 + 1e-6) and gone <= 3 and new <= 1, trials=trials,
        claim=f"{claimed:g} C for {own} tuples that leave; at K = 2, D = 1 at most 3 tuples leave and 1 enters",
        finding=f"{change:.4g} C; {gone} leave, {new} enter",
    )  # fmt: skip


AUDITS = {"tuple-facts": Audit(tuple_facts, 400, quick=100), "tuple-sensitivity": Audit(tuple_sensitivity, 6)}
