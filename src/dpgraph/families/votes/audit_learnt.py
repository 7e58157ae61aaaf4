"""Audit of the reader that `dp-votes` may learn from labels of training nodes (docs/privacy/votes.md, Theorem 17).

Buckets and noisy sums of every step are fixed, the same with and without a record. The sum of each step is computed
here a second time, node by node, and the movement by the record is compared with the clip norm.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpgraph.audits.graphs import null_records
from dpgraph.audits.result import Audit, AuditResult, in_words, largest
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN
from dpgraph.engine.training.noise import ReleaseNoise
from dpgraph.families.votes import audit
from dpgraph.families.votes.audit import CLASSES, FLOOR, MASS, NORM
from dpgraph.families.votes.mechanism import PoissonVotes
from dpgraph.families.votes.prepared import PreparedVotes
from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

STEPS, RATE, SHRINKAGE, STRENGTH = 3, 5.0, 1.0, 2.0
ROUNDED = 1e-6  # error of gradients on a grid


class FixedReleases(ReleaseNoise):
    """Releases that do not depend on the sums; keeps the sums and the requested noise."""

    def __init__(self, outputs: list[np.ndarray]) -> None:
        self.outputs, self.sums, self.stds = outputs, list[np.ndarray](), list[float]()

    def on(self, values: np.ndarray, std: float, unit: float) -> np.ndarray:
        """Return the next fixed release."""
        self.sums.append(values)
        self.stds.append(std)
        return self.outputs[min(len(self.sums), len(self.outputs)) - 1]


def learnt_from(graph: Graph, seed: int) -> tuple[PreparedVotes, FixedReleases, np.ndarray]:
    """Return a run with fixed releases: the prepared step, the steps of its reader, and the buckets."""
    random = numpy_generator("audits", "votes", "learnt", seed)
    released = random.normal(0, 3, (graph.num_nodes, CLASSES + 1))
    outputs = [random.normal(0, 4, 1 + CLASSES**2 + CLASSES) for _ in range(STEPS)]
    step = audit.prepared_votes(
        graph, 0, degree_floor=FLOOR, votes_share=0.4, reader_share=0.2, reader_steps=STEPS, reader_rate=RATE,
        shrinkage=SHRINKAGE, strength=STRENGTH,
    )  # fmt: skip
    steps = FixedReleases(outputs)
    step._votes, step._reader_noise = FixedReleases([released]), steps
    step.scores(audit.predictions(graph))
    return step, steps, released


def example(graph: Graph, node: int, released: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (C,) logarithms of the own prediction and (C,) the reading in units of the public reader."""
    listed = {int(one) for one in graph.out_idx[graph.out_ptr[node] : graph.out_ptr[node + 1]]}
    named = {one for one in listed if 0 <= one < graph.num_nodes} - {node}
    label = int(graph.labels[node]) if graph.split[node] == TRAIN else -1
    share = np.eye(CLASSES)[label] if label >= 0 else audit.predictions(graph)[node]
    votes = label >= 0 or graph.features[node].any()
    own = (share - 1 / CLASSES) / math.sqrt(max(len(named) + 1, FLOOR)) * votes
    read = np.zeros(CLASSES)
    for bucket in named | {node}:
        mass = max(released[bucket, -1] / MASS, 1.0)
        read += mass / (mass**2 + (SHRINKAGE * std) ** 2) * (released[bucket, :-1] - own)
    return np.log(audit.predictions(graph)[node] + 1e-3), STRENGTH * read / math.sqrt(len(named) + 1)


def gradient(parameters: np.ndarray, own: np.ndarray, read: np.ndarray, label: int) -> np.ndarray:
    """Return the gradient of one example, cut to norm 1."""
    weight, bias = parameters[1 : 1 + CLASSES**2].reshape(CLASSES, CLASSES), parameters[1 + CLASSES**2 :]
    scores = parameters[0] * own + read @ weight + bias
    errors = np.exp(scores - scores.max())
    errors = errors / errors.sum() - np.eye(CLASSES)[label]
    whole = np.concatenate([[errors @ own], np.outer(read, errors).ravel(), errors])
    return np.asarray(whole / max(1.0, float(np.linalg.norm(whole))))


