"""Rows of weights over nodes: logits against dense algebra, padded rows, what they refuse."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.config.cell import Model
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.weighted_rows import PaddedRows
from tests.engine.weighted_rows import WeightedRows

NODES = 9


def rows_of(seed, roots=6):
    """Dense rows of 0 to 5 entries and their roots, in no order of ids."""
    random = numpy_generator("weighted rows", seed)
    chosen = random.permutation(NODES)[:roots]
    dense = random.normal(size=(roots, NODES)) * (random.random((roots, NODES)) < 0.3)
    return dense, chosen


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, NODES), st.integers(1, 3))
def test_logits_are_weighted_sums_of_those_of_single_records(seed, roots, layers):
    dense, chosen = rows_of(seed, roots)
    model = Model(architecture="mlp", hops=0, width=4, encoder_layers=layers, decoder_layers=layers)
    network = Network(model, 3, 5, torch_generator("network", seed), torch.float64)
    features = torch.from_numpy(numpy_generator("features", seed).normal(size=(NODES, 3)))
    weighted = WeightedRows(sp.csr_matrix(dense), chosen)
    positions = numpy_generator("positions", seed).permutation(roots)[: max(1, roots - 1)]
    logits = weighted.logits(network, weighted.trees.batch(positions), features)
    expected = torch.from_numpy(dense[positions]) @ network.decoder(network.encoder(features))
    assert torch.allclose(logits, expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, NODES))
def test_padded_rows_hold_the_same_weights(seed, roots):
    dense, chosen = rows_of(seed, roots)
    padded = PaddedRows.from_weights(sp.csr_matrix(dense), chosen, NODES)
    written = np.zeros_like(dense)
    np.add.at(written, (np.arange(roots)[:, None], padded.nodes), padded.weights)
    assert np.array_equal(written, dense)
    assert (padded.nodes[:, 0] == chosen).all()
    for row, root, nodes, weights in zip(dense, chosen, padded.nodes, padded.weights, strict=True):
        assert set(nodes) == {root, *np.flatnonzero(row)}
        assert len(set(nodes[weights != 0])) == (weights != 0).sum()
        assert (nodes[1:][weights[1:] == 0] == root).all()


def test_a_row_that_is_too_long_is_refused():
    rows = sp.csr_matrix(np.array([[0.5, 0.5, 0.0], [0.2, 0.2, 0.2]]))
    assert PaddedRows.from_weights(rows, np.array([0, 1]), 3).nodes.tolist() == [[0, 1, 0], [1, 0, 2]]
    with pytest.raises(ValueError, match="a row names 2 other nodes: expected at most 1"):
        PaddedRows.from_weights(rows, np.array([0, 1]), 2)
