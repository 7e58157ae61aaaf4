"""Bugs to be planted in prepared steps: what a method runs is changed, what its mechanism says is not, or both are.

A `Bug` changes a prepared step (`change`), or replaces parts of the project's code while it is prepared and run
(`patches`), and says to which kinds it applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from dpgraph.audits.cases import Kind
from dpgraph.methods.pagerank.prepared import PreparedRows
from dpgraph.preparation.base import PreparedStep
from dpgraph.preparation.components import noisy_moments
from dpgraph.preparation.lots import PreparedLots
from dpgraph.preparation.parts import PreparedParts
from dpgraph.preparation.trees import PreparedTrees
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.mechanisms.lots import ComponentLots, Lots
from dpgraph.privacy.mechanisms.pagerank import FixedBatchPagerank, PoissonPagerank
from dpgraph.privacy.mechanisms.published_trees import FixedBatchTrees
from dpgraph.privacy.mechanisms.subgraphs import GraphSplits, NodeClippedSubgraphs, PoissonSubgraphs
from dpgraph.privacy.mechanisms.trees import FixedSizeStableTrees, PoissonTrees, ResidualTrees, StableTrees
from dpgraph.privacy.procedure import Batches
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import Draws, FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.sampling.edge_lists import full_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.sampling.graph_splits import FixedParts, FreshNodes
from dpgraph.sampling.pagerank_release import exponential_release, gaussian_release
from dpgraph.training.kipf import Privatizer
from dpgraph.training.noise import GaussianNoise


@dataclass(frozen=True)
class Bug:
    applies: Callable[[Kind], bool]
    change: Callable[[PreparedStep], None] | None = None
    patches: Mapping[str, Any] = field(default_factory=dict)  # "module.name" -> its replacement
    wide: bool = False  # shown by other runs besides the first: of other cells, of releases

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, value in self.patches.items():
                stack.enter_context(patch(target, value))
            yield


def every(kind: Kind) -> bool:
    return True


def trees(kind: Kind) -> bool:
    """Whether each root's gradient is clipped over its ego tree; a record alone is one."""
    return kind.trees or (kind.reads == "records" and poisson(kind))


def poisson(kind: Kind) -> bool:
    return kind.batches is Batches.POISSON


def two_terms(kind: Kind) -> bool:
    return kind.residual and kind.neighbours


def less_noise(factor: float) -> Callable[[PreparedStep], None]:
    def change(prepared: PreparedStep) -> None:
        noise: GaussianNoise = prepared.noise  # type: ignore[attr-defined]
        if isinstance(noise.std, tuple):
            raise TypeError("percentiles are known later")
        noise.std = noise.std / factor
        if isinstance(prepared, PreparedTrees):
            prepared._noise_over_clip /= factor

    return change


def clip_doubled(prepared: PreparedStep) -> None:
    if isinstance(prepared, PreparedTrees):
        last = prepared.terms[-1]
        prepared.terms[-1] = replace(last, clip_norm=2 * (last.clip_norm or math.nan))
    elif isinstance(prepared, PreparedLots | PreparedParts | PreparedRows):
        prepared.clip_norm *= 2


def rate_doubled(prepared: PreparedStep) -> None:
    """Of the last term."""
    if isinstance(prepared, PreparedTrees | PreparedRows):
        draws = prepared.terms[-1].draws if isinstance(prepared, PreparedTrees) else prepared.draws
        draws.sampler = _doubled(draws.sampler)
    elif isinstance(prepared, PreparedLots):
        prepared.lots = replace(prepared.lots, size=2 * prepared.lots.size)
    elif isinstance(prepared, PreparedParts) and isinstance(prepared.schedule, FreshNodes):
        prepared.schedule = replace(prepared.schedule, rate=min(1.0, 2 * prepared.schedule.rate))
    elif isinstance(prepared, PreparedParts) and isinstance(prepared.schedule, FixedParts):
        parts = prepared.schedule.parts
        merged = [np.sort(np.concatenate([parts[i], parts[i - 1]])) for i in range(len(parts))]
        prepared.schedule = replace(prepared.schedule, parts=merged)


def _draws(prepared: PreparedStep) -> list[Draws]:
    if isinstance(prepared, PreparedTrees):
        return [term.draws for term in prepared.terms]
    return [prepared.draws] if isinstance(prepared, PreparedRows) else []


def _doubled(sampler: Sampler) -> Sampler:
    if isinstance(sampler, PoissonSampler):
        return PoissonSampler(sampler.num_roots, min(1.0, 2 * sampler.rate))
    if not isinstance(sampler, FixedSizeSampler):
        raise TypeError(f"{sampler.name}: expected batches of Poisson or of fixed size")
    return FixedSizeSampler(sampler.num_roots, min(sampler.num_roots, 2 * sampler.size))


