"""Velickovic et al.'s network: dropout, sparse records, early stopping. Its values are in test_against_pyg.py."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.methods.attention.spec import VelickovicModel
from dpgraph.models.dropout import Dropout
from dpgraph.models.velickovic import DroppedRecords, NodesInReach, VelickovicGat
from dpgraph.randomness import torch_generator
from dpgraph.training.early_stopping import WatchedOnBoth
from tests.contract.conftest import toy_graph

RATE = 0.6


def network_of(features, classes, masks=None, rate=RATE):
    model = VelickovicModel(architecture="velickovic", hops=2, activation="elu", width=4, heads=3, dropout=rate)
    return VelickovicGat(model, features, classes, torch_generator("init"), masks=masks)


def test_sparse_records_are_multiplied_and_differentiated_as_dense_ones():
    rows = torch.zeros(7, 200)
    rows[torch.arange(7), torch.arange(7) * 3] = torch.arange(1.0, 8.0)
    rows[2, 5] = -4.0
    weight = torch.randn(6, 200, generator=torch_generator("weight"), requires_grad=True)
    records = DroppedRecords(rows)
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
    network, place = (
        network_of(features.shape[1], graph.num_classes, torch_generator("masks")),
        NodesInReach(graph, features),
    )
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
        NodesInReach(graph, features)(network_of(features.shape[1], graph.num_classes))


@settings(max_examples=60, deadline=None)
@given(
    looks=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25), patience=st.integers(1, 4)
)
def test_patience_ends_when_neither_score_is_as_good_as_its_best(looks, patience):
    """As the released code counts, in words of its own: looks of (accuracy, minus loss)."""
    network, kept = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    watched = WatchedOnBoth(network, kept)
    highest, waited, chosen, ended = [-np.inf, -np.inf], 0, None, None
    for number, scores in enumerate(looks, 1):
        with torch.no_grad():
            network.bias.fill_(number)
        watched.done.fill_(2 * number)  # two steps an epoch
        watched.look(tuple(map(float, scores)), patience, 2)
        if scores[0] >= highest[0] or scores[1] >= highest[1]:
            if scores[0] >= highest[0] and scores[1] >= highest[1]:
                chosen = number
            highest, waited = [max(one, best) for one, best in zip(scores, highest, strict=True)], 0
        else:
            waited += 1
        if waited == patience:
            ended = number
            break
    assert int(watched.stopped_at) == 2 * (ended or 0)
    assert int(watched.best_at) == 2 * chosen
    assert watched.released.bias.item() == chosen
