"""Objects by name, where what names them must not import them: a specification has no torch, what it names has."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


@cache
def load(name: str) -> Any:
    """`package.module:object`; raises ImportError or AttributeError where there is none."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def module_of(name: str) -> str:
    """Of `package.module:object`."""
    return name.partition(":")[0]
