"""Noise, optimisers and one step: only the noisy sum, divided by a public number, reaches the parameters."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dpgraph.config.cell import Training
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.sampling.batches import FixedSizeSampler, PoissonSampler
from dpgraph.engine.sampling.edge_lists import EdgeLists, empty_edge_lists, full_edge_lists
from dpgraph.engine.sampling.ego import closed_hop, pack_ego_trees
from dpgraph.engine.training import clipping
from dpgraph.engine.training.clipping import clipped_gradient_sum, neighbour_losses, root_losses
from dpgraph.engine.training.noise import add_gaussian_noise
from dpgraph.engine.training.optimizers import apply_gradient, make_optimizer
from dpgraph.engine.training.steps import BatchStep, PlainStep, WholeGraphLoss
from tests.engine.training.steps import private_step, term_of

SGD = Training(optimizer="sgd", learning_rate=0.5, steps=1)


def task(graph, hops=1):
    trees = pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, hops, chunk_rows=50)
    return trees, torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)


def copies(network) -> list[torch.Tensor]:
    return [p.detach().clone() for p in network.parameters()]


def test_noise_is_gaussian_with_the_stated_std():
    sums = [torch.full((100, 500), 3.0), torch.full((70_000,), -1.0)]
    add_gaussian_noise(sums, 2.5, torch_generator("noise"))
    values = torch.cat([(sums[0] - 3).flatten(), sums[1] + 1]).double().numpy()
    n = len(values)
    assert abs(values.mean()) < 5 * 2.5 / n**0.5
    assert abs(values.std() / 2.5 - 1) < 5 / (2 * n) ** 0.5
    assert abs((values**4).mean() / 2.5**4 - 3) < 5 * (96 / n) ** 0.5
    assert abs(np.corrcoef(values[:60_000], values[60_000:])[0, 1]) < 5 / 60_000**0.5


def test_noise_per_tensor_and_of_std_zero():
    sums = [torch.zeros(40_000), torch.zeros(40_000), torch.ones(3)]
    add_gaussian_noise(sums, [1.0, 10.0, 0.0], torch_generator("noise"))
    assert abs(sums[0].std() - 1) < 0.03
    assert abs(sums[1].std() - 10) < 0.3
    assert torch.equal(sums[2], torch.ones(3))


@pytest.mark.parametrize("std", [-1.0, float("nan"), float("inf")])
def test_impossible_noise(std):
    with pytest.raises(UserError, match=r"^noise std=.*: expected a finite number >= 0$"):
        add_gaussian_noise([torch.zeros(2)], std, torch_generator("noise"))


def test_sgd_moves_against_the_averaged_sum():
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    apply_gradient(make_optimizer([parameter], SGD), [torch.tensor([8.0, 4.0])], divisor=16.0)
    assert torch.equal(parameter.detach(), torch.tensor([0.75, -2.125]))
    assert parameter.grad is None


def test_adam_is_kingma_and_ba_on_the_averaged_gradient():
    """Three steps against the recursion of Algorithm 5 with sqrt(s) for its sqrt(s^2)."""
    training = Training(optimizer="adam", learning_rate=0.1, steps=1)
    parameter = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = make_optimizer([parameter], training)
    theta, f, s = 1.0, 0.0, 0.0
    for t, total in enumerate([3.0, -50.0, 7.0], start=1):
        apply_gradient(optimizer, [torch.tensor([total], dtype=torch.float64)], divisor=10.0)
        u = total / 10
        f, s = 0.9 * f + 0.1 * u, 0.999 * s + 0.001 * u * u
        theta -= 0.1 * (f / (1 - 0.9**t)) / ((s / (1 - 0.999**t)) ** 0.5 + 1e-8)
        assert parameter.item() == pytest.approx(theta, rel=1e-12)


def test_private_step_is_clip_noise_divide(graph, make_network):
    """With SGD the move is -(eta / m) (clipped sum + noise), from the same streams drawn by hand."""
    network, (trees, features, labels) = make_network(1), task(graph)
    sampler = FixedSizeSampler(trees.num_roots, 10)
    positions = sampler.draw(numpy_generator("batches"))
    sums = clipped_gradient_sum(network, trees, positions, features, labels, 0.7).sums
    add_gaussian_noise(sums, 0.3, torch_generator("noise"))
    expected = [p - 0.5 / 12.5 * s for p, s in zip(copies(network), sums, strict=True)]
    step = private_step(
        network,
        make_optimizer(network.parameters(), SGD),
        features,
        labels,
        [term_of(trees, sampler, 0.7)],
        noise_std=0.3,
        divisor=12.5,
        batches=numpy_generator("batches"),
        noise=torch_generator("noise"),
    )
    assert step() == 10
    for p, e in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach(), e, rtol=1e-12, atol=1e-12)


def test_each_term_draws_its_own_batch_and_noise_comes_once(graph, make_network):
    network, (trees, features, labels) = make_network(1), task(graph)
    alone = pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, 1)
    terms = [
        term_of(alone, PoissonSampler(trees.num_roots, 0.5), 0.7),
        term_of(trees, PoissonSampler(trees.num_roots, 0.2), 0.1, neighbour_losses),
    ]
    batches = numpy_generator("batches")
    drawn = [term.draws.sampler.draw(batches) for term in terms]
    assert not np.array_equal(*drawn)
    parts = [
        clipped_gradient_sum(network, term.trees, positions, features, labels, term.clip_norms, term.losses).sums
        for positions, term in zip(drawn, terms, strict=True)
    ]
    sums = [a + b for a, b in zip(*parts, strict=True)]
    add_gaussian_noise(sums, 0.3, torch_generator("noise"))
    expected = [p - 0.5 / 9 * s for p, s in zip(copies(network), sums, strict=True)]
    optimizer = make_optimizer(network.parameters(), SGD)
    streams = numpy_generator("batches"), torch_generator("noise")
    step = private_step(network, optimizer, features, labels, terms, 0.3, 9.0, *streams)
    assert step() == sum(map(len, drawn))
    for p, e in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach(), e, rtol=1e-12, atol=1e-12)


def test_empty_poisson_batch_still_adds_noise(graph, make_network):
    network, (trees, features, labels) = make_network(1), task(graph)
    before = copies(network)
    term = term_of(trees, PoissonSampler(trees.num_roots, 1e-9), 1.0)
    optimizer = make_optimizer(network.parameters(), SGD)
    streams = numpy_generator("batches"), torch_generator("noise")
    assert private_step(network, optimizer, features, labels, [term], 1.0, 1.0, *streams)() == 0
    assert all((a != b).all() for a, b in zip(before, network.parameters(), strict=True))


def test_update_is_bounded_however_large_gradients_are(graph, make_network):
    """All gradients scaled up, the noiseless update is still at most (eta / divisor) B C long."""
    network, (trees, features, labels) = make_network(1, 1, 1, "relu"), task(graph)
    before = copies(network)
    term = term_of(trees, FixedSizeSampler(trees.num_roots, 20), 0.01)
    optimizer = make_optimizer(network.parameters(), SGD)
    streams = numpy_generator("batches"), torch_generator("noise")
    private_step(network, optimizer, 1e6 * features, labels, [term], 0.0, 20.0, *streams)()
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, network.parameters(), strict=True)]).norm().item()
    assert 0 < moved <= 0.5 * 0.01 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("kind", "hops"), [("mlp", 0), ("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2)]
)
def test_update_ignores_nodes_outside_the_batch_s_trees(graph, make_network, kind, hops):
    """Bit-identical parameters whatever the features of other nodes are."""
    trees, features, labels = task(graph, hops)
    sampler = FixedSizeSampler(trees.num_roots, 2)
    inside = trees.batch(sampler.draw(numpy_generator("batches"))).nodes
    outside = features.clone()
    mask = torch.ones(len(features), dtype=torch.bool)
    mask[inside] = False
    assert mask.any()
    outside[mask] = 1e9
    results = []
    for x in (features, outside):
        network = make_network(hops, architecture=kind)
        optimizer = make_optimizer(network.parameters(), SGD)
        streams = numpy_generator("batches"), torch_generator("noise")
        private_step(network, optimizer, x, labels, [term_of(trees, sampler, 1.0)], 0.1, 2.0, *streams)()
        results.append(copies(network))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_plain_step_descends_the_mean_loss(graph, make_network):
    """Pieces of a batch add up to the gradient of its mean cross-entropy."""
    network, (trees, features, labels) = make_network(2), task(graph, 2)
    sampler = FixedSizeSampler(trees.num_roots, 20)
    batch = trees.batch(sampler.draw(numpy_generator("batches")))
    loss = torch.nn.functional.cross_entropy(network(batch, features), labels[batch.roots])
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    expected = [p - 0.5 * g for p, g in zip(copies(network), gradients, strict=True)]
    optimizer = make_optimizer(network.parameters(), SGD)
    assert PlainStep(network, optimizer, trees, features, labels, sampler, numpy_generator("batches"))() == 20
    for p, e in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach(), e, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("density", [1.0, 0.0], ids=["dense", "sparse"], indirect=True)
@pytest.mark.usefixtures("density")
def test_whole_graph_step_is_the_plain_step_on_whole_lists(graph, make_network, kind, hops):
    """Message passing over all nodes at once against one tree per root, in float64."""
    whole = EdgeLists(graph.out_ptr, graph.out_idx)
    roots = graph.train_nodes
    features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    sampler = FixedSizeSampler(len(roots), 8)
    trained = []
    for build in (
        lambda network, optimizer: PlainStep(
            network,
            optimizer,
            pack_ego_trees(whole, roots, hops),
            features,
            labels,
            sampler,
            numpy_generator("batches"),
        ),
        lambda network, optimizer: BatchStep(
            optimizer,
            sampler,
            numpy_generator("batches"),
            WholeGraphLoss(network, closed_hop(whole), torch.from_numpy(roots), features, labels),
            torch.device("cpu"),
        ),
    ):
        network = make_network(hops, architecture=kind)
        step = build(network, make_optimizer(network.parameters(), SGD))
        for _ in range(3):
            assert step() == 8
        trained.append(copies(network))
    for one, other in zip(*trained, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


WAITS = {"_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "unique_dim", "_unique2", "bincount", "equal"}


class CalledOperators(TorchDispatchMode):
    """Names of all operators; those in WAITS make the host wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("kind", "hops"), [("mlp", 0), ("gcn", 2), ("gin", 2), ("gat", 1), ("gat", 2)])
