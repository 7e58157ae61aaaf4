"""Predictions and epsilons are those of the record: what is moved or renamed must not change a number."""

import numpy as np
import pytest

from tests.contract.cells import CELLS
from tests.record.compare import recorded_name
from tests.record.small import now, recorded

RECORD = recorded()
NEAR = 1e-4  # of probabilities: products of matrices differ between machines


@pytest.mark.parametrize("name", CELLS)
def test_cells_give_the_recorded_numbers(name):
    key, found = now(name)
    if key not in RECORD:
        pytest.skip("newer than the record: python -m tests.record.small")
    known = RECORD[key]
    assert {field: found[field] for field in ("published", "rigorous", "noise")} == {
        field: known[field] for field in ("published", "rigorous", "noise")
    }
    assert np.allclose(found["probabilities"], known["probabilities"], rtol=0, atol=NEAR)


def test_no_recorded_cell_is_missing():
    assert len(RECORD) == len(CELLS)
    assert set(RECORD) <= {recorded_name(cell.model_dump(mode="json")) for cell in CELLS.values()}
