"""DP-SGD over relations (Huang et al. 2025): the coupled-sampling bound as published, and static clipping proved.

m relations, n nodes, degree cap K, k negatives per positive, Poisson rate q over relations; noise multipliers are noise
std / sensitivity (published) or noise std / clip norm (rigorous).
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import logsumexp
from scipy.stats import binom

from dpgraph.privacy.accountants.composition import pair_rdp
from dpgraph.privacy.accountants.double_mixture import Mixture, MixturePair, RevealedPair
from dpgraph.privacy.accountants.renyi import SMALLEST_RDP, Orders

ORDERS: Orders = tuple(order / 10 for order in range(11, 110)) + tuple(map(float, range(12, 64)))
QUADRATURE_STEP = 0.1  # of a standard normal; the integrands are analytic, so the trapezoid rule is exact to rounding
# Batch sizes, in standard deviations from the mean, between which divergences are interpolated by chords. Chances of
# being drawn as a negative; of more, moments, which are smooth in it, are interpolated: densely where the first
# chances raise those of high orders.
MOST_EVALUATED = 40
MOST_NODES = 1 << 17  # of a grid, times the terms of a mixture
NODES = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5])


def _batch_sizes(relations: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of positives in a batch and their probabilities; those left out have less than 1e-20."""
    low, high = 0, 20  # of a mean below 1, at which the quantile function may fail
    if relations * rate >= 1:
        low, high = (int(binom.ppf(tail, relations, rate)) for tail in (1e-15, 1 - 1e-15))
    sizes = np.arange(max(0, low - 5), high + 15)
    return sizes, binom.pmf(sizes, relations, rate)


def _log_moments(
    log_weights: np.ndarray, shifts: np.ndarray, noise: float, orders: np.ndarray, reverse: bool
) -> np.ndarray:
    """Return (orders,) ln E_Q (P/Q)^alpha for P = sum_i w_i N(shift_i, noise^2) and Q = N(0, noise^2).

    With `reverse`, ln E_P (Q/P)^alpha = ln E_Q (P/Q)^(1 - alpha).
    """
    tilt = orders.max() * shifts.max() / noise
    x = np.arange(-12 - (tilt if reverse else 0), 12 + (0 if reverse else tilt), QUADRATURE_STEP)
    ratio = _log_sums(log_weights + x[:, None] * shifts / noise - shifts**2 / (2 * noise**2))
    log_normal = -(x**2) / 2 - np.log(2 * np.pi) / 2 + np.log(QUADRATURE_STEP)
    powers = orders[:, None]
    exponents = (1 - powers if reverse else powers) * ratio
    exponents += log_normal
    return _log_sums(exponents)


def _log_sums(exponents: np.ndarray) -> np.ndarray:
    """Return ln sum exp of each row of (n, m), and overwrite it. No row is -inf throughout. Faster than scipy's."""
    largest = exponents.max(axis=1)
    exponents -= largest[:, None]
    return np.log(np.exp(exponents, out=exponents).sum(axis=1)) + largest


