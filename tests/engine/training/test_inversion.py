"""Model inversion: the steps of Algorithm 4, and the penalties by their definitions."""

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.models.image_networks import Softmax
from dpgraph.engine.training.inversion import Descent, penalties, reconstructions

SHAPE, CLASSES = (5, 4, 1), 3


def network():
    return Softmax(20, CLASSES, torch_generator("tests", "inversion")).double()


def shifted(image, across, down):
    """The image moved right and down, and where both are."""
    height, width = image.shape
    rows, columns = np.arange(height) - down, np.arange(width) - across
    inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))[None]
    return image[np.clip(rows, 0, height - 1)][:, np.clip(columns, 0, width - 1)], inside


@pytest.mark.parametrize("window", [1, 2])
def test_bilateral_total_variation_is_equation_4_3(window):
    image = numpy_generator("tests", "btv").random((5, 4))
    wanted = 0.0
    for across in range(-window, window + 1):
        for down in range(window + 1):
            if down + across >= 0:
                moved, inside = shifted(image, across, down)
                wanted += 0.9 ** (down + across) * np.abs(image - moved)[inside].sum()
    found = penalties(torch.from_numpy(image)[None, :, :, None], Descent(1, 0.1, "btv", 1.0, window, 0.9))
    assert float(found) == pytest.approx(wanted / 20)
    summed = Descent(1, 0.1, "btv", 1.0, window, 0.9, summed=True)
    assert float(penalties(torch.from_numpy(image)[None, :, :, None], summed)) == pytest.approx(wanted)


def test_l1_is_the_mean_of_the_pixels():
    image = torch.from_numpy(numpy_generator("tests", "btv").random((2, 5, 4, 1)))
    torch.testing.assert_close(penalties(image, Descent(1, 0.1, "l1", 1.0)), image.mean(dim=(1, 2, 3)))
    summed = Descent(1, 0.1, "l1", 1.0, summed=True)
    torch.testing.assert_close(penalties(image, summed), image.sum(dim=(1, 2, 3)))


@pytest.mark.parametrize("summed", [False, True])
def test_the_enhanced_attack_takes_the_printed_steps(summed):
    """Each class alone, in numpy, with the gradient of softmax regression by hand; Eq. 4.2 has their sum."""
    found, attack = network().float(), Descent(7, 0.1, "l1", 0.3, summed=summed)
    slope = 0.3 if summed else 0.3 / 20  # of lambda times the penalty, by each pixel
    weight, bias = (one.detach().double().numpy() for one in found.parameters())
    wanted = []
    for label in range(CLASSES):
        w, m, v = np.zeros(20), np.zeros(20), np.zeros(20)
        for _ in range(7):
            x = (np.tanh(w) + 1) / 2
            p = np.exp(weight @ x + bias)
            p /= p.sum()
            by_x = -p[label] * (weight[label] - p @ weight) + slope
            g = by_x * (1 - np.tanh(w) ** 2) / 2
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            w = w - 0.1 * m / np.sqrt(v + 1e-8)
        wanted.append((np.tanh(w) + 1) / 2)
    images = reconstructions(found, SHAPE, CLASSES, attack).numpy()
    np.testing.assert_allclose(images, wanted, atol=2e-4)


def test_the_original_attack_is_descent_from_black_within_the_range_of_pixels():
    found = network().float()
    weight, bias = (one.detach().double().numpy() for one in found.parameters())
    wanted = []
    for label in range(CLASSES):
        x = np.zeros(20)
        for _ in range(5):
            p = np.exp(weight @ x + bias)
            p /= p.sum()
            x = np.clip(x + 50 * p[label] * (weight[label] - p @ weight), 0, 1)
        wanted.append(x)
    images = reconstructions(found, SHAPE, CLASSES, Descent(5, 50.0)).numpy()
    np.testing.assert_allclose(images, wanted, atol=1e-4)
    assert images.max() == 1.0


