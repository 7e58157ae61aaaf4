"""All methods by name: every module of this package that has a `METHODS` mapping adds to it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import dpgraph.methods
from dpgraph.errors import invalid
from dpgraph.methods.base import Method
from dpgraph.privacy.mechanisms import Mechanism


@cache
def methods() -> dict[str, Method]:
    found: dict[str, Method] = {}
    for module in pkgutil.iter_modules(dpgraph.methods.__path__, "dpgraph.methods."):
        found.update(getattr(importlib.import_module(module.name), "METHODS", {}))
    return dict(sorted(found.items()))


def method(name: str) -> Method:
    known = methods()
    if name not in known:
        raise invalid("method", name, f"one of {', '.join(known)}")
    return known[name]


def check_runs(name: str, mechanism: Mechanism) -> None:
    """Raises UserError for a mechanism that the method does not name: nothing would account for what it does."""
    kinds = getattr(method(name), "mechanisms", ())
    if mechanism.kind not in kinds:
        raise invalid(
            "mechanism", mechanism.kind, f"{' or '.join(kinds) or 'none: it names none'} for the method {name}"
        )
