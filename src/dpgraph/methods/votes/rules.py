"""Public rules: steps, rates, shares of the budget and readers, from a data set's declared numbers and from epsilon.

No record is read: nodes, training nodes, classes and mean degree are those that the registry declares, so nothing is
paid. Where the constants come from is in docs/privacy.md, 12.9.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from dpgraph.errors import invalid
from dpgraph.methods.votes.caps import best_caps
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.problems.base import Size

FEW, MANY = (
    500.0,
    1500.0,
)  # of `strength`: below, class sums; above, steps of gradient descent until they have converged
# under node-remove: below which signal of votes over noise own records are all that is used, and what a bucket in units
# of its noise weighs beside the own prediction, per unit of signal and at most. Records of few words say little
FEW_WORDS = 20.0
WEAK_RECORDS, STRONG_RECORDS = (1.2, 1.0, 1.5), (4.0, 1 / 6, 1.0)
# under node-remove what training gets is what class sums need, between these shares of the squared mu
ENOUGH, LEAST_TRAINING, MOST_TRAINING = 1000.0, 0.15, 0.5
ROW_NORM = 10.0  # of the rows that networks read (methods/votes/prepared.py)
READER = {"shrinkage": 3.0, "strength": 4.0}
MASS = 0.3
LITTLE_MASS = 0.01  # where no reader needs the coordinate that counts voters
HALVINGS = 50
Setting = dict[str, Any]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu whose Gaussian DP has this epsilon at delta."""
    from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

    low, high = 0.0, 1.0
    while gaussian_epsilon(mu=high, delta=delta) < epsilon:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_epsilon(mu=middle, delta=delta) < epsilon else (low, middle)
    return low


def own_records(size: Size, epsilon: float | None, paid: float = 0.0) -> Setting:
    """Training alone, with 1 - `paid` of the squared mu: class sums, few steps or many.

    N / C records add up in each of C class sums, whose noise is 1 / mu each: sqrt(C) N / C of signal for one of noise.
    """
    mu = _mu(size, epsilon) * math.sqrt(1 - paid)
    strength = size.train_nodes * mu / math.sqrt(size.classes)
    steps, rate, momentum, mean = (1, 3.6, 0.0, 0.1)
    if strength >= FEW:
        steps, rate, momentum, mean = (5, 2.0, 0.5, 0.05) if strength < MANY else (20, 1.0, 0.9, 0.03)
    return {
        "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0, "decoder_layers": 1},
        "training": {
            "optimizer": "sgd",
            "learning_rate": rate,
            "momentum": momentum,
            "steps": steps,
            "sampling_rate": 1.0,
            "averaged_share": 0.5 if steps > 1 else 0.0,
        },
        "privacy": {
            # of a record whose prediction says nothing: the gradient's largest norm at the first step
            "clip_norm": round(ROW_NORM * math.sqrt(1 - 1 / size.classes), 6),
            "votes_share": 0.0,
            "mean_share": round(mean * (1 - paid), 6),
        },
    }


def votes(size: Size, epsilon: float | None) -> Setting:
    """Under node-null: 0.3 of the squared mu where training needs the rest, else 0.5; none where few would add up."""
    records = size.train_nodes * _mu(size, epsilon)
    scarce = records < 1000
    if scarce and size.entries / size.nodes * size.classes < 16:
        return own_records(size, epsilon)
    return _with(size, epsilon, votes_share=0.3 if scarce else 0.5)


def votes_with_caps(size: Size, epsilon: float | None) -> Setting:
    """Under node-remove without a schema: the caps for which a mean node's bucket has the largest signal."""
    return _one_way(size, epsilon, None)


def votes_with_schema(size: Size, epsilon: float | None) -> Setting:
    """The same where the registry declares a bound on degrees that is assumed to be public."""
    if size.degree_bound is None:
        raise invalid("public_rule", "votes-with-schema", "a data set whose registry entry assumes a degree_bound")
    return _one_way(size, epsilon, size.degree_bound)


@lru_cache
def _one_way(size: Size, epsilon: float | None, degree_bound: int | None) -> Setting:
    mu = _mu(size, epsilon)
    training = (ENOUGH / (size.train_nodes * mu / math.sqrt(size.classes))) ** 2
    training = round(min(max(training, LEAST_TRAINING), MOST_TRAINING), 4)
    found = best_caps(size, mu, degree_bound, training)
    extra: dict[str, Any] = {} if degree_bound is None else {"degree_bound": degree_bound}
    weak = size.words is not None and size.words < FEW_WORDS
    needed, slope, most = WEAK_RECORDS if weak else STRONG_RECORDS
    if found.signal < needed:
        return _merged(own_records(size, epsilon), variant="node-remove-capped", **extra)
    share = round(1 - training - found.hub_share, 6)
    setting = own_records(size, epsilon, 1 - training)
    mean = setting["privacy"]["mean_share"]
    extra |= {"votes_share": round(share - mean, 6), "vote_mass": LITTLE_MASS}
    extra |= {"strength": round(min(slope * found.signal, most), 3), "degrees_share": found.degrees_share}
    extra |= {"cap_margin": found.margin, "degree_floor": found.floor}
    if found.hub_share:
        extra |= {"hub_share": found.hub_share, "hub_limit": found.hub_limit}
    return _merged(setting, variant="node-remove-capped", **extra)


def _mu(size: Size, epsilon: float | None) -> float:
    if epsilon is None:
        raise invalid("privacy.epsilon", None, "a target, from which a public rule makes settings")
    return gaussian_mu(epsilon, usual_delta(size.nodes))


def _with(size: Size, epsilon: float | None, *, votes_share: float) -> Setting:
    setting = own_records(size, epsilon, votes_share)
    return _merged(setting, votes_share=votes_share, vote_mass=MASS, **READER)


def _merged(setting: Setting, **privacy: Any) -> Setting:
    return {**setting, "privacy": {**setting["privacy"], **privacy}}
