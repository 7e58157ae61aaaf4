"""Closed forms against the engine that records rows under autograd, which shares no derivative with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.engine.models.dense import ACTIVATIONS
from dpgraph.engine.models.sparse import declared_density
from dpgraph.engine.sampling.edge_lists import empty_edge_lists, full_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training import clipping
from dpgraph.engine.training.clipping import clipped_gradient_sum, gradient_sum, neighbour_losses, root_losses
from dpgraph.engine.training.fused import attention, inputs, passes
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.fused.network import cross_entropy, has_closed_form
from dpgraph.engine.training.fused.records import SparseRecords, records_of

CASES = [
    (kind, hops, n_enc, n_dec, activation)
    for kind, hops in (("mlp", 0), ("gcn", 1), ("gcn", 2), ("gin", 1), ("gin", 2), ("gat", 1), ("gat", 2))
    for n_enc, n_dec, activation in ((1, 2, "tanh"), (3, 1, "relu"))
] + [("mlp", 0, 0, 1, "tanh"), ("mlp", 0, 0, 2, "relu")]
POSITIONS = np.array([0, 44, 7, 3, 21, 43, 12, 13, 14, 30, 31, 2, 4, 5, 6])
LOSSES = {"root": root_losses, "neighbours": neighbour_losses}


@pytest.fixture(params=["dense", "sparse"])
def features(request, graph):
    values = torch.from_numpy(graph.features).double()
    if request.param == "dense":
        yield values
        return
    kept = torch.rand(values.shape, generator=torch.Generator().manual_seed(0)) < 0.05
    kept[:, 0] |= ~kept.any(1) & (torch.arange(len(values)) % 3 == 0)  # some records are all zero
    with declared_density(0.02):
        yield torch.nn.functional.pad(values * kept, (0, 60 - values.shape[1]))[:, torch.randperm(60)[:60]]


def recorded(monkeypatch, *arguments):
    """The same by autograd."""
    with monkeypatch.context() as patched:
        patched.setattr(clipping, "has_closed_form", lambda network: False)
        return clipped_gradient_sum(*arguments)


def network_for(make_network, features, kind, *architecture):
    network = make_network(*architecture, architecture=kind)
    first = network.encoder.layers[0] if len(network.encoder.layers) else network.decoder.layers[0]
    shape = (first.out_features, features.shape[1])
    draw = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    first.weight, first.in_features = torch.nn.Parameter(draw / shape[1] ** 0.5), shape[1]
    for parameter in network.parameters():  # biases and eps that are not 0
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(6)).double()
    return network


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("loss", ["root", "neighbours"])
@pytest.mark.parametrize(("mode", "known"), [("joint", True), ("groups", False)])
def test_sums_and_norms_are_those_of_autograd(graph, make_network, features, case, mode, loss, known, monkeypatch):
    kind, hops, *rest = case
    if loss == "neighbours" and not hops:
        pytest.skip("no neighbours")
    network = network_for(make_network, features, kind, hops, *rest)
    lists = full_edge_lists(graph, graph.train_nodes) if hops else empty_edge_lists(graph)
    trees = pack_ego_trees(lists, graph.train_nodes, hops, chunk_rows=100)
    labels = torch.from_numpy(graph.labels).clone()
    labels[graph.train_nodes[21]] = -1  # a null record
    clip = 0.05 if mode == "joint" else {name: 0.02 * (i + 1) for i, name in enumerate(network.groups)}
    arguments = (network, trees, POSITIONS, features, labels, clip, LOSSES[loss])
    monkeypatch.setattr(inputs, "CACHED", 40)  # several parts of one size
    monkeypatch.setattr(attention, "CACHED", 30)
    assert has_closed_form(network)
    own = TreeInputs(trees, features) if known else None
    expected = recorded(monkeypatch, *arguments)
    result = clipped_gradient_sum(*arguments, own)
    assert result.dropped == expected.dropped == 0
    torch.testing.assert_close(result.loss, expected.loss, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(result.norms, expected.norms, rtol=1e-10, atol=1e-7 if loss == "neighbours" else 1e-12)
    for mine, theirs in zip(result.sums, expected.sums, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sum_without_privacy_is_the_gradient(graph, make_network, features, case):
    kind, hops, *rest = case
    network = network_for(make_network, features, kind, hops, *rest)
    lists = full_edge_lists(graph, graph.train_nodes) if hops else empty_edge_lists(graph)
    trees = pack_ego_trees(lists, graph.train_nodes, hops, chunk_rows=100)
    labels = torch.from_numpy(graph.labels)
    batch = trees.batch(POSITIONS)
    loss = torch.nn.functional.cross_entropy(network(batch, features), labels[batch.roots], reduction="sum")
    expected = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
    result = gradient_sum(network, trees, POSITIONS, features, labels, TreeInputs(trees, features))
    for mine, theirs in zip(result, expected, strict=True):
        torch.testing.assert_close(mine, torch.zeros_like(mine) if theirs is None else theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_known_products_do_not_hide_a_record_that_is_not_finite(graph, make_network, features, kind, poison):
    """The roots that read it are left out; the sum is that of the others."""
    network = network_for(make_network, features, kind, 1, 1, 1, "relu")
    trees = pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, 1)
    labels = torch.from_numpy(graph.labels)
    poisoned = features.clone()
    poisoned[30, 3] = poison
    nodes = [trees.batch(np.array([i])).nodes.tolist() for i in POSITIONS]
    clean = np.array([i for i, read in zip(POSITIONS, nodes, strict=True) if 30 not in read])
    assert 0 < len(clean) < len(POSITIONS)
    result = clipped_gradient_sum(
        network, trees, POSITIONS, poisoned, labels, 0.1, root_losses, TreeInputs(trees, poisoned)
    )
    expected = clipped_gradient_sum(network, trees, clean, features, labels, 0.1)
    assert result.dropped == len(POSITIONS) - len(clean)
    for mine, theirs in zip(result.sums, expected.sums, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("share", "sparse"), [(0.05, True), (0.2, False)])
def test_records_are_sparse_where_few_numbers_are_declared_to_be_not_zero(share, sparse):
    """Whatever they are: one record must not decide it."""
    for values in (torch.zeros(4, 30), torch.ones(4, 30)):
        with declared_density(share):
            assert isinstance(records_of(values), SparseRecords) == sparse
        assert not isinstance(records_of(values), SparseRecords)


def test_products_are_kept_as_far_as_memory_goes(graph, monkeypatch):
    """Of the smallest trees first; what is not kept is computed in each step."""
    trees = pack_ego_trees(full_edge_lists(graph, graph.train_nodes), graph.train_nodes, 1)
    values = torch.from_numpy(graph.features)
    sizes = np.sort(trees.tree_sizes)
    known = TreeInputs(trees, values)
    assert [width for width in np.unique(sizes) if known.has(np.array([width]))] == [
        width for width in np.unique(sizes) if width <= inputs.LARGEST
    ]
    monkeypatch.setattr(inputs, "MOST_BYTES", int(np.sum(sizes[sizes <= 3] ** 2)) * values.element_size())
    few = TreeInputs(trees, values)
    assert few.has(np.array([1, 3]))
    assert not few.has(np.array([1, 4]))
    ranks = np.flatnonzero(sizes <= 3)
    for chosen in (ranks, ranks[sizes[ranks] == 3]):
        products = few.products(chosen, sizes[chosen])
        for product, rank in zip(products, chosen, strict=True):
            nodes = trees.nodes[trees.row_ptr[-1][rank] : trees.row_ptr[-1][rank + 1]]
            own = values[nodes] @ values[nodes].T + 1
            torch.testing.assert_close(product[: len(own), : len(own)], own)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("fast", [True, False])
def test_activations_and_their_derivatives(name, fast, monkeypatch):
    monkeypatch.setattr(passes, "_has_fast_tanh", lambda: fast)
    rows = torch.randn(50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    above = torch.randn(50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    output = ACTIVATIONS[name](rows)
    (expected,) = torch.autograd.grad(output, rows, above)
    own = passes.activation_of(ACTIVATIONS[name])
    result = own.apply_(rows.detach().clone())
    torch.testing.assert_close(result, output.detach(), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(own.pull(above, result), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("last", [torch.nan, torch.inf, -torch.inf, 0.0])
def test_tanh_of_many_numbers_is_exact_beside_zero_too(last, monkeypatch):
    """Which 2 sigma(2 x) - 1 is not: it loses the digits of small numbers."""
    monkeypatch.setattr(passes, "_has_fast_tanh", lambda: False)
    sizes = torch.logspace(-30, 1.2, 1 << 17)
    rows = torch.cat([sizes, -sizes, torch.tensor([last])])
    expected = torch.tanh(rows.double())
    result = passes.tanh_(rows)
    assert result.data_ptr() == rows.data_ptr()
    assert float(result[:-1].abs().max()) <= 1
    torch.testing.assert_close(result.double(), expected, rtol=3e-7, atol=0, equal_nan=True)


def test_other_parts_have_no_closed_form(make_network):
    """Dropout in training, functions and layers that are not known."""
    network = make_network(0, 2, 1)
    assert has_closed_form(network)
    network.encoder.dropout.rate = 0.5
    assert not has_closed_form(network)
    assert has_closed_form(network.eval())
    other = make_network(1)
    other.encoder.activation = torch.sigmoid
    assert not has_closed_form(other)
    third = make_network(1)
    third.decoder.layers[0] = torch.nn.Bilinear(2, 2, 2)
    assert not has_closed_form(third)


def test_loss_of_a_root_without_label_is_nothing():
    logits = torch.randn(4, 3, dtype=torch.float64)
    losses, gradient = cross_entropy(logits, torch.tensor([2, -1, 0, -1]))
    expected = torch.nn.functional.cross_entropy(logits[::2], torch.tensor([2, 0]), reduction="none")
    torch.testing.assert_close(losses, torch.tensor([expected[0], 0, expected[1], 0], dtype=torch.float64))
    assert torch.equal(gradient[1::2], torch.zeros(2, 3, dtype=torch.float64))
