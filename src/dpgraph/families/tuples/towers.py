"""Towers: encoders of entities, of which some linear layers are trained and the rest stays as it is.

One tower encodes heads, tails and negatives. It is called with entities' positions and returns their states; every
trained parameter is the weight or bias of an `nn.Linear`, which is what clipped gradients are made from
(families/tuples/clipping.py).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.errors import UserError

MLP = "mlp"  # name of the perceptron among encoders
PASS_FEATURES = 1 << 18


class Tower(nn.Module):
    """`forward` maps positions (b,) to states (b, d); `trained` are the linear layers whose parameters are trained.

    Parameters of the module are the trained ones only, so that a checkpoint holds no frozen weights: frozen parts are
    in `frozen`, which no `nn.Module` looks into. `counted` says what its entities' inputs are, for the record of a run.
    """

    counted: dict[str, int]

    def __init__(self, trained: list[nn.Linear], num_entities: int) -> None:
        super().__init__()
        self.counted = {}
        self.trained = nn.ModuleList(trained)
        self.num_entities = num_entities
        if not trained:
            raise UserError("encoder: no linear layer that adapters are known for: expected a BERT or Llama model")

    def order(self, positions: Tensor) -> Tensor:
        """(b,) in which order to encode, so that a batch of neighbours costs little; any order gives the same."""
        return torch.arange(len(positions), device=positions.device)

    def sizes(self, positions: Tensor) -> Tensor:
        """(b,) int64 numbers at an entity's input, at least 1, for passes in bounded memory; ascending in `order`."""
        raise NotImplementedError

    @property
    def numbers(self) -> int:
        """About how many of them one pass has."""
        raise NotImplementedError


class Perceptron(Tower):
    """Two linear layers with tanh between them, on fixed features (N, F)."""

    features: Tensor

    def __init__(self, features: Tensor, width: int, unit: bool, generator: torch.Generator) -> None:
        layers = [nn.Linear(features.shape[1], width), nn.Linear(width, width)]
        with torch.no_grad():
            for layer in layers:
                layer.weight.normal_(std=layer.in_features**-0.5, generator=generator)
                layer.bias.zero_()
        super().__init__(layers, len(features))
        self.register_buffer("features", features, persistent=False)
        self.unit = unit

    def forward(self, positions: Tensor) -> Tensor:
        first, second = self.trained
        states = second(torch.tanh(first(self.features[positions])))
        return nn.functional.normalize(states, dim=-1) if self.unit else states

    def sizes(self, positions: Tensor) -> Tensor:
        return torch.full((len(positions),), self.features.shape[1], device=positions.device)

    @property
    def numbers(self) -> int:
        return PASS_FEATURES


def perceptron(features: np.ndarray, width: int, unit: bool, generator: torch.Generator) -> Perceptron:
    """On features at norm 1; its first weights are drawn from the generator, no global one."""
    with torch.random.fork_rng(devices=[]):  # nn.Linear draws numbers that are replaced
        return Perceptron(nn.functional.normalize(torch.from_numpy(features), dim=1), width, unit, generator)
