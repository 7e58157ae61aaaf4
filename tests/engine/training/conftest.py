"""A small graph with hubs, isolated nodes and nodes of every split; networks in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.config.cell import Model
from dpgraph.data.graph import Graph
from dpgraph.engine.models.network import Network

NUM_NODES, NUM_FEATURES, NUM_CLASSES = 60, 5, 3


@pytest.fixture
def graph() -> Graph:
    """Node 0 has a list of 50, nodes 55-59 have empty lists, the others 0 to 7 entries; 45 training nodes."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 8, NUM_NODES)
    lengths[0], lengths[55:] = 50, 0
    others = [np.setdiff1d(np.arange(NUM_NODES), [v]) for v in range(NUM_NODES)]
    lists = [np.sort(rng.choice(others[v], n, replace=False)) for v, n in enumerate(lengths)]
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    split = np.full(NUM_NODES, 2, dtype=np.uint8)
    split[[*range(40), *range(55, 60)]] = 0
    empty = np.zeros(0, dtype=np.int32)
    return Graph(
        name="toy",
        out_ptr=ptr,
        out_idx=np.concatenate(lists).astype(np.int32),
        in_ptr=np.zeros(NUM_NODES + 1, dtype=np.int64),
        in_idx=empty,
        features=rng.standard_normal((NUM_NODES, NUM_FEATURES)).astype(np.float32),
        labels=rng.integers(0, NUM_CLASSES, NUM_NODES),
        split=split,
        num_classes=NUM_CLASSES,
    )


@pytest.fixture
def make_network():
    def make(
        hops: int = 1,
        n_enc: int = 1,
        n_dec: int = 1,
        activation: str = "tanh",
        dtype=torch.float64,
        architecture: str = "gcn",
    ) -> Network:
        model = Model(
            architecture=architecture if hops else "mlp",
            hops=hops,
            heads=3,  # of width 2: 4 is not divisible by 3
            encoder_layers=n_enc,
            decoder_layers=n_dec,
            width=4,
            activation=activation,
        )
        generator = torch.Generator().manual_seed(hops + 10 * n_enc + 100 * n_dec)
        network = Network(model, NUM_FEATURES, NUM_CLASSES, generator, dtype)
        with torch.no_grad():
            for parameter in network.parameters():  # biases of 0 would hide mistakes in them
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=dtype))
        return network

    return make
