"""Release of PageRank rows: sensitivities by brute force, laws of the noise, what is kept, and caps of columns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import dpgraph.families.pagerank.release as release
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.families.pagerank.release import (
    cap_columns,
    clip_rows,
    exponential_release,
    gaussian_release,
    matrix_sensitivity,
    noisy_rows,
)


def pagerank(rows: int, columns: int, *names: str | int) -> sp.csr_matrix:
    """Non-negative rows of sum 1, sparse, the first entry of each the largest."""
    generator = numpy_generator("test", "pagerank", rows, columns, *names)
    values = generator.random((rows, columns)) * (generator.random((rows, columns)) < 0.4)
    values[:, 0] += 1
    return sp.csr_matrix(values / values.sum(axis=1, keepdims=True))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.floats(1e-3, 3.0), st.integers(0, 10**6))
def test_clipped_matrices_are_within_the_sensitivity(rows: int, columns: int, clip: float, seed: int) -> None:
    one, other = (clip_rows(5 * pagerank(rows, columns, seed, side), clip).toarray() for side in (0, 1))
    assert np.linalg.norm(one, axis=1).max() <= clip * (1 + 1e-12)
    assert np.linalg.norm(one - other) <= matrix_sensitivity(rows, clip) * (1 + 1e-12)


def test_the_sensitivity_is_attained_and_larger_than_the_thesis_says() -> None:
    """Disjoint supports in all M rows: sqrt(2 M) C1, not sqrt(M) C1."""
    one, other = (clip_rows(sp.csr_matrix(np.outer(np.ones(6), unit)), 0.3) for unit in np.eye(4)[:2])
    assert np.linalg.norm((one - other).toarray()) == pytest.approx(matrix_sensitivity(6, 0.3))
    assert matrix_sensitivity(6, 0.3) == pytest.approx(math.sqrt(12) * 0.3)


def test_short_rows_are_not_clipped() -> None:
    rows = sp.csr_matrix(np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]))
    assert clip_rows(rows, 0.5).toarray() == pytest.approx(np.array([[0.1, 0.2, 0], [0, 0, 0], [0.3, 0, 0.4]]))


def test_noise_has_the_stated_law_on_every_entry() -> None:
    """std = multiplier C1 on entries that are zero, too; independent of the rows."""
    rows = pagerank(200, 100)
    noise = noisy_rows(rows, 0.2, 7.0, numpy_generator("test", "law")) - clip_rows(rows, 0.2).toarray()
    assert noise.std() == pytest.approx(1.4, rel=0.02)
    assert abs(noise.mean()) < 0.04
    assert np.quantile(noise, 0.9) == pytest.approx(1.4 * norm.ppf(0.9), rel=0.03)
    assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.03


def test_gaussian_release_keeps_the_largest_of_the_noisy_rows() -> None:
    rows = pagerank(20, 30)
    noisy = noisy_rows(rows, 0.5, 0.1, numpy_generator("test", "same"))
    released = gaussian_release(rows, 0.5, 0.1, 4, numpy_generator("test", "same"))
    assert (np.diff(released.indptr) == 4).all()
    for row, kept in zip(noisy, released.toarray()):
        assert np.sort(kept[kept != 0]) == pytest.approx(np.sort(row)[-4:])
        assert (kept[kept != 0] == row[kept != 0]).all()


@pytest.mark.parametrize("kind", ["gaussian", "exponential"])
def test_the_release_does_not_depend_on_the_size_of_pieces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def released() -> sp.csr_matrix:
        generator = numpy_generator("test", "pieces")
        if kind == "gaussian":
            return gaussian_release(pagerank(17, 30), 0.5, 0.3, 3, generator)
        return exponential_release(pagerank(17, 30), 0.5, 2.0, 3, generator)

    whole = released()
    monkeypatch.setattr(release, "CHUNK_ENTRIES", 70)
    assert (whole != released()).nnz == 0
    assert whole.shape == (17, 30)


def test_the_exponential_mechanism_draws_with_its_weights() -> None:
    """K = 1: P(j) = exp(eps p_j / C2) / sum, entries clipped at C2; K = 2: two draws without replacement."""
    row, clip, epsilon, trials = np.array([0.0, 0.1, 0.2, 5.0]), 0.2, 1.3, 40_000
    weights = np.exp(epsilon * np.minimum(row, clip) / clip)
    weights /= weights.sum()
    rows = sp.csr_matrix(np.tile(row, (trials, 1)))
    one = exponential_release(rows, clip, epsilon, 1, numpy_generator("test", "one"))
    assert one.toarray().mean(axis=0) == pytest.approx(weights, abs=0.01)
    two = exponential_release(rows, clip, epsilon, 2, numpy_generator("test", "two"))
    drawn = weights + [sum(weights[i] * weights[j] / (1 - weights[i]) for i in range(4) if i != j) for j in range(4)]
    assert (two.toarray() > 0).mean(axis=0) == pytest.approx(drawn, abs=0.01)
    assert set(two.data) == {0.5}


def test_option_2_keeps_clipped_values_with_laplace_noise() -> None:
    rows = sp.csr_matrix(np.tile([0.4, 0.0], (20_000, 1)))
    released = exponential_release(rows, 0.3, 1.0, 2, numpy_generator("test", "values"), epsilon_values=2.0)
    first = released.toarray()[:, 0]
    assert first.mean() == pytest.approx(0.3, abs=0.01)
    assert np.abs(first - 0.3).mean() == pytest.approx(2 * 0.3 / 2.0, rel=0.03)  # scale K C2 / eps


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 9), st.integers(1, 4), st.integers(0, 10**6))
def test_capped_columns(rows: int, columns: int, cap: int, seed: int) -> None:
    """At most K_col entries each, exactly that many where there were as many, and the kept ones unchanged."""
    whole = pagerank(rows, columns, seed)
    capped = cap_columns(whole, cap, numpy_generator("test", "cap", seed))
    counts, kept = (np.diff(sp.csc_matrix(x).indptr) for x in (whole, capped))
    assert (kept == np.minimum(counts, cap)).all()
    entries = capped.toarray()
    assert (entries[entries != 0] == whole.toarray()[entries != 0]).all()
    assert (cap_columns(whole, cap, numpy_generator("test", "cap", seed)) != capped).nnz == 0


def test_no_row_is_favoured() -> None:
    """Priorities differ by column: of 20 rows that all name 500 nodes, each keeps about 2 of 20."""
    capped = cap_columns(sp.csr_matrix(np.ones((20, 500))), 2, numpy_generator("test", "fair"))
    assert np.diff(capped.indptr) == pytest.approx(np.full(20, 50), abs=30)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda r, g: clip_rows(-r, 1.0), "rows=-1: expected finite numbers >= 0"),
        (lambda r, g: clip_rows(r * np.nan, 1.0), "rows=not finite: expected finite numbers >= 0"),
        (lambda r, g: clip_rows(r, 0.0), "clip_norm=0.0: expected a finite number > 0"),
        (lambda r, g: noisy_rows(r, 1.0, -1.0, g), "noise_multiplier=-1.0: expected a finite number > 0"),
        (
            lambda r, g: gaussian_release(r, 1.0, 1.0, 3, g),
            "top_k=3: expected an integer in 1..2 (the number of columns)",
        ),
        (lambda r, g: exponential_release(r, 1.0, 0.0, 1, g), "epsilon=0.0: expected a finite number > 0"),
        (lambda r, g: exponential_release(r, 0.0, 1.0, 1, g), "clip_value=0.0: expected a finite number > 0"),
        (lambda r, g: exponential_release(r, 1.0, 1.0, 1, g, 0.0), "epsilon_values=0.0: expected a finite number > 0"),
        (lambda r, g: cap_columns(r, 0, g), "column_cap=0: expected an integer >= 1"),
    ],
)
def test_mistakes_are_one_line(call, line: str) -> None:
    with pytest.raises(UserError) as raised:
        call(sp.csr_matrix(np.eye(2)), numpy_generator("test"))
    assert str(raised.value) == line