def test_steps_do_not_wait_for_the_device(graph, make_network, kind, hops, monkeypatch):
    """The operators that a GPU would run, called on the CPU: none needs a value on the host; dropping roots neither."""
    monkeypatch.setattr(clipping, "may_lose", lambda finite: True)
    trees, features, labels = task(graph, hops)
    features[int(trees.roots[3])] = float("inf")
    network = make_network(hops, architecture=kind)
    optimizer = make_optimizer(network.parameters(), SGD)
    sampler = FixedSizeSampler(trees.num_roots, 30)
    streams = numpy_generator("batches"), torch_generator("noise")
    term = term_of(trees, sampler, 0.5, neighbour_losses if hops else root_losses)
    steps = [
        private_step(network, optimizer, features, labels, [term], 0.1, 30.0, *streams),
        PlainStep(network, optimizer, trees, features, labels, sampler, streams[0]),
    ]
    if hops:
        hop = closed_hop(EdgeLists(graph.out_ptr, graph.out_idx))
        roots = torch.from_numpy(graph.train_nodes)
        loss = WholeGraphLoss(network, hop, roots, features, labels)
        steps.append(BatchStep(optimizer, sampler, streams[0], loss, torch.device("cpu")))
    for step in steps:  # what is computed once, before the first step, may ask
        step.loss._dense if isinstance(step, BatchStep) else step._inputs
    with CalledOperators() as called:
        assert [step() for step in steps] == [30] * len(steps)
    assert {"addmm", "normal_"} <= called.names
    assert not called.names & WAITS
    monkeypatch.undo()
    with CalledOperators() as called:  # the CPU does ask
        steps[0]()
    assert "_local_scalar_dense" in called.names


