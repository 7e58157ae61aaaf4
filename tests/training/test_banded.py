"""Correlated noise: C^-1 Z by rows equals the dense product, and a broken run goes on with the same noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgraph.privacy.banded import BandedMatrix, best_matrix
from dpgraph.randomness import torch_generator
from dpgraph.training.banded import BandedNoise
from dpgraph.training.noise import GaussianNoise

SHAPES = ((3, 2), (4,))


def banded(matrix: BandedMatrix, std: float = 1.7) -> BandedNoise:
    return BandedNoise.over(GaussianNoise(std, torch_generator("noise of bands")), matrix)


def rows(noise: GaussianNoise, steps: int) -> np.ndarray:
    """(steps, 10) what is added to sums of ones."""
    found = []
    for _ in range(steps):
        sums = [torch.ones(shape, dtype=torch.float64) for shape in SHAPES]
        noise.add(sums)
        found.append(torch.cat([part.flatten() for part in sums]).numpy() - 1)
    return np.stack(found)


@pytest.mark.parametrize(("steps", "bands"), [(7, 1), (9, 2), (12, 4), (5, 5)])
def test_streamed_noise_is_the_dense_product(steps: int, bands: int) -> None:
    matrix = best_matrix(steps=steps, bands=bands, momentum=0.9, averaged_share=0.5)
    independent = rows(GaussianNoise(1.7, torch_generator("noise of bands")), steps)
    noise = banded(matrix)
    found = rows(noise, steps)
    assert np.allclose(found, np.linalg.solve(matrix.dense, independent), atol=1e-12)
    assert np.allclose(matrix.dense @ found, independent, atol=1e-12)
    assert noise.draws == steps
    assert noise.std == pytest.approx(1.7)
    assert len(noise._past) == max(0, min(bands - 1, steps))


def test_the_std_that_is_stated_is_for_columns_of_norm_one() -> None:
    matrix = best_matrix(steps=9, bands=3, momentum=0.0, averaged_share=0.0)
    assert banded(BandedMatrix(2 * matrix.columns)).std == pytest.approx(1.7 / 2)


@pytest.mark.parametrize("broken_at", [1, 2, 5])
def test_a_broken_run_goes_on_with_the_same_noise(broken_at: int) -> None:
    matrix = best_matrix(steps=8, bands=3, momentum=0.5, averaged_share=0.0)
    whole, first = rows(banded(matrix), 8), banded(matrix)
    rows(first, broken_at)
    again = banded(matrix)
    again.generator.set_state(first.generator.get_state())  # as a checkpoint does
    again.start_at(broken_at, [torch.ones(shape, dtype=torch.float64) for shape in SHAPES])
    assert again.draws == 0
    assert np.array_equal(rows(again, 8 - broken_at), whole[broken_at:])


def test_what_cannot_be_continued_is_refused() -> None:
    matrix = best_matrix(steps=8, bands=3, momentum=0.5, averaged_share=0.0)
    like = [torch.ones(shape, dtype=torch.float64) for shape in SHAPES]
    with pytest.raises(TypeError, match="not where the run was broken off"):
        banded(matrix).start_at(2, like)
    noise = banded(matrix)
    noise.start_at(0, like)
    rows(noise, 8)
    with pytest.raises(TypeError, match="more than the 8 steps"):
        rows(noise, 1)
    with pytest.raises(TypeError, match="cannot be continued"):
        noise.start_at(3, like)
    with pytest.raises(TypeError, match="whole sums"):
        noise.fill(like)
    with pytest.raises(TypeError, match="one std"):
        BandedNoise.over(GaussianNoise((1.0, 2.0), torch_generator("two")), matrix)
