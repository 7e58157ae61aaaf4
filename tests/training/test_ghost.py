"""Norms from rows alone, and their rounding where rows cancel."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.randomness import torch_generator
from dpgraph.training.clipping import ROUNDING
from dpgraph.training.ghost import LayerRows, squared_norms

CASES = {
    "root-only": [1] * 6,
    "ascending": [1, 1, 2, 3, 3, 3, 9, 40, 41, 200],
    "unsorted": [40, 1, 9, 200, 2, 3, 1, 41],
    "one-hub": [300],
}


def rows_of(sizes, dtype=torch.float64, d_in=12, d_out=30):
    generator = torch_generator("rows", len(sizes))
    n = sum(sizes)
    a = torch.randn(n, d_in, generator=generator, dtype=dtype)
    g = torch.randn(n, d_out, generator=generator, dtype=dtype)
    return LayerRows(a, g, np.array(sizes))


def formed(rows: LayerRows) -> torch.Tensor:
    """Each gradient formed in float64."""
    parts = zip(rows.inputs.double().split(rows.sizes.tolist()), rows.gradients.double().split(rows.sizes.tolist()))
    return torch.stack([(g.T @ a).square().sum() + g.sum(0).square().sum() for a, g in parts])


@pytest.mark.parametrize("case", CASES)
def test_squared_norms_equal_formed_gradients(case):
    rows = rows_of(CASES[case])
    norms, scale = squared_norms(rows)
    torch.testing.assert_close(norms, formed(rows), rtol=1e-12, atol=0)
    assert torch.all(scale >= norms * (1 - 1e-12))  # the triangle inequality


@pytest.mark.parametrize("size", [2, 5, 30, 300])
@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 1e4])
def test_enlarged_norms_bound_the_true_ones_where_rows_cancel(size, magnitude):
    """float32, second half of the rows the negative of the first plus a little: norms far below their scale."""
    half = rows_of([size] * 50, torch.float32)
    order = torch.arange(2 * size * 50).reshape(50, 2, size)
    a = torch.empty(2 * size * 50, 12)
    g = torch.empty(2 * size * 50, 30)
    a[order[:, 0].flatten()] = a[order[:, 1].flatten()] = magnitude * half.inputs
    g[order[:, 0].flatten()] = half.gradients
    g[order[:, 1].flatten()] = -half.gradients * (1 + 1e-5)
    rows = LayerRows(a, g, np.full(50, 2 * size))
    norms, scale = squared_norms(rows)
    truth = formed(rows)
    assert torch.all(truth < 1e-6 * scale)
    assert torch.all(norms + ROUNDING * torch.finfo(torch.float32).eps * scale >= truth)
    assert torch.all(norms - ROUNDING * torch.finfo(torch.float32).eps * scale <= truth)


def test_rows_of_other_roots_do_not_leak_into_padding():
    """Sizes 13 and 14 share a padded block; infinities in one root leave the other's norm alone."""
    rows = rows_of([14, 13, 14])
    clean = squared_norms(rows)[0]
    rows.inputs[:14] = float("inf")
    norms = squared_norms(rows)[0]
    assert not torch.isfinite(norms[0])
    assert torch.equal(norms[1:], clean[1:])
