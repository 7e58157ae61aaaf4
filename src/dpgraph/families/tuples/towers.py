"""Towers: encoders of entities, of which some linear layers are trained; clipped gradients of these layers.

One tower encodes heads, tails and negatives. It maps entities' positions to their states. Every trained parameter is
the weight or bias of an `nn.Linear`, so that every tuple's joint gradient is scaled exactly and none of them is formed.

For a linear layer y = W x + b of one tuple's texts, with rows x_t and derivatives g_t of the loss by y_t over its texts
and their tokens, dL/dW = sum_t g_t x_t' and dL/db = sum_t g_t. Its squared norm is either sum_tt' (g_t . g_t')(x_t .
x_t'), the ghost norm (Li et al. 2022), or that of the matrix itself, whichever is smaller to compute: a LoRA layer has
few outputs or inputs. The clipped sum over tuples is one product of the rows, those of g scaled by their tuple's
factor. Memory holds a forward and a backward pass of a chunk of tuples. A text that several tuples of a chunk hold is
encoded for each of them, since the derivatives differ. Norms are enlarged by what rounding may add to a contribution
(`training.precision`), as the cell's precision requires.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.errors import UserError
from dpgraph.engine.models.products import inner_products
from dpgraph.engine.training.ghost import LayerRows
from dpgraph.engine.training.precision import enlarged_norms, with_underflow
from dpgraph.families.tuples.steps import ClippedTuples, TupleLoss, clip_factors, without_lost

PASS_FEATURES = 1 << 18


class Tower(nn.Module):
    """An encoder: `forward` maps positions (b,) to states (b, d); `trained` are the trained linear layers.

    Parameters of the module are the trained ones only, so that a checkpoint holds no frozen weights. Frozen parts are
    in `frozen`, which no `nn.Module` looks into. `counted` describes the entities' inputs for the record of a run.
    """

    counted: dict[str, int]
    input_size: int | None = None  # numbers of every entity's input, where all have as many

    def __init__(self, trained: list[nn.Linear], num_entities: int) -> None:
        super().__init__()
        self.counted = {}
        self.trained = nn.ModuleList(trained)
        self.num_entities = num_entities
        if not trained:
            raise UserError("encoder: no linear layer that adapters are known for: expected a BERT or Llama model")

    def order(self, positions: Tensor) -> Tensor:
        """Return the (b,) order in which encoding positions is cheap; any order gives the same states."""
        return torch.arange(len(positions), device=positions.device)

    def sizes(self, positions: Tensor) -> Tensor:
        """Return (b,) int64 numbers of each entity's input, at least 1; they bound the memory of a pass.

        They ascend in `order`.
        """
        raise NotImplementedError

    @property
    def numbers(self) -> int:
        """Return about how many input numbers one pass has."""
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
        self.unit, self.input_size = unit, features.shape[1]

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
    """Return a perceptron on features scaled to norm 1; its first weights come from `generator` alone."""
    with torch.random.fork_rng(devices=[]):  # nn.Linear draws numbers that are replaced
        return Perceptron(nn.functional.normalize(torch.from_numpy(features), dim=1), width, unit, generator)


class TowerModel:
    """The `TupleModel` of a tower: scores are inner products of its states.

    `numbers`: about how many inputs one pass has (`Tower.sizes`); None: as many as the tower says.
    """

    def __init__(self, tower: Tower, loss: TupleLoss, numbers: int | None = None) -> None:
        self.network, self.loss, self._numbers = tower, loss, numbers

    @property
    def numbers(self) -> int:
        """Return about how many input numbers one pass has."""
        return self.network.numbers if self._numbers is None else self._numbers

    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        """Return the clipped sum of the tuples `batch` (b, 2 + k), each scaled to at most its limit (b,)."""
        parameters = list(self.network.parameters())
        sums, norms = [torch.zeros_like(one) for one in parameters], [limits.new_zeros(0)]
        if not len(batch):
            return ClippedTuples(sums, torch.cat(norms))
        order, counts = self._passes(batch)
        for part in order.split(counts):
            norms.append(self._add(sums, batch[part], limits[part]))
        return ClippedTuples(sums, torch.cat(norms)[torch.argsort(order)])

    def _passes(self, batch: Tensor) -> tuple[Tensor, int | list[int]]:
        """Return an order of the tuples, and how many of them each pass has."""
        if self.network.input_size is not None:
            tuples = self.numbers // (self.network.input_size * batch.shape[1])
            return torch.arange(len(batch), device=batch.device), max(1, tuples)
        # tuples of texts of like lengths share a pass: one long text would make all of a batch small, or padded
        sizes = self.network.sizes(batch.reshape(-1)).view(batch.shape).amax(dim=1) * batch.shape[1]
        order = torch.argsort(sizes, stable=True)
        return order, pass_counts(sizes[order], self.numbers)

    def _add(self, sums: list[Tensor], tuples: Tensor, limits: Tensor) -> Tensor:
        """Add the clipped gradients of a chunk (b, 2 + k) of tuples to `sums`; return their norms (b,)."""
        layers = self.network.trained
        rows = LayerRows()
        order = self.network.order(tuples.reshape(-1))
        back = torch.argsort(order)
        with rows.recorded(layers), torch.enable_grad():
            encoded = self.network(tuples.reshape(-1)[order])
            states = encoded[back].view(*tuples.shape, -1)
            losses = self.loss(torch.einsum("bd,bkd->bk", states[:, 0], states[:, 1:]))
            # by the outputs, not by the parameters: the derivatives of tuples stay apart
            found = torch.autograd.grad(losses.sum(), list(rows.outputs.values()), allow_unused=True)
        kept = {
            number: (self._of(rows.inputs[number], back, tuples), self._of(slopes, back, tuples))
            for number, slopes in zip(rows.outputs, found, strict=True)
            if slopes is not None
        }
        squares, scales = torch.zeros_like(limits, dtype=torch.float64), torch.zeros_like(limits)
        for number, both in kept.items():
            squares += self._squares(layers[number], *both)
            scales += self._scales(layers[number], *both)
        norms = enlarged_norms(squares.clamp_min(0).to(limits.dtype), scales)
        scale = clip_factors(norms, limits)
        for number, (inputs, slopes) in kept.items():
            scaled = without_lost(slopes, norms) * scale[:, None, None]
            self._sum(sums, layers[number], without_lost(inputs, norms), scaled)
        return norms

    @staticmethod
    def _of(rows: Tensor, back: Tensor, tuples: Tensor) -> Tensor:
        """Return rows (texts, tokens, size) or (texts, size) in the order of the tuples: (b, rows of a tuple, size)."""
        return rows[back].reshape(len(tuples), -1, rows.shape[-1])

    @staticmethod
    def _squares(layer: nn.Module, inputs: Tensor, slopes: Tensor) -> Tensor:
        """Return the (b,) float64 squared norm of each tuple's gradient of the layer."""
        count = inputs.shape[1]
        if count * count < inputs.shape[2] * slopes.shape[2]:
            grams = inner_products(inputs) * inner_products(slopes)
            squares = grams.sum(dim=(1, 2))
        else:
            squares = torch.bmm(slopes.transpose(1, 2).double(), inputs.double()).square().sum(dim=(1, 2))
        if layer.bias is not None:
            squares = squares + slopes.sum(dim=1, dtype=torch.float64).square().sum(dim=1)
        return squares

    @staticmethod
    def _scales(layer: nn.Module, inputs: Tensor, slopes: Tensor) -> Tensor:
        """Return the (b,) squared norms if no two rows of a tuple cancelled: what rounding is relative to (Theorem
        2)."""
        lengths, reach = slopes.norm(dim=2), inputs.norm(dim=2)
        scales = with_underflow((lengths * reach).sum(dim=1).square(), reach.square(), lengths.square())
        return scales if layer.bias is None else scales + lengths.sum(dim=1).square()

    def _sum(self, sums: list[Tensor], layer: nn.Module, inputs: Tensor, slopes: Tensor) -> None:
        flat = slopes.reshape(-1, slopes.shape[-1])
        places = {id(parameter): place for place, parameter in enumerate(self.network.parameters())}
        sums[places[id(layer.weight)]] += flat.T @ inputs.reshape(-1, inputs.shape[-1])
        if layer.bias is not None:
            sums[places[id(layer.bias)]] += flat.sum(dim=0)

    @torch.no_grad()
    def states(self) -> Tensor:
        """Return the (N, d) states of all entities."""
        device = next(self.network.parameters()).device
        return self.states_of(torch.arange(self.network.num_entities, device=device))

    @torch.no_grad()
    def states_of(self, positions: Tensor) -> Tensor:
        """Return the (n, d) states of the entities at `positions` (n,), in passes of bounded size."""
        order = self.network.order(positions)
        counts = pass_counts(self.network.sizes(positions[order]), self.numbers)
        encoded = torch.cat([self.network(part) for part in positions[order].split(counts)])
        return encoded[torch.argsort(order)]


def pass_counts(sizes: Tensor, numbers: int) -> list[int]:
    """Return lengths of consecutive parts, each with at most `numbers` inputs if all are as long as its longest.

    `sizes` (n,) ascend; a part has at least one entity.
    """
    counts, start = [], 0
    while start < len(sizes):
        filled = sizes[start:] * torch.arange(1, len(sizes) - start + 1, device=sizes.device)
        counts.append(max(1, int(torch.searchsorted(filled, numbers, right=True))))
        start += counts[-1]
    return counts
