"""Attributed graphs with the statistics of ogbn-arxiv at a chosen size, for demonstrations and tests.

A degree-corrected stochastic block model (Karrer & Newman, 2011) with class-conditioned Gaussian features. Each node
has a latent class that shapes its edges and features, and a label that differs from it for some nodes: without that
noise, averaging over neighbours would find every label, which no method does on ogbn-arxiv.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.splits import random_split
from dpgraph.experiments.frozen import Frozen
from dpgraph.randomness import numpy_generator

PERCENT = (54, 18, 28)  # ogbn-arxiv


class BlockModel(Frozen):
    """Defaults give ogbn-arxiv's mean degree 13.7 and homophily 0.65, and its gap between MLP and GCN."""

    name: str = Field(description="Key of the random generators")
    nodes: Annotated[int, Field(ge=10)]
    classes: Annotated[int, Field(ge=2)]
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


def generate(model: BlockModel) -> RawGraph:
    """The graph of `model`; the same for the same parameters, whatever ran before."""
    shares = (1.0 + np.arange(model.classes)) ** -model.class_skew
    shares /= shares.sum()
    latent = numpy_generator(model.name, "classes").choice(model.classes, size=model.nodes, p=shares)
    source, target = _edges(model, latent)
    return RawGraph(
        source,
        target,
        _features(model, latent),
        labels := _labels(model, latent, shares),
        random_split(labels, PERCENT, model.name, "public"),
        directed=False,
        meta={"generated": model.model_dump(mode="json")},
    )


def _edges(model: BlockModel, latent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct undirected edges: ends are drawn by weight, the second from the first one's class or from all nodes."""
    generator = numpy_generator(model.name, "edges")
    wanted = round(model.nodes * model.mean_degree / 2)
    weights = generator.pareto(model.degree_exponent - 1, size=model.nodes) + 1
    weights = np.minimum(weights, np.sqrt(model.nodes))
    order = np.argsort(latent, kind="stable")
    total = np.cumsum(weights[order])
    ends = np.cumsum(np.bincount(latent, minlength=model.classes))
    high = np.concatenate(([0.0], total))[ends]
    low = np.concatenate(([0.0], high[:-1]))
    keys = np.empty(0, dtype=np.int64)
    for _ in range(20):  # duplicates are drawn again; a graph too dense for that stays a little sparser
        draws = 2 * (wanted - len(keys))
        source = order[_place(total, generator.random(draws) * total[-1])]
        inside = generator.random(draws) < model.latent_homophily
        bottom = np.where(inside, low[latent[source]], 0.0)
        top = np.where(inside, high[latent[source]], total[-1])
        target = order[_place(total, bottom + generator.random(draws) * (top - bottom))]
        fresh = np.minimum(source, target) * model.nodes + np.maximum(source, target)
        fresh = fresh[source != target]
        merged = np.concatenate([keys, fresh])
        keys = merged[np.sort(np.unique(merged, return_index=True)[1])][:wanted]
        if len(keys) == wanted:
            break
    return keys // model.nodes, keys % model.nodes


def _place(total: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.searchsorted(total, value, side="right").clip(max=len(total) - 1)


def _features(model: BlockModel, latent: np.ndarray) -> np.ndarray:
    generator = numpy_generator(model.name, "class means")
    own, common = (_unit_rows(generator, model.classes, model.features) for _ in range(2))
    pair = np.arange(model.classes) // 2
    means = model.signal * (np.sqrt(1 - model.overlap) * own + np.sqrt(model.overlap) * common[pair])
    noise = numpy_generator(model.name, "features").standard_normal((model.nodes, model.features), dtype=np.float32)
    return means.astype(np.float32)[latent] + noise


def _unit_rows(generator: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    values = generator.standard_normal((rows, columns))
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def _labels(model: BlockModel, latent: np.ndarray, shares: np.ndarray) -> np.ndarray:
    generator = numpy_generator(model.name, "labels")
    anew = generator.random(model.nodes) < model.label_noise
    drawn = generator.choice(model.classes, size=model.nodes, p=shares)
    return np.where(anew, drawn, latent).astype(np.int64)
