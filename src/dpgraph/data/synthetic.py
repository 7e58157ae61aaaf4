"""Attributed graphs with the statistics of ogbn-arxiv at a chosen size, for demonstrations and tests.

A degree-corrected stochastic block model (Karrer & Newman, 2011) with class-conditioned Gaussian features. Each node
has a latent class that shapes its edges and features, and a label that differs from it for some nodes: without that
noise, averaging over neighbours would find every label, which no method does on ogbn-arxiv.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from dpgraph.config.frozen import Frozen
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.raw_graph import MOST_CLASSES, RawGraph
from dpgraph.data.splits import random_split

PERCENT = (54, 18, 28)  # ogbn-arxiv
ROUNDS = 20  # of draws; a graph too dense for that stays a little sparser
ROWS = 1 << 12  # records at once
BLOCK = 1 << 16  # rows at a time


class BlockModel(Frozen):
    """Defaults give ogbn-arxiv's mean degree 13.7 and homophily 0.65, and its gap between MLP and GCN."""

    name: str = Field(description="Key of the random generators")
    nodes: Annotated[int, Field(ge=10)]
    classes: Annotated[int, Field(ge=2, le=MOST_CLASSES)]
    features: Annotated[int, Field(ge=1)]
    mean_degree: Annotated[float, Field(gt=0, description="entries / nodes")] = 13.7
    degree_exponent: Annotated[float, Field(gt=2, description="Exponent of the power law of degrees")] = 2.2
    class_skew: Annotated[float, Field(ge=0, description="Class c has share 1 / (c + 1) ** skew")] = 0.7
    latent_homophily: Annotated[float, Field(ge=0, le=1, description="Edges drawn within a latent class")] = 0.97
    label_noise: Annotated[float, Field(ge=0, lt=1, description="Share of labels redrawn by class shares")] = 0.22
    overlap: Annotated[
        float, Field(ge=0, le=1, description="Share of a class mean, squared, common to two classes")
    ] = 0.95
    signal: Annotated[float, Field(ge=0, description="Norm of a class mean; noise has variance 1 per feature")] = 3.0
    words: Annotated[float, Field(gt=0)] | None = None
    """Bags of words instead: so many draws of words in a mean record, word f with odds 1 / (f + 10), times
    exp(word_signal * a class's own N(0, 1))"""
    word_signal: Annotated[float, Field(ge=0, description="Of bags of words")] = 0.5


def generate(model: BlockModel) -> RawGraph:
    """Return the graph of `model`, a function of its parameters alone."""
    shares = (1.0 + np.arange(model.classes)) ** -model.class_skew
    shares /= shares.sum()
    latent = numpy_generator(model.name, "classes").choice(model.classes, size=model.nodes, p=shares)
    source, target = _edges(model, latent)
    return RawGraph(
        source,
        target,
        _features(model, latent) if model.words is None else _words(model, latent),
        labels := _labels(model, latent, shares),
        random_split(labels, PERCENT, model.name, "public"),
        directed=False,
        meta={"generated": model.model_dump(mode="json")},
    )


@dataclass(frozen=True)
class _Ends:
    """The distribution of ends of edges: nodes ordered by class, each with its weight."""

    order: np.ndarray  # (N,) int64 nodes, by class
    latent: np.ndarray  # (N,) int64 class of each node
    total: np.ndarray  # (N,) float64 sums of weights up to each node in that order
    low: np.ndarray  # (classes,) sum of weights before a class
    high: np.ndarray  # (classes,) and at its end
    homophily: float


def _edges(model: BlockModel, latent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct undirected edges: ends by weight, the second from the first one's class or from all nodes.

    Each of `draws` edges takes a number from each of three arrays of that size; duplicates are drawn again.
    """
    generator = numpy_generator(model.name, "edges")
    wanted = round(model.nodes * model.mean_degree / 2)
    weights = generator.pareto(model.degree_exponent - 1, size=model.nodes) + 1
    weights = np.minimum(weights, np.sqrt(model.nodes))
    order = np.argsort(latent.astype(np.uint16), kind="stable")
    total = np.cumsum(weights[order])
    high = np.concatenate(([0.0], total))[np.cumsum(np.bincount(latent, minlength=model.classes))]
    low = np.concatenate(([0.0], high[:-1]))
    ends = _Ends(order, latent, total, low, high, model.latent_homophily)
    keys = _drawn(generator, wanted, ends)
    return keys // model.nodes, keys % model.nodes


def _drawn(generator: np.random.Generator, wanted: int, ends: _Ends) -> np.ndarray:
    """Return (wanted,) distinct keys, smaller end * N + larger end, in the order in which they were drawn first."""
    order, latent, total = ends.order, ends.latent, ends.total
    keys = np.empty(0, dtype=np.int64)
    for _ in range(ROUNDS):
        draws = 2 * (wanted - len(keys))
        source = order[_place(total, generator.random(draws) * total[-1])]
        inside = generator.random(draws) < ends.homophily
        bottom = np.where(inside, ends.low[latent[source]], 0.0)
        top = np.where(inside, ends.high[latent[source]], total[-1])
        target = order[_place(total, bottom + generator.random(draws) * (top - bottom))]
        fresh = np.minimum(source, target) * len(total) + np.maximum(source, target)
        fresh = fresh[source != target]
        keys = pd.unique(np.concatenate([keys, fresh]))[:wanted]  # in the order of their first draw
        if len(keys) == wanted:
            break
    return keys


def _place(total: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return the place in `total` of each value; sorted values are found several times as fast."""
    order = np.argsort(value)
    places = np.empty(len(value), dtype=np.int64)
    places[order] = np.searchsorted(total, value[order], side="right").clip(max=len(total) - 1)
    return places


def _features(model: BlockModel, latent: np.ndarray) -> np.ndarray:
    generator = numpy_generator(model.name, "class means")
    own, common = (_unit_rows(generator, model.classes, model.features) for _ in range(2))
    pair = np.arange(model.classes) // 2
    means = model.signal * (np.sqrt(1 - model.overlap) * own + np.sqrt(model.overlap) * common[pair])
    noise = numpy_generator(model.name, "features").standard_normal((model.nodes, model.features), dtype=np.float32)
    means = means.astype(np.float32)
    for rows in range(0, model.nodes, BLOCK):  # in place: the sum is the largest array of all
        noise[rows : rows + BLOCK] += means[latent[rows : rows + BLOCK]]
    return noise


def _words(model: BlockModel, latent: np.ndarray) -> np.ndarray:
    """Return (N, F) float32 with 1 for each word among Poisson many draws from the node's latent class."""
    tilts = numpy_generator(model.name, "class words").standard_normal((model.classes, model.features))
    odds = np.exp(model.word_signal * tilts) / (np.arange(model.features) + 10)
    chances = -np.expm1(-(model.words or 0) * odds / odds.sum(axis=1, keepdims=True))
    generator, result = numpy_generator(model.name, "features"), np.empty((model.nodes, model.features), np.float32)
    for start in range(0, model.nodes, ROWS):
        classes = latent[start : start + ROWS]
        drawn = generator.random((len(classes), model.features), dtype=np.float32)
        result[start : start + ROWS] = drawn < chances[classes]
    return result


def _unit_rows(generator: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    values = generator.standard_normal((rows, columns))
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def _labels(model: BlockModel, latent: np.ndarray, shares: np.ndarray) -> np.ndarray:
    generator = numpy_generator(model.name, "labels")
    anew = generator.random(model.nodes) < model.label_noise
    drawn = generator.choice(model.classes, size=model.nodes, p=shares)
    return np.where(anew, drawn, latent).astype(np.int64)
