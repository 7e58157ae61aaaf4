"""Public rules: teachers, caps and threshold, from a data set's declared numbers and from epsilon. No record is read.

Constants were fixed on four synthetic graphs (docs/privacy.md, 14.1): a part has as many nodes as the noise allows, and
as many queries are answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.privacy.public_numbers import gaussian_mu, usual_delta
from dpgraph.problems.base import Size

PER_CLASS, MOST = 0.3, 1.75  # nodes of a part over the root of mu sqrt(N): this for each class, and at most that
FULL_MU, LEAST_SHARE = 2.0, 0.25  # where all queries are answered, and the least share of them
PUBLIC_SHARE = 0.1  # of the nodes, assumed to be the validation nodes: caps follow it, and hold whatever it is
THRESHOLD, RATIO = 0.3, 10.0  # of the checks that choose whom to answer
NOISELESS = 20  # nodes of a part
NONE = -10.0  # a threshold that every query passes


def without_noise(size: Size, epsilon: float | None) -> Mapping[str, Any]:
    """Parts of `NOISELESS` nodes: no noise has to be outvoted."""
    return {"training": {"teachers": max(2, round(size.train_nodes / NOISELESS))}}


def by_noise(size: Size, epsilon: float | None) -> Mapping[str, Any]:
    """Raises UserError without a target."""
    if epsilon is None:
        raise invalid("privacy.epsilon", None, "a target, from which a public rule makes settings")
    mu = gaussian_mu(epsilon=epsilon, delta=usual_delta(size.train_nodes))
    nodes = min(PER_CLASS * size.classes, MOST) * math.sqrt(mu * math.sqrt(size.train_nodes))
    queries = max(1, round(PUBLIC_SHARE * size.nodes))
    share = min(max(mu / FULL_MU, LEAST_SHARE), 1.0)
    return {
        "training": {"teachers": max(2, min(round(size.train_nodes / nodes), size.train_nodes))},
        "privacy": {
            "max_checks": queries,
            "max_answers": max(1, round(share * queries)),
            "check_ratio": RATIO,
            "threshold": THRESHOLD if share < 1 else NONE,
        },
    }