def test_the_strong_attack_is_adam_on_the_logarithm_of_the_confidence():
    """Each class alone, in numpy in float64, with the gradient of softmax regression by hand."""
    found, attack = network().float(), Descent(9, 0.1, "l1", 0.3, strong=True)
    weight, bias = (one.detach().double().numpy() for one in found.parameters())
    wanted = []
    for label in range(CLASSES):
        w, m, v = np.zeros(20), np.zeros(20), np.zeros(20)
        for step in range(1, 10):
            x = (np.tanh(w) + 1) / 2
            p = np.exp(weight @ x + bias)
            p /= p.sum()
            by_x = p @ weight - weight[label] + 0.3 / 20
            g = by_x * (1 - np.tanh(w) ** 2) / 2
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            w = w - 0.1 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        wanted.append((np.tanh(w) + 1) / 2)
    images = reconstructions(found, SHAPE, CLASSES, attack).numpy()
    np.testing.assert_allclose(images, wanted, atol=2e-4)


def test_the_strong_attack_is_torchs_adam():
    found = network().float()
    state = torch.zeros(CLASSES, 20, requires_grad=True)
    attack, adam = Descent(30, 0.05, "btv", 0.1, strong=True), torch.optim.Adam([state], lr=0.05)
    for _ in range(30):
        images = (torch.tanh(state) + 1) / 2
        cost = torch.nn.functional.cross_entropy(found(images), torch.arange(CLASSES), reduction="sum")
        (state.grad,) = torch.autograd.grad(cost + 0.1 * penalties(images.view(-1, *SHAPE), attack).sum(), state)
        adam.step()
    torch.testing.assert_close(
        reconstructions(found, SHAPE, CLASSES, attack), ((torch.tanh(state) + 1) / 2).detach(), atol=1e-3, rtol=0
    )


def test_the_strong_attack_moves_where_the_enhanced_one_stands_still():
    """At the grey image class 2 has a probability of about exp(-30), so 1 - f_label has no slope there."""
    found, grey = network().float(), torch.full((20,), 0.5)
    with torch.no_grad():
        found.last.weight *= 40
        found.last.bias -= found.last.weight @ grey
        found.last.bias[2] -= 30
    thesis, ours = (
        reconstructions(found, SHAPE, CLASSES, Descent(50, 0.1, "l1", 0.0, strong=strong)) for strong in (False, True)
    )
    torch.testing.assert_close(thesis[2], grey, atol=1e-6, rtol=0)
    assert (ours[2] - grey).abs().max() > 0.4
    before, after = (float(torch.softmax(found(one[None]), dim=1)[0, 2].detach()) for one in (thesis[2], ours[2]))
    assert before < 1e-9
    assert after > 0.99


def test_images_of_the_thesis_attacks_are_what_they_were():
    """Bit for bit as before there was a third attack: the steps that Algorithm 4 prints, in these operations."""
    found = network().float()
    for penalty, rate in ((None, 50.0), ("btv", 0.1)):
        attack = Descent(6, rate, penalty, 0.1)
        state = torch.zeros(CLASSES, 20)
        first, second = torch.zeros_like(state), torch.zeros_like(state)
        for _ in range(6):
            state.requires_grad_(True)
            images = state if penalty is None else (torch.tanh(state) + 1) / 2
            cost = 1 - torch.softmax(found(images), dim=1)[range(CLASSES), range(CLASSES)]
            if penalty is not None:
                cost = cost + 0.1 * penalties(images.view(-1, *SHAPE), attack)
            (slope,) = torch.autograd.grad(cost.sum(), state)
            state = state.detach()
            if penalty is None:
                state = (state - rate * slope).clamp(0, 1)
            else:
                first, second = 0.9 * first + (1 - 0.9) * slope, 0.999 * second + (1 - 0.999) * slope**2
                state = state - rate * first / torch.sqrt(second + 1e-8)
        wanted = state if penalty is None else (torch.tanh(state) + 1) / 2
        assert torch.equal(reconstructions(found, SHAPE, CLASSES, attack), wanted)


@pytest.mark.parametrize("strong", [False, True])
def test_parameters_stay_as_they_are(strong):
    found = network().float()
    before = [one.detach().clone() for one in found.parameters()]
    reconstructions(found, SHAPE, CLASSES, Descent(3, 0.1, "btv", 0.1, strong=strong))
    assert all(one.grad is None and torch.equal(one, other) for one, other in zip(found.parameters(), before))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ((0, 0.1), "steps=0: expected an integer >= 1"),
        ((1, 0.1, "l2"), "penalty='?l2'?: expected l1 or btv"),
        ((1, 0.1, None, 0.0, 2, 0.9, True), "penalty=None: expected l1 or btv"),
    ],
)
def test_mistakes_are_one_line(settings, line):
    with pytest.raises(UserError, match=line):
        Descent(*settings)
