"""Training of many teachers side by side on disjoint parts of the data, and their votes."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.errors import invalid
from dpgraph.core.progress import progress
from dpgraph.core.randomness import Name, numpy_generator, torch_generator
from dpgraph.engine.models.image_convolutions import Depth, convolutions, hidden_layers, made_sides


class StackedTeachers(nn.Module):
    """(t, n, H W C) pixels, channels last -> (t, n, classes) logits: teacher i sees the i-th stack of images alone.

    Convolutions (two, or the seven of PATE's deep network), hidden linear layers and class scores, with ReLU between
    them. All sums are batched matrix products over teachers, so that none reads what another one does.
    """

    def __init__(
        self, shape: tuple[int, int, int], classes: int, teachers: int, channels: int, width: int,
        generator: torch.Generator, depth: Depth = 2,
    ) -> None:  # fmt: skip
        """Draw initial parameters on the CPU by He's uniform law. Height and width of an image are at least 4."""
        super().__init__()
        height, breadth, read = shape
        self.shape, self.teachers, self.convolutions = shape, teachers, convolutions(depth, channels)
        sizes = []
        for layer in self.convolutions:
            sizes.append((read * layer.kernel**2, layer.channels))
            read = layer.channels
        height, breadth = made_sides(height, breadth, self.convolutions)
        read *= height * breadth
        for _ in range(hidden_layers(depth)):
            sizes.append((read, width))
            read = width
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, made in (*sizes, (read, classes)):
            bound = math.sqrt(6 / inputs)
            weight = torch.empty(teachers, inputs, made).uniform_(-bound, bound, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(teachers, 1, made)))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return logits (t, n, classes) of pixels (t, n, H W C), t of the first teachers."""
        teachers, count = pixels.shape[:2]
        height, breadth, depth = self.shape
        states = pixels.reshape(teachers * count, height, breadth, depth).permute(0, 3, 1, 2)
        for number, layer in enumerate(self.convolutions):
            height, breadth = layer.side(height), layer.side(breadth)
            read = states[:, :, : layer.stride * height, : layer.stride * breadth]  # a last odd row is not read
            patches = nn.functional.unfold(read, layer.kernel, padding=layer.padding, stride=layer.stride)
            rows = patches.transpose(1, 2).reshape(teachers, count * height * breadth, -1)
            states = torch.relu(self._linear(number, rows))
            states = states.reshape(teachers * count, height, breadth, -1).permute(0, 3, 1, 2)
        states = states.reshape(teachers, count, -1)
        last = len(self.weights) - 1
        for number in range(len(self.convolutions), last):
            states = torch.relu(self._linear(number, states))
        return self._linear(last, states)

    def _linear(self, layer: int, rows: Tensor) -> Tensor:
        teachers = len(rows)
        return torch.baddbmm(self.biases[layer][:teachers], rows, self.weights[layer][:teachers])


QUERIES = 50  # images that all teachers of a stack look at together
STACK = 25  # teachers that a step moves together


@dataclass(frozen=True)
class TeacherPlan:
    """The public settings of the teachers; `names` key their parts, initial parameters and batches."""

    teachers: int
    channels: int
    width: int
    steps: int
    batch_size: int
    learning_rate: float
    names: tuple[Name, ...]
    convolutions: Depth = 2

    def told(self) -> tuple[object, ...]:
        """Return the values that name votes and their noise; two convolutions, the default, are left out."""
        values = astuple(self)
        return values[:-1] if self.convolutions == 2 else values


def parts_by_id(teachers: int, num_records: int, *names: Name) -> np.ndarray:
    """Return the (N,) teacher of every id: a public hash of the id, so no record moves another one's part."""
    return (numpy_generator(*names, "parts").random(num_records) * teachers).astype(np.int64)


def members(parts: np.ndarray, train: np.ndarray, teachers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the (n,) training ids by teacher, and the (teachers + 1,) places where each teacher's begin.

    Raises:
        UserError: For a teacher without images. Ids are public, so the error reveals no record.
    """
    sizes = np.bincount(parts[train], minlength=teachers)
    if sizes.min() == 0:
        raise invalid("teachers", teachers, f"fewer: of {len(train)} training images some teacher gets none")
    return train[np.argsort(parts[train], kind="stable")], np.concatenate([[0], np.cumsum(sizes)])


def teachers_votes(
    pixels: Tensor, labels: Tensor, shape: tuple[int, int, int], classes: int, train: np.ndarray, queries: np.ndarray,
    plan: TeacherPlan,
) -> np.ndarray:  # fmt: skip
    """Train each teacher on its part of `train` and return the classes that it predicts for the images `queries`.

    Teachers run Adam on mean cross-entropies of batches drawn with replacement from their own part. A record moves its
    own teacher only.

    Args:
        pixels: (N, F) images.
        labels: (N,) int64 classes; -1: no label, and no loss.
        shape: Height, width and channels of an image.
        classes: Number of classes.
        train: Ids of the training images.
        queries: (Q,) ids of the public images.
        plan: Settings of the teachers.

    Returns:
        (teachers, Q) int16 classes.
    """
    ids, starts = members(parts_by_id(plan.teachers, len(labels), *plan.names), train, plan.teachers)
    votes = np.empty((plan.teachers, len(queries)), dtype=np.int16)
    with progress("teachers", plan.teachers) as bar:
        for first in range(0, plan.teachers, STACK):
            last = min(first + STACK, plan.teachers)
            network = StackedTeachers(
                shape, classes, last - first, plan.channels, plan.width,
                torch_generator(*plan.names, "parameters", first), plan.convolutions,
            ).to(pixels.device)  # fmt: skip
            _train(network, pixels, labels, ids, starts[first : last + 1], plan, first)
            votes[first:last] = _votes(network, pixels, queries)
            bar.update(last - first)
    return votes


def _train(
    network: StackedTeachers, pixels: Tensor, labels: Tensor, ids: np.ndarray, starts: np.ndarray, plan: TeacherPlan,
    first: int,
) -> None:  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=plan.learning_rate)
    generator, sizes = numpy_generator(*plan.names, "batches", first), np.diff(starts)
    for _ in range(plan.steps):
        drawn = (generator.random((len(sizes), plan.batch_size)) * sizes[:, None]).astype(np.int64) + starts[:-1, None]
        chosen = torch.from_numpy(ids[drawn]).to(pixels.device)
        batch, wanted = pixels[chosen], labels[chosen]
        logits = network(batch)
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), reduction="none", ignore_index=-1
        ).reshape(wanted.shape)
        counted = (wanted >= 0).sum(dim=1).clamp_min(1)
        optimizer.zero_grad(set_to_none=True)
        (losses.sum(dim=1) / counted).sum().backward()
        optimizer.step()


@torch.no_grad()
def _votes(network: StackedTeachers, pixels: Tensor, queries: np.ndarray) -> np.ndarray:
    seen = []
    for start in range(0, len(queries), QUERIES):
        images = pixels[torch.from_numpy(queries[start : start + QUERIES]).to(pixels.device)]
        seen.append(network(images.expand(network.teachers, *images.shape)).argmax(dim=2).cpu().numpy())
    return np.concatenate(seen, axis=1).astype(np.int16)
