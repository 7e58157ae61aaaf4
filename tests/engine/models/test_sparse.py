"""Layers on sparse features against the same layers on dense ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dpgraph.engine.models import sparse
from dpgraph.engine.models.dense import HeadLinear, apply_layer
from dpgraph.engine.models.sparse import reading

sparsely = pytest.mark.parametrize("density", [0.05], indirect=True)


def bags(rows: int = 40, columns: int = 60, share: float = 0.05) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    kept = torch.rand(rows, columns, generator=generator) < share
    kept[3], kept[:, 5] = False, False  # a node without words, and a word that nobody uses
    return torch.rand(rows, columns, generator=generator, dtype=torch.float64) * kept


@sparsely
@pytest.mark.usefixtures("density")
def test_values_and_gradients_are_those_of_the_dense_layer():
    features, layer = bags(), nn.Linear(60, 7, dtype=torch.float64)
    towards = torch.randn(40, 7, dtype=torch.float64)
    outputs = [apply(layer, features, 0) for apply in (apply_layer, reading(features))]
    assert outputs[1].grad_fn.name() != outputs[0].grad_fn.name()
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-13, atol=1e-14)
    wanted, found = (torch.autograd.grad(output, list(layer.parameters()), towards) for output in outputs)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


@sparsely
@pytest.mark.usefixtures("density")
def test_only_a_linear_layer_on_the_features_themselves_is_meant():
    features = bags()
    apply = reading(features)
    others = features.clone()
    plain, heads = nn.Linear(60, 8, dtype=torch.float64), HeadLinear(2, 60, 4, dtype=torch.float64)
    assert torch.equal(apply(plain, others, 0), plain(others))
    assert torch.equal(apply(heads, features, 0), heads(features))


@pytest.mark.parametrize(("density", "dense"), [(0.05, False), (0.2, True)], indirect=["density"])
@pytest.mark.usefixtures("density")
def test_what_is_sparse(dense):
    """The declared share decides, not the records: one more word would choose how all are added up."""
    for features in (bags(400, 60, 0.05), bags(400, 60, 0.2)):
        assert (reading(features) is apply_layer) == dense
        assert (sparse.sparse_rows(features) is None) == dense
