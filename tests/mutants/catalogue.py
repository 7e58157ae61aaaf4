"""All planted bugs; see tests/mutants/planting.py for what one is."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.mutants import bugs
from tests.mutants.planting import Bug

MODULES = [import_module(f"{bugs.__name__}.{found.name}") for found in iter_modules(bugs.__path__)]
BUGS: tuple[Bug, ...] = tuple(bug for module in MODULES for bug in getattr(module, "BUGS", ()))