@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
def test_dropping_without_asking_gives_the_same_sums(graph, make_network, kind, monkeypatch):
    """A GPU overwrites rows of dropped roots always, the CPU only where there are some."""
    trees, features, labels = task(graph, 2)
    features[7] = float("nan")
    network, positions = make_network(2, architecture=kind), np.arange(trees.num_roots)
    one = clipped_gradient_sum(network, trees, positions, features, labels, 0.3)
    monkeypatch.setattr(clipping, "may_lose", lambda finite: True)
    other = clipped_gradient_sum(network, trees, positions, features, labels, 0.3)
    assert 0 < one.dropped < len(positions)
    assert all(torch.isfinite(a).all() and torch.equal(a, b) for a, b in zip(one.sums, other.sums, strict=True))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("fused", [None, True])
def test_optimizers_are_pytorch_s(kind, fused):
    """Bit by bit, and with its states: ours only leave out what loads the compiler."""
    training = Training(optimizer=kind, learning_rate=0.1, momentum=0.9 if kind == "sgd" else 0.0, steps=1)
    parameters = [torch.nn.Parameter(torch.randn(5, 3, generator=torch.Generator().manual_seed(1))) for _ in range(2)]
    own = make_optimizer([parameters[0]], training, fused=fused, weight_decay=0.01)
    shared = {"lr": 0.1, "weight_decay": 0.01}
    theirs = (
        torch.optim.SGD([parameters[1]], momentum=0.9, **shared)
        if kind == "sgd"
        else torch.optim.Adam([parameters[1]], fused=fused, **shared)
    )
    for step in range(4):
        for parameter, optimizer in zip(parameters, (own, theirs), strict=True):
            parameter.grad = torch.randn(5, 3, generator=torch.Generator().manual_seed(10 + step))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        assert torch.equal(*parameters)
        own.load_state_dict(copy.deepcopy(theirs.state_dict()))
    assert str(own.state_dict()) == str(theirs.state_dict())


def test_training_does_not_load_the_compiler():
    code = (
        "import sys, torch; from dpgraph.config.cell import Training; "
        "from dpgraph.engine.training.optimizers import apply_gradient, make_optimizer; "
        "p = torch.nn.Parameter(torch.ones(3)); "
        "apply_gradient(make_optimizer([p], Training(learning_rate=0.1, steps=1)), [torch.ones(3)], 2.0); "
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
