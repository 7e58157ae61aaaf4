"""Records that are declared dense or sparse."""

from collections.abc import Iterator

import pytest

from dpgraph.engine.models.sparse import declared_density


@pytest.fixture
def density(request: pytest.FixtureRequest) -> Iterator[None]:
    """Declare this share of all numbers to be not zero."""
    with declared_density(request.param):
        yield
