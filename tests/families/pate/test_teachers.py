"""Teachers side by side: each as if it were alone, on its own part; and votes that are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.families.pate.teachers import StackedTeachers, TeacherPlan, members, parts_by_id, teachers_votes

PLAN = TeacherPlan(
    teachers=5, channels=3, width=7, steps=60, batch_size=8, learning_rate=0.01, names=("test", "teachers")
)
SHAPE = (8, 8, 1)


def digits():
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.images.reshape(-1, 64) / 16).astype(np.float32), found.target.astype(np.int64)


def votes(pixels, labels, train=1200, plan=PLAN, queries=200):
    ids = np.arange(len(labels))
    return teachers_votes(
        torch.from_numpy(pixels), torch.from_numpy(labels), SHAPE, 10, ids[:train], ids[-queries:], plan
    )


@pytest.mark.parametrize("shape", [(8, 8, 1), (12, 8, 3), (5, 7, 2)])
def test_a_teacher_is_two_convolutions_and_two_linear_layers(shape):
    """The same by PyTorch's layers, with this teacher's parameters."""
    height, width, depth = shape
    network = StackedTeachers(shape, 4, 3, 2, 6, torch_generator("test"))
    pixels = torch.rand(3, 5, height * width * depth, generator=torch_generator("pixels"))
    for one in range(3):
        states = pixels[one].reshape(5, height, width, depth).permute(0, 3, 1, 2)
        for layer in (0, 1):
            read, made = network.weights[layer].shape[1] // 16, network.weights[layer].shape[2]
            kernel = network.weights[layer][one].T.reshape(made, read, 4, 4)
            height_in, width_in = states.shape[2] // 2 * 2, states.shape[3] // 2 * 2
            states = torch.relu(torch.nn.functional.conv2d(
                states[:, :, :height_in, :width_in], kernel, network.biases[layer][one, 0], stride=2, padding=1
            ))  # fmt: skip
        flat = states.reshape(5, -1)
        hidden = torch.relu(flat @ network.weights[2][one] + network.biases[2][one])
        wanted = hidden @ network.weights[3][one] + network.biases[3][one]
        assert torch.allclose(network(pixels)[one], wanted, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 8, 1), (7, 10, 3)])
def test_seven_convolutions_and_two_hidden_layers_by_pytorchs_own(shape):
    height, width, depth = shape
    network = StackedTeachers(shape, 4, 2, 3, 6, torch_generator("test"), depth=7)
    pixels = torch.rand(2, 5, height * width * depth, generator=torch_generator("pixels"))
    made = [3, 3, 3, 6, 6, 6, 6]
    kernels, strides, paddings = [3] * 6 + [5], [1, 1, 2, 1, 1, 2, 1], [1] * 6 + [2]
    for one in range(2):
        states = pixels[one].reshape(5, height, width, depth).permute(0, 3, 1, 2)
        for layer in range(7):
            kernel = network.weights[layer][one].T.reshape(made[layer], states.shape[1], kernels[layer], kernels[layer])
            states = torch.relu(torch.nn.functional.conv2d(
                states, kernel, network.biases[layer][one, 0], stride=strides[layer], padding=paddings[layer]
            ))  # fmt: skip
        states = states.reshape(5, -1)
        for layer in (7, 8):
            states = torch.relu(states @ network.weights[layer][one] + network.biases[layer][one])
        wanted = states @ network.weights[9][one] + network.biases[9][one]
        assert torch.allclose(network(pixels)[one], wanted, atol=1e-5)


def test_two_convolutions_name_votes_as_before_there_were_seven():
    assert PLAN.told() == (5, 3, 7, 60, 8, 0.01, ("test", "teachers"))
    assert replace(PLAN, convolutions=7).told() == (*PLAN.told(), 7)


def test_parts_are_disjoint_and_by_public_ids():
    parts = parts_by_id(5, 1000, "a")
    train = np.flatnonzero(numpy_generator("b").random(1000) < 0.5)
    ids, starts = members(parts, train, 5)
    assert sorted(ids.tolist()) == train.tolist()
    for one in range(5):
        assert (parts[ids[starts[one] : starts[one + 1]]] == one).all()
    assert np.bincount(parts).min() > 150
    # who else trains moves nobody
    fewer, _ = members(parts, train[:-1], 5)
    assert set(fewer) == set(train[:-1])
    assert np.array_equal(parts_by_id(5, 1000, "a"), parts)


def test_fewer_images_than_teachers_is_one_line():
    with pytest.raises(UserError, match=r"^teachers=50: expected fewer: of 20 training images some teacher gets none$"):
        members(parts_by_id(50, 20, "a"), np.arange(20), 50)


def test_a_record_moves_one_teacher_only():
    pixels, labels = digits()
    plan = TeacherPlan(**{**vars(PLAN), "steps": 20})
    before = votes(pixels, labels, train=100, plan=plan, queries=500)
    part = parts_by_id(5, len(labels), *PLAN.names)
    for record in (0, 70):
        changed, others = pixels.copy(), labels.copy()
        for label in ((labels[record] + 1) % 10, -1):  # replaced, or null, which has no loss: nobody else notices
            changed[record], others[record] = 1 - pixels[record] if label >= 0 else 0, label
            moved = (votes(changed, others, train=100, plan=plan, queries=500) != before).any(axis=1)
            assert np.flatnonzero(moved).tolist() == [part[record]]


def test_teachers_learn_and_their_majority_is_better():
    pixels, labels = digits()
    plan = TeacherPlan(**{**vars(PLAN), "steps": 200})
    found = votes(pixels, labels, plan=plan)
    single = (found == labels[-200:]).mean()
    majority = np.stack([(found == one).sum(axis=0) for one in range(10)]).argmax(axis=0)
    assert single > 0.6
    assert (majority == labels[-200:]).mean() > single
    assert found.dtype == np.int16
