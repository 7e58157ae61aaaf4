"""Noise that is correlated over b consecutive steps: C^-1 Z, row by row, with b vectors of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpgraph.privacy.banded import BandedMatrix
from dpgraph.training.noise import GaussianNoise


@dataclass
class BandedNoise(GaussianNoise):
    """Row i of C^-1 Z in step i, Z from `source`: x_i = (z_i - sum_k C[i, i - k] x_(i - k)) / C[i, i], 0 < k < b.

    `std` is that of Z over the largest norm of a column of C: what one step's change of 1 is hidden in.
    """

    source: GaussianNoise | None = None
    matrix: BandedMatrix | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._made = 0  # steps, those of an earlier process included
        self._first = self.generator.get_state()
        self._past: deque[list[Tensor]] = deque(maxlen=max(self._of.columns.shape[1] - 1, 0))

    @classmethod
    def over(cls, source: GaussianNoise, matrix: BandedMatrix) -> BandedNoise:
        if isinstance(source.std, tuple):
            raise TypeError("one std for all parameters was expected")
        return cls(source.std / matrix.sensitivity, source.generator, source=source, matrix=matrix)

    def add(self, sums: Sequence[Tensor]) -> None:
        self.draws += 1
        for total, noise in zip(sums, self._row(sums), strict=True):
            total += noise

    def fill(self, buffers: Sequence[Tensor]) -> float:
        raise TypeError("correlated noise is added to whole sums")

    def start_at(self, step: int, like: Sequence[Tensor]) -> None:
        """Makes the noise of the first `step` steps again, which the next one depends on, from the same stream.

        Raises TypeError where that is not the stream that the run was broken off in.
        """
        if step == self._made:
            return
        if type(self.source) is not GaussianNoise or self._made:
            raise TypeError("this noise cannot be continued")
        reached = self.generator.get_state()
        self.generator.set_state(self._first)
        for _ in range(step):
            self._row(like)
        if not torch.equal(self.generator.get_state(), reached):
            raise TypeError("the random stream of the noise is not where the run was broken off")

    @property
    def _of(self) -> BandedMatrix:
        if self.matrix is None or self.source is None:
            raise TypeError("expected a source of noise and a matrix")
        return self.matrix

    def _row(self, like: Sequence[Tensor]) -> list[Tensor]:
        matrix, source = self._of, self.source
        if source is None or self._made >= matrix.steps:
            raise TypeError(f"noise of more than the {matrix.steps} steps of the matrix")
        row = [torch.zeros_like(one) for one in like]
        source.add(row)
        diagonal, *others = matrix.row(self._made).tolist()
        for factor, past in zip(others, reversed(self._past), strict=True):
            for total, before in zip(row, past, strict=True):
                total.sub_(before, alpha=factor)
        for total in row:
            total /= diagonal
        self._past.append(row)
        self._made += 1
        return row
