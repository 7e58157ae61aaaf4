"""Passes over rows by compiled loops give what array operations give."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dpgraph.engine.models.dense import ACTIVATIONS
from dpgraph.engine.training.fused import passes
from dpgraph.engine.training.fused.passes import activation_of, affine, pulled, weighed
from dpgraph.engine.training.precision import ROUNDING

KINDS = [*ACTIVATIONS, None]


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request):
    return request.param


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def both(monkeypatch, function, *arguments):
    """By loops, and by array operations."""
    for worth in (0, 1 << 62):
        monkeypatch.setattr(passes, "WORTH", worth)
        yield function(*arguments)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("into", [False, True])
def test_a_layer_of_many_rows(kind, into, monkeypatch):
    layer, rows = nn.Linear(12, 40), drawn(45, 12, dtype=torch.float32)
    rows[3] = torch.nan
    layer.weight.data[5, 2], rows[4] = 1e38, 1e9  # an infinite number
    activation = None if kind is None else activation_of(ACTIVATIONS[kind])
    results = []
    for out in (torch.full((45, 40), 7.0), None):
        with torch.no_grad():
            results += both(monkeypatch, affine, layer, activation, rows, out if into else None)
    expected = rows.double() @ layer.weight.double().T + layer.bias.double()
    expected = expected if kind is None else ACTIVATIONS[kind](expected)
    for result in results:
        assert torch.equal(result.isnan(), expected.isnan())
        assert bool(result[3].isnan().all())
        kept = [row for row in range(45) if row not in (3, 4)]
        torch.testing.assert_close(result[kept].double(), expected[kept], rtol=1e-5, atol=1e-6)


def test_a_result_is_written_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(passes, "WORTH", 0)
    layer, rows, out = nn.Linear(3, 4), drawn(5, 3, dtype=torch.float32), torch.zeros(5, 4)
    with torch.no_grad():
        assert affine(layer, activation_of(ACTIVATIONS["tanh"]), rows, out) is out
    assert bool(out.any(1).all())


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_gradients_through_an_activation_and_their_lengths(kind, dtype, monkeypatch):
    activation = activation_of(ACTIVATIONS[kind])
    output = ACTIVATIONS[kind](drawn(30, 9, dtype=dtype))
    gradients = drawn(30, 9, seed=1, dtype=dtype)
    gradients[2, 3], output[5, 1] = torch.inf, torch.nan
    (below, squares), (expected, none) = both(monkeypatch, pulled, activation, gradients, output)
    assert none is None
    torch.testing.assert_close(below, expected, equal_nan=True)
    torch.testing.assert_close(squares, expected.square().sum(1), equal_nan=True)


def test_gradients_of_equal_rows_are_not_copied_for_a_loop(monkeypatch):
    monkeypatch.setattr(passes, "WORTH", 0)
    activation, output = activation_of(torch.tanh), torch.tanh(drawn(12, 5))
    gradients = drawn(4, 1, 5, seed=1).expand(-1, 3, -1)
    below, squares = pulled(activation, gradients, output)
    assert squares is None
    torch.testing.assert_close(below, gradients.reshape(12, 5) * (1 - output**2))


def test_rows_times_factors_and_their_sum(dtype, monkeypatch):
    rows, factors = drawn(50, 6, dtype=dtype), drawn(50, seed=1, dtype=dtype).abs()
    factors[7] = 0
    for weighted, total in both(monkeypatch, weighed, rows, factors):
        torch.testing.assert_close(weighted, rows * factors.unsqueeze(1))
        torch.testing.assert_close(total, (rows * factors.unsqueeze(1)).sum(0))
        assert weighted.data_ptr() != rows.data_ptr()


@pytest.mark.parametrize("width", [256, 16384])
def test_squared_lengths_are_rounded_less_than_norms_are_enlarged_for(width, monkeypatch):
    """Where all terms add up: by half of the allowance of `enlarged_norms` at most."""
    monkeypatch.setattr(passes, "WORTH", 0)
    gradients = drawn(20, width, dtype=torch.float32).abs() + 0.5
    _, squares = pulled(activation_of(torch.tanh), gradients, torch.zeros_like(gradients))
    exact = gradients.double().square().sum(1)
    assert bool(((squares.double() / exact - 1).abs() <= ROUNDING / 2 * torch.finfo(torch.float32).eps).all())
