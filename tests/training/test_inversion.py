"""Model inversion: the steps of Algorithm 4, and the penalties by their definitions."""

import numpy as np
import pytest
import torch

from dpgraph.errors import UserError
from dpgraph.models.softmax import Softmax
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.training.inversion import Descent, penalties, reconstructions

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


def test_l1_is_the_mean_of_the_pixels():
    image = torch.from_numpy(numpy_generator("tests", "btv").random((2, 5, 4, 1)))
    torch.testing.assert_close(penalties(image, Descent(1, 0.1, "l1", 1.0)), image.mean(dim=(1, 2, 3)))


def test_the_enhanced_attack_takes_the_printed_steps():
    """Each class alone, in numpy, with the gradient of softmax regression by hand."""
    found, attack = network().float(), Descent(7, 0.1, "l1", 0.3)
    weight, bias = (one.detach().double().numpy() for one in found.parameters())
    wanted = []
    for label in range(CLASSES):
        w, m, v = np.zeros(20), np.zeros(20), np.zeros(20)
        for _ in range(7):
            x = (np.tanh(w) + 1) / 2
            p = np.exp(weight @ x + bias)
            p /= p.sum()
            by_x = -p[label] * (weight[label] - p @ weight) + 0.3 / 20
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


def test_parameters_stay_as_they_are():
    found = network().float()
    before = [one.detach().clone() for one in found.parameters()]
    reconstructions(found, SHAPE, CLASSES, Descent(3, 0.1, "btv", 0.1))
    assert all(one.grad is None and torch.equal(one, other) for one, other in zip(found.parameters(), before))


@pytest.mark.parametrize(
    ("settings", "line"),
    [((0, 0.1), "steps=0: expected an integer >= 1"), ((1, 0.1, "l2"), "penalty='?l2'?: expected l1 or btv")],
)
def test_mistakes_are_one_line(settings, line):
    with pytest.raises(UserError, match=line):
        Descent(*settings)
