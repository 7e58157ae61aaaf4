"""Steps over lots whose records are projected to noisy principal components (Abadi et al. 2016, section 4.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from dpgraph.core.errors import invalid
from dpgraph.engine.preparation.base import Order, PrivateData
from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.engine.training.noise import ReleaseNoise
from dpgraph.families.lots.mechanism import COMPONENTS, ComponentLots
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.privacy.procedure import Procedure, Release

SENSITIVITY = 1.0  # of the sum of x x' over records of length at most 1, when one of them becomes null
ROWS = 1 << 13  # records at once


class PreparedComponents(PreparedTrees):
    """The noisy matrix of second moments, its leading eigenvectors, and steps that read projected records.

    The matrix reads training records only. Those of other splits are projected by the same vectors, each by itself.
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
        return draws * self.matrix.size if stream == "components" else super().due(stream, draws)

    def ran(self, resumed_at: int = 0) -> Procedure:
        return super().ran(resumed_at).model_copy(update={"releases": (self.components,)})


def noisy_moments(records: np.ndarray, std: float, noise: ReleaseNoise) -> np.ndarray:
    """(F, F) float64: sum of x x' over `records` (n, F), each scaled to length 1, with noise of `std`; symmetric.

    Every entry gets its own noise; the mean with the transposed matrix is post-processing. A record that is zero or not
    finite adds nothing.
    """
    size = records.shape[1]
    total = np.zeros((size, size))
    for start in range(0, len(records), ROWS):
        rows = unit_rows(records[start : start + ROWS])
        total += rows.T @ rows
    total = noise.on(total, std, 0.0)
    return (total + total.T) / 2


def leading(matrix: np.ndarray, count: int) -> np.ndarray:
    """(F, k) eigenvectors of the largest eigenvalues, largest first."""
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :count].copy()


def _projected(data: PrivateData, vectors: np.ndarray) -> PrivateData:
    onto = torch.from_numpy(vectors).to(data.features.device, data.features.dtype)
    return replace(data, features=data.features @ onto)
