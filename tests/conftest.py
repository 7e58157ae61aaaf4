"""Settings of all tests."""

import gc
import os
from collections.abc import Generator
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

# a slow machine is no defect: tests are not timed
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# a calibration is solved once in a run of the tests: workers of pytest-xdist inherit the folder
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = TemporaryDirectory(prefix="dpgraph-tests-")
    os.environ["DPGRAPH_CACHE"] = _cache.name

# tests that wait for other processes; a worker that came to them last would wait alone
WAITING = ("tests/workflow/", "tests/test_tutorial.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that wait; the others keep their order."""
    items.sort(key=lambda item: not item.nodeid.startswith(WAITING))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is imported for all tests, neither while it is nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
