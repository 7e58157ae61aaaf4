"""Planted privacy bugs, each with the test that must fail: `make test-mutants`."""
