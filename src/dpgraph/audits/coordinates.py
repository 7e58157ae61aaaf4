"""Many trials in one training run: every root moves a parameter of its own.

The roots have no neighbours, and root i's loss is minus a million times one entry of the encoder's weights, so that its
clipped gradient is C along that entry. Under Poisson sampling roots are drawn independently, and noise is independent
across parameters: each root is a trial of its own. A root whose record is null has no loss.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpgraph.experiments.cell import Model
from dpgraph.models.network import Network
from dpgraph.randomness import Name, numpy_generator, torch_generator
from dpgraph.sampling.batches import Sampler
from dpgraph.sampling.edge_lists import EdgeLists
from dpgraph.sampling.ego import EgoBatch, pack_ego_trees
from dpgraph.training.ghost import Recorder
from dpgraph.training.steps import ClippedTerm, PrivateStep

STRENGTH = 1e6  # far above every clip norm
CLIP_NORM = 0.5


def coordinate_losses(
    network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder
) -> Tensor:
    """(B,) minus the unit of the first layer that a root's label names; 0 where its record is null (label -1)."""
    dense = recorder.on(batch)
    units = dense(network.encoder.layers[0], features[batch.nodes], 0)  # type: ignore[arg-type]
    logits = network.decoder(units, 0, dense)  # the engine wants every layer to be applied
    named = labels[batch.roots]
    chosen = units.gather(1, named.clamp_min(0).unsqueeze(1)).squeeze(1)
    return torch.where(named >= 0, -chosen, 0.0) + 0.0 * logits.sum(dim=1)


class CoordinateRun:
    """SGD by `PrivateStep` on N roots, of which those with `present` have a record."""

    def __init__(self, present: np.ndarray, sampler: Sampler, noise_multiplier: float, *names: Name) -> None:
        size = len(present)
        self.width = math.ceil(math.sqrt(size))
        self.place = np.arange(size)
        features = torch.zeros(size, self.width, dtype=torch.float64)
        features[self.place, self.place // self.width] = STRENGTH
        unit = np.where(present, self.place % self.width, -1)
        lists = EdgeLists(np.zeros(size + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
        model = Model(architecture="mlp", hops=0, width=self.width)
        self.network = Network(model, self.width, 2, torch_generator("audits", *names, "parameters"), torch.float64)
        self._step = PrivateStep(
            self.network,
            torch.optim.SGD(self.network.parameters(), lr=1.0),
            features,
            torch.from_numpy(unit),
            [ClippedTerm(pack_ego_trees(lists, self.place, 0), sampler, CLIP_NORM, coordinate_losses)],
            noise_multiplier * CLIP_NORM,
            1.0,
            numpy_generator("audits", *names, "batches"),
            torch_generator("audits", *names, "noise"),
        )

    def step(self) -> np.ndarray:
        """(N,) what one step adds to each root's parameter, in units of C: 0 or 1, plus noise."""
        before = self._weights()
        self._step()
        moved = (self._weights() - before) / CLIP_NORM
        return moved[self.place % self.width, self.place // self.width]

    def _weights(self) -> np.ndarray:
        return self.network.encoder.layers[0].weight.detach().numpy().copy()  # type: ignore[union-attr, operator]
