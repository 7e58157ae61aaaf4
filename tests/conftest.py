"""Settings of all tests."""

import os
from tempfile import TemporaryDirectory

from hypothesis import settings

# a slow machine is no defect: tests are not timed
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# a calibration is solved once in a run of the tests: workers of pytest-xdist inherit the folder
if "PYTEST_XDIST_WORKER" not in os.environ:
    _cache = TemporaryDirectory(prefix="dpgraph-tests-")
    os.environ["DPGRAPH_CACHE"] = _cache.name
