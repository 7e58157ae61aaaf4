"""Peers on PyTorch: Opacus' hooks and ghost clipping, `torch.func`, and a plain step by autograd.

All of them run `PaddedNetwork`, the network as a user of these libraries would write it: `nn.Linear` on padded trees.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bench.peers_problem import Gradients, Padded, PeersProblem, padded
from dpgraph.engine.models.dense import SelfWeight
from dpgraph.engine.models.message_passing import GatLayer, GcnLayer, GinLayer
from dpgraph.engine.models.network import Network

# roots of a piece, the fastest of 25, 50, 100, ... on a one-layer GCN
ROOTS_OF_HOOKS, ROOTS_OF_GHOST, ROOTS_OF_VMAP, ROOTS_OF_PLAIN = 100, 500, 50, 1000


class PaddedNetwork(nn.Module):
    """Copies of a network's parameters, in its order. Reads one tree, or trees with a leading axis."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.activation = network.encoder.activation
        self.encoder = nn.ModuleList(_linear(layer) for layer in network.encoder.layers)
        self.layers = nn.ModuleList(LAYERS[type(layer)](layer, self.activation) for layer in network.aggregation)
        self.decoder = nn.ModuleList(_linear(layer) for layer in network.decoder.layers)

    def forward(self, rows: Tensor, *hops: Tensor) -> Tensor:
        """Return (..., classes) logits of (..., n_r, F) records, with reads and own rows per level as in `hops_of`."""
        for linear in self.encoder:
            rows = self.activation(linear(rows))
        half = len(hops) // 2
        for layer, reads, own in zip(self.layers, reversed(hops[:half]), reversed(hops[half:])):
            rows = layer(rows, reads, own)
        logits = rows.squeeze(-2)
        for linear in self.decoder[:-1]:  # type: ignore[attr-defined]
            logits = self.activation(linear(logits))
        return self.decoder[-1](logits)  # type: ignore[no-any-return]


def _linear(layer: nn.Module) -> nn.Linear:
    """Return an `nn.Linear` or a kind of it: Opacus knows layers by their type."""
    like = {"dtype": layer.weight.dtype, "device": layer.weight.device}
    copied = nn.utils.skip_init(nn.Linear, layer.in_features, layer.out_features, layer.bias is not None, **like)
    copied.load_state_dict(layer.state_dict())
    return copied


class _Gcn(nn.Module):
    def __init__(self, layer: GcnLayer, activation: Any) -> None:
        super().__init__()
        self.linear, self.activation = _linear(layer.linear), activation

    def forward(self, rows: Tensor, means: Tensor, own: Tensor) -> Tensor:
        mean = means @ rows
        return mean + self.activation(self.linear(mean))  # type: ignore[no-any-return]


class _Gin(nn.Module):
    def __init__(self, layer: GinLayer, activation: Any) -> None:
        super().__init__()
        self.self_weight = SelfWeight(layer.linear.weight.dtype).to(layer.linear.weight.device)
        self.self_weight.load_state_dict(layer.self_weight.state_dict())
        self.linear, self.activation = _linear(layer.linear), activation

    def forward(self, rows: Tensor, reads: Tensor, own: Tensor) -> Tensor:
        return self.activation(self.linear(reads @ rows + self.self_weight(_own(rows, own))))  # type: ignore[no-any-return]


class _Gat(nn.Module):
    def __init__(self, layer: GatLayer, activation: Any) -> None:
        super().__init__()
        self.heads, self.activation = layer.query.heads, activation
        self.query, self.key, self.value = _linear(layer.query), _linear(layer.key), _linear(layer.value)
        self.output = _linear(layer.output)

    def forward(self, rows: Tensor, reads: Tensor, own: Tensor) -> Tensor:
        queries = self.query(_own(rows, own)).unflatten(-1, (self.heads, -1))
        keys, values = (linear(rows).unflatten(-1, (self.heads, -1)) for linear in (self.key, self.value))
        scores = torch.einsum("...ihd,...jhd->...hij", queries, keys) / queries.shape[-1] ** 0.5
        weights = scores.masked_fill(reads.unsqueeze(-3) == 0, -torch.inf).softmax(-1)
        received = torch.einsum("...hij,...jhd->...ihd", weights, values)
        return self.activation(self.output(received.flatten(-2)))  # type: ignore[no-any-return]


LAYERS: dict[type[nn.Module], type[Any]] = {GcnLayer: _Gcn, GinLayer: _Gin, GatLayer: _Gat}


def _own(rows: Tensor, own: Tensor) -> Tensor:
    """Return the own rows (..., s, d) of (..., n, d) at (..., s)."""
    if own.shape[-1] == 1:  # the root's segment, whose own row is the first
        return rows[..., :1, :]
    return rows.gather(-2, own.unsqueeze(-1).expand(*own.shape, rows.shape[-1]))


