"""Dropout: named masks, nothing at inference, and the clipped engine sees one mask per root."""

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Model
from dpgraph.core.randomness import torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.dense import Dropout
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import empty_edge_lists
from dpgraph.engine.sampling.ego import pack_ego_trees
from dpgraph.engine.training.clipping import clipped_gradient_sum

NODES, RATE = 9, 0.4


def graph_without_edges():
    random = np.random.default_rng(5)
    nothing = np.zeros(NODES + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    features = random.standard_normal((NODES, 5)).astype(np.float32)
    split = np.zeros(NODES, dtype=np.uint8)
    return Graph(
        name="toy",
        out_ptr=nothing[0],
        out_idx=nothing[1],
        in_ptr=nothing[0],
        in_idx=nothing[1],
        features=features,
        labels=random.integers(0, 3, NODES),
        split=split,
        num_classes=3,
    )


def network_with(masks, layers=1, dtype=torch.float64):
    model = Model(
        architecture="mlp", hops=0, width=20, dropout=RATE, encoder_layers=layers, decoder_layers=layers
    )  # fmt: skip
    return Network(model, 5, 3, torch_generator("init"), dtype, masks)


def test_entries_vanish_or_grow():
    rows = torch.rand(200, 500, dtype=torch.float64) + 1
    dropped = Dropout(RATE, torch_generator("masks"))(rows)
    gone = dropped == 0
    assert torch.allclose(dropped[~gone], rows[~gone] / (1 - RATE))
    assert gone.double().mean() == pytest.approx(RATE, abs=5 * (RATE * (1 - RATE) / rows.numel()) ** 0.5)
    assert len(torch.unique(gone, dim=0)) == 200  # a mask of its own for each row


def test_masks_come_from_the_generator_alone():
    rows = torch.ones(4, 50)
    first, second = (Dropout(RATE, torch_generator("masks")) for _ in range(2))
    state = torch.get_rng_state()
    one = first(rows)
    assert torch.equal(one, second(rows))
    assert not torch.equal(one, first(rows))
    assert torch.equal(state, torch.get_rng_state())
    with pytest.raises(TypeError, match="needs a generator"):
        Dropout(RATE)(rows)
    assert torch.equal(Dropout(0.0)(rows), rows)


def test_inference_drops_nothing_and_draws_nothing():
    graph, masks = graph_without_edges(), torch_generator("masks")
    network = network_with(masks, dtype=torch.float32)
    state = masks.get_state()
    features = torch.from_numpy(graph.features)
    logits = FullGraph(graph).logits(network, features)
    assert torch.equal(state, masks.get_state())
    assert network.training
    layers = [*network.encoder.layers, *network.decoder.layers]
    assert torch.allclose(logits, layers[1](torch.tanh(layers[0](features))), atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2])
def test_clipped_sum_is_that_of_the_masked_networks(layers):
    """Each root's gradient under its own masks, formed by autograd, clipped and summed up."""
    graph, masks = graph_without_edges(), torch_generator("masks")
    network = network_with(masks, layers)
    trees = pack_ego_trees(empty_edge_lists(graph), np.arange(NODES), 0)
    features, labels = torch.from_numpy(graph.features).double(), torch.from_numpy(graph.labels)
    clip, state = 0.7, masks.get_state()
    clipped = clipped_gradient_sum(network, trees, np.arange(NODES), features, labels, clip)
    expected = [torch.zeros_like(p) for p in network.parameters()]
    norms = []
    for root in range(NODES):
        masks.set_state(state)
        loss = torch.nn.functional.cross_entropy(network(trees.batch(np.arange(NODES)), features)[root], labels[root])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        norms.append(torch.sqrt(sum(g.square().sum() for g in gradients)))
        for total, gradient in zip(expected, gradients):
            total += gradient * min(1, clip / norms[-1])
    torch.testing.assert_close(clipped.norms[:, 0], torch.stack(norms))
    assert (clipped.norms > clip).any()
    for ours, theirs in zip(clipped.sums, expected):
        torch.testing.assert_close(ours, theirs)
