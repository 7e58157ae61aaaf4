"""Audit of the numbers a proof rests on, measured on the prepared steps of every private method and variant.

Noise std, batch rates, lengths of clipped vectors, and what has to be independent of what: each is seen in the movement
of the parameters and compared with what `theory` works out from the cell's settings. Exact where it can be; else a
two-sided test, normal up to `LEVEL` standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from dpgraph.audits import cases
from dpgraph.audits.graphs import directed_graph
from dpgraph.audits.probes import Seen, observe, probe_graph
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.families.lots.prepared import PreparedComponents
from dpgraph.families.pagerank.prepared import PreparedRows

LEVEL = 5.5  # standard deviations: 4e-8
SETTINGS = cases.Settings(
    noise=0.005, rate=0.25, second_rate=0.15, steps=12, own_weight=0.9, num_rows=200, top_k=3, column_cap=3
)  # fmt: skip
SLOWER = replace(SETTINGS, learning_rate=SETTINGS.learning_rate / 2)  # of another cell, unlike in this only


@dataclass(frozen=True)
class Fact:
    """A measured number: `score` is its distance from the law in standard deviations, inf for a broken equality."""

    name: str
    score: float

    @property
    def holds(self) -> bool:
        """Tell whether the number is within `LEVEL` standard deviations."""
        return abs(self.score) < LEVEL


def facts_of(kind: cases.Kind, size: int) -> list[Fact]:
    """Measure all facts of one kind on `size` nodes, from two seeds of a cell and one of a cell with another learning
    rate.
    """
    first, seeds = _observed(kind, SETTINGS, size, (0, 1))
    (cells,) = _observed(kind, SLOWER, size, (0,))
    facts = list(_facts(kind, size, first, {"seeds": seeds, "cells of two learning rates": cells}))
    if kind.release is not None:
        facts += release_facts(kind)
    if kind.components:
        facts += component_facts(kind)
    return facts


def _observed(kind: cases.Kind, settings: cases.Settings, size: int, seeds: tuple[int, ...]) -> list[Seen]:
    return observe(cases.prepared_steps(kind, settings, probe_graph(kind, size), seeds), kind, settings)


def _facts(kind: cases.Kind, size: int, seen: Seen, others: Mapping[str, Seen]) -> Iterator[Fact]:
    # where clip norms are percentiles, the unit is the one that was found
    unit = float(seen.heights[0].mean()) if kind.percentiles else cases.CLIP_NORM
    std = unit * cases.multiplier(kind, SETTINGS, size) * cases.std_over_multiplier(kind, SETTINGS, size)
    yield from _noise(seen.noise / std, "noise")
    for name, other in others.items():
        yield Fact(f"noise of two {name}", _correlation(seen.noise, other.noise))
    if kind.silent:
        yield Fact("no record is read", np.inf if any(mask.any() for mask in seen.drawn) else 0.0)
        return
    if kind.clipped:
        yield from _noise(seen.rest / std, "noise on gradients")
        if kind.release is None:
            yield Fact("noise of those drawn", _correlation(seen.rest, seen.drawn[0] - seen.drawn[0].mean()))
    rates = (SETTINGS.rate, SETTINGS.second_rate or SETTINGS.rate)
    for term, (mask, heights) in enumerate(zip(seen.drawn, seen.heights)):
        name, rate = f"term {term + 1}: " if len(seen.drawn) > 1 else "", rates[term]
        if kind.clipped:
            # on trees each root's length is measured, else that of one vector, or of all roots together
            error = std / np.sqrt(np.maximum(1, mask.sum(axis=1))) if kind.ego_trees or kind.each_node else std
            gap = heights - (cases.CLIP_NORM, SETTINGS.ratio * cases.CLIP_NORM)[term]
            yield Fact(f"{name}length of clipped vectors", float(np.abs(gap / (error + 1e-5)).max()))
        yield from (Fact(name + fact.name, fact.score) for fact in _batches(kind, mask, rate))
        for what, other in others.items():
            if not kind.partition:
                yield Fact(f"{name}batches of two {what}", _agreement(mask, other.drawn[term], rate, rate))
    if len(seen.drawn) > 1:
        yield Fact("batches of the two terms", _agreement(seen.drawn[0], seen.drawn[1], *rates))


def _noise(noise: np.ndarray, name: str, kurtosis: float = 3.0) -> Iterator[Fact]:
    """Test (T, P) numbers that should be independent, of mean 0 and variance 1."""
    steps, count = noise.shape
    yield Fact(f"{name}: std", _variance(noise) * np.sqrt(2 / (kurtosis - 1)))
    yield Fact(f"{name}: mean", float(noise.mean() * np.sqrt(noise.size)))
    yield Fact(f"{name}: independent steps", _variance(noise.sum(axis=0) / np.sqrt(steps)))
    yield Fact(f"{name}: neighbouring steps", _correlation(noise[1:], noise[:-1]))
    yield Fact(f"{name}: independent coordinates", _chi((noise.sum(axis=1) ** 2).sum() / count, steps))
    yield Fact(f"{name}: neighbouring coordinates", _correlation(noise[:, 1:], noise[:, :-1]))


def _variance(values: np.ndarray) -> float:
    """Return how far the mean square of standard normal numbers is from 1, in standard deviations."""
    return float((np.mean(values**2) - 1) * np.sqrt(values.size / 2))


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation of two arrays, in standard deviations of independent ones."""
    scale = np.sqrt((first**2).sum() * (second**2).sum() / first.size)
    return float((first * second).sum() / scale) if scale > 0 else 0.0


