"""Numbers that mechanisms, prepared steps and the command line derive from public ones alike, each written once.

Audits derive them again on purpose (audits/theory.py, audits/probes.py): a mistake here would agree with itself.
"""

from __future__ import annotations

from functools import lru_cache


def usual_delta(num_roots: int) -> float:
    """1 / (10 N), as in the papers.

    >>> usual_delta(90941)
    1.0996140354735488e-06
    """
    return 1 / (10 * num_roots)


def default_delta(*, num_roots: int, num_protected: int | None) -> float:
    """`usual_delta` of the roots N; of all protected where the first would mean nothing: delta >= 1 / their number.

    N counts the nodes that have a loss term; for rows of PageRank the training nodes, from which the rows' M roots are
    taken. Both are public.
    """
    usual = usual_delta(num_roots)
    return usual if num_protected is None or usual < 1 / num_protected else usual_delta(num_protected)


def expected_batch(*, rate: float, num_roots: int) -> float:
    """q N: mean size of a Poisson batch, and the public divisor of its noisy sum (a batch's own size is private)."""
    return rate * num_roots


def whole_batch(*, rate: float, num_roots: int) -> int:
    """q N rounded, at least one root: m of batches of fixed size."""
    return max(1, round(expected_batch(rate=rate, num_roots=num_roots)))


def noise_std(*, noise_over_clip: float, clip_norm: float) -> float:
    """Noise std per coordinate in the unit of the gradients (or rows): noise std / clip norm times the clip norm."""
    return noise_over_clip * clip_norm


def nodes_with_loss(*, num_train: int, train_share: float) -> int:
    """N: the share of the training nodes that have a loss, at least one."""
    return max(1, round(train_share * num_train))


@lru_cache(maxsize=4096)  # a plan has hundreds of cells and few budgets
def gaussian_mu(*, epsilon: float, delta: float) -> float:
    """The mu whose Gaussian DP has this epsilon at delta (Balle & Wang 2018), to a relative error of 1e-9.

    It only picks settings: what a run is charged is solved for by its own accountant, so that no error here is one of
    epsilon.
    """
    import dp_accounting

    return 1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta))
