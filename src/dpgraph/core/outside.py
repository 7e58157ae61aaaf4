"""Find data sets, methods and accountants in a user's own files.

`registry:` in config.yaml names them, or entry points of installed packages in the group `dpgraph.registry`. What the
config names is handed to jobs in an environment variable. A place is a YAML file of data set entries, a
folder with `datasets.yaml`, `accountant.py` and packages of methods (`<name>/spec.py`), or such a package itself.

Only `import_method` and `import_file` import the files that are found. A mistake in them is reported in one line.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from dpgraph.core.errors import UserError, invalid, shown

VARIABLE = "DPGRAPH_REGISTRY"
GROUP = "dpgraph.registry"
DATASETS, SPEC, ACCOUNTANT, CHECKS = "datasets.yaml", "spec.py", "accountant.py", "checks.json"
Places = tuple[Path, ...]


def use(named: Iterable[str]) -> None:
    """Name places to this process and to those that it starts; without any, those named before stay."""
    given = [str(Path(place).expanduser().absolute()) for place in named]
    if given:
        os.environ[VARIABLE] = os.pathsep.join(given)


def places() -> Places:
    """Return all places. Raises UserError for one that does not exist."""
    return _places(os.environ.get(VARIABLE, ""))


@cache
def _places(named: str) -> Places:
    found = [Path(part) for part in named.split(os.pathsep) if part]
    for place in found:
        if not (place.is_dir() or (place.is_file() and place.suffix in (".yaml", ".yml"))):
            raise invalid("registry", place, "a YAML file of data sets, or a folder of data sets and methods")
    return tuple(dict.fromkeys([*found, *(_installed(point.name, point.value) for point in entry_points(group=GROUP))]))


def _installed(name: str, value: str) -> Path:
    """Return the folder of the package that an entry point names."""
    try:
        spec = importlib.util.find_spec(value)
    except (ImportError, ValueError, AttributeError) as error:
        raise UserError(f"entry point {GROUP}: {name}={value}: {error}") from None
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"entry point {GROUP}: {name}={shown(value)}: expected a package")
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def dataset_files(of: Places) -> tuple[Path, ...]:
    """Return the files of entries of data sets."""
    files = (place / DATASETS if place.is_dir() else place for place in of)
    return tuple(path for path in files if path.is_file())


@cache
def accountant_files(of: Places) -> tuple[Path, ...]:
    """Return the files that declare accountants: of a place, and of the methods in it."""
    folders = (place for place in of if place.is_dir())
    return tuple(
        path for place in folders for path in (*place.glob(ACCOUNTANT), *sorted(place.glob(f"*/{ACCOUNTANT}")))
    )


@cache
def method_folders(of: Places) -> dict[str, Path]:
    """Return packages of methods by the name under which they are imported."""
    found: dict[str, Path] = {}
    for place in (one for one in of if one.is_dir()):
        inner = [place] if (place / SPEC).is_file() else sorted(path.parent for path in place.glob(f"*/{SPEC}"))
        for folder in inner:
            if not folder.name.isidentifier():
                raise invalid("registry", folder, "a folder of methods with a name that Python can import")
            if folder.name in found:
                raise invalid("registry", folder, f"another name, {found[folder.name]} has it already")
            found[folder.name] = folder
    return found


@cache
def import_method(folder: Path) -> ModuleType:
    """Import its module `spec`. Raises UserError, with the line of its own file, for whatever the import raises."""
    loaded = sys.modules.get(folder.name)
    known = importlib.util.find_spec(folder.name) if loaded is None else loaded.__spec__
    if known is None:
        sys.path.append(str(folder.parent))
        importlib.invalidate_caches()
        known = importlib.util.find_spec(folder.name)
    homes = [] if known is None else list(known.submodule_search_locations or ())
    if not homes or Path(homes[0]).resolve() != folder.resolve():
        raise invalid("registry", folder, f"another name: Python imports {folder.name} from elsewhere")
    try:
        return importlib.import_module(f"{folder.name}.spec")
    except Exception as error:
        raise broken(folder, error) from None


def function_of(path: Path, name: str) -> Any:
    """Return a function of a Python file. Raises UserError for a file that is not there, broken or without it."""
    module = import_file(path)
    if not callable(getattr(module, name, None)):
        raise UserError(f"{path}: no function {name}")
    return getattr(module, name)


def import_file(path: Path) -> ModuleType:
    """Import a Python file by its path. Raises UserError for one that is not there or broken."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(f"dpgraph_outside_{digest_of([path])}", path)
    if spec is None or spec.loader is None:
        raise invalid("reader", path, "a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise broken(path, error) from None
    return module


def broken(place: Path, error: BaseException) -> UserError:
    """Return an error about a user's file, with the last line of it that was at work."""
    if isinstance(error, UserError):
        return UserError(f"{place}: {error}")
    own = place if place.is_dir() else place.parent
    lines = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).is_relative_to(own)]
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}, line {error.lineno}"
    else:
        where = f"{lines[-1].filename}, line {lines[-1].lineno}" if lines else str(place)
    return UserError(f"{where}: {type(error).__name__}: {error}")


def checks_of(folder: Path) -> tuple[str, ...]:
    """Return the findings of `dpgraph check method` on these very files, or why there are none."""
    try:
        noted = json.loads((folder / CHECKS).read_text(encoding="utf-8"))
        if noted["files"] != digest_of(sorted(folder.rglob("*.py"))):
            return ("none of these files: they were edited since",)
        return tuple(f"{name} ({'passed' if passed else 'FAILED'})" for name, passed in noted["checks"].items())
    except FileNotFoundError:
        return ("none (dpgraph check method has not run)",)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / CHECKS}: not what `dpgraph check method` writes ({error}): delete it") from None


def write_checks(folder: Path, checks: Mapping[str, bool]) -> Path:
    """Write outcomes of checks into the method's folder, for the results to list."""
    noted = {"files": digest_of(sorted(folder.rglob("*.py"))), "checks": dict(checks)}
    path = folder / CHECKS
    path.write_text(json.dumps(noted, indent=1) + "\n", encoding="utf-8")
    return path


def is_within(module: str) -> bool:
    """Return whether a module is of this package, not of a user's."""
    return module.split(".")[0] == "dpgraph"


def sources(folder: Path) -> tuple[Path, ...]:
    """Return the files that a method's results depend on: all but the description, whose settings are the cell's."""
    return tuple(path for path in sorted(folder.rglob("*.py")) if path != folder / SPEC)


def digest_of(paths: Iterable[Path]) -> str:
    """Return a hash of names and contents."""
    hashed = hashlib.sha256()
    for path in paths:
        hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()[:16]
