"""Norms from rows alone, and their rounding where rows cancel."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dpgraph.core.randomness import torch_generator
from dpgraph.engine.models.segments import FEW_BLOCKS
from dpgraph.engine.training.ghost import CallRows, LinearGradients, Recorder, explicit_form, gram_form
from dpgraph.engine.training.precision import ROUNDING, enlarged_norms, operand_eps, products_in

CASES = {
    "root-only": [1] * 6,
    "ascending": [1, 1, 2, 3, 3, 3, 9, 40, 41, 200],
    "unsorted": [40, 1, 9, 200, 2, 3, 1, 41],
    "one padded block": [40, 1, 9, 60, 2, 3, 1, 41],
    "unsorted and padded": [40, 1, 9, 200, 2, 3, 1, 41] * (1 + FEW_BLOCKS // 8),
    "one-hub": [300],
}


def rows_of(sizes, dtype=torch.float64, d_in=12, d_out=30, heads=1, key=0):
    generator = torch_generator("rows", len(sizes), key)
    n = sum(sizes)
    a = torch.randn(n, heads, d_in, generator=generator, dtype=dtype)
    g = torch.randn(n, heads, d_out, generator=generator, dtype=dtype)
    return CallRows(a, g, np.array(sizes))


def gradients_of(*calls: CallRows, bias: bool = True) -> LinearGradients:
    d_in, d_out = calls[0].inputs.shape[2], calls[0].gradients.shape[2]
    return LinearGradients(torch.nn.Linear(d_in, d_out * calls[0].inputs.shape[1], bias), calls)


def formed(*calls: CallRows, bias: bool = True) -> torch.Tensor:
    """Squared norms of gradients formed in float64, one by one."""
    weight, offset = 0, 0
    for rows in calls:
        parts = list(zip(*(x.double().split(rows.sizes.tolist()) for x in (rows.gradients, rows.inputs)), strict=True))
        weight = weight + torch.stack([torch.einsum("nho,nhi->hoi", g, a) for g, a in parts])
        offset = offset + torch.stack([g.sum(0) for g, _ in parts])
    return weight.square().sum((1, 2, 3)) + (offset.square().sum((1, 2)) if bias else 0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_squared_norms_equal_formed_gradients(case, bias, heads):
    rows = rows_of(CASES[case], heads=heads)
    norms, scale = gradients_of(rows, bias=bias).squared_norms()
    torch.testing.assert_close(norms, formed(rows, bias=bias), rtol=1e-12, atol=0)
    assert torch.all(scale >= norms * (1 - 1e-12))  # the triangle inequality


@pytest.mark.parametrize("sizes", [([1] * 8, [1] * 8), ([1] * 8, CASES["unsorted"])], ids=["single", "several"])
@pytest.mark.parametrize("heads", [1, 3])
def test_gradients_of_two_calls_add_up(sizes, heads):
    """With their cross terms; weighted sums too."""
    calls = [rows_of(s, heads=heads, key=i) for i, s in enumerate(sizes)]
    gradients = gradients_of(*calls)
    norms, scale = gradients.squared_norms()
    torch.testing.assert_close(norms, formed(*calls), rtol=1e-12, atol=0)
    assert torch.all(scale >= norms * (1 - 1e-12))
    sums = {p: torch.zeros_like(p, dtype=torch.float64) for p in gradients.layer.parameters()}
    factors = torch.arange(8, dtype=torch.float64)
    gradients.add_weighted(sums, factors, None)
    weights = [c.gradients * factors[np.repeat(np.arange(8), c.sizes)].view(-1, 1, 1) for c in calls]
    expected = sum(torch.einsum("nho,nhi->hoi", w, c.inputs) for w, c in zip(weights, calls, strict=True))
    torch.testing.assert_close(sums[gradients.layer.weight], expected.flatten(0, 1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sums[gradients.layer.bias], sum(w.sum(0) for w in weights).flatten())


@pytest.mark.parametrize("size", [1, 2, 5, 30, 300])
@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("calls", [1, 2])
def test_enlarged_norms_bound_the_true_ones_where_rows_cancel(size, magnitude, calls):
    """float32, second half of the rows the negative of the first plus a little: norms far below their scale."""
    half = rows_of([size] * 50, torch.float32)
    half = CallRows(half.inputs * magnitude, half.gradients, half.sizes)
    other = CallRows(half.inputs, -half.gradients * (1 + 1e-5), half.sizes)
    if calls == 1:
        a, g = (
            torch.cat([x.unflatten(0, (50, size)) for x in pair], 1).flatten(0, 1)
            for pair in ((half.inputs, other.inputs), (half.gradients, other.gradients))
        )
        parts = [CallRows(a, g, np.full(50, 2 * size))]
    else:
        parts = [half, other]
    norms, scale = gradients_of(*parts).squared_norms()
    truth = formed(*parts)
    assert torch.all(truth < 1e-6 * scale)
    assert torch.all(norms + ROUNDING * torch.finfo(torch.float32).eps * scale >= truth)
    assert torch.all(norms - ROUNDING * torch.finfo(torch.float32).eps * scale <= truth)


@pytest.mark.parametrize("width", [3703, 8415])
@pytest.mark.parametrize("form", [gram_form, explicit_form])
def test_wide_equal_rows_that_cancel_have_their_norm(width, form):
    """Sums of so many equal numbers in float32 are off by 57 and 126 spacings, more than norms are enlarged by."""
    a = torch.stack([torch.full((width,), x) for x in (1.3739063, 1.3839587)])[None, None]
    g = torch.tensor([0.5, -0.5 * 1.3739063 / 1.3839587]).expand(16, 2).T[None, None].contiguous()
    squared, scale = form(a, g, 1.0)
    exact, _ = form(a.double(), g.double(), 1.0)
    assert abs(squared - exact).item() <= 2 * torch.finfo(torch.float32).eps * scale.item()
    assert scale.item() > 1e4 * exact.item()


def test_norms_do_not_depend_on_how_wide_a_block_is():
    """Padding to another root's rows, or to a slot, changes no clip factor: only a root's own tree may."""
    rows = torch.full((1, 2, 3703), 0.73084974)
    rows[:, 1] = 0.73421276
    slopes = torch.tensor([0.5, -0.4977]).expand(16, 2).T[None].contiguous()
    norms = []
    for width in (2, 3, 17, 33):
        a, g = torch.zeros(1, 1, width, 3703), torch.zeros(1, 1, width, 16)
        a[0, 0, :2], g[0, 0, :2] = rows, slopes
        norms.append(enlarged_norms(*gram_form(a, g, 1.0)).item())
    assert max(norms) - min(norms) <= 1e-6 * max(norms)


def test_rows_of_other_roots_do_not_leak_into_padding():
    """Sizes 13 and 14 share a padded block; infinities in one root leave the others' norms alone."""
    rows = rows_of([14, 13] * FEW_BLOCKS)
    clean = gradients_of(rows).squared_norms()[0]
    rows.inputs[:14] = float("inf")
    norms = gradients_of(rows).squared_norms()[0]
    assert not torch.isfinite(norms[0])
    assert torch.equal(norms[1:], clean[1:])