def coupled_rdp(
    *,
    nodes: float,
    relations: float,
    max_degree: int,
    negatives: int,
    rate: float,
    noise: float,
    orders: Orders = ORDERS,
    standard_clipping: bool = False,
) -> np.ndarray:
    """Return the Renyi divergence of one step by Theorem 3 of Huang et al., or by Theorem C.1 (standard clipping).

    Theorem 3: with l positives the node enters with probability 1 - (1 - q)^K (1 - l k / n) and shifts the sum by its
    sensitivity. Theorem C.1: it shifts by Bin(K, q), plus 2 if drawn as a negative; the larger of both directions
    counts.

    Args:
        nodes: n.
        relations: m.
        max_degree: K.
        negatives: k of each positive.
        rate: q of Poisson batches.
        noise: Noise std over sensitivity (Theorem 3) or over the clip norm (Theorem C.1).
        orders: Renyi orders. Orders that would need too long a grid get inf: with so little noise, low orders are best.
        standard_clipping: Use Theorem C.1.
    """
    largest = max_degree + 2 if standard_clipping else 1
    terms = 2 * (max_degree + 1) if standard_clipping else 2
    kept = np.asarray(orders) * largest / noise <= MOST_NODES * QUADRATURE_STEP / terms
    rdp = np.full(len(orders), np.inf)
    if not kept.any():
        return rdp
    chosen = np.asarray(orders)[kept]
    sizes, probabilities = _batch_sizes(relations, rate)
    as_negative = np.minimum(sizes * negatives / nodes, 1.0)
    evaluated = np.unique(as_negative)
    if len(evaluated) > MOST_EVALUATED:
        evaluated = evaluated[0] + (evaluated[-1] - evaluated[0]) * np.linspace(0, 1, MOST_EVALUATED) ** 3
    log_moments = []
    with np.errstate(divide="ignore"):
        for probability in evaluated:
            if standard_clipping:
                counts = np.arange(max_degree + 1)
                drawn = binom.pmf(counts, max_degree, rate)
                weights = np.concatenate([drawn * (1 - probability), drawn * probability])
                shifts = np.concatenate([counts, counts + 2]).astype(float)
            else:
                enters = -np.expm1(max_degree * np.log1p(-rate) + np.log1p(-probability))
                weights, shifts = np.array([1 - enters, enters]), np.array([0.0, 1.0])
            directions = (False, True) if standard_clipping else (False,)
            log_moments.append([_log_moments(np.log(weights), shifts, noise, chosen, back) for back in directions])
        per_evaluated = np.asarray(log_moments)  # (evaluated, directions, orders)
        per_size = (
            per_evaluated
            if len(evaluated) == 1
            else make_interp_spline(evaluated, per_evaluated, min(3, len(evaluated) - 1))(as_negative)
        )
        totals = logsumexp(np.log(probabilities)[:, None, None] + per_size, axis=0)
    rdp[kept] = np.maximum(totals.max(axis=0) / (chosen - 1), SMALLEST_RDP)  # rounding may go below zero
    return rdp


def static_pair(
    *, nodes: int, relations: int, max_degree: int, refill: int, negatives: int, rate: float, noise: float
) -> RevealedPair:
    """Return the dominating pair of a step whose tuples are each clipped to norm 1 (Theorem 28).

    The batch size l is revealed. Given l unaffected positives, one side shifts by Bin(K + D, q) + 2 Bern(l k / n), the
    other by Bin(D, q); D relations enter through the stable sampler when others leave. Divergences are convex in the
    Bernoulli probability, so chords between a few batch sizes bound their average from above. Where l k exceeds n,
    which mechanisms refuse, the probability is 1. `noise` is noise std over clip norm.
    """
    sizes, probabilities = _batch_sizes(relations, rate)
    probabilities[-1] += max(0.0, 1 - probabilities.sum())
    mean, std = relations * rate, np.sqrt(relations * rate)
    full = nodes // negatives  # from here on the chance is 1, and a chord across this corner would be below
    inner = np.append((mean + std * NODES).round(), (full, full + 1)).clip(sizes[0], sizes[-1])
    nodes_at = np.unique([sizes[0], *inner, sizes[-1]])
    right = np.searchsorted(nodes_at, sizes, side="left").clip(1, len(nodes_at) - 1)
    share = (sizes - nodes_at[right - 1]) / (nodes_at[right] - nodes_at[right - 1])
    weights = np.bincount(right, probabilities * share, len(nodes_at))
    weights += np.bincount(right - 1, probabilities * (1 - share), len(nodes_at))
    lost, entered = Mixture.binomial(count=max_degree + refill, rate=rate), Mixture.binomial(count=refill, rate=rate)
    pairs = [
        MixturePair(
            lost.plus(Mixture.binomial(count=1, rate=min(1.0, size * negatives / nodes), unit=2.0)), entered, noise
        )
        for size in nodes_at
    ]
    kept = weights > 0
    return RevealedPair(
        tuple((weights[kept] / weights.sum()).tolist()), tuple(pair for pair, keep in zip(pairs, kept) if keep)
    )


def static_rdp(pair: RevealedPair, orders: Orders = ORDERS) -> np.ndarray:
    """Return the Renyi divergence of one step with static clipping: moments averaged over revealed batch sizes."""
    scale = np.asarray(orders) - 1
    moments = np.stack([scale * pair_rdp(one, orders) for one in pair.pairs])
    return logsumexp(np.log(pair.weights)[:, None] + moments, axis=0) / scale
