"""Many trials in one training run: every root moves a parameter of its own.

The loss of root i is minus a million times one entry of the first layer's weights, so that its clipped gradient is C
along that entry. Under Poisson sampling roots are drawn independently, and noise is independent across parameters: each
root is a trial of its own. A null record has no loss. The step is one that a method prepares for its cell.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dpgraph.audits.cases import CLIP_NORM, KINDS, Settings, prepared_steps
from dpgraph.audits.graphs import directed_graph, null_records
from dpgraph.experiments.cell import Model
from dpgraph.models.network import Network
from dpgraph.preparation.base import expected
from dpgraph.preparation.trees import Losses, PreparedTrees
from dpgraph.randomness import Name, torch_generator
from dpgraph.sampling.ego import EgoBatch
from dpgraph.training.ghost import Recorder

STRENGTH = 1e6  # far above every clip norm


def pushed_units(network: Network, batch: EgoBatch, rows: Tensor, units: Tensor, recorder: Recorder) -> Tensor:
    """(B,) the unit (B,) of the first layer that each root names, over its row (B, F); every layer is applied."""
    dense = recorder.on(batch)
    hidden = dense(network.encoder.layers[0], rows, 0)  # type: ignore[arg-type]
    logits = network.decoder(hidden, 0, dense)  # the engine requires every layer to be applied
    return hidden.gather(1, units.clamp_min(0).unsqueeze(1)).squeeze(1) + 0.0 * logits.sum(dim=1)


def coordinate_losses(
    network: Network, batch: EgoBatch, features: Tensor, labels: Tensor, recorder: Recorder
) -> Tensor:
    """(B,) minus the unit that a root's label names; 0 where its record is null (label -1)."""
    named = labels[batch.roots]
    pushed = pushed_units(network, batch, features[batch.roots], named, recorder)
    return torch.where(named >= 0, -pushed, 0.0 * pushed)


class CoordinateRun:
    """SGD by the step that dp-mlp prepares, on N roots of which those without `present` are null records."""

    def __init__(self, present: np.ndarray, settings: Settings, *names: Name) -> None:
        size = len(present)
        self.width = math.ceil(math.sqrt(size))
        self.place = np.arange(size)
        features = np.zeros((size, self.width), dtype=np.float32)
        features[self.place, self.place // self.width] = STRENGTH
        graph = directed_graph([], [], features, self.place % self.width, classes=self.width)
        (step,) = prepared_steps(KINDS["dp-mlp"], settings, null_records(graph, np.flatnonzero(~present)))
        self.prepared = expected(step, PreparedTrees)
        model = Model(architecture="mlp", hops=0, width=self.width)
        self.network = Network(model, self.width, 2, torch_generator("audits", *names, "parameters"))
        optimizer = torch.optim.SGD(self.network.parameters(), lr=1.0)
        self._step = self.prepared.step(self.network, optimizer, Losses(root=coordinate_losses))

    def step(self) -> np.ndarray:
        """(N,) what one step adds to each root's parameter, in units of C: 0 or 1, plus noise."""
        weight = self.network.encoder.layers[0].weight  # type: ignore[union-attr]
        with torch.no_grad():
            weight.zero_()  # type: ignore[operator]
        self._step()
        moved = weight.detach().double().numpy() * self.prepared.divisor / CLIP_NORM  # type: ignore[union-attr, operator]
        return np.asarray(moved[self.place % self.width, self.place // self.width])
