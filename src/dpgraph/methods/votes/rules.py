"""Public rules: steps, rates, shares of the budget and readers, from a data set's declared numbers and from epsilon.

No record is read: nodes, training nodes, classes and mean degree are those that the registry declares, so nothing is
paid. Where the constants come from is in docs/privacy.md, 12.9.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from dpgraph.errors import invalid
from dpgraph.privacy.public_numbers import usual_delta
from dpgraph.privacy.vote_sensitivity import capped_votes, vote_norm
from dpgraph.problems.base import Size

FEW, MANY = (
    500.0,
    1500.0,
)  # of `strength`: below, class sums; above, steps of gradient descent until they have converged
SIGNAL = 1.2  # of votes over noise in a bucket under node-remove, below which own records are all that is used
ROW_NORM = 10.0  # of the rows that networks read (methods/votes/prepared.py)
READER = {"shrinkage": 3.0, "strength": 4.0}
MASS = 0.3
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


def bounded_votes(size: Size, epsilon: float | None, degree_bound: int, taper: float = 1.0) -> Setting:
    """Under node-remove with a public D: votes where a mean node's bucket has a signal."""
    share, degree = 0.5, size.entries / size.nodes
    weight = (1 + taper * (1 - 2 * math.sqrt(min(degree / degree_bound, 1)))) / math.sqrt(degree_bound)
    norm = vote_norm(num_classes=size.classes, mass=MASS)
    signal = degree * weight * _mu(size, epsilon) * math.sqrt(share) / norm
    setting = own_records(size, epsilon) if signal < SIGNAL else _with(size, epsilon, votes_share=share)
    return _merged(setting, variant="node-remove", degree_bound=degree_bound, taper=taper)


def votes_with_caps(size: Size, epsilon: float | None) -> Setting:
    """Under node-remove without a schema: the caps for which a mean node's bucket has the largest signal."""
    mu, delta = _mu(size, epsilon), usual_delta(size.nodes)
    degree, most = size.entries / size.nodes, size.nodes - 1
    norm = vote_norm(num_classes=size.classes, mass=MASS)
    best: tuple[float, Setting] = (0.0, {})
    for share, hubs, times in product((0.05, 0.1, 0.2), (None, 0.05, 0.1), (3.0, 6.0)):
        limit, reach = None, float(most)
        if hubs is not None:
            limit = math.ceil(times * degree) + 10
            # z_a of delta / 20 is below sqrt(2 log(20 / delta))
            reach = min(most, limit + math.sqrt(2 * math.log(20 / delta)) * math.sqrt(most / hubs) / mu)
        std = math.sqrt(reach / share) / mu
        for margin, floor in product((1.0, 1.5, 2.0, 2.5, 3.0), (16, 32, 64, 128, 256)):
            cap = max(degree + 1 + margin * std, floor)
            moved = capped_votes(degree_bound=math.ceil(reach), margin=margin, degree_floor=floor, failure=delta / 20)
            signal = degree / math.sqrt(cap) * mu * math.sqrt(0.5) / (moved * norm)
            if signal > best[0]:
                found = {"degrees_share": share, "cap_margin": margin, "degree_floor": floor}
                best = signal, found | ({} if hubs is None else {"hub_share": hubs, "hub_limit": limit})
    if best[0] < SIGNAL:
        return _merged(own_records(size, epsilon), variant="node-remove-capped")
    paid = 0.5 + best[1]["degrees_share"] + best[1].get("hub_share", 0.0)
    return _merged(_with(size, epsilon, votes_share=0.5, paid=paid), variant="node-remove-capped", **best[1])


def _mu(size: Size, epsilon: float | None) -> float:
    if epsilon is None:
        raise invalid("privacy.epsilon", None, "a target, from which a public rule makes settings")
    return gaussian_mu(epsilon, usual_delta(size.nodes))


def _with(size: Size, epsilon: float | None, *, votes_share: float, paid: float | None = None) -> Setting:
    setting = own_records(size, epsilon, votes_share if paid is None else paid)
    return _merged(setting, votes_share=votes_share, vote_mass=MASS, **READER)


def _merged(setting: Setting, **privacy: Any) -> Setting:
    return {**setting, "privacy": {**setting["privacy"], **privacy}}