def hops_of(problem: PeersProblem, trees: Padded) -> tuple[Tensor, ...]:
    """Return what `PaddedNetwork` reads of padded trees besides records."""
    return (*(trees.means() if problem.setting.architecture == "gcn" else trees.reads), *trees.own)


Piece = tuple[Tensor, tuple[Tensor, ...], Tensor]  # nodes, hops, labels


def pieces(problem: PeersProblem, most: int) -> list[Piece]:
    trees = (padded(problem, positions) for positions in problem.pieces(most))
    return [(one.nodes, hops_of(problem, one), one.labels) for one in trees]


class ExactLimit(float):
    """A clip norm C for Opacus, which divides it by n + 10^-6: C / n, so that its sums can be compared."""

    def __truediv__(self, enlarged: Any) -> Any:
        return float(self) / (enlarged - 1e-6)


def opacus_hooks(problem: PeersProblem) -> Gradients:
    """Form gradients of every root of a piece, as Opacus' BatchMemoryManager would cut a batch."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module = GradSampleModule(PaddedNetwork(problem.network), loss_reduction="sum")
    optimizer = DPOptimizer(_sgd(module), **_options(problem))
    parts = pieces(problem, ROOTS_OF_HOOKS)

    def sums() -> list[Tensor]:
        optimizer.zero_grad(set_to_none=True)
        with _quiet():
            for nodes, hops, labels in parts:
                for parameter in module.parameters():
                    parameter.grad_sample = None
                logits = module(problem.features[nodes], *hops)
                nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
                optimizer.clip_and_accumulate()
        return [parameter.summed_grad for parameter in module.parameters()]

    return sums


def opacus_ghost(problem: PeersProblem) -> Gradients:
    """Clip by norms without gradients, and a second backward pass."""
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    module = GradSampleModuleFastGradientClipping(
        PaddedNetwork(problem.network),
        loss_reduction="sum",
        max_grad_norm=ExactLimit(problem.limit),
        use_ghost_clipping=True,
    )
    optimizer = DPOptimizerFastGradientClipping(_sgd(module), **_options(problem))
    loss = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")
    parts = pieces(problem, ROOTS_OF_GHOST)

    def sums() -> list[Tensor]:
        totals = [torch.zeros_like(parameter) for parameter in module.parameters()]
        with _quiet():
            for nodes, hops, labels in parts:
                optimizer.zero_grad(set_to_none=True)
                loss(module(problem.features[nodes], *hops), labels).backward()
                for total, parameter in zip(totals, module.parameters()):
                    total += parameter.grad
        return totals

    return sums


def _sgd(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=1.0)


def _options(problem: PeersProblem) -> dict[str, Any]:
    return {
        "noise_multiplier": 0.0,
        "max_grad_norm": ExactLimit(problem.limit),
        "expected_batch_size": 1,
        "loss_reduction": "sum",
    }


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Full backward hook is firing")  # features need no gradients
        yield


def torch_vmap(problem: PeersProblem) -> Gradients:
    """Form gradients of all roots of a piece by `torch.func`, clip and add them."""
    network = PaddedNetwork(problem.network)
    values = {name: parameter.detach() for name, parameter in network.named_parameters()}

    def loss(values: dict[str, Tensor], rows: Tensor, label: Tensor, *hops: Tensor) -> Tensor:
        logits = torch.func.functional_call(network, values, (rows, *hops))
        return nn.functional.cross_entropy(logits, label)

    parts = pieces(problem, ROOTS_OF_VMAP)
    axes = (None, *(0,) * (2 + len(parts[0][1])))
    each = torch.func.vmap(torch.func.grad(loss), in_dims=axes)

    def sums() -> list[Tensor]:
        totals = [torch.zeros_like(value) for value in values.values()]
        for nodes, hops, labels in parts:
            gradients = each(values, problem.features[nodes], labels, *hops)
            add_clipped(totals, list(gradients.values()), problem.limit)
        return totals

    return sums


def add_clipped(totals: list[Tensor], gradients: list[Tensor], limit: float) -> None:
    """Add sum_v min(1, C / n_v) grad_v of formed gradients, each (B, *shape)."""
    rows = [gradient.reshape(len(gradient), -1) for gradient in gradients]
    norms = torch.stack([torch.linalg.vector_norm(row, dim=1) for row in rows]).norm(dim=0)
    factors = (limit / norms).clamp(max=1)
    for total, row in zip(totals, rows, strict=True):
        total += (factors @ row).view_as(total)


def plain(problem: PeersProblem) -> Gradients:
    """Return the gradient of the sum of losses by autograd, without privacy."""
    network = PaddedNetwork(problem.network)
    parameters = list(network.parameters())
    parts = pieces(problem, ROOTS_OF_PLAIN)

    def sums() -> list[Tensor]:
        network.zero_grad(set_to_none=True)
        for nodes, hops, labels in parts:
            logits = network(problem.features[nodes], *hops)
            nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
        return [parameter.grad for parameter in parameters]  # type: ignore[misc]

    return sums
