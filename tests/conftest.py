"""Settings of all tests."""

import gc
import os
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests first that wait, and exempt all that is loaded by now from garbage collection."""
    items.sort(key=lambda item: not item.nodeid.startswith(WAITING))
    gc.collect()
    gc.freeze()
