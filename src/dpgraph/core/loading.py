"""Load an object by its name, so that a specification can name code that needs torch without importing it."""

import importlib
import sys
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


@cache
def load(name: str) -> Any:
    """Return the object that `package.module:object` names. Raise ImportError or AttributeError where there is none."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def module_of(name: str) -> str:
    """Return the module of `package.module:object`."""
    return name.partition(":")[0]


@cache
def ogb_module(path: str) -> ModuleType:
    """Return the module of the package ogb in the file `path`, without a network and without its package.

    Importing ogb asks PyPI for a newer version, in a thread, unless the package outdated is missing (ogb/version.py):
    it is hidden for a moment. A file alone brings neither torch nor torch-geometric, as ogb's own packages do.
    """
    package = find_spec("ogb")
    if package is None or not package.submodule_search_locations:
        raise ImportError("no package ogb (pip install ogb)")
    spec = spec_from_file_location(f"ogb_{Path(path).stem}", Path(package.submodule_search_locations[0]) / path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no file {path} in the package ogb")
    module, outdated = module_from_spec(spec), sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["outdated"]
        if outdated is not None:
            sys.modules["outdated"] = outdated
    return module
