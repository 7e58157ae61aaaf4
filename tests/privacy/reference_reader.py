"""Reference values of Theorem 17 (docs/privacy/votes.md) by ways of their own: nothing of the package is imported.

`python -m tests.privacy.reference_reader` prints their rows for reference_values.csv. An epsilon is solved for in the
hockey-stick divergence: of full batches the integral of max(0, P - exp(epsilon) Q) over a Gaussian answer, for each
answer of the choice; of Poisson batches a privacy-loss distribution on a grid, by FFT. What an edge moves of the
buckets is the largest over degrees and common neighbours of its two ends.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from typing import Any

import mpmath
import numpy as np
from scipy.special import ndtr

DELTA, MOST_DEGREE, GRID = 1e-5, 40, 2e-4
FULL: dict[str, Any] = {
    "q": 1, "noise_multiplier": 20.0, "steps": 40, "sigma_votes_over_norm": 6.0, "sigma_mean": 30.0, "eps_choice": 0.2,
    "sigma_reader": 40.0, "reader_steps": 20, "mass": 0.3, "degree_floor": 8, "num_train": 2000,
}  # fmt: skip
POISSON: dict[str, Any] = {name: value for name, value in FULL.items() if name != "sigma_mean"}
POISSON |= {"q": 0.1, "noise_multiplier": 3.0, "steps": 50}
ROWS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    # id, mode, parameters, what
    ("R419", "rigorous", FULL, "votes: a learnt reader; node-null"),
    ("R420", "rigorous", FULL | {"eps_choice": 0}, "votes: a learnt reader, no choice"),
    ("R421", "rigorous", FULL | {"reader_steps": 1}, "votes: a reader that is learnt in one step"),
    ("R422", "rigorous", FULL | {"votes_relation": "record-replace"}, "votes: a learnt reader, a record replaced"),
    ("R423", "rigorous", FULL | {"votes_relation": "edge"}, "votes: a learnt reader, an edge, degree floor 8"),
    ("R424", "rigorous", FULL | {"votes_relation": "edge", "degree_floor": 1},
     "votes: a learnt reader, an edge, degree floor 1"),
    ("R425", "rigorous", FULL | {"votes_relation": "edge", "mass": 1.0, "eps_choice": 0},
     "votes: a learnt reader, an edge, no choice, no two votes oppose each other"),
    ("R426", "rigorous", POISSON, "votes: a learnt reader, Poisson batches, choice; node-null"),
    ("R427", "bug", FULL | {"votes_relation": "edge", "sigma_reader": 80.0},
     "votes: a learnt reader, an edge charged as if it moved one gradient (bug)"),
)  # fmt: skip


def moved_by_an_edge(mass: float, floor: int) -> float:
    """In norms of a vote, two classes: both ends' weights change, on their buckets and on each other's, and their votes
    are any two probability vectors, of which equal and opposite ones are the extremes."""
    norm = 0.5 + mass**2
    least = (mass**2 - 0.5) / norm  # inner product of opposite votes

    def weight(degree: int) -> float:
        return 1 / math.sqrt(max(degree + 1, floor))

    most = 0.0
    for one, other in itertools.product(range(1, MOST_DEGREE + 1), repeat=2):
        for common in {0, min(one, other) - 1}:
            # buckets: the first end's, the second's, common neighbours, neighbours of one end alone
            moved = [weight(degree - 1) - weight(degree) for degree in (one, other)]
            first = np.array([moved[0], -weight(one), *[moved[0]] * (one - 1), *[0.0] * (other - 1 - common)])
            second = np.zeros_like(first)
            second[:2] = -weight(other), moved[1]
            second[2 : 2 + common] = moved[1]
            second[2 + one - 1 :] = moved[1]
            for inner in (1.0, min(least, 0.0), 0.0):
                most = max(most, first @ first + second @ second + 2 * inner * (first @ second))
    return math.sqrt(most)


def gaussian_mu(p: dict[str, Any]) -> float:
    """Of all full-batch parts: each one's sensitivity over its noise."""
    relation, mass = p.get("votes_relation", "node-null"), p["mass"]
    opposed = max(0.0, 0.5 - mass**2) / (0.5 + mass**2)
    own, votes, gradients = {
        "node-null": (1.0, 1.0, 1.0),  # the record's row, votes and gradients, each there or not
        "record-replace": (2.0, math.sqrt(2 + 2 * opposed), 2.0),  # two of each, as far apart as they may be
        "edge": (0.0, moved_by_an_edge(mass, p["degree_floor"]), 4.0),  # two ends' gradients in the place of two others
    }[relation]
    parts = [votes / p["sigma_votes_over_norm"]]
    parts += [own / p["sigma_mean"]] if "sigma_mean" in p else []
    parts += [own / p["noise_multiplier"]] * p["steps"] if p["q"] == 1 else []
    parts += [gradients / p["sigma_reader"]] * p["reader_steps"]
    return math.sqrt(math.fsum(part**2 for part in parts))