def worked_out_steps(graph: Graph, released: np.ndarray, outputs: list[np.ndarray], std: float) -> list[np.ndarray]:
    """Return the sums of all steps, given the releases."""
    nodes = [node for node in range(graph.num_nodes) if graph.split[node] == TRAIN and graph.labels[node] >= 0]
    examples = [(*example(graph, node, released, std), int(graph.labels[node])) for node in nodes]
    parameters = np.concatenate([[1.0], np.eye(CLASSES).ravel(), np.zeros(CLASSES)])
    moved, sums = np.zeros_like(parameters), []
    for output in outputs:
        sums.append(np.sum([gradient(parameters, *one) for one in examples], axis=0))
        moved = 0.5 * moved + output / int((graph.split == TRAIN).sum())
        parameters = parameters - RATE * moved
    return sums


def _wrong(graph: Graph, seed: int) -> dict[str, float]:
    """Return what differs from the expected values: sums on both sides, the movement by the record, noise, epsilon."""
    found, sums = dict[str, float](), []
    for side, one in (("with", graph), ("without", null_records(graph, [audit.CHANGED]))):
        step, steps, released = learnt_from(one, seed)
        mechanism = step.votes_of
        if not isinstance(mechanism, PoissonVotes):
            raise TypeError("expected votes under node-null")
        accounted = {made.kind: made for made in step.accounted().releases}
        noise = accounted["steps of the reader"].noise
        std = accounted["votes"].noise * NORM
        wanted = worked_out_steps(one, released, steps.outputs, std)
        gaps = [float(np.abs(a - b).max()) for a, b in zip(steps.sums, wanted, strict=False)]
        found[f"sums {side}"] = largest(*(gaps or [math.inf]))
        found[f"steps {side}"] = float(abs(len(steps.sums) - STEPS))
        found[f"noise {side}"] = largest(*(abs(value / noise - 1) for value in steps.stds))
        parts = [1 / mechanism.closed()[1] ** 2, *(made.count / made.noise**2 for made in accounted.values())]
        stated = stated_epsilon(mechanism)
        found[f"epsilon {side}"] = abs(stated / gaussian_epsilon(mu=math.sqrt(sum(parts)), delta=mechanism.delta) - 1)
        sums.append(steps.sums)
    for present, null in zip(*sums, strict=True):
        found["moved"] = largest(found.get("moved", 0.0), float(np.linalg.norm(present - null)) - 1)
    return {name: value for name, value in found.items() if not value <= ROUNDED}


def stated_epsilon(mechanism: PoissonVotes) -> float:
    """Return the epsilon that the mechanism states; inf if there is none."""
    return float(mechanism.rigorous().epsilon or math.inf)


def votes_learnt(trials: int) -> AuditResult:
    """Audit `trials` fixed releases on graphs whose changed node lists many, is listed by many, or errs."""
    graphs = {name: graph for name, graph in audit.cases().items() if name != "copies"} | {"mixed": audit.mixed_graph()}
    graphs |= {"hub, another class": replace(graphs["hub"], labels=(graphs["hub"].labels + 1) % CLASSES)}
    broken: dict[str, float] = {}
    for seed in range(trials):
        for name, graph in graphs.items():
            broken |= {f"{name}, {what}": value for what, value in _wrong(graph, seed).items()}
    return AuditResult(
        audit="votes-learnt", title="the reader that is learnt, and a record's part in it",
        passed=not broken, trials=trials, curve=(),
        claim="for one and the same release a record moves each sum of gradients by its own one, of norm 1 at most; "
        "noise and epsilon as accounted",
        finding=in_words(broken),
    )  # fmt: skip


AUDITS = {"votes-learnt": Audit(votes_learnt, 4)}
