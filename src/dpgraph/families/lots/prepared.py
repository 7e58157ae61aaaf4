"""Prepared steps over lots: shuffled lots (Igamberdiev and Habernal, App. F), and noisy principal components.

The latter are those of Abadi et al. (2016), section 4.1.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.engine.models.network import Network
from dpgraph.engine.preparation.base import Order, PreparedStep, PrivateData, procedure
from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.engine.sampling.edge_lists import empty_edge_lists
from dpgraph.engine.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.engine.training.clipping import gradient_sum, root_cross_entropy
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.network import has_closed_form
from dpgraph.engine.training.noise import GaussianNoise, ReleaseNoise
from dpgraph.engine.training.optimizers import apply_gradient
from dpgraph.families.lots.mechanism import COMPONENTS, ComponentLots, ShuffledLots, UnclippedLots
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Procedure, Release


@dataclass(frozen=True)
class LotSchedule:
    """Lots of `size` records, cut from a fresh permutation in each epoch; the last lot may be smaller.

    They depend on names and step alone, so a resumed run continues in the middle of its epoch.
    """

    num_records: int
    size: int
    names: tuple[Name, ...]
    name: Batches = Batches.SHUFFLED
    counts: Counter[str] = field(default_factory=Counter, compare=False)  # "draws" so far in this process
    _permutations: dict[int, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def per_epoch(self) -> int:
        """Number of lots in an epoch."""
        return math.ceil(self.num_records / self.size)

    def lot(self, step: int) -> np.ndarray:
        """Return the positions of the records of step 0, 1, ..."""
        self.counts["draws"] += 1
        epoch, place = divmod(step, self.per_epoch)
        if epoch not in self._permutations:
            self._permutations.clear()
            self._permutations[epoch] = numpy_generator(*self.names, epoch).permutation(self.num_records)
        return self._permutations[epoch][place * self.size : (place + 1) * self.size]


@dataclass
class LotStep:
    """One clipped mean gradient of a lot, noised and not divided; with clip norm inf it is not clipped."""

    network: Network
    optimizer: torch.optim.Optimizer
    features: Tensor
    labels: Tensor
    records: EgoTrees
    lots: LotSchedule
    clip_norm: float
    noise: GaussianNoise
    done: int = 0

    def start_at(self, step: int) -> None:
        """Continue at this step."""
        self.done = step

    def __call__(self) -> int:
        positions = self.lots.lot(self.done)
        self.done += 1
        gradient = clipped(self._mean_gradient(positions), self.clip_norm)
        self.noise.add(gradient)
        apply_gradient(self.optimizer, gradient, 1.0)
        return len(positions)

    def _mean_gradient(self, positions: np.ndarray) -> list[Tensor]:
        """Return the mean gradient of the records at these positions."""
        if has_closed_form(self.network):
            parts = gradient_sum(self.network, self.records, positions, self.features, self.labels, self._inputs)
            return [part / len(positions) for part in parts]
        parameters = list(self.network.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for batch in self.records.chunks(positions):
            losses = root_cross_entropy(self.network(batch, self.features), self.labels[batch.roots])
            for part, gradient in zip(
                total, torch.autograd.grad(losses.sum() / len(positions), parameters), strict=True
            ):
                part += gradient
        return total

    @cached_property
    def _inputs(self) -> TreeInputs:
        return TreeInputs(self.records, self.features)


def clipped(gradient: list[Tensor], clip_norm: float) -> list[Tensor]:
    """Return all tensors as one vector of norm at most `clip_norm`; zero if any entry is not finite.

    So is a vector 2^126 times as long: its factor would be a subnormal number, of few digits.
    """
    norm = torch.stack([torch.linalg.vector_norm(part, dtype=torch.float64) for part in gradient]).norm()
    factor = torch.clamp_max(clip_norm / norm, 1).to(gradient[0].dtype)
    return [torch.where(factor >= torch.finfo(factor.dtype).tiny, part * factor, 0) for part in gradient]


class PreparedLots(PreparedStep):
    """Lots, clip norm and noise of the mechanism; `step` adds the network."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, ShuffledLots | UnclippedLots):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over shuffled lots")
        graph = order.data.graph
        self.lots = LotSchedule(len(graph.train_nodes), mechanism.batch_size, order.names("lots"))
        self.records = pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, 0, order.device)
        self.clip_norm = order.privacy.clip_norm if isinstance(mechanism, ShuffledLots) else math.inf
        self.noise = order.noise(order.noise_std)
        self._step: LotStep | None = None

    def step(self, network: Network, optimizer: torch.optim.Optimizer) -> LotStep:
        """Return the step that trains `network`."""
        data = self.data
        self.trains(network)
        self._step = LotStep(
            network, optimizer, data.features, data.labels, self.records, self.lots, self.clip_norm, self.noise
        )
        return self._step

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, from the step itself."""
        step = self._step
        if step is None:
            return procedure(self.mechanism, (), None, 0.0, 0)
        lots, lists = step.lots, step.records.lists
        term = ClippedSum(
            lists=lists.kind,
            max_degree=lists.max_degree,
            list_cap=lists.list_cap,
            batches=lots.name,
            num_roots=lots.num_records,
            batch_size=lots.size,
            clipped=Clipped.STEP if math.isfinite(step.clip_norm) else Clipped.NOTHING,
            clip_norms=(step.clip_norm,),
            draws=lots.counts["draws"] + resumed_at,
        )
        return procedure(self.mechanism, (term,), step.noise, 1.0, resumed_at)


SENSITIVITY = 1.0  # sensitivity of the sum of x x' over records of length at most 1, one of which becomes null
ROWS = 1 << 13  # number of records at once


class PreparedComponents(PreparedTrees):
    """The noisy matrix of second moments, its leading eigenvectors, and steps that read projected records.

    The matrix reads training records only. The same vectors project every other record, each alone.
    """

    def __init__(self, order: Order) -> None:
        mechanism, graph = order.mechanism, order.data.graph
        if not isinstance(mechanism, ComponentLots):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over components")
        if mechanism.components > graph.num_features:
            allowed = f"an integer from 1 to the {graph.num_features} features"
            raise invalid("components", mechanism.components, allowed)
        records = np.asarray(graph.features)
        std = mechanism.components_noise * SENSITIVITY
        noise = order.release_noise("components")
        self.matrix = noisy_moments(records[graph.train_nodes], std, noise)
        super().__init__(replace(order, data=_projected(order.data, leading(self.matrix, mechanism.components))))
        self.components = Release(
            kind=COMPONENTS, noise=noise.stds[0] / SENSITIVITY, sensitivity=SENSITIVITY, count=mechanism.components
        )

    def due(self, stream: str, draws: int) -> int | None:
        """Return how many numbers a stream has drawn after so many draws."""
        return draws * self.matrix.size if stream == "components" else super().due(stream, draws)

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, with the release of the components."""
        return super().ran(resumed_at).model_copy(update={"releases": (self.components,)})


def noisy_moments(records: np.ndarray, std: float, noise: ReleaseNoise) -> np.ndarray:
    """Return the noisy sum of x x' over records, each scaled to length 1; symmetric.

    Every entry gets its own noise; the mean with the transposed matrix is post-processing. A record that is zero or not
    finite adds 0.

    Args:
        records: (n, F)
        std: Noise std of every entry.
        noise: Source of the noise.

    Returns:
        (F, F) float64
    """
    size = records.shape[1]
    total = np.zeros((size, size))
    for start in range(0, len(records), ROWS):
        rows = unit_rows(records[start : start + ROWS])
        total += rows.T @ rows
    total = noise.on(total, std, 0.0)
    return (total + total.T) / 2


def leading(matrix: np.ndarray, count: int) -> np.ndarray:
    """Return (F, k) eigenvectors of the largest eigenvalues, largest first."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :count].copy()


def _projected(data: PrivateData, vectors: np.ndarray) -> PrivateData:
    """Return the data with records projected onto the vectors."""
    onto = torch.from_numpy(vectors).to(data.features.device, data.features.dtype)
    return replace(data, features=data.features @ onto)
