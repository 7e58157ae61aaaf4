"""The trials of a search over hyper-parameters."""

from __future__ import annotations

from itertools import product
from typing import Any

from dpgraph.config.expansion import merged
from dpgraph.config.experiment import Search
from dpgraph.core.randomness import numpy_generator


def trials(artefact: str, search: Search) -> dict[str, dict[str, Any]]:
    """Settings of every trial by its label; random ones are drawn once for the artefact, for all methods and tasks.

    >>> trials("p/s", Search(strategy="grid", space={"training.steps": (1, 2)}))["trial 2"]
    {'training': {'steps': 2}}
    """
    if search.strategy == "grid":
        drawn = list(product(*search.space.values()))
    elif search.strategy == "orthogonal":  # columns i, j, i + j mod n
        first, second, third = search.space.values()
        places = product(range(len(first)), repeat=2)
        drawn = [(first[i], second[j], third[(i + j) % len(third)]) for i, j in places]
    else:
        random = numpy_generator("dpgraph", "search", artefact)
        mean = search.trials or 1
        count = {
            "fixed": lambda: mean,
            "geometric": lambda: int(random.geometric(1 / mean)),
            "poisson": lambda: int(random.poisson(mean)),
        }[search.distribution]()
        drawn = [tuple(values[random.integers(len(values))] for values in search.space.values()) for _ in range(count)]
    return {
        f"trial {number}": merged(*(_nested(path, value) for path, value in zip(search.space, values, strict=True)))
        for number, values in enumerate(drawn, 1)
    }


def _nested(path: str, value: Any) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]
