"""All methods by name: every module of this package that has a `METHODS` mapping adds to it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import dpgraph.methods
from dpgraph.errors import invalid
from dpgraph.methods.base import Method


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
