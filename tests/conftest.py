"""Settings of all tests."""

from hypothesis import settings

# a slow machine is no defect: tests are not timed
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
