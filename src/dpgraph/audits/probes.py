"""Probes that read off the parameters alone who was drawn, how long the clipped vectors were, and the noise.

Each probe takes a prepared step of a method and brings a model, or data, with which every root pushes a coordinate of
its own by far more than the clip norm. All other coordinates hold noise alone. Noise is small, so that a drawn root is
seen for certain. Parameters are reset before every step; moves are undone with public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpgraph.audits.cases import CPU, Kind, Settings, roots_of
from dpgraph.audits.graphs import directed_graph
from dpgraph.config.cell import Model
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.kipf import GraphBlocks, KipfNetwork
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.weighted_rows import RowNetwork
from dpgraph.engine.preparation.base import PreparedStep
from dpgraph.engine.sampling.ego import EgoBatch
from dpgraph.engine.training.ghost import Recorder
from dpgraph.families.lots.prepared import PreparedLots
from dpgraph.families.pagerank.prepared import PreparedRows
from dpgraph.families.subgraphs.prepared import PreparedParts, privatizer_of, source_of
from dpgraph.families.subgraphs.steps import KipfStep
from dpgraph.families.trees.prepared import Losses, PreparedTrees

BLOCKS = 8  # of columns of the first layer in probes of trees: one for each term, the rest for noise
UNITS = 8  # hidden units of data probes, of which the first is pushed
SLOPE = 1e-3  # of the decoder of data probes: large enough to pass gradients on, too small to saturate
HUGE = 1e9  # features of data probes
STRENGTH = 1e6  # of a gradient before clipping, far above every clip norm


@dataclass(frozen=True)
class Seen:
    """The observations of one seed; sums are in gradient units, already multiplied with the public divisor."""

    drawn: list[np.ndarray]  # per term, (T, N) bool
    heights: list[np.ndarray]  # per term, (T,) length of a clipped vector in the direction where it is expected
    noise: np.ndarray  # (T, P) coordinates that no root pushes
    rest: np.ndarray  # (T, N) pushed coordinates of the first term, less what was expected there


def pushed_units(network: Network, batch: EgoBatch, rows: Tensor, units: Tensor, recorder: Recorder) -> Tensor:
    """Return the (B,) unit of the first layer that each root names, over its row (B, F); every layer is applied."""
    dense = recorder.on(batch)
    hidden = dense(network.encoder.layers[0], rows, 0)  # type: ignore[arg-type]
    logits = network.decoder(hidden, 0, dense)  # the engine requires every layer to be applied
    return hidden.gather(1, units.clamp_min(0).unsqueeze(1)).squeeze(1) + 0.0 * logits.sum(dim=1)


def probe_graph(kind: Kind, size: int) -> Graph:
    """Return nodes without edges, each with its own feature; for trees the features name columns of the first layer."""
    place = np.arange(size)
    if kind.parts or kind.release is not None or kind.lots:
        return directed_graph([], [], HUGE * np.eye(size, dtype=np.float32), place % 2)
    width = math.ceil(math.sqrt(size))
    features = np.zeros((size, BLOCKS * width), dtype=np.float32)
    features[place, place // width] = STRENGTH
    return directed_graph([], [], features, place % width, classes=width)


def public_divisor(kind: Kind, settings: Settings, size: int) -> float:
    """Return the divisor of the noisy sum: q N, m, or 1."""
    if (kind.parts and kind.variant != "per-node") or kind.lots:  # per node: divided by the mean size of parts
        return 1.0
    roots = roots_of(kind, settings, size)
    return float(settings.batch_size or round(settings.rate * roots)) if kind.fixed_size else settings.rate * roots


def observe(prepared: Sequence[PreparedStep], kind: Kind, settings: Settings) -> list[Seen]:
    """Take `settings.steps` steps of every seed and return what they show."""
    first, undo = prepared[0], public_divisor(kind, settings, prepared[0].data.graph.num_nodes) / settings.learning_rate
    if isinstance(first, PreparedTrees):
        return [_trees(one, settings, undo) for one in prepared if isinstance(one, PreparedTrees)]
    if isinstance(first, PreparedLots):
        return [_lots(one, settings, undo) for one in prepared if isinstance(one, PreparedLots)]
    if isinstance(first, PreparedParts):
        return [_parts(one, kind, settings, undo) for one in prepared if isinstance(one, PreparedParts)]
    return [_rows(one, settings, undo) for one in prepared if isinstance(one, PreparedRows)]


def _sgd(parameters: Sequence[torch.nn.Parameter], settings: Settings) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=settings.learning_rate)


def _trees(prepared: PreparedTrees, settings: Settings, undo: float) -> Seen:
    size = prepared.data.graph.num_nodes
    width, terms = math.ceil(math.sqrt(size)), len(prepared.terms)
    model = Model(architecture="mlp", hops=0, width=width)
    network = Network(model, BLOCKS * width, width, torch_generator("audits", "probe"))

    def pushing(block: int) -> object:
        def losses(network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder) -> Tensor:
            rows = features[batch.roots].roll(block * width, 1)
            return -pushed_units(network, batch, rows, labels[batch.roots], recorder)

        return losses

    step = prepared.step(network, _sgd(list(network.parameters()), settings), Losses(pushing(0), pushing(1)))  # type: ignore[arg-type]
    place = np.arange(size)
    where = [(place % width, term * width + place // width) for term in range(terms)]
    used = np.zeros((width, BLOCKS * width), dtype=bool)
    for cells in where:
        used[cells] = True
    weight: Tensor = network.encoder.layers[0].weight  # type: ignore[assignment, union-attr]
    sums = undo * _moved(weight, settings.steps, weight.data.zero_, step)
    tall = [sums[:, rows, columns] for rows, columns in where]
    drawn = [part > 0.5 * part.max() for part in tall]
    heights = [_means(part, mask) for part, mask in zip(tall, drawn)]
    rest = tall[0] - np.where(drawn[0], heights[0][:, None], 0.0)
    return Seen(drawn, heights, sums[:, ~used], rest)


def _moved(weight: Tensor, steps: int, reset: Callable[[], object], step: Callable[[], int]) -> np.ndarray:
    """Return the (T, ...) values of `weight` after each step, all from the parameters that `reset` makes."""
    values = []
    for _ in range(steps):
        reset()
        step()
        values.append(weight.detach().double().numpy().copy())
    return np.stack(values)


def _means(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.where(mask, values, 0.0).sum(axis=1) / np.maximum(1, mask.sum(axis=1))


def _signs(graph: Graph) -> np.ndarray:
    """Return the (N,) direction in which descent moves a node's weight under the decoder of `flat`: up for label 0."""
    return np.where(np.asarray(graph.labels) == 0, 1.0, -1.0)


