"""Nothing that a run stores gives the number of records that its batches read, alone or with another number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from dpgraph.reporting.dictionary import COLUMNS
from tests.contract.cells import CELLS, PRIVATE
from tests.contract.test_methods import calibrated, first_run


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested mappings and sequences by their place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from numbers(inner, f"{path}.{index}")
    elif isinstance(value, int | float) and value:
        yield path, float(value)


def stored(toy: Any, name: str, seed: int) -> tuple[int, dict[str, float]]:
    """Return the records that a run read, and all numbers of its outcome and its mechanism."""
    outcome, _, read = first_run(toy, name, seed)
    unseen = ("logits", "observations", "exposure")  # arrays, and metrics of predictions
    kept = {field: value for field, value in vars(outcome).items() if field not in unseen}
    statement = calibrated(CELLS[name], toy).statement
    public = statement.mechanism | {"steps": statement.steps}
    return sum(read), dict(numbers({"outcome": kept, "mechanism": public}))


@pytest.mark.parametrize("name", PRIVATE)
def test_no_stored_number_gives_the_records_read(toy: Any, name: str) -> None:
    """No number x and no x y / z gives the counts of both of two seeds; batches of fixed size are public."""
    counts, found = zip(*(stored(toy, name, seed) for seed in (0, 1)), strict=True)
    if counts[0] == counts[1]:
        pytest.skip("as many records in both seeds: their number is public, or nothing is read in batches")
    places = [place for place in found[0] if place in found[1]]
    telling = [place for place in places if found[0][place] != found[1][place]]

    def told(*chosen: str) -> bool:
        values = [[one[place] for place in chosen] for one in found]
        results = [x * (y[0] / y[1] if y else 1) for x, *y in values]
        return all(abs(result - count) < 1e-6 * count for result, count in zip(results, counts, strict=True))

    assert not [place for place in places if told(place)]
    assert not [chosen for chosen in permutations(places, 3) if set(chosen) & set(telling) and told(*chosen)]


def test_no_column_of_results_is_a_rate_of_records() -> None:
    rates = [name for name in COLUMNS if name.endswith("_per_second")]
    assert rates == ["steps_per_second"]
