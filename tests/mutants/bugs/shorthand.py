"""Bugs of one change, and the test that many of them fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.mutants.planting import Audit, Bug, Edit, Swap


def edit(name: str, target: str, old: str, new: str, noticed_by: str | Audit) -> Bug:
    """Return a bug that replaces one fragment of an object."""
    return Bug(name, (Edit(target, old, new),), noticed_by)


def swap(name: str, target: str, make: Callable[[Any], Any], noticed_by: str | Audit) -> Bug:
    """Return a bug that puts another object in the place of one."""
    return Bug(name, (Swap(target, make),), noticed_by)


def ran(cell: str) -> str:
    """Return the comparison of what ran with what was accounted for, for one cell of the contract."""
    return f"tests/contract/test_methods.py::test_what_ran_is_what_was_accounted_for[{cell}]"
