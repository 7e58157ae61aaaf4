"""A reader of buckets that is learnt from labels of training nodes (docs/privacy/votes.md, Theorem 17).

Scores are a log p + r W + b, with p a node's own prediction and r its reading by a public reader. Each training node is
one example, made of its own record and of releases. Its gradient is clipped alone, and each step's sum gets noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgraph.engine.training.noise import ReleaseNoise
from dpgraph.families.votes.ballots import GRID, SMALLEST

CLIP = 1.0  # largest norm of a gradient
NUMBERS = 1 << 17  # numbers of gradients in memory at once; fits a core's own cache
LEAST_UNIT = 1.0  # least unit of readings; else the public reader's strength
MOMENTUM = 0.5
FIRST_AVERAGED = 0.5  # steps after this part are averaged


@dataclass(frozen=True)
class LearntReader:
    """Parameters that turn own predictions and readings into scores."""

    factor: float  # a
    weight: np.ndarray  # (C, C)
    bias: np.ndarray  # (C,)

    @classmethod
    def start(cls, strength: float, classes: int) -> LearntReader:
        """Return the public reader that learning starts from: log p + strength r."""
        return cls(1.0, strength * np.eye(classes), np.zeros(classes))

    @classmethod
    def from_parameters(cls, parameters: np.ndarray, classes: int) -> LearntReader:
        """Return the reader with these (1 + C^2 + C,) parameters."""
        weight = parameters[1 : 1 + classes**2].reshape(classes, classes)
        return cls(float(parameters[0]), weight, parameters[1 + classes**2 :])

    @property
    def parameters(self) -> np.ndarray:
        """(1 + C^2 + C,) a, W and b."""
        return np.concatenate([[self.factor], self.weight.ravel(), self.bias])

    def scores(self, probabilities: np.ndarray, read: np.ndarray) -> np.ndarray:
        """Return (n, C) scores from own predictions (n, C) and readings (n, C) in units of the public reader."""
        return self.scores_of(np.log(probabilities + SMALLEST), read)

    def scores_of(self, own: np.ndarray, read: np.ndarray) -> np.ndarray:
        """Return (n, C) scores from logarithms of own predictions (n, C) and readings (n, C)."""
        return np.asarray(self.factor * own + read @ self.weight + self.bias)


def gradient_sum(reader: LearntReader, probabilities: np.ndarray, read: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the sum over examples of cross-entropy gradients, each clipped to norm CLIP.

    Gradients are rounded towards zero to multiples of 1 / GRID, as votes are: norms do not grow, and sums are exact in
    whatever pieces. A gradient that is not finite and one without a label add 0. An unlabelled example keeps its place,
    so that the gradients of others have the same last bit with and without it.

    Args:
        reader: Parameters.
        probabilities: (n, C) own predictions.
        read: (n, C) readings.
        labels: (n,) classes; -1: no label.

    Returns:
        (1 + C^2 + C,)
    """
    classes = probabilities.shape[1]
    rows = max(1, NUMBERS // classes**2)
    total = np.zeros(1 + classes**2 + classes)
    for start in range(0, len(labels), rows):
        part = slice(start, start + rows)
        total += _whole_sum(reader, probabilities[part], read[part], labels[part])
    return total / GRID


def _whole_sum(reader: LearntReader, probabilities: np.ndarray, read: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the sum for some examples in units of 1 / GRID: whole numbers."""
    taught = (labels >= 0) & (labels < probabilities.shape[1])
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        own = np.log(probabilities + SMALLEST)
        scores = reader.scores_of(own, read)
        errors = np.exp(scores - scores.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[taught, labels[taught]] -= 1
        along = (errors * own).sum(axis=1)
        # the gradient of weights is an outer product: its norm is the product of both norms
        norms = np.sqrt(along**2 + (errors**2).sum(axis=1) * ((read**2).sum(axis=1) + 1))
    good = taught & np.isfinite(norms)
    scale = GRID * CLIP / np.maximum(norms[good], CLIP)
    errors, along = errors[good] * scale[:, None], along[good] * scale
    weights = read[good][:, :, None] * errors[:, None, :]
    np.trunc(weights, out=weights)
    return np.concatenate([[np.trunc(along).sum()], weights.sum(axis=0).ravel(), np.trunc(errors).sum(axis=0)])


@dataclass(frozen=True)
class ReaderSteps:
    """Full-batch steps with momentum; the result is the mean of the iterates of the last half."""

    steps: int
    rate: float
    std: float  # noise std of each number of a sum
    examples: int  # number of training nodes, public

    def learn(
        self, start: LearntReader, probabilities: np.ndarray, read: np.ndarray, labels: np.ndarray, noise: ReleaseNoise
    ) -> LearntReader:
        """Return the reader that is learnt from examples, with one noisy sum of clipped gradients per step.

        Args:
            start: Public reader to start from.
            probabilities: (n, C) own predictions.
            read: (n, C) readings.
            labels: (n,) classes; -1: no label.
            noise: Source of the noise of the steps.
        """
        classes = probabilities.shape[1]
        parameters = start.parameters
        moved, total = np.zeros_like(parameters), np.zeros_like(parameters)
        skipped = int(FIRST_AVERAGED * self.steps)
        for step in range(self.steps):
            sums = gradient_sum(LearntReader.from_parameters(parameters, classes), probabilities, read, labels)
            moved = MOMENTUM * moved + noise.on(sums, self.std, 1 / GRID) / (self.examples * CLIP)
            parameters = parameters - self.rate * moved
            total += parameters if step >= skipped else 0.0
        return LearntReader.from_parameters(total / (self.steps - skipped), classes)
