"""Clipped gradients of towers: every tuple's joint gradient is scaled exactly, and none of them is formed.

For a linear layer y = W x + b of one tuple's texts, with rows x_t and the loss' derivatives g_t by y_t over its texts
and their tokens, dL/dW = sum_t g_t x_t' and dL/db = sum_t g_t. Its squared norm is either sum_tt' (g_t . g_t')(x_t .
x_t'), the ghost norm (Li et al. 2022), or that of the matrix itself, whichever is smaller: a LoRA layer has few outputs
or inputs. The clipped sum over tuples is one product of the rows, those of g scaled by their tuple's factor. A forward
and a backward pass of a chunk of tuples is all that is in memory; a text that several tuples of a chunk hold is encoded
for each of them, since the derivatives differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dpgraph.models.towers import Tower
from dpgraph.training.tuples import ClippedTuples, TupleLoss, factors, joint_norms

CHUNK_NUMBERS = 1 << 12  # about, of the inputs of one pass: tokens of texts, or features


@dataclass
class LayerRows:
    """Inputs and outputs of the trained layers during one pass, by the layers' numbers; each (texts, tokens, size)."""

    inputs: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)

    @contextmanager
    def recorded(self, layers: nn.ModuleList) -> Iterator[None]:
        hooks = [layer.register_forward_hook(self._keep(number)) for number, layer in enumerate(layers)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _keep(self, number: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if number in self.inputs:
                raise RuntimeError("a trained layer ran twice in one pass: its gradients would not be whole")
            self.inputs[number], self.outputs[number] = inputs[0].detach(), output

        return hook


class TowerModel:
    """The `TupleModel` of a tower: scores are inner products of its states."""

    def __init__(self, tower: Tower, loss: TupleLoss, chunk_numbers: int = CHUNK_NUMBERS) -> None:
        self.network, self.loss, self.chunk_numbers = tower, loss, chunk_numbers

    def clipped(self, batch: Tensor, limits: Tensor) -> ClippedTuples:
        parameters = list(self.network.parameters())
        sums, norms = [torch.zeros_like(one) for one in parameters], [limits.new_zeros(0)]
        size = max(1, self.chunk_numbers // max(1, self.network.cost(batch.reshape(-1)) * batch.shape[1]))
        for tuples, allowed in zip(batch.split(size), limits.split(size), strict=True):
            if len(tuples):
                norms.append(self._add(sums, tuples, allowed))
        return ClippedTuples(sums, torch.cat(norms))

    def _add(self, sums: list[Tensor], tuples: Tensor, limits: Tensor) -> Tensor:
        """Adds the clipped gradients of a chunk (b, 2 + k) of tuples; (b,) their norms."""
        layers = self.network.trained
        rows = LayerRows()
        order = self.network.order(tuples.reshape(-1))
        back = torch.argsort(order)
        with rows.recorded(layers), torch.enable_grad():
            encoded = self.network(tuples.reshape(-1)[order])
            states = encoded[back].view(*tuples.shape, -1)
            losses = self.loss(torch.einsum("bd,bkd->bk", states[:, 0], states[:, 1:]))
            # by the outputs, not by the parameters: nothing is summed over tuples
            found = torch.autograd.grad(losses.sum(), list(rows.outputs.values()), allow_unused=True)
        kept = {
            number: (self._of(rows.inputs[number], back, tuples), self._of(slopes, back, tuples))
            for number, slopes in zip(rows.outputs, found, strict=True)
            if slopes is not None
        }
        squares = [self._squares(layers[number], *both) for number, both in kept.items()]
        norms = joint_norms(squares) if squares else torch.zeros_like(limits)
        scale = factors(norms, limits)
        for number, (inputs, slopes) in kept.items():
            self._sum(sums, layers[number], inputs, slopes * scale[:, None, None])
        return norms

    @staticmethod
    def _of(rows: Tensor, back: Tensor, tuples: Tensor) -> Tensor:
        """(texts, tokens, size), or (texts, size), in the order of the texts: (b, rows of a tuple, size)."""
        return rows[back].reshape(len(tuples), -1, rows.shape[-1])

    @staticmethod
    def _squares(layer: nn.Module, inputs: Tensor, slopes: Tensor) -> Tensor:
        """(b,) squared norm of each tuple's gradient of the layer."""
        count = inputs.shape[1]
        if count * count < inputs.shape[2] * slopes.shape[2]:
            grams = torch.bmm(inputs, inputs.transpose(1, 2)) * torch.bmm(slopes, slopes.transpose(1, 2))
            squares = grams.sum(dim=(1, 2))
        else:
            squares = torch.bmm(slopes.transpose(1, 2), inputs).square().sum(dim=(1, 2))
        if layer.bias is not None:
            squares = squares + slopes.sum(dim=1).square().sum(dim=1)
        return squares

    def _sum(self, sums: list[Tensor], layer: nn.Module, inputs: Tensor, slopes: Tensor) -> None:
        flat = slopes.reshape(-1, slopes.shape[-1])
        places = {id(parameter): place for place, parameter in enumerate(self.network.parameters())}
        sums[places[id(layer.weight)]] += flat.T @ inputs.reshape(-1, inputs.shape[-1])
        if layer.bias is not None:
            sums[places[id(layer.bias)]] += flat.sum(dim=0)

    @torch.no_grad()
    def states(self) -> Tensor:
        everyone = torch.arange(self.network.num_entities, device=next(self.network.parameters()).device)
        order = self.network.order(everyone)
        size = max(1, self.chunk_numbers // max(1, self.network.cost(everyone)))
        encoded = torch.cat([self.network(part) for part in everyone[order].split(size)])
        return encoded[torch.argsort(order)]
