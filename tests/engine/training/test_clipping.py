"""The clipped sum against a loop over roots that forms each gradient with a separately written forward pass."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.engine.models import segments
from dpgraph.engine.models.message_passing import GatLayer, GinLayer
from dpgraph.engine.sampling.edge_lists import EdgeLists, empty_edge_lists, full_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training import ghost
from dpgraph.engine.training.clipping import clipped_gradient_sum, gradient_norms, neighbour_losses, root_losses
from dpgraph.engine.training.precision import products_in

ARCHITECTURES = [
    ("gcn", hops, n_enc, n_dec, activation)
    for hops in (0, 1, 2)
    for n_enc, n_dec in ((1, 1), (2, 1), (1, 2), (2, 2))
    for activation in ("relu", "tanh")
] + [
    (kind, hops, n_enc, n_dec, activation)
    for kind in ("gin", "gat")
    for hops in (1, 2)
    for n_enc, n_dec, activation in ((1, 1, "tanh"), (2, 2, "relu"))
]
MESSAGE_PASSING = [("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2)]


def reference_loss(network, lists: EdgeLists, v: int, features, labels, messages: bool = True):
    """Algorithm 2 as a recursion, one node at a time."""
    act = network.encoder.activation

    def state(u: int, layer: int):
        if layer == 0:
            x = features[u]
            for linear in network.encoder.layers:
                x = act(linear.weight @ x + linear.bias)
            return x
        neighbourhood = [u, *lists.members(u).tolist()] if messages else [u]
        return update(network.aggregation[layer - 1], act, [state(w, layer - 1) for w in neighbourhood])

    x = state(v, network.hops)
    *hidden, last = network.decoder.layers
    for linear in hidden:
        x = act(linear.weight @ x + linear.bias)
    return torch.logsumexp(logits := last.weight @ x + last.bias, 0) - logits[labels[v]]


def update(layer, act, states):
    """A message-passing layer for one node, whose own state is the first."""
    if isinstance(layer, GatLayer):
        heads = []
        for q, q_bias, k, v, v_bias in zip(
            *(layer.query.weight.chunk(3), layer.query.bias.chunk(3), layer.key.weight.chunk(3)),
            *(layer.value.weight.chunk(3), layer.value.bias.chunk(3)),
            strict=True,
        ):
            scores = torch.stack([(q @ states[0] + q_bias) @ (k @ h) / 2**0.5 for h in states])
            heads.append(sum(a * (v @ h + v_bias) for a, h in zip(scores.softmax(0), states, strict=True)))
        return act(layer.output.weight @ torch.cat(heads) + layer.output.bias)
    if isinstance(layer, GinLayer):
        total = (1 + layer.self_weight.epsilon) * states[0] + sum(states[1:], torch.zeros_like(states[0]))
        return act(layer.linear.weight @ total + layer.linear.bias)
    mean = sum(states) / len(states)
    return mean + act(layer.linear.weight @ mean + layer.linear.bias)


def reference_gradient(network, lists, v, features, labels, kind="full"):
    signs = {"full": [(1, True)], "self": [(1, False)], "neighbours": [(1, True), (-1, False)]}[kind]
    loss = sum(sign * reference_loss(network, lists, v, features, labels, messages) for sign, messages in signs)
    gradients = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(gradients, network.parameters(), strict=True)]


def group_of_parameters(network) -> list[str]:
    return [name.split(".")[0] for name, _ in network.named_parameters()]


def reference_sum(network, lists, nodes, features, labels, clip, kind="full"):
    """Norms (B, L) and clipped sums."""
    groups = group_of_parameters(network)
    names = list(dict.fromkeys(groups))
    sums = [torch.zeros_like(p) for p in network.parameters()]
    norms = []
    for v in nodes:
        gradient = reference_gradient(network, lists, v, features, labels, kind)
        by_group = {n: torch.cat([g.flatten() for g, m in zip(gradient, groups) if m == n]).norm() for n in names}
        joint = torch.stack(list(by_group.values())).norm()
        for i, (g, name) in enumerate(zip(gradient, groups, strict=True)):
            norm, limit = (by_group[name], clip[name]) if isinstance(clip, dict) else (joint, clip)
            sums[i] += g * (min(1.0, limit / norm.item()) if norm > 0 else 1.0)
        norms.append(list(by_group.values()) if isinstance(clip, dict) else [joint])
    return torch.tensor(norms, dtype=torch.float64), sums


def setting(graph, make_network, kind, *architecture):
    network = make_network(*architecture, architecture=kind)
    lists = full_edge_lists(graph, graph.train_nodes)
    trees = pack_ego_trees(lists, graph.train_nodes, network.hops, chunk_rows=64)
    features = torch.from_numpy(graph.features).double()
    labels = torch.from_numpy(graph.labels)
    positions = np.array([0, 44, 7, 3, 21, 43, 12, 13, 14, 30, 31])
    return network, lists, trees, features, labels, positions


def clips(network, norms):
    """A joint clip norm and one per group, each of which clips some roots and not others."""
    middle = [column[column > 0].median().item() for column in norms.T]  # dead relu units give exact zeros
    return norms.norm(dim=1).median().item(), dict(zip(network.groups, middle, strict=True))


def assert_same(actual, expected, tolerance=1e-12):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance * max(1.0, e.abs().max().item()))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
@pytest.mark.parametrize("mode", ["joint", "groups"])
def test_clipped_sum_equals_loop_over_roots(graph, make_network, architecture, mode):
    network, lists, trees, features, labels, positions = setting(graph, make_network, *architecture)
    norms = gradient_norms(network, trees, positions, features, labels)
    joint, by_group = clips(network, norms)
    clip = joint if mode == "joint" else by_group
    nodes = graph.train_nodes[positions].tolist()
    expected_norms, expected = reference_sum(network, lists, nodes, features, labels, clip)
    result = clipped_gradient_sum(network, trees, positions, features, labels, clip)
    assert_same(result.sums, expected)
    assert_same([result.norms], [expected_norms])
    limits = torch.tensor(list(by_group.values()) if mode == "groups" else [joint], dtype=torch.float64)
    assert 0 < (expected_norms > limits).sum() < expected_norms.numel()
    loss = sum(reference_loss(network, lists, v, features, labels) for v in nodes)
    assert_same([result.loss], [loss.detach()])
    assert result.dropped == 0


@pytest.mark.parametrize(("kind", "hops"), [("mlp", 0), *MESSAGE_PASSING])
def test_every_subset_of_forms_gives_the_same_norms(graph, make_network, kind, hops, monkeypatch):
    """Gram and explicit form, views and padded blocks: the choice is speed only."""
    network, _, trees, features, labels, positions = setting(graph, make_network, kind, hops, 2, 1, "tanh")
    norms = gradient_norms(network, trees, positions, features, labels)
    form = ghost.gram_form
    monkeypatch.setattr(ghost, "gram_form", ghost.explicit_form)
    assert_same([gradient_norms(network, trees, positions, features, labels)], [norms])
    monkeypatch.setattr(ghost, "gram_form", form)
    monkeypatch.setattr(ghost, "explicit_form", form)
    assert_same([gradient_norms(network, trees, positions, features, labels)], [norms])
    monkeypatch.setattr(segments, "_width_class", np.zeros_like)  # one padded block for all
    assert_same([gradient_norms(network, trees, positions, features, labels)], [norms])


@pytest.mark.parametrize(("kind", "hops"), MESSAGE_PASSING)
@pytest.mark.parametrize("part", ["self", "neighbours"])
def test_self_and_neighbour_gradients(graph, make_network, kind, hops, part):
    network, lists, trees, features, labels, positions = setting(graph, make_network, kind, hops, 2, 2, "tanh")
    nodes = graph.train_nodes[positions].tolist()
    clip = {"encoder": 0.2, "aggregation": 0.3, "decoder": 0.4}
    expected_norms, expected = reference_sum(network, lists, nodes, features, labels, clip, part)
    if part == "self":
        trees = pack_ego_trees(empty_edge_lists(graph), graph.train_nodes, hops, chunk_rows=7)
    losses = root_losses if part == "self" else neighbour_losses
    result = clipped_gradient_sum(network, trees, positions, features, labels, clip, losses)
    assert_same(result.sums, expected)
    # A root with an empty list has g_full = g_self: its norm is rounding, of the square root of a difference.
    torch.testing.assert_close(result.norms, expected_norms, rtol=1e-10, atol=1e-7)


@pytest.mark.parametrize(("kind", "hops"), MESSAGE_PASSING)
def test_self_gradients_ignore_neighbours(graph, make_network, kind, hops):
    """Bit by bit: other lists, and not a number in every feature outside of the batch."""
    network, _, _, features, labels, positions = setting(graph, make_network, kind, hops, 1, 1, "tanh")
    other = dataclasses.replace(graph, out_ptr=np.zeros_like(graph.out_ptr), out_idx=graph.out_idx[:0])
    poisoned = torch.full_like(features, float("nan"))
    nodes = graph.train_nodes[positions]
    poisoned[nodes] = features[nodes]
    sums = []
    for g, x in ((graph, features), (other, poisoned)):
        trees = pack_ego_trees(empty_edge_lists(g), g.train_nodes, hops, chunk_rows=4)
        sums.append(clipped_gradient_sum(network, trees, positions, x, labels, 0.1).sums)
    assert all(torch.equal(a, b) for a, b in zip(*sums, strict=True))


@pytest.mark.parametrize(("kind", "hops"), [("mlp", 0), *MESSAGE_PASSING])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e200])
def test_root_without_finite_gradient_contributes_nothing(graph, make_network, kind, hops, poison):
    """Exactly the roots whose tree reads the poisoned node are dropped; the sum is that of the others."""
    network, lists, trees, features, labels, positions = setting(graph, make_network, kind, hops, 1, 1, "relu")
    with torch.no_grad():
        network.encoder.layers[0].weight.abs_()
    culprit = int(lists.members(0)[4]) if hops else int(graph.train_nodes[positions[2]])
    features = features.clone()
    features[culprit] = poison
    nodes = graph.train_nodes[positions].tolist()
    reached = [v for v in nodes if culprit in trees.batch(np.flatnonzero(graph.train_nodes == v)).nodes.tolist()]
    assert reached
    assert len(reached) < len(nodes)
    clean = positions[[v not in reached for v in nodes]]
    result = clipped_gradient_sum(network, trees, positions, features, labels, 0.5)
    expected = clipped_gradient_sum(network, trees, clean, features, labels, 0.5)
    assert result.dropped == len(reached)
    assert expected.dropped == 0
    assert_same(result.sums, expected.sums)
    by_group = clipped_gradient_sum(network, trees, positions, features, labels, dict.fromkeys(network.groups, 0.5))
    assert by_group.dropped == len(reached)
    assert all(torch.isfinite(s).all() for s in by_group.sums)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6])
@pytest.mark.parametrize(("kind", "hops"), [("mlp", 0), *MESSAGE_PASSING])
def test_one_root_contributes_at_most_the_clip_norm(graph, make_network, kind, hops, scale):
    """In float32; gradients scaled up by features of 10^6 too."""
    network = make_network(hops, 1, 1, "relu", torch.float32, kind)
    lists = full_edge_lists(graph, graph.train_nodes)
    trees = pack_ego_trees(lists, graph.train_nodes, hops)
    features, labels = scale * torch.from_numpy(graph.features), torch.from_numpy(graph.labels)
    for position in range(len(graph.train_nodes)):
        result = clipped_gradient_sum(network, trees, np.array([position]), features, labels, 0.01)
        norm = torch.cat([s.flatten().double() for s in result.sums]).norm().item()
        assert norm <= 0.01 * (1 + 1e-7)
        assert norm >= min(0.01, result.norms.item()) * (1 - 1e-3)


def test_zero_gradient_stays_zero(graph, make_network):
    """All classes but one impossible and right: softmax saturates, so the gradient is exactly 0."""
    network, _, trees, features, _, positions = setting(graph, make_network, "gcn", 1, 1, 1, "tanh")
    with torch.no_grad():
        network.decoder.layers[0].bias[:] = torch.tensor([1e6, 0.0, 0.0])
    labels = torch.zeros(graph.num_nodes, dtype=torch.int64)
    result = clipped_gradient_sum(network, trees, positions, features, labels, 1.0)
    assert result.dropped == 0
    assert all(torch.equal(s, torch.zeros_like(s)) for s in result.sums)


def test_empty_batch_gives_zeros(graph, make_network):
    network, _, trees, features, labels, _ = setting(graph, make_network, "gcn", 2)
    result = clipped_gradient_sum(network, trees, np.zeros(0, dtype=np.int64), features, labels, 1.0)
    assert result.norms.shape == (0, 1)
    assert all(torch.equal(s, torch.zeros_like(p)) for s, p in zip(result.sums, network.parameters(), strict=True))


def test_large_clip_norm_gives_the_plain_gradient(graph, make_network):
    network, _, trees, features, labels, positions = setting(graph, make_network, "gcn", 2, 2, 2, "tanh")
    batch = trees.batch(positions)
    loss = torch.nn.functional.cross_entropy(network(batch, features), labels[batch.roots], reduction="sum")
    expected = torch.autograd.grad(loss, list(network.parameters()))
    result = clipped_gradient_sum(network, trees, positions, features, labels, 1e9)
    assert_same(result.sums, expected)


@pytest.mark.parametrize(
    ("clip", "message"),
    [
        (0.0, "clip_norm=0.0: expected a finite number >= 1e-09"),
        (float("nan"), "clip_norm=nan: expected a finite number >= 1e-09"),
        ({"encoder": 1.0}, "clip_norm=['encoder']: expected one for each group ['aggregation', 'decoder', 'encoder']"),
    ],
)
def test_bad_clip_norms(graph, make_network, clip, message):
    network, _, trees, features, labels, positions = setting(graph, make_network, "gcn", 1)
    with pytest.raises(UserError) as error:
        clipped_gradient_sum(network, trees, positions, features, labels, clip)
    assert str(error.value) == message


WITH_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize(
    ("device", "precision", "tolerance"),
    [
        ("cpu", "float32", 1e-5),
        pytest.param("cuda", "float32", 1e-5, marks=WITH_CUDA),
        pytest.param("cuda", "tf32", 1e-2, marks=WITH_CUDA),
    ],
)
@pytest.mark.parametrize(("kind", "hops"), [("mlp", 0), *MESSAGE_PASSING])
def test_sums_of_a_device_are_those_of_float64(graph, make_network, kind, hops, device, precision, tolerance):
    """What one root contributes stays within the clip norm whatever the precision."""
    lists = full_edge_lists(graph, graph.train_nodes) if hops else empty_edge_lists(graph)
    features, labels = torch.from_numpy(graph.features), torch.from_numpy(graph.labels)
    exact = make_network(hops, architecture=kind)
    rough = make_network(hops, architecture=kind).float().to(device)
    for positions in (np.arange(len(graph.train_nodes)), np.array([3])):
        on_host = pack_ego_trees(lists, graph.train_nodes, hops)
        expected = clipped_gradient_sum(exact, on_host, positions, features.double(), labels, 0.1)
        with products_in(precision):
            trees = pack_ego_trees(lists, graph.train_nodes, hops, device)
            clipped = clipped_gradient_sum(rough, trees, positions, features.to(device), labels.to(device), 0.1)
        length = torch.cat([part.flatten() for part in expected.sums]).norm()
        for one, other in zip(clipped.sums, expected.sums, strict=True):
            assert (one.double().cpu() - other).norm() <= tolerance * length
        torch.testing.assert_close(clipped.norms.double().cpu(), expected.norms, rtol=tolerance, atol=tolerance)
    assert torch.cat([part.flatten() for part in clipped.sums]).norm() <= 0.1 * (1 + 1e-6)
