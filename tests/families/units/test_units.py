"""What methods on images expose to model inversion, and the control of noise on parameters."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import torch_generator
from dpgraph.data.readers.digit_images import read
from dpgraph.data.records import TEST
from dpgraph.data.splits import make_split
from dpgraph.engine.methods.base import Outcome
from dpgraph.engine.models.image_networks import Softmax, image_network
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.units.inversion import inverted
from dpgraph.families.units.train import NoisyInference
from tests.contract.cells import CELLS, changed
from tests.contract.test_methods import CPU, calibrated
from tests.contract.values import value_of


@pytest.mark.parametrize("name", ["cnn-none", "dp-units-class"])
@pytest.mark.parametrize("attack", ["enhanced", "original", "strong"])
def test_a_cell_that_asks_for_inversion_exposes_reconstructions(name, attack):
    cell = changed(name, inversion={"steps": 5, "attack": attack})
    value = value_of(cell, None)
    (job,) = make_jobs(value, cell, [0], calibrated(cell, None), CPU)
    found = method(cell.method).run(job, lambda step, logits: {"step": step}).exposure
    assert found.images.shape == (10, 64)
    assert found.images.min() >= 0
    assert found.images.max() <= 1


def test_images_that_are_too_small_for_convolutions_are_one_line():
    with pytest.raises(UserError, match=r"^shape=\(3, 8, 1\): expected images of at least 4 x 4 pixels"):
        image_network(CELLS["cnn-none"].model, (3, 8, 1), 10, torch_generator("tests", "small"))


def test_a_network_without_privacy_leaves_out_images_without_label():
    """It learns what it learns where they do not train."""
    cell, found = CELLS["cnn-none"], []
    value = value_of(cell, None)
    gone = value.train_nodes[::3]
    labels, split = value.labels.copy(), value.split.copy()
    labels[gone], split[gone] = -1, TEST
    for one in (replace(value, labels=labels), replace(value, labels=labels, split=split)):
        (job,) = make_jobs(one, cell, [0], calibrated(cell, None), CPU)
        found.append(method(cell.method).run(job, lambda step, logits: {"step": step}).logits)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("attack", ["enhanced", "original", "strong"])
def test_reconstructions_read_the_parameters_alone(attack):
    """The same of all images as of none of them: post-processing of what is released."""
    cell = changed("cnn-none", inversion={"steps": 5, "attack": attack})
    (job,) = make_jobs(value_of(cell, None), cell, [0], calibrated(cell, None), CPU)
    shown = job.shown
    nothing = replace(shown, features=np.zeros_like(shown.features), labels=np.full_like(shown.labels, -1))
    network = Softmax(shown.num_features, shown.num_classes, torch_generator("tests", "attacked"))
    outcome = Outcome(np.zeros((0, 0), dtype=np.float32), [], 0.0, 0.0, 0)
    found = [inverted(replace(job, shown=value), network, outcome).exposure.images for value in (shown, nothing)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("attack", ["enhanced", "strong"])
@pytest.mark.parametrize("penalty", ["l1", "btv"])
def test_the_printed_penalty_is_the_number_of_pixels_times_the_mean(attack, penalty):
    """lambda on the sum of 64 pixels is 64 lambda on their mean: of a power of two, bit for bit."""
    told = {"steps": 5, "attack": attack, "penalty": penalty}
    cells = [
        changed("cnn-none", inversion=told | {"weight": 1 / 64, "penalty_over": "thesis"}),
        changed("cnn-none", inversion=told | {"weight": 1.0}),
        changed("cnn-none", inversion=told | {"weight": 1 / 64}),
    ]
    network = Softmax(64, 10, torch_generator("tests", "attacked"))
    outcome = Outcome(np.zeros((0, 0), dtype=np.float32), [], 0.0, 0.0, 0)
    found = []
    for cell in cells:
        (job,) = make_jobs(value_of(cell, None), cell, [0], calibrated(cell, None), CPU)
        found.append(inverted(job, network, outcome).exposure.images)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found[0] - found[2]).max() > 0.01


def test_a_step_of_classes_is_the_clipped_mean_over_all_of_their_images():
    """Algorithm 5, lines 4 to 9, of a prepared step: every class, every image once, one image at a time."""
    cell = changed(
        "dp-units-class-as-printed",
        training={"sampling_rate": 1.0, "steps": 1, "optimizer": "sgd", "momentum": 0.0, "learning_rate": 1.0},
        privacy={"epsilon": None, "noise_multiplier": 1e-6, "clip_norm": 3.0},
    )
    value = value_of(cell, None)
    (job,) = make_jobs(value, cell, [0], calibrated(cell, None), CPU)
    network = Softmax(64, 10, torch_generator("tests", "all images"))
    network.last.bias.data[0] = 5.0  # means of different norms, some of them above 3
    before = torch.cat([one.detach().clone().flatten() for one in network.parameters()])
    pixels, labels = (torch.from_numpy(np.array(one)) for one in (value.features, value.labels))
    wanted, norms = torch.zeros_like(before), []
    for number in range(10):
        own = [image for image in value.train_nodes if labels[image] == number]
        mean = torch.zeros_like(before)
        for image in own:
            loss = torch.nn.functional.cross_entropy(network(pixels[image][None]), labels[image][None])
            slopes = torch.autograd.grad(loss, list(network.parameters()))
            mean += torch.cat([slope.flatten() for slope in slopes]) / len(own)
        norms.append(float(mean.norm()))
        wanted += mean * min(1.0, 3.0 / norms[-1])
    assert min(norms) < 3 < max(norms)
    job.prepared.step(network, make_optimizer(network.parameters(), cell.training))()
    after = torch.cat([one.detach().flatten() for one in network.parameters()])
    torch.testing.assert_close(before - after, wanted / 10, rtol=1e-4, atol=1e-5)
    job.prepared.check(0)


@pytest.mark.parametrize("variant", ["class", "subclass"])
@pytest.mark.parametrize("split", ["random-60-15-25", "per-class-20-30"])
def test_a_drawn_split_is_refused_where_classes_are_protected(split, variant):
    """Without one class it would be another permutation: images of other classes would move, and every unit change."""
    line = rf"split={split}, variant={variant}: expected public or train-rest: a drawn split shuffles all images"
    with pytest.raises(UserError, match=line):
        changed(f"dp-units-{variant}", task={"split": split})
    assert changed(f"dp-units-{variant}", task={"split": "train-rest"})
    for other in ("kmeans", "record"):  # no relation, and one under which the split is public
        assert changed(f"dp-units-{other}", task={"split": split})


def test_an_official_split_stays_where_it_is_without_one_class():
    """The demonstration images: a place in the file decides. A drawn split moves images of other classes."""
    task = CELLS["dp-units-class"].task
    value, raw = value_of(CELLS["dp-units-class"], None), read(None)
    fewer = replace(raw, labels=np.where(raw.labels == 3, -1, raw.labels))
    kept = raw.labels != 3
    for split, same in (("public", True), ("random-60-15-25", False)):
        before, after = (make_split(one, task.dataset, split)[0] for one in (raw, fewer))
        assert np.array_equal(before[kept], after[kept]) == same
    assert np.array_equal(value.split, raw.split)


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
@pytest.mark.parametrize("variant", ["class", "record"])
def test_clipped_sums_have_full_precision(variant, precision):
    with pytest.raises(UserError, match=rf"training.precision={precision}: expected 'float32'$"):
        changed(f"dp-units-{variant}", training={"precision": precision})


def test_noise_on_parameters_is_relative_and_the_same_at_every_look():
    network = Softmax(400, 5, torch_generator("tests", "noisy"))
    inference = NoisyInference(0.5, ("tests", "noise"))
    first, second = inference.noisy(network), inference.noisy(network)
    for old, one, other in zip(network.parameters(), first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
        if old.numel() > 1000:
            spread = float((one - old).detach().std() / old.detach().square().mean().sqrt())
            assert spread == pytest.approx(0.5, rel=0.1)
    features = torch.from_numpy(np.ones((2, 400), dtype=np.float32))
    assert not torch.equal(inference.logits(network, features), NoisyInference(0.0, ()).logits(network, features))