def _chi(total: float, freedom: int) -> float:
    """Return the normal quantile of the same tail as a sum of squares."""
    tail = min(chi2.sf(total, freedom), chi2.cdf(total, freedom))
    return float(-norm.ppf(max(tail, 1e-300)))


def _agreement(first: np.ndarray, second: np.ndarray, first_rate: float, second_rate: float) -> float:
    """Return the correlation of two batches, in standard deviations of independent ones."""
    variance = first_rate * (1 - first_rate) * second_rate * (1 - second_rate)
    return float(((first - first_rate) * (second - second_rate)).sum() / np.sqrt(first.size * variance))


def _batches(kind: cases.Kind, mask: np.ndarray, rate: float) -> Iterator[Fact]:
    steps, size = mask.shape
    if kind.partition:  # every root once in each epoch of 1 / q steps
        epoch = round(1 / rate)
        each = mask.reshape(steps // epoch, epoch, size).sum(axis=1)
        yield Fact("once an epoch", 0.0 if (each == 1).all() else np.inf)
        return
    if kind.fixed_size:
        yield Fact("batch size", 0.0 if (mask.sum(axis=1) == round(rate * size)).all() else np.inf)
    else:
        variance = rate * (1 - rate)
        yield Fact("rate", float((mask.mean() - rate) * np.sqrt(mask.size / variance)))
        sizes = (mask.sum(axis=1) - rate * size) ** 2
        yield Fact("independent roots", _chi(float(sizes.sum() / (size * variance)), steps))
        yield Fact("neighbouring roots", _agreement(mask[:, 1:], mask[:, :-1], rate, rate))
    yield Fact("neighbouring steps", _agreement(mask[1:], mask[:-1], rate, rate))
    counts = (mask.sum(axis=0) - rate * steps) ** 2 / (steps * rate * (1 - rate))
    yield Fact("independent steps", float((counts.mean() - 1) * np.sqrt(size / 2)))


def release_facts(kind: cases.Kind) -> Iterator[Fact]:
    """Measure the released rows of PageRank, and how many rows name a node, on nodes without edges."""
    size = 300
    graph = probe_graph(kind, size)

    def rows(**changed: Any) -> tuple[np.ndarray, np.ndarray]:
        settings = replace(SETTINGS, **({"own_weight": 0.0, "num_rows": None, "column_cap": size} | changed))
        prepared = cases.prepared_step(PreparedRows, kind, settings, graph)
        return np.asarray(prepared.weights.todense()), prepared.rows.roots

    def noise_of_rows(clip: float, **changed: Any) -> np.ndarray:
        """Return the noise in rows of which all entries are kept; own entries are C1, all others 0."""
        weights, roots = rows(top_k=size, clip=clip, **changed)
        weights[np.arange(len(roots)), roots] -= clip
        return weights

    if kind.variant == "rigorous" and kind.release != "identity":
        weights, roots = rows(column_cap=2)
        own = weights[np.arange(len(roots)), roots] != 0
        named = (weights != 0).sum(axis=0) - np.bincount(roots[own], minlength=size)
        yield Fact("column cap", np.inf if named.max() > 2 else 0.0)
    if kind.release == "gaussian":
        clip, noise = 1e-3, 2.0
        rates = (step.learning_rate for step in (SETTINGS, SLOWER))
        seen = [noise_of_rows(clip, release_noise=noise, learning_rate=rate) / (noise * clip) for rate in rates]
        yield from _noise(seen[0], "rows")
        yield Fact("rows of two cells of two learning rates", _correlation(*seen))
    if kind.release == "exponential-values":
        clip, epsilon = 1e-6, 2.0  # so small that no column is scaled to norm 1
        scale = math.sqrt(2) * size * clip / epsilon
        values = noise_of_rows(clip, release_noise=1e-3, values_epsilon=epsilon)
        yield from _noise(values / scale, "values", kurtosis=6.0)
    if kind.release in ("exponential", "exponential-values"):
        epsilon = math.log(size - 1)  # at which a root's own column, the only one that counts, wins half of the time
        weights, roots = rows(top_k=1, clip=1e-3, release_noise=epsilon, values_epsilon=1.0)
        won = (weights[np.arange(size), roots] != 0).mean()
        yield Fact("draws of columns", float((won - 0.5) * 2 * math.sqrt(size)))


def component_facts(kind: cases.Kind) -> Iterator[Fact]:
    """Measure the noise of the released matrix: sigma on the diagonal, sigma / sqrt 2 elsewhere (symmetrised)."""
    size = 300
    records = np.zeros((size, 100), dtype=np.float32)
    records[np.arange(size), np.arange(size) % 100] = 7.0  # whose second moments are 3 on the diagonal
    graph = directed_graph([], [], records, np.arange(size) % 2)
    seen = []
    for step in (SETTINGS, SLOWER):
        matrix = cases.prepared_step(PreparedComponents, kind, step, graph).matrix
        noise = (matrix - 3 * np.eye(100)) / SETTINGS.components_noise
        off = noise[np.triu_indices(100, 1)] * math.sqrt(2)
        seen.append(np.concatenate([off, np.diag(noise)]).reshape(50, -1))
        yield Fact("components: symmetric", 0.0 if (noise == noise.T).all() else np.inf)
    yield from _noise(seen[0], "components")
    yield Fact("components of two cells of two learning rates", _correlation(*seen))


def facts(trials: int) -> AuditResult:
    """Compare every private method and variant on `trials` nodes, rounded up to whole lots."""
    trials = math.ceil(trials * SETTINGS.rate) * round(1 / SETTINGS.rate)
    measured = cases.of_each(lambda kind: facts_of(kind, trials))
    checked = sum(map(len, measured.values()))
    worst = {
        name: max(seen, key=lambda fact: np.inf if np.isnan(fact.score) else abs(fact.score))
        for name, seen in measured.items()
    }
    broken = {name: fact for name, fact in worst.items() if not fact.holds}
    name, fact = max(worst.items(), key=lambda item: abs(item[1].score))
    seen = f"broken for {', '.join(broken)}; " if broken else ""
    return AuditResult(
        audit="facts", title="noise, batches and clip norms of prepared steps", passed=not broken,
        claim=f"{checked} numbers of {len(worst)} methods and variants, each within {LEVEL} standard deviations",
        finding=f"{seen}most: {fact.score:.3g} ({name}: {fact.name})", trials=trials,
    )  # fmt: skip


AUDITS = {"facts": Audit(facts, 400, quick=200)}