def test_outputs_are_not_held_until_their_gradients_are_known():
    """As without privacy: tanh keeps its own result, not what it was applied to."""
    layer, recorder = torch.nn.Linear(3, 2, dtype=torch.float64), Recorder()
    rows = rows_of([1] * 4, d_in=3).inputs.squeeze(1)
    output = recorder.on(SimpleNamespace(sizes=(np.ones(4, dtype=np.int64),)))(layer, rows, 0)
    held, losses = weakref.ref(output), torch.tanh(output).sum(1)
    del output
    assert held() is None
    (call,) = recorder.gradients(losses)[layer].calls
    torch.testing.assert_close(call.gradients.squeeze(1), 1 - torch.tanh(layer(rows)).square())


def rounded(values: torch.Tensor, precision: str = "tf32", nearest: bool = True) -> torch.Tensor:
    """float32 to a number with 10 or 7 bits, the nearest or the next towards 0."""
    lost = {"tf32": 13, "bf16": 16}[precision]
    bits = values.contiguous().view(torch.int32)
    return ((bits + nearest * (1 << (lost - 1))) & ~((1 << lost) - 1)).view(torch.float32)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5, 30, 300])
@pytest.mark.parametrize("cancel", [False, True])
def test_a_clipped_contribution_of_rounded_operands_stays_within_the_clip_norm(size, cancel, nearest, precision):
    """Theorem 2: products of rounded operands; those of norms are in float64, which no device rounds."""
    rows = rows_of([2 * size] * 50, torch.float32)
    if cancel:  # rows that cancel but for a thousandth: rounding is then most of what is left
        a, g = (x.unflatten(0, (50, 2 * size)) for x in (rows.inputs, rows.gradients))
        a[:, size:], g[:, size:] = a[:, :size], -g[:, :size] * 1.001
    norms, scale = gradients_of(rows).squared_norms()
    with products_in("bf16"):  # on a CPU, tf32 is no setting of a cell: the environment's
        torch.backends.mkldnn.matmul.fp32_precision = precision
        enlarged = enlarged_norms(norms.clone(), scale)
    exact, exceeded = enlarged_norms(norms.clone(), scale), False
    for share in (1.0, 0.37, 1e-3):  # clip factors: sums round after they have scaled
        weighed = rounded(rows.gradients * share, precision, nearest).double() / share
        contributions = formed(CallRows(rounded(rows.inputs, precision, nearest).double(), weighed, rows.sizes))
        assert torch.all(contributions <= enlarged.double().square())
        exceeded |= bool(torch.any(contributions > exact.double().square()))
    if not cancel and size < 30 and nearest:  # of many rows, rounding averages out
        assert exceeded
    slack = (enlarged / norms.sqrt() - 1).min()
    if not cancel and size == 1:
        assert slack < {"tf32": 0.01, "bf16": 0.08}[precision]


def test_products_are_as_exact_as_they_are_set_to_be():
    """Of the cell on GPUs, of PyTorch's own setting elsewhere; other types are not touched."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    one = torch.ones(1)
    for name, on_gpu, error in (("tf32", "tf32", 0), ("bf16", "tf32", 2**-7), ("float32", "ieee", 0)):
        with products_in(name):
            assert matmul.fp32_precision == on_gpu
            assert operand_eps(one) == error
            assert operand_eps(one.double()) == 0
        assert matmul.fp32_precision == before
    assert operand_eps(one) == 0
