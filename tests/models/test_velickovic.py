"""Velickovic et al.'s network: its dropout, and sparse records. What it computes is in test_against_pyg.py."""

import numpy as np
import pytest
import torch

from dpgraph.methods.attention.spec import VelickovicModel
from dpgraph.models.dropout import Dropout
from dpgraph.models.velickovic import Place, Records, VelickovicGat
from dpgraph.randomness import torch_generator
from tests.contract.conftest import toy_graph

RATE = 0.6


def network_of(features, classes, masks=None, rate=RATE):
    model = VelickovicModel(architecture="velickovic", hops=2, width=4, heads=3, dropout=rate)
    return VelickovicGat(model, features, classes, torch_generator("init"), masks=masks)


def test_sparse_records_are_multiplied_and_differentiated_as_dense_ones():
    rows = torch.zeros(7, 200)
    rows[torch.arange(7), torch.arange(7) * 3] = torch.arange(1.0, 8.0)
    rows[2, 5] = -4.0
    weight = torch.randn(6, 200, generator=torch_generator("weight"), requires_grad=True)
    records = Records(rows)
    assert records._sparse is not None
    drop = Dropout(RATE, torch_generator("masks")).train()
    dropped = records.times(weight, drop)
    # the same masks on the entries, which are numbered row by row
    kept = Dropout(RATE, torch_generator("masks")).train()(rows[rows != 0])
    by_hand = rows.clone()
    by_hand[rows != 0] = kept
    assert 0 < int((kept == 0).sum()) < len(kept)
    torch.testing.assert_close(dropped, by_hand @ weight.T)
    pull = torch.randn(7, 6, generator=torch_generator("pull"))
    ours, theirs = (torch.autograd.grad((one * pull).sum(), weight)[0] for one in (dropped, by_hand @ weight.T))
    torch.testing.assert_close(ours, theirs)


def test_dropout_is_of_inputs_hidden_states_and_attention_weights():
    """Four masks in their order, of these sizes; none at inference, and none without masks."""
    graph = toy_graph()
    features = torch.from_numpy(np.array(graph.features, dtype=np.float32))
    network, place = network_of(features.shape[1], graph.num_classes, torch_generator("masks")), Place(graph, features)
    sizes, real = [], network.drop.forward
    network.drop.forward = lambda rows: (sizes.append(tuple(rows.shape)), real(rows))[1]
    entries = graph.num_edges + graph.num_nodes
    place(network)
    assert sizes == [
        tuple(features.shape), (entries, 3), (graph.num_nodes, 12), (entries, 1),
    ]  # fmt: skip
    assert torch.equal(place.logits(network), place.logits(network))
    assert network.training
    assert not torch.equal(place(network), place(network))
    with pytest.raises(TypeError, match="needs a generator"):
        Place(graph, features)(network_of(features.shape[1], graph.num_classes))
