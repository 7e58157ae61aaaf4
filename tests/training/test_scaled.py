"""Scaled gradients: next to sums made record by record, and that no scale reads what was not released."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.errors import UserError
from dpgraph.experiments.cell import Model, Training
from dpgraph.models.network import Network
from dpgraph.planning.resolve import resolve
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import Draws, PoissonSampler
from dpgraph.sampling.edge_lists import empty_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training.noise import GaussianNoise
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.scaled import ScaledStep, released_scales, scaled_clipped_sum
from dpgraph.training.steps import ClippedTerm, PrivateStep
from tests.contract.cells import raw_cells
from tests.contract.conftest import toy_graph

SOFTMAX = Model(architecture="mlp", hops=0, encoder_layers=0)
ADAM = Training(optimizer="adam", learning_rate=0.1, steps=6)
CLIP = 1.5


def network_of(dtype=torch.float64):
    return Network(SOFTMAX, 5, 3, torch_generator("scaled"), dtype)


def test_the_sum_is_of_scaled_gradients_of_norm_at_most_c():
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(30, 5)))
    features[3], features[4, 2] = 1e200, torch.nan
    labels = torch.from_numpy(random.integers(-1, 3, 30))
    network = network_of()
    scales = [torch.from_numpy(random.uniform(0.02, 1.5, parameter.shape)) for parameter in network.parameters()]
    wanted, lengths = [torch.zeros_like(parameter) for parameter in network.parameters()], []
    for node in range(30):
        if labels[node] < 0 or node in (3, 4):
            continue
        (weight, bias) = network.parameters()
        loss = torch.nn.functional.cross_entropy(features[node : node + 1] @ weight.T + bias, labels[node : node + 1])
        gradient = [s * g for s, g in zip(scales, torch.autograd.grad(loss, [weight, bias]), strict=True)]
        length = torch.cat([one.flatten() for one in gradient]).norm()
        lengths.append(float(length))
        for total, one in zip(wanted, gradient, strict=True):
            total += one * min(1.0, CLIP / float(length))
    assert min(lengths) < CLIP < max(lengths)  # some are clipped, some are not
    found = scaled_clipped_sum(network, features, labels, torch.arange(30), CLIP, scales)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-9)
    for node in range(30):
        alone = scaled_clipped_sum(network, features, labels, torch.tensor([node]), CLIP, scales)
        assert float(torch.cat([one.flatten() for one in alone]).norm()) <= CLIP * (1 + 1e-12)
    assert not any(
        one.any() for one in scaled_clipped_sum(network, features, labels, torch.tensor([3, 4]), CLIP, scales)
    )


class Fixed(GaussianNoise):
    """Releases the same vectors whatever the sums are, and notes in which coordinates they come."""

    def add(self, sums):
        generator = np.random.default_rng(self.draws)
        self.draws += 1
        for total in sums:
            total.copy_(torch.from_numpy(generator.standard_normal(tuple(total.shape))))


def step_on(features, labels, noise, rate=0.5):
    graph = toy_graph()
    network = network_of()
    trees = pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, 0)
    draws = Draws(PoissonSampler(trees.num_roots, rate), numpy_generator("scaled batches"))
    plain = PrivateStep(
        network, make_optimizer(network.parameters(), ADAM), features, labels, [ClippedTerm(trees, draws, CLIP)],
        noise, 20.0,
    )  # fmt: skip
    return ScaledStep.of(plain)


def test_scales_follow_from_what_was_released_alone():
    """Two data sets, one released transcript: parameters and scales keep every bit."""
    graph, ended = toy_graph(), []
    for factor, shift in ((1.0, 0), (-30.0, 1)):
        features = factor * torch.from_numpy(graph.features).double()
        step = step_on(features, torch.from_numpy((graph.labels + shift) % 3), Fixed(1.0, torch_generator("x")))
        seen = []
        for _ in range(6):
            step()
            seen += [one.detach().clone() for one in step.network.parameters()] + released_scales(step.optimizer)
        ended.append(seen)
    assert all(torch.equal(one, other) for one, other in zip(*ended, strict=True))
    assert len({float(one) for one in ended[0][-2].flatten()}) > 5


def test_before_anything_was_released_it_is_the_plain_step_and_later_it_is_not():
    graph = toy_graph()
    features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    scaled = step_on(features, labels, GaussianNoise(0.5, torch_generator("noise")))
    other = step_on(features, labels, GaussianNoise(0.5, torch_generator("noise")))
    same = []
    for _ in range(3):
        scaled()
        PrivateStep.__call__(other)
        pairs = zip(scaled.network.parameters(), other.network.parameters(), strict=True)
        same.append(all(torch.allclose(one, two, atol=1e-9) for one, two in pairs))
    assert same == [True, False, False]
    scales, moments = released_scales(scaled.optimizer), []
    for parameter in scaled.network.parameters():
        state = scaled.optimizer.state[parameter]
        moments.append(state["exp_avg_sq"] / (1 - 0.999 ** float(state["step"])))
    flat, scale = (torch.cat([one.flatten() for one in part]) for part in (moments, scales))
    assert float((scale**2 * flat).sum()) == pytest.approx(float(flat.sum()))
    assert (np.argsort(scale.numpy()) == np.argsort(-flat.numpy())).all()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"training": {"optimizer": "sgd"}}, "scaled=True, optimizer=sgd, .*: expected adam"),
        ({"model": {"encoder_layers": 1, "width": 8}}, "scaled=True, .*encoder_layers=1.*: expected adam"),
    ],
)
def test_other_optimisers_and_networks_are_refused(part, message):
    value = raw_cells()["dp-votes-scaled"]
    with pytest.raises(UserError, match=message):
        resolve({**value, **{name: {**value[name], **one} for name, one in part.items()}})
    network = Network(Model(architecture="mlp", hops=0, width=4), 5, 3, torch_generator("deep"))
    with pytest.raises(TypeError, match="expected a softmax regression"):
        scaled_clipped_sum(network, torch.zeros(2, 5), torch.zeros(2, dtype=torch.int64), torch.arange(2), 1.0, [])
