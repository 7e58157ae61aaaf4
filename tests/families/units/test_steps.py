"""Gradients of units of images against automatic differentiation, and what one unit moves."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.image_networks import SmallCnn, Softmax
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.precision import products_in
from dpgraph.families.units import steps as training
from dpgraph.families.units.sampling import Units
from dpgraph.families.units.steps import UnitGradients, UnitStep, clipped_sum
from dpgraph.privacy.procedure import Lists

SHAPE, CLASSES = (6, 5, 2), 3


def network(kind):
    generator = torch_generator("tests", "units", kind)
    if kind == "softmax":
        return Softmax(60, CLASSES, generator).double()
    return SmallCnn(SHAPE, CLASSES, 2, 5, generator).double()


def data(count=20):
    random = numpy_generator("tests", "units")
    pixels = torch.from_numpy(random.random((count, 60)))
    return pixels, torch.from_numpy(random.integers(0, CLASSES, count))


def one_by_one(found, pixels, labels, images, weights):
    rows = []
    for chosen, shares in zip(images, weights, strict=True):
        losses = nn.functional.cross_entropy(found(pixels[chosen]), labels[chosen], reduction="none", ignore_index=-1)
        slopes = torch.autograd.grad((losses * shares).sum(), list(found.parameters()))
        rows.append(torch.cat([slope.flatten() for slope in slopes]))
    return torch.stack(rows)


def whole(parts):
    """The gradients (u, P) that parts stand for."""
    return torch.cat(
        [part[0] if len(part) == 1 else torch.einsum("uo,ui->uoi", *part).flatten(1) for part in parts], dim=1
    )


def rows_clipped(rows, clip_norm):
    return clipped_sum([(rows,)], clip_norm)[0]


@pytest.mark.parametrize("kind", ["cnn", "softmax"])
@pytest.mark.parametrize("most", [1, 4, 1000])
def test_gradients_are_those_of_automatic_differentiation(kind, most, monkeypatch):
    monkeypatch.setitem(training.MOST_IMAGES, "cpu", most)  # images of a pass
    found, (pixels, labels) = network(kind), data()
    labels[3] = -1
    random = numpy_generator("tests", "units", "images")
    images = torch.from_numpy(random.integers(0, 20, (4, 7)))
    images[0, 0] = 3
    weights = torch.from_numpy(random.random((4, 7)))
    for ids, shares in ((images, weights), (images[:, :1], weights[:, :1])):
        gradients = whole(UnitGradients(found).weighted(pixels, labels, ids, shares))
        torch.testing.assert_close(gradients, one_by_one(found, pixels, labels, ids, shares))


def test_an_image_without_label_adds_nothing():
    found, (pixels, labels) = network("softmax"), data()
    labels[:] = -1
    alone = UnitGradients(found).weighted(pixels, labels, torch.tensor([[5]]), torch.ones(1, 1))
    assert (whole(alone) == 0).all()


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(3), nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")], ids=["norm", "padding"]
)
def test_a_network_with_other_layers_is_refused(layer):
    with pytest.raises(TypeError, match="linear layers and convolutions padded with zeros"):
        UnitGradients(nn.Sequential(nn.Linear(3, 3), layer))


class LastFirst(nn.Module):
    """Layers that run in another order than their parameters have, one of them over patches of each image."""

    def __init__(self, **settings):
        super().__init__()
        self.last = nn.Linear(4, CLASSES)
        self.first = nn.Conv2d(1, 2, 3, **settings)
        self.patches = nn.Linear(2, 4)

    def forward(self, pixels):
        maps = self.first(pixels.reshape(-1, 1, 10, 6)).flatten(2).mT
        return self.last(torch.tanh(self.patches(maps.flatten(0, 1))).unflatten(0, maps.shape[:2]).sum(1))


@pytest.mark.parametrize(
    "settings", [{"stride": (2, 1), "bias": False}, {"dilation": (2, 1)}, {"padding": (0, 2), "stride": (1, 2)}]
)
@pytest.mark.parametrize("images", [1, 3])
def test_gradients_of_other_convolutions_and_orders(settings, images):
    found, (pixels, labels) = LastFirst(**settings).double(), data()
    ids = torch.arange(12)[: 4 * images].reshape(4, images)
    shares = torch.rand(4, images, generator=torch_generator("tests", "shares")).double()
    gradients = whole(UnitGradients(found).weighted(pixels, labels, ids, shares))
    torch.testing.assert_close(gradients, one_by_one(found, pixels, labels, ids, shares))


def test_rows_are_clipped_one_by_one():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [float("nan"), 1.0], [float("inf"), 0.0], [0.0, 0.0]])
    found = rows_clipped(rows, 1.0)
    torch.testing.assert_close(found, torch.tensor([0.9, 1.2]), rtol=1e-5, atol=0)
    assert rows_clipped(rows[:1], 1.0).norm() <= 1.0


class BrainFloats(TorchFunctionMode):
    """A processor that rounds the operands of every product of float32 matrices to bf16."""

    def __torch_function__(self, function, types, told=(), named=None):
        if function in (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__):
            told = [one.bfloat16().float() for one in told]
        return function(*told, **(named or {}))


@pytest.mark.parametrize(("count", "scale", "clip_norm"), [(3969, 1.0, 0.9885), (4096, 1.5, 1.0), (4096, 2.5, 1.0)])
def test_rounded_operands_are_allowed_for(count, scale, clip_norm):
    """Entries just above the middle of two numbers of bf16 are all rounded up; the first row is within its limit."""
    row = torch.full((1, count), (1 + 2**-8 + 2**-20) * 2**-6 * scale)
    with products_in("bf16"), BrainFloats():
        assert 0.9 * clip_norm < float(rows_clipped(row, clip_norm).double().norm()) <= clip_norm
    with BrainFloats():  # which nobody allowed for
        assert float(rows_clipped(row, clip_norm).double().norm()) > clip_norm


def test_rounded_operands_of_factors_are_allowed_for():
    """At some of these sizes the numbers of a factor of length 1 are all rounded up."""
    parts = [[(torch.ones(1, count), torch.ones(1, count))] for count in range(200, 264)]
    with products_in("bf16"), BrainFloats():
        assert max(float(clipped_sum(part, 1.0)[0].double().norm()) for part in parts) <= 1.0
    with BrainFloats():
        assert max(float(clipped_sum(part, 1.0)[0].double().norm()) for part in parts) > 1.0


def test_at_full_precision_nothing_is_enlarged():
    rows = torch.randn(5, 300, generator=torch_generator("tests", "rows"))
    factors = (training.SLACK * 17.0 / rows.double().norm(dim=1)).clamp_max(1)
    assert torch.equal(rows_clipped(rows, 17.0), factors.float() @ rows)


@pytest.mark.parametrize("clip_norm", [1e-9, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize(
    ("outputs", "inputs"), [(1.0, 3.0), (1e-20, 1e-20), (1e30, 1e30), (1e-44, 1e30), (1e38, 1e-44), (1e-3, 3e38)]
)
def test_factors_of_any_size_are_clipped(outputs, inputs, clip_norm):
    """At the ends of float32, where a factor of clipping or a number of the product is a subnormal number."""
    generator = torch_generator("tests", "factors")
    part = tuple(torch.rand(1, 40, generator=generator) * size for size in (outputs, inputs))
    length = float(part[0].double().norm() * part[1].double().norm())
    found = float(clipped_sum([part], clip_norm)[0].double().norm())
    assert found <= clip_norm
    if inputs > 1e38:  # the factor is longer than any that is scaled
        assert found == 0
    elif 1e-44 not in (outputs, inputs):
        wanted = min(length, clip_norm) if length < training.LONGEST * clip_norm else 0.0
        assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("length", [1.0, 1e28, 1e33, 4.46e35, 3e38])  # 1e-9 / 4.46e35 is 1.6 subnormal numbers
def test_numbers_of_any_size_are_clipped(length):
    rows = torch.rand(1, 40, generator=torch_generator("tests", "numbers"))
    rows *= length / rows.norm()
    assert float(rows_clipped(rows, 1e-9).double().norm()) <= 1e-9


def test_factors_are_clipped_with_the_other_parts_of_their_unit():
    generator = torch_generator("tests", "parts")
    factors = tuple(torch.randn(6, count, generator=generator) for count in (4, 7))
    rows = torch.randn(6, 5, generator=generator)
    factors[0][1], factors[1][2, 3], rows[3, 0] = 0.0, float("nan"), float("inf")
    made = torch.cat([torch.einsum("uo,ui->uoi", *factors).flatten(1), rows], 1)
    wanted = rows_clipped(made, 2.0)
    found = torch.cat([one.flatten() for one in clipped_sum([factors, (rows,)], 2.0)])
    torch.testing.assert_close(found, wanted)


def step_of(features, labels, units, most=None, clip_norm=0.5, rate=1.0, std=0.0):
    found = network("cnn")
    optimizer = torch.optim.SGD(found.parameters(), lr=1.0)
    count = len(units.starts) - 1
    return UnitStep(
        found, optimizer, features, labels, units, Draws(PoissonSampler(count, rate), numpy_generator("batches")),
        numpy_generator("chosen"), most, clip_norm, GaussianNoise(std, torch_generator("noise")), 1.0,
    )  # fmt: skip


def moved(step):
    before = torch.cat([one.detach().clone().flatten() for one in step.network.parameters()])
    step()
    return before - torch.cat([one.detach().flatten() for one in step.network.parameters()])


UNITS = Units(np.arange(20), np.array([0, 12, 15, 15, 20]), Lists.CLASSES)  # one of them empty


@pytest.mark.parametrize("most", [None, 3, 1])
@pytest.mark.parametrize("numbers", [1, 2**24])
def test_a_step_is_the_sum_of_the_clipped_gradients_of_units(most, numbers, monkeypatch):
    monkeypatch.setitem(training.MOST_NUMBERS, "cpu", numbers)  # units whose gradients are formed together
    pixels, labels = data()
    step = step_of(pixels, labels, UNITS, most)
    images, weights = UNITS.chosen(np.array([0, 1, 3]), most, numpy_generator("chosen"))
    rows = one_by_one(step.network, pixels, labels, torch.from_numpy(images), torch.from_numpy(weights).double())
    wanted = sum(row * min(1.0, 0.5 / float(row.norm())) for row in rows)
    torch.testing.assert_close(moved(step), wanted, rtol=1e-4, atol=1e-8)


def test_another_class_in_the_place_of_one_moves_the_sum_by_twice_the_clip_norm_at_most():
    pixels, labels = data()
    before = moved(step_of(pixels, labels, UNITS))
    others = pixels.clone()
    others[:12] = 1e6 * (1 - pixels[:12])
    fewer = Units(np.concatenate([np.arange(5), np.arange(12, 20)]), np.array([0, 5, 8, 8, 13]), Lists.CLASSES)
    for units in (UNITS, fewer):  # the same number of images, or another one
        distance = float((moved(step_of(others, labels, units)) - before).norm())
        assert 1e-3 < distance <= 1.0 + 1e-6


@pytest.mark.parametrize("most", [1, None])
def test_a_unit_that_is_not_finite_adds_nothing_and_leaves_the_others(most):
    pixels, labels = data()
    pixels[12:15] = float("nan")
    fewer = Units(np.concatenate([np.arange(12), np.arange(15, 20)]), np.array([0, 12, 12, 12, 17]), Lists.CLASSES)
    found, wanted = (moved(step_of(pixels, labels, units, most)) for units in (UNITS, fewer))
    if most is None:  # of one image, another is drawn for the last unit
        torch.testing.assert_close(found, wanted)
    assert found.isfinite().all()
    assert found.norm() > 0.2


def test_all_images_of_a_class_move_no_more_than_one_of_them():
    pixels, labels = data()
    whole = moved(step_of(pixels, labels, Units(np.arange(20), np.array([0, 20]), Lists.CLASSES), clip_norm=0.01))
    single = moved(step_of(pixels, labels, Units(np.arange(1), np.array([0, 1]), Lists.CLASSES), clip_norm=0.01))
    assert float(whole.norm()) == pytest.approx(0.01, rel=1e-4)
    assert float(single.norm()) == pytest.approx(0.01, rel=1e-4)


def test_a_step_without_units_is_noise_alone():
    pixels, labels = data()
    assert moved(step_of(pixels, labels, UNITS, rate=1e-12, std=0.0)).norm() == 0
    noisy = moved(step_of(pixels, labels, UNITS, rate=1e-12, std=2.0))
    assert float(noisy.std()) == pytest.approx(2.0, rel=0.3)
