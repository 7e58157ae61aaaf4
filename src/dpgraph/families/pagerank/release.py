"""Private release of approximate personalised PageRank rows (Zhang 2021, chapter 5, DP-APPR).

The private input is a matrix of M rows, one for each of M public roots: (M, n), sparse, entries >= 0. Changing one
node's record may change every row. Two mechanisms release the K largest entries of every row.

Gaussian: clip each row to norm C1, add noise to every entry of the matrix, keep the K largest noisy entries of a row.
Non-negative rows of norm <= C1 are at most sqrt(2) C1 apart, so the whole matrix is one Gaussian mechanism of
sensitivity sqrt(2 M) C1. Theorem 6 of the thesis states C1 a row.

Exponential (Algorithm 8): clip each entry at C2, draw K columns of a row without replacement with weights exp(eps p /
C2), by Gumbel noise of scale C2 / eps. Each of the M K draws has bounded range 2 eps.

A root's training loss then reads the records of the nodes that its released row names. So one node changes its own root
and as many roots as name it. `cap_columns` bounds that number; it reads released values only, hence is free.
`families.pagerank.epsilon` has the budgets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import invalid
from dpgraph.privacy.public_numbers import noise_std

CHUNK_ENTRIES = 1 << 24  # of a dense piece of the matrix: 128 MiB


def matrix_sensitivity(num_rows: int, clip_norm: float) -> float:
    """Return sqrt(2 M) C1, the L2 distance of two matrices of M non-negative rows of norm at most `clip_norm` = C1."""
    return math.sqrt(2 * num_rows) * clip_norm


def clip_rows(rows: sp.csr_matrix, clip_norm: float) -> sp.csr_matrix:
    """Scale every row p of (M, n) by 1 / max(1, |p| / C1), to L2 norm at most `clip_norm` = C1.

    Raises:
        UserError: For negative entries, with which rows would be up to 2 C1 apart, and for entries that are not finite.
    """
    _check_number("clip_norm", clip_norm)
    rows = _checked(rows)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    factors = 1 / np.maximum(1.0, norms / clip_norm)
    return sp.csr_matrix((rows.data * np.repeat(factors, np.diff(rows.indptr)), rows.indices, rows.indptr), rows.shape)


def noisy_rows(
    rows: sp.csr_matrix, clip_norm: float, noise_multiplier: float, generator: np.random.Generator
) -> np.ndarray:
    """Return the clipped rows (M, n) with N(0, (noise_multiplier C1)^2) added to every entry, zeros included.

    Guarantee: mu-Gaussian DP of the whole matrix, mu = sqrt(2 M) / noise_multiplier. The result is dense:
    `gaussian_release` works in pieces.
    """
    _check_number("noise_multiplier", noise_multiplier)
    clipped = clip_rows(rows, clip_norm)
    std = noise_std(noise_over_clip=noise_multiplier, clip_norm=clip_norm)
    noise = generator.normal(scale=std, size=clipped.shape)
    return np.asarray(noise + clipped)


def gaussian_release(
    rows: sp.csr_matrix, clip_norm: float, noise_multiplier: float, top_k: int, generator: np.random.Generator
) -> sp.csr_matrix:
    """Return (M, n) with the `top_k` = K largest entries of each of the `noisy_rows`; they may be negative.

    The guarantee is that of `noisy_rows`: which entries are kept, and their values, are post-processing.
    """
    _check_top_k(top_k, rows.shape[1])
    kept = []
    for piece in _pieces(_checked(rows)):
        noisy = noisy_rows(piece, clip_norm, noise_multiplier, generator)
        columns = _largest(noisy, top_k)
        kept.append((columns, np.take_along_axis(noisy, columns, axis=1)))
    return _packed(kept, rows.shape)


def exponential_release(
    rows: sp.csr_matrix,
    clip_value: float,
    epsilon: float,
    top_k: int,
    generator: np.random.Generator,
    epsilon_values: float | None = None,
) -> sp.csr_matrix:
    """Return (M, n) with K entries per row, chosen by the exponential mechanism on entries clipped at C2.

    Guarantee: M (K epsilon^2 / 2 + epsilon_values^2 / 2)-zCDP (`families.pagerank.epsilon.exponential_epsilon`).

    Args:
        rows: (M, n) entries >= 0.
        clip_value: C2.
        epsilon: Of each draw.
        top_k: K.
        generator: Secret noise.
        epsilon_values: None: every chosen entry becomes 1 / K (option 1 of Algorithm 8). Otherwise it keeps its clipped
            value, plus Laplace noise of scale K C2 / epsilon_values (option 2).
    """
    _check_number("clip_value", clip_value)
    _check_number("epsilon", epsilon)
    if epsilon_values is not None:
        _check_number("epsilon_values", epsilon_values)
    _check_top_k(top_k, rows.shape[1])
    kept = []
    for piece in _pieces(_checked(rows)):
        clipped = np.minimum(piece.toarray(), clip_value)
        columns = _largest(clipped + generator.gumbel(scale=clip_value / epsilon, size=clipped.shape), top_k)
        values = np.full(columns.shape, 1 / top_k)
        if epsilon_values is not None:
            noise = generator.laplace(scale=top_k * clip_value / epsilon_values, size=columns.shape)
            values = np.take_along_axis(clipped, columns, axis=1) + noise
        kept.append((columns, values))
    return _packed(kept, rows.shape)


def largest_entries(rows: sp.csr_matrix, top_k: int, value: float | None = None) -> sp.csr_matrix:
    """Return the `top_k` = K largest entries of each row, or `value` in their place; for public rows, without noise.

    A row with fewer entries keeps all.
    """
    _check_top_k(top_k, rows.shape[1])
    kept = []
    for piece in _pieces(_checked(rows)):
        dense = piece.toarray()
        columns = _largest(dense, top_k)
        kept.append((columns, np.take_along_axis(dense, columns, axis=1)))
    largest = _packed(kept, rows.shape)
    largest.eliminate_zeros()
    if value is not None:
        largest.data[:] = value
    return largest


def cap_columns(released: sp.csr_matrix, column_cap: int, generator: np.random.Generator) -> sp.csr_matrix:
    """Keep at most `column_cap` = K_col entries of every column: those of smallest priority.

    Guarantee: one node is in at most K_col rows, so at most K_col + 1 roots read its record. Priorities come from
    `generator`, which must be public (keyed by names), not from private data.
    """
    if column_cap < 1:
        raise invalid("column_cap", column_cap, "an integer >= 1")
    entries = released.tocoo()
    order = np.lexsort((generator.random(entries.nnz), entries.col))
    counts = np.bincount(entries.col, minlength=released.shape[1])
    place = np.arange(entries.nnz) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.sort(order[place < column_cap])
    return sp.csr_matrix((entries.data[kept], (entries.row[kept], entries.col[kept])), released.shape)


def _checked(rows: sp.csr_matrix) -> sp.csr_matrix:
    rows = sp.csr_matrix(rows, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise invalid("rows", "not finite", "finite numbers >= 0")
    if rows.nnz and rows.data.min() < 0:
        raise invalid("rows", f"{rows.data.min():g}", "finite numbers >= 0")
    return rows


def _check_number(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise invalid(name, value, "a finite number > 0")


def _check_top_k(top_k: int, num_columns: int) -> None:
    if not 1 <= top_k <= num_columns:
        raise invalid("top_k", top_k, f"an integer in 1..{num_columns} (the number of columns)")


def _pieces(rows: sp.csr_matrix) -> Iterator[sp.csr_matrix]:
    """Yield consecutive rows whose dense form is small; the stream of noise does not depend on where they end."""
    step = max(1, CHUNK_ENTRIES // rows.shape[1])
    for start in range(0, max(1, rows.shape[0]), step):
        yield rows[start : start + step]


def _largest(values: np.ndarray, top_k: int) -> np.ndarray:
    """Return the columns (m, K) of the K largest entries of every row, ascending."""
    return np.sort(np.argpartition(values, -top_k, axis=1)[:, -top_k:], axis=1)


def _packed(kept: list[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]) -> sp.csr_matrix:
    """Join pieces of (m, K) columns and values to one matrix (M, n) with K entries a row."""
    columns, values = (np.concatenate(parts) for parts in zip(*kept))
    ptr = np.arange(shape[0] + 1) * columns.shape[1]
    return sp.csr_matrix((values.ravel(), columns.ravel(), ptr), shape)