def choice_epsilon(p: dict[str, Any]) -> float:
    """One utility moves in one direction; in any direction; or two, in any direction."""
    return float(
        p["eps_choice"] * {"node-null": 1, "record-replace": 2, "edge": 4}[p.get("votes_relation", "node-null")]
    )


def full_delta(mu: float, choice: float, epsilon: float) -> Any:
    """Integral of max(0, P - exp(epsilon) Q): P an answer N(mu, 1), Q N(0, 1), beside a coin of odds exp(+-choice)."""
    total, likely = mpmath.mpf(0), 1 / (1 + mpmath.exp(-choice))
    coins = ((likely, 1 - likely), (1 - likely, likely)) if choice else ((mpmath.mpf(1), mpmath.mpf(1)),)
    for under_p, under_q in coins:
        total += _positive_part(mu, under_p, mpmath.exp(epsilon) * under_q)
    return total


def _positive_part(mu: float, times_p: Any, times_q: Any) -> Any:
    low = (mpmath.log(times_q / times_p) + mpmath.mpf(mu) ** 2 / 2) / mu  # where both densities are equal
    places = [low, low + 2, low + 5, max(low, mu) + 12, max(low, mu) + 30]
    return mpmath.quad(lambda x: times_p * mpmath.npdf(x, mu, 1) - times_q * mpmath.npdf(x, 0, 1), places)


def solved(delta_of: Any, high: float) -> float:
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > DELTA else (low, middle)
    return high


def poisson_epsilon(p: dict[str, Any]) -> float:
    """The larger one of both directions; node-null alone."""
    return max(_poisson_epsilon(p, removed) for removed in (True, False))


def _poisson_epsilon(p: dict[str, Any], removed: bool) -> float:
    """Losses are rounded to the nearest point of the grid, an error of about sqrt(T) GRID / 4."""
    rate, noise, mu, choice = p["q"], p["noise_multiplier"], gaussian_mu(p), choice_epsilon(p)
    size = 1 << 19
    edges = (np.arange(size + 1) - size // 2 - 0.5) * GRID  # of bins of losses

    def mixed(x: np.ndarray) -> np.ndarray:
        return np.asarray((1 - rate) * ndtr(x / noise) + rate * ndtr((x - 1) / noise))

    # loss of the mixture over N(0, s^2) at x; where it is at most a loss
    shrunk = np.where(edges > math.log1p(-rate), np.expm1(np.clip(edges, math.log1p(-rate), 50)) / rate, -1.0)
    with np.errstate(divide="ignore"):
        x = np.where(edges > math.log1p(-rate), noise**2 * np.log1p(np.maximum(shrunk, -1.0)) + 0.5, -np.inf)
    # N(0, s^2) over the mixture has the other's loss with its sign changed
    step = np.diff(mixed(x)) if removed else np.diff(ndtr(x / noise))[::-1]
    gauss = np.diff(ndtr((edges - mu**2 / 2) / mu))
    likely = 1 / (1 + math.exp(-choice))
    coin = np.zeros(size)
    for sign, share in ((1, likely), (-1, 1 - likely)):
        coin[size // 2 + round(sign * choice / GRID)] += share
    product = np.fft.rfft(np.fft.ifftshift(step)) ** p["steps"]
    for part in (gauss, coin):
        product = product * np.fft.rfft(np.fft.ifftshift(part))
    masses = np.fft.fftshift(np.fft.irfft(product, size))
    losses = (np.arange(size) - size // 2) * GRID

    def delta_of(epsilon: float) -> float:
        above = losses > epsilon
        return float((masses[above] * -np.expm1(epsilon - losses[above])).sum())

    return solved(delta_of, 20.0)


def epsilon_of(p: dict[str, Any]) -> float:
    if p["q"] < 1:
        return poisson_epsilon(p)
    return solved(lambda epsilon: full_delta(gaussian_mu(p), choice_epsilon(p), epsilon), 30.0)


def rows() -> list[list[str]]:
    found = []
    for name, mode, parameters, what in ROWS:
        how = "privacy-loss distribution by FFT, grid 2e-4" if parameters["q"] < 1 else "integral of the divergence"
        source = f"computed: {how} (tests/privacy/reference_reader.py)"
        epsilon = f"{epsilon_of(parameters):.6g}"
        found.append([name, "private_votes", mode, json.dumps(parameters), f"{DELTA:g}", "epsilon", epsilon, "0.003",
                      what, source])  # fmt: skip
    return found


if __name__ == "__main__":
    csv.writer(sys.stdout).writerows(rows())
