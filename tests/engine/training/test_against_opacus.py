"""Clipped sums of multi-layer perceptrons against Opacus: its per-sample gradients, and its own ghost clipping."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn

from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import empty_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training.clipping import clipped_gradient_sum

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
TOLERANCE = {"rtol": 1e-8, "atol": 1e-8}
Gradients = Callable[[], list[Tensor]]
POSITIONS = np.array([0, 44, 7, 3, 21, 43, 12, 13, 14, 30, 31, 7])  # one root twice


class Exact(GradSampleModuleFastGradientClipping):
    """min(1, C / n) as it is: Opacus divides by n + 10^-6."""

    def get_clipping_coef(self) -> Tensor:
        return (self.max_grad_norm / self.get_norm_sample()).clamp(max=1.0)


def plain_layers(network: Network) -> nn.Sequential:
    """An MLP as layers that Opacus knows, with copies of the parameters in the same order."""
    activation = {torch.tanh: nn.Tanh, torch.relu: nn.ReLU}[network.encoder.activation]
    modules: list[nn.Module] = []
    for layer in [*network.encoder.layers, *network.decoder.layers]:
        modules += [copy.deepcopy(layer), activation()]
    return nn.Sequential(*modules[:-1])


def opacus_hooks(layers: nn.Sequential, limit: float, features: Tensor, labels: Tensor) -> Gradients:
    """Clipped sums of gradients that Opacus forms for each record."""
    module = GradSampleModule(layers, loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=limit,
        expected_batch_size=1,
        loss_reduction="sum",
    )

    def gradients() -> list[Tensor]:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(features), labels, reduction="sum").backward()
        optimizer.clip_and_accumulate()
        return [parameter.summed_grad for parameter in module.parameters()]

    return gradients


def opacus_ghost(layers: nn.Sequential, limit: float, features: Tensor, labels: Tensor) -> tuple[Exact, Gradients]:
    """Return Opacus' module with ghost clipping, and the clipped sums that it makes."""
    module = Exact(layers, loss_reduction="sum", max_grad_norm=limit, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=limit,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    loss = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")

    def gradients() -> list[Tensor]:
        optimizer.zero_grad()
        loss(module(features), labels).backward()
        return [parameter.grad for parameter in module.parameters()]

    return module, gradients


@pytest.fixture(params=[(1, 1), (2, 1), (2, 3)], ids=str)
def parts(graph, make_network, request):
    """Parameters for each activation, and what is trained on."""

    def make(activation):
        network = make_network(0, *request.param, activation)
        roots = graph.train_nodes
        trees = pack_ego_trees(empty_edge_lists(graph), roots, 0, chunk_rows=5)
        features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
        chosen = torch.from_numpy(roots[POSITIONS])
        return network, trees, features, labels, chosen

    return make


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("mode", ["joint", "groups"])
def test_per_sample_gradients(parts, activation, mode):
    network, trees, features, labels, chosen = parts(activation)
    module = GradSampleModule(plain_layers(network), loss_reduction="sum")
    nn.functional.cross_entropy(module(features[chosen]), labels[chosen], reduction="sum").backward()
    each = [parameter.grad_sample for parameter in module.parameters()]
    names = [name.split(".")[0] for name, _ in network.named_parameters()]
    by_name = {
        name: torch.cat([one.flatten(1) for one, its in zip(each, names, strict=True) if its == name], 1).norm(dim=1)
        for name in network.groups
    }
    if mode == "joint":
        norms = torch.stack(list(by_name.values()), 1).norm(dim=1, keepdim=True)
        clip = limit = float(norms.median())
        factors = dict.fromkeys(by_name, (limit / norms[:, 0]).clamp(max=1))
    else:
        norms = torch.stack(list(by_name.values()), 1)
        clip = {name: float(values[values > 0].median()) for name, values in by_name.items()}  # dead units give zeros
        factors = {name: (clip[name] / values).clamp(max=1) for name, values in by_name.items()}
    assert all(0 < (factor < 1).sum() < len(factor) for factor in factors.values())
    expected = [torch.tensordot(factors[name], one, dims=1) for name, one in zip(names, each, strict=True)]
    result = clipped_gradient_sum(network, trees, POSITIONS, features, labels, clip)
    torch.testing.assert_close(result.norms, norms, **TOLERANCE)
    torch.testing.assert_close(result.sums, expected, **TOLERANCE)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("share", [0.1, 1.0, 10.0])
def test_ghost_clipping(parts, activation, share):
    """All are clipped, about half of them, and none."""
    network, trees, features, labels, chosen = parts(activation)
    norms = clipped_gradient_sum(network, trees, POSITIONS, features, labels, 1.0).norms[:, 0]
    limit = share * float(norms.median())
    module, gradients = opacus_ghost(plain_layers(network), limit, features[chosen], labels[chosen])
    expected = gradients()
    result = clipped_gradient_sum(network, trees, POSITIONS, features, labels, limit)
    torch.testing.assert_close(module.get_norm_sample(), result.norms[:, 0], **TOLERANCE)
    torch.testing.assert_close(result.sums, expected, **TOLERANCE)


def test_sums_of_its_optimizer(parts):
    """As it comes, with its 10^-6."""
    network, trees, features, labels, chosen = parts("tanh")
    norms = clipped_gradient_sum(network, trees, POSITIONS, features, labels, 1.0).norms[:, 0]
    limit = float(norms.median())
    result = clipped_gradient_sum(network, trees, POSITIONS, features, labels, limit)
    expected = opacus_hooks(plain_layers(network), limit, features[chosen], labels[chosen])()
    apart = 1e-6 / float(norms.min())
    torch.testing.assert_close(result.sums, expected, rtol=apart, atol=apart)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(result.sums, expected, rtol=1e-12, atol=1e-12)