def flat(parts: Sequence[Tensor]) -> None:
    """Set W1 (H, F), b1, W2 (C, H), b2 to zero except for the first unit's way to the two logits."""
    with torch.no_grad():
        for part in parts:
            part.zero_()
        parts[2][0, 0], parts[2][1, 0] = SLOPE, -SLOPE


def _lots(prepared: PreparedLots, settings: Settings, undo: float) -> Seen:
    graph = prepared.data.graph
    model = Model(architecture="mlp", hops=0, width=UNITS)
    network = Network(model, graph.num_features, 2, torch_generator("audits", "probe"))
    step = prepared.step(network, _sgd(list(network.parameters()), settings))
    parts = list(network.parameters())
    sums = undo * _moved(parts[0], settings.steps, lambda: flat(parts), step)
    return _of_directions(sums[:, 0] * _signs(graph), sums[:, 1:].reshape(len(sums), -1))


def _of_directions(pushed: np.ndarray, free: np.ndarray, apart: bool = False) -> Seen:
    """Read steps whose one clipped vector has equal entries at all drawn roots; `apart`: a vector for each root."""
    drawn = pushed > 0.5 * np.maximum(pushed.max(axis=1, keepdims=True), 10 * free.std())
    counts = np.ones(len(drawn)) if apart else np.maximum(1, drawn.sum(axis=1))
    heights = _means(pushed, drawn) * np.sqrt(counts)
    rest = pushed - np.where(drawn, (heights / np.sqrt(counts))[:, None], 0.0)
    return Seen([drawn], [heights], free, rest)


def open_first_unit(network: KipfNetwork) -> None:
    """Turn the first hidden unit on whatever it reads, and all others off; for two classes."""
    network.theta.data.zero_()
    _, b1, w2, _ = network.layers(network.theta.data)
    b1.fill_(-1.0)
    b1[0] = 1.0
    w2[0, 0], w2[0, 1] = SLOPE, -SLOPE


def _parts(prepared: PreparedParts, kind: Kind, settings: Settings, undo: float) -> Seen:
    graph = prepared.data.graph
    network = KipfNetwork(graph.num_features, UNITS, 2, torch_generator("audits", "probe"), CPU)
    source, privatizer = source_of(prepared, GraphBlocks(graph, CPU)), privatizer_of(prepared, network)
    step = KipfStep(network, _sgd([network.theta], settings), source, privatizer=privatizer)
    first = network.layers(network.theta.data)[0]
    sums = _moved(first, settings.steps, lambda: open_first_unit(network), step) * undo  # (T, F, H)
    return _of_directions(sums[:, :, 0] * _signs(graph), sums[:, :, 1:].reshape(len(sums), -1), kind.each_node)


def _rows(prepared: PreparedRows, settings: Settings, undo: float) -> Seen:
    """Read steps on rows: a root's own record has most of the weight, so its own coordinate shows if it was drawn."""
    model = Model(architecture="mlp", hops=0, width=UNITS)
    network = Network(model, prepared.data.graph.num_features, 2, torch_generator("audits", "probe"))
    trained = RowNetwork(network, model.activation)
    step = prepared.closed(trained, _sgd([trained.theta], settings))
    parts = trained.parts(trained.theta.data)
    sums = _moved(parts[0], settings.steps, lambda: flat(parts), step) * undo  # (T, H, F)
    roots, weights = prepared.rows.roots, np.asarray(prepared.weights.todense())
    signs = _signs(prepared.data.graph)[roots]
    directions = signs[:, None] * weights / np.linalg.norm(weights, axis=1, keepdims=True)
    pushed, free = sums[:, 0], sums[:, 1:].reshape(len(sums), -1)
    own = pushed[:, roots] * signs
    drawn = own > 0.5 * own.max()
    # of all drawn roots together: the length that explains the sum best
    shapes = drawn @ directions
    heights = (pushed * shapes).sum(axis=1) / np.maximum(1e-12, (shapes**2).sum(axis=1))
    return Seen([drawn], [heights], free, pushed - heights[:, None] * shapes)
