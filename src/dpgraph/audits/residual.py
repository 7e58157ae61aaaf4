"""Audits of residual clipping: two independent batches (Theorem 3 of docs/privacy.md), and whom self terms read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from scipy.special import logsumexp

from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.data.graph import NO_SPLIT, TRAIN, Graph
from dpgraph.experiments.cell import Cell, Model, Privacy, Task, Training
from dpgraph.methods.base import Job
from dpgraph.methods.registry import method
from dpgraph.models.network import Network
from dpgraph.privacy.auditing import joint_errors, profile_test
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.composition import composed_epsilon
from dpgraph.privacy.double_mixture import residual_pair
from dpgraph.privacy.for_cell import calibrate
from dpgraph.randomness import Name, numpy_generator, torch_generator
from dpgraph.sampling.batches import PoissonSampler
from dpgraph.sampling.edge_lists import EdgeLists
from dpgraph.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.training.clipping import neighbour_losses
from dpgraph.training.steps import ClippedTerm, PrivateStep

RATE, RATIO, NOISE = 0.1, 0.5, 0.25  # q1 = q2, C_n / C_s, noise std / C_s
CLIP_NORM = 0.5
COPIES = 800  # trials in one step
DELTA = 1e-3
RESIDUAL = "two batches of residual clipping"


@dataclass(frozen=True)
class Plant:
    shared: bool = False
    neighbour_clip: float = 1.0
    noise: float = 1.0


RESIDUAL_BUGS = {
    "one batch for both terms": Plant(shared=True),
    "neighbour clip norm doubled": Plant(neighbour_clip=2.0),
    "noise halved": Plant(noise=0.5),
}


def residual(trials: int, planted: str | None = None) -> AuditResult:
    """One step of `PrivateStep` with self and neighbour terms, R = 2, C_n = C_s / 2, noise C_s / 4.

    The attackers see the changed record's direction and, in a direction of its own, the self term of the other affected
    root. One scores by the likelihood ratio of the claimed pair, the other by that under one batch for both terms: if
    the draws coincide, the self term tells whether the neighbour term was drawn, and the pair is refuted.
    """
    plant = RESIDUAL_BUGS[planted] if planted else Plant()
    pair = residual_pair(2, RATE, RATE, RATIO, NOISE)
    released = [_released(side, plant, trials, "residual", planted or "") for side in ("with", "without")]
    scores = [(_one_batch_log_ratio(y, z), pair.log_ratio(y)) for y, z in released]
    errors = joint_errors(list(zip(*scores)))
    claim = f"epsilon {composed_epsilon(pair, 1, DELTA):.2f} at delta {DELTA:g}, R = 2"
    test = profile_test(errors, pair.delta)
    return statistical_result("residual", RESIDUAL, planted, claim, trials, errors, test, DELTA)


class _Remembered:
    """The batch that another sampler drew last."""

    name = "poisson"

    def __init__(self, first: _Remembering) -> None:
        self.first = first
        self.expected_size = first.expected_size

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        return self.first.last


class _Remembering:
    name = "poisson"

    def __init__(self, sampler: PoissonSampler) -> None:
        self.sampler, self.expected_size, self.last = sampler, sampler.expected_size, np.zeros(0, dtype=np.int64)

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        self.last = self.sampler.draw(generator)
        return self.last


def _released(side: str, plant: Plant, trials: int, *names: Name) -> tuple[np.ndarray, np.ndarray]:
    """(trials,) sums in the directions of the changed record, and of the other root's self term, in units of C_s.

    Copies of four nodes: v, whose record changes; w, the other affected root; a and b, no roots. With the record v
    lists {a, b} and w lists {v}; without it, w lists b, from which v had pushed it out. All features but w's lie along
    one axis: v at 1, a at 9, b at -1, so that what neighbours add is C_n for v, C_n for w with v and -C_n without.
    The network is zero but for its decoder, where tanh is the identity up to second order: gradients are the features.
    """
    v, w, a, b = np.arange(4 * COPIES).reshape(4, COPIES)
    features = torch.zeros(4 * COPIES, 2 * COPIES, dtype=torch.float64)
    for nodes, value in ((v, 1e9), (a, 9e9), (b, -1e9)):
        features[nodes, np.arange(COPIES)] = value
    features[w, COPIES + np.arange(COPIES)] = 1e4
    own = {"with": np.stack([a, b], axis=1), "without": np.zeros((COPIES, 0), dtype=int)}[side]
    lists = _lists(4 * COPIES, v, own, w, {"with": v, "without": b}[side])
    roots = np.sort(np.concatenate([v, w]) if side == "with" else w)
    network = Network(Model(width=1, hops=1), 2 * COPIES, 2, torch_generator("audits", "residual"), torch.float64)
    step = _step(network, lists, roots, features, plant, side, *names)
    y, z = np.zeros((2, trials + COPIES))
    for start in range(0, trials, COPIES):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
            network.decoder.layers[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))  # type: ignore[union-attr, operator]
        step()
        weights = network.encoder.layers[0].weight.detach().numpy()[0] / CLIP_NORM  # type: ignore[union-attr, operator]
        y[start : start + COPIES], z[start : start + COPIES] = weights[:COPIES], weights[COPIES:]
    return y[:trials], z[:trials]


def _step(
    network: Network, lists: EdgeLists, roots: np.ndarray, features: torch.Tensor, plant: Plant, *names: Name
) -> PrivateStep:
    alone, trees = _alone(lists.num_nodes, roots), pack_ego_trees(lists, roots, 1)
    first = _Remembering(PoissonSampler(len(roots), RATE))
    second = _Remembered(first) if plant.shared else PoissonSampler(len(roots), RATE)
    terms = [
        ClippedTerm(alone, first, CLIP_NORM),  # type: ignore[arg-type]
        ClippedTerm(trees, second, plant.neighbour_clip * RATIO * CLIP_NORM, neighbour_losses),  # type: ignore[arg-type]
    ]
    return PrivateStep(
        network,
        torch.optim.SGD(network.parameters(), lr=1.0),
        features,
        torch.zeros(len(features), dtype=torch.int64),
        terms,
        plant.noise * NOISE * CLIP_NORM,
        1.0,
        numpy_generator("audits", *names, "batches"),
        torch_generator("audits", *names, "noise"),
    )


def _alone(num_nodes: int, roots: np.ndarray) -> EgoTrees:
    return pack_ego_trees(EdgeLists(np.zeros(num_nodes + 1, dtype=np.int64), np.zeros(0, np.int32)), roots, 1)


def _lists(num_nodes: int, v: np.ndarray, of_v: np.ndarray, w: np.ndarray, of_w: np.ndarray) -> EdgeLists:
    """Ids ascend from v to w to the rest, so that concatenating the lists is packing them."""
    lengths = np.zeros(num_nodes, dtype=np.int64)
    lengths[v], lengths[w] = of_v.shape[1], 1
    members = np.concatenate([of_v.ravel(), of_w]).astype(np.int32)
    return EdgeLists(np.concatenate([[0], np.cumsum(lengths)]), members)


def _one_batch_log_ratio(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    def log_density(terms: list[tuple[float, float, float]]) -> np.ndarray:
        parts = [np.log(p) - ((y - a) ** 2 + (z - b) ** 2) / (2 * NOISE**2) for p, a, b in terms]
        return logsumexp(np.stack(parts), axis=0)

    stay = 1 - RATE
    with_record = [
        (stay * stay, 0.0, 0.0), (stay * RATE, RATIO, 1.0), (RATE * stay, 1 + RATIO, 0.0),
        (RATE * RATE, 1 + 2 * RATIO, 1.0),
    ]  # fmt: skip
    return log_density(with_record) - log_density([(stay, 0.0, 0.0), (RATE, -RATIO, 1.0)])


SELF_TERMS_BUGS = {"self terms read their neighbours": "dp-gnn"}


def self_terms(trials: int, planted: str | None = None) -> AuditResult:
    """The method `dp-residual` with C_n = 0: neighbours change, the parameters stay bit-identical.

    What changes are the features of nodes that are no roots, and who lists them. The parameters are seen through the
    logits of nodes without neighbours. The planted bug trains on whole trees instead.
    """
    name = SELF_TERMS_BUGS[planted] if planted else "dp-residual"
    moved = 0
    for index in range(trials):
        graph = _star_forest(index)
        others = graph.split == NO_SPLIT
        others[-ISOLATED:] = False
        features = graph.features.copy()
        features[others] *= -7
        changed = _with_lists(replace(graph, features=features), index)
        before, after = (_logits(one, name, index)[-ISOLATED:] for one in (graph, changed))
        moved += not np.array_equal(before, after)
    return AuditResult(
        audit="self-terms", title="self gradients when neighbours change", planted=planted, passed=moved == 0,
        claim="bit-identical parameters", finding=f"{moved} of {trials} runs moved", trials=trials,
    )  # fmt: skip


ISOLATED, SELF_ROOTS, HUBS = 4, 12, 8


def _star_forest(index: int) -> Graph:
    """Roots with lists of hubs, the hubs, and isolated nodes; only the first are roots."""
    size = SELF_ROOTS + HUBS + ISOLATED
    generator = numpy_generator("audits", "self terms", index)
    split = np.full(size, NO_SPLIT, dtype=np.uint8)
    split[:SELF_ROOTS] = TRAIN
    graph = Graph(
        name="self terms",
        out_ptr=np.zeros(size + 1, dtype=np.int64),
        out_idx=np.zeros(0, dtype=np.int32),
        in_ptr=np.zeros(size + 1, dtype=np.int64),
        in_idx=np.zeros(0, dtype=np.int32),
        features=generator.standard_normal((size, 5)).astype(np.float32),
        labels=generator.integers(0, 3, size),
        split=split,
        num_classes=3,
    )
    return _with_lists(graph, -1 - index)


def _with_lists(graph: Graph, index: int) -> Graph:
    """Each hub is in a root's list with probability 0.3."""
    held = numpy_generator("audits", "lists", index).random((SELF_ROOTS, HUBS)) < 0.3
    owners, members = np.nonzero(held)
    size, back = graph.num_nodes, np.lexsort((owners, members))
    return replace(
        graph,
        out_ptr=np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))]),
        out_idx=(members + SELF_ROOTS).astype(np.int32),
        in_ptr=np.concatenate([[0], np.cumsum(np.bincount(members + SELF_ROOTS, minlength=size))]),
        in_idx=owners[back].astype(np.int32),
    )


def _logits(graph: Graph, name: str, seed: int) -> np.ndarray:
    privacy = Privacy(noise_multiplier=5.0, delta=1e-3, max_degree=2, list_cap=3)
    if name == "dp-residual":
        privacy = privacy.model_copy(update={"neighbour_clip_ratio": 0.0})
    cell = Cell(
        task=Task(dataset="audit"),
        method=name,
        model=Model(width=4, hops=1),
        training=Training(learning_rate=0.1, sampling_rate=0.5, steps=4),
        privacy=privacy,
        seeds=(0,),
    )
    job = Job(graph, cell, seed, _calibrated(cell), torch.device("cpu"))
    return method(name).run(job, lambda done, logits: {}).logits


@cache
def _calibrated(cell: Cell) -> Calibration:
    return calibrate(cell, SELF_ROOTS)