@dataclass
class _Replayed(Draws):
    """What other draws gave last."""

    first: Draws | None = None
    last: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def next(self) -> np.ndarray:
        self.count += 1
        if self.first is None:
            self.last = self.sampler.draw(self.generator)
        elif isinstance(self.first, _Replayed):
            self.last = self.first.last
        return self.last


def one_batch(prepared: PreparedStep) -> None:
    """The second term reads the batch of the first."""
    if isinstance(prepared, PreparedTrees):
        first, second = prepared.terms
        remembering = _Replayed(first.draws.sampler, first.draws.generator)
        replayed = _Replayed(second.draws.sampler, second.draws.generator, first=remembering)
        prepared.terms[:] = [replace(first, draws=remembering), replace(second, draws=replayed)]


class _Again:
    """A sampler that draws the batch of the first step in every step."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler, self.name, self.num_roots = sampler, sampler.name, sampler.num_roots
        self._first: np.ndarray | None = None

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        if self._first is None:
            self._first = self.sampler.draw(generator)
        return self._first


def same_batches(prepared: PreparedStep) -> None:
    """One batch for all steps."""
    for draws in _draws(prepared):
        draws.sampler = _Again(draws.sampler)  # type: ignore[assignment]
    if isinstance(prepared, PreparedParts) and isinstance(prepared.schedule, FreshNodes):
        drawn = prepared.schedule.nodes(0)
        prepared.schedule = replace(prepared.schedule, candidates=drawn, rate=1.0)


@dataclass
class _SameNoise(GaussianNoise):
    """The noise of the first step in every step."""

    def __post_init__(self) -> None:
        self._start = self.generator.get_state()

    def add(self, sums: Any) -> None:
        self.generator.set_state(self._start)
        super().add(sums)

    def fill(self, buffers: Any) -> float:
        self.generator.set_state(self._start)
        return super().fill(buffers)


def same_noise(prepared: PreparedStep) -> None:
    noise: GaussianNoise = prepared.noise  # type: ignore[attr-defined]
    prepared.noise = _SameNoise(noise.std, noise.generator)  # type: ignore[attr-defined]


def uncapped_lists(prepared: PreparedStep) -> None:
    """Whole lists, which state that they are stable ones."""
    if isinstance(prepared, PreparedTrees):
        last = prepared.terms[-1]
        graph, held = prepared.data.graph, last.trees.lists
        whole = full_edge_lists(graph, graph.train_nodes)
        packed = pack_ego_trees(whole, graph.train_nodes, last.trees.hops)
        named = replace(whole, kind=held.kind, max_degree=held.max_degree, list_cap=held.list_cap)
        prepared.terms[-1] = replace(last, trees=replace(packed, lists=named))


def uncapped_columns(released: Any, column_cap: int, generator: np.random.Generator) -> Any:
    return released


UNCAPPED_COLUMNS = {
    "dpgraph.methods.pagerank.prepared.cap_columns": uncapped_columns,
    "dpgraph.methods.pagerank.prepared.Rows.checked": lambda rows: rows,  # which would notice
}


def noise_once(sums: Any, std: Any, generator: torch.Generator) -> None:
    """The same number on every coordinate."""
    for tensor in sums:
        tensor.add_(float(std if isinstance(std, float | int) else std[0]) * torch.randn(1, generator=generator))


def cyclic_batches(prepared: PreparedStep) -> None:
    """A fixed partition in turn, which states that it is a Poisson sampler."""
    for draws in _draws(prepared):
        draws.sampler = _Cyclic(draws.sampler)  # type: ignore[assignment]


class _Cyclic:
    def __init__(self, sampler: Sampler) -> None:
        self.name, self.num_roots, self.step = sampler.name, sampler.num_roots, 0
        self.groups = max(1, round(sampler.num_roots / sampler.expected_size))
        self.group = numpy_generator("audits", "groups").permutation(sampler.num_roots) % self.groups

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        self.step += 1
        return np.flatnonzero(self.group == self.step % self.groups)


@dataclass
class _Sized(Draws):
    """Divides the noisy sum by the size of the batch that was drawn."""

    prepared: PreparedTrees | None = None

    def next(self) -> np.ndarray:
        positions = super().next()
        if self.prepared is not None:
            object.__setattr__(self.prepared._step, "divisor", float(max(1, len(positions))))
        return positions


def own_divisor(prepared: PreparedStep) -> None:
    if isinstance(prepared, PreparedTrees):
        first = prepared.terms[0]
        drawn = _Sized(first.draws.sampler, first.draws.generator, prepared=prepared)
        prepared.terms[0] = replace(first, draws=drawn)


class NoiseFirst(Privatizer):
    """Noise before clipping: whatever the noise, the vector that is released is no longer than C."""

    def apply(self, gradient: torch.Tensor) -> None:
        std = self.noise.fill([self.buffer[: self.size]])
        gradient += std * self.buffer
        gradient *= (self.clip_norm / gradient.norm()).clamp(max=1.0)


FAR = 1e3  # clip norms beyond any row


def _unclipped_gaussian(rows: Any, clip: float, noise: float, top_k: int, generator: np.random.Generator) -> Any:
    return gaussian_release(rows, FAR * clip, noise / FAR, top_k, generator)


def _unclipped_exponential(
    rows: Any, clip: float, epsilon: float, top_k: int, generator: np.random.Generator, values: float | None = None
) -> Any:
    return exponential_release(rows, FAR * clip, FAR * epsilon, top_k, generator, values and FAR * values)


ROWS_NOT_CLIPPED = {
    "dpgraph.methods.pagerank.prepared.gaussian_release": _unclipped_gaussian,
    "dpgraph.methods.pagerank.prepared.exponential_release": _unclipped_exponential,
}


def choice_of_one(prepared: PreparedStep) -> None:
    if isinstance(prepared, PreparedTrees) and prepared.choice is not None:
        prepared.choice.sensitivity = 1


def _release_gaussian(rows: Any, clip: float, noise: float, top_k: int, generator: np.random.Generator) -> Any:
    return gaussian_release(rows, clip, noise / 1.3, top_k, generator)


def _release_exponential(
    rows: Any, clip: float, epsilon: float, top_k: int, generator: np.random.Generator, values: float | None = None
) -> Any:
    return exponential_release(rows, clip, 1.3 * epsilon, top_k, generator, None if values is None else 1.3 * values)


RELEASE_OVER = {
    "dpgraph.methods.pagerank.prepared.gaussian_release": _release_gaussian,
    "dpgraph.methods.pagerank.prepared.exponential_release": _release_exponential,
}


def _less_noisy_moments(records: np.ndarray, std: float, generator: np.random.Generator) -> np.ndarray:
    return noisy_moments(records, std / 1.3, generator)


def _unscaled_moments(records: np.ndarray, std: float, generator: np.random.Generator) -> np.ndarray:
    rows = records.astype(np.float64)
    return noisy_moments(0 * rows, std, generator) + rows.T @ rows


MOMENTS_OVER = {"dpgraph.preparation.components.noisy_moments": _less_noisy_moments}
RECORDS_NOT_SCALED = {"dpgraph.preparation.components.noisy_moments": _unscaled_moments}
CLASSES = (
    PoissonTrees, ResidualTrees, FixedSizeStableTrees,
    FixedBatchTrees, Lots, GraphSplits,
    PoissonPagerank, FixedBatchPagerank,
)  # fmt: skip


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def less_noise_everywhere(factor: float) -> dict[str, Any]:
    """The mechanisms themselves give less noise, and say so in their procedure: they agree with what runs."""

    def smaller(kind: type) -> property:
        original = kind.noise_std_over_clip.fget  # type: ignore[attr-defined]
        return property(lambda self: None if original(self) is None else original(self) / factor)

    return {f"{_name(kind)}.noise_std_over_clip": smaller(kind) for kind in CLASSES}


_AFFECTED = StableTrees.affected_roots.fget  # type: ignore[attr-defined]
_ROWS_AFFECTED = PoissonPagerank.affected_roots.fget  # type: ignore[attr-defined]
ONE_ROOT_FEWER: dict[str, Any] = {
    f"{_name(StableTrees)}.affected_roots": property(lambda self: max(1, _AFFECTED(self) - 1)),
    f"{_name(PoissonPagerank)}.affected_roots": property(lambda self: max(1, _ROWS_AFFECTED(self) - 1)),
}
ONE_NODE_OF_A_PART: dict[str, Any] = {f"{_name(NodeClippedSubgraphs)}.most_nodes": property(lambda self: 1)}
NO_CHARGE_FOR_COMPONENTS: dict[str, Any] = {f"{_name(ComponentLots)}.release_mu": property(lambda self: 0.0)}
WITH_PAIRS = (
    PoissonTrees, ResidualTrees, PoissonSubgraphs,
    PoissonPagerank,
)  # fmt: skip


def _half_the_rate(kind: type) -> property:
    original = kind.dominating_pair.fget  # type: ignore[attr-defined]

    def pair(self: Any) -> Any:
        if hasattr(self, "num_splits"):
            return original(self.model_copy(update={"num_splits": 2 * self.num_splits}))
        return original(self.with_rate(self.sampling_rate / 2))

    return property(pair)


HALF_THE_RATE: dict[str, Any] = {f"{_name(kind)}.dominating_pair": _half_the_rate(kind) for kind in WITH_PAIRS}
_CLOSED = NoisySteps.closed


def _one_step_fewer(self: Any) -> tuple[int, float]:
    steps, noise = _CLOSED(self)
    return max(1, steps - 1), noise


ONE_STEP_FEWER: dict[str, Any] = {f"{_name(NoisySteps)}.closed": _one_step_fewer}
