"""The registry of methods by name, from each `spec.py` below `families/`. A method's code is imported when it runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpgraph.families
from dpgraph.core import outside
from dpgraph.core.errors import invalid
from dpgraph.core.loading import load, module_of
from dpgraph.engine.methods.spec import MethodSpec
from dpgraph.privacy.relation import Relation

if TYPE_CHECKING:
    from dpgraph.engine.methods.base import Method


PRIVATE = "dp-"  # how the names of private methods begin, and of no others


def specs() -> dict[str, MethodSpec]:
    """Return all methods, the package's and the user's. Raise UserError for a name of two families."""
    return _specs(outside.places())


@cache
def _specs(places: outside.Places) -> dict[str, MethodSpec]:
    by_name: dict[str, MethodSpec] = {}
    for where, found in _families(places):
        for one in found:
            if one.name.startswith(PRIVATE) != one.private:
                expected = f"{PRIVATE}... for a method with a mechanism for each variant, and for no other"
                raise invalid("method", one.name, f"{expected} ({where})")
            if one.name in by_name:
                raise invalid("method", one.name, f"another name, one family has it already ({where})")
            by_name[one.name] = one
    return dict(sorted(by_name.items()))


def _families(places: outside.Places) -> Iterator[tuple[str, tuple[MethodSpec, ...]]]:
    for base in map(Path, dpgraph.families.__path__):
        for path in sorted(base.rglob(outside.SPEC)):
            name = ".".join((dpgraph.families.__name__, *path.relative_to(base).with_suffix("").parts))
            yield name, importlib.import_module(name).SPECS
    for folder in outside.method_folders(places).values():
        found, where = getattr(outside.import_method(folder), "SPECS", None), folder / outside.SPEC
        if not isinstance(found, tuple) or not found or not all(isinstance(one, MethodSpec) for one in found):
            raise invalid(f"{where}: SPECS", found, "a tuple of MethodSpec")
        for one in found:
            if module_of(one.train).split(".")[0] != folder.name:
                raise invalid(f"{where}: {one.name}: train", one.train, f"{folder.name}.MODULE:CLASS")
        yield str(where), found


def outside_of(name: str) -> Path | None:
    """Return the folder of a method from outside the package; None for the package's own and for unknown ones."""
    known = specs().get(name)
    return None if known is None else folder_of(known)


def folder_of(known: MethodSpec) -> Path | None:
    """Return the folder of a method from outside the package; None for the package's own."""
    return outside.method_folders(outside.places()).get(module_of(known.train).split(".")[0])


def declared(pattern: str, name: str) -> dict[str, Any]:
    """Return the entries of the dictionary `name` in each family's modules whose file name matches `pattern`."""
    families = Path(dpgraph.families.__path__[0])
    paths = (path.relative_to(families).with_suffix("") for path in sorted(families.rglob(pattern)))
    modules = (importlib.import_module(".".join((dpgraph.families.__name__, *path.parts))) for path in paths)
    return {key: value for module in modules for key, value in getattr(module, name, {}).items()}


def spec(name: str) -> MethodSpec:
    """Return a method's specification. Raise UserError for an unknown name."""
    return spec_in(specs(), name)


def spec_in(known: Mapping[str, MethodSpec], name: str) -> MethodSpec:
    """Raise UserError for a name that is not among `known`."""
    if name not in known:
        raise invalid("method", name, f"one of {', '.join(known)}")
    return known[name]


def floors(relation: Relation) -> dict[str, str]:
    """Return the methods that touch no protected part under a relation, each with its name there."""
    found = {name: one.untouched.get(relation, one.untouched.get(Relation.GRAPH)) for name, one in specs().items()}
    return {name: words for name, words in found.items() if words is not None}


def method(name: str) -> Method:
    """Return what runs. Raises UserError for a user's method that cannot be imported."""
    return trainer_of(spec(name))


def trainer_of(known: MethodSpec) -> Method:
    """Return what runs. Raises UserError for a user's method that cannot be imported."""
    try:
        return load(known.train)()  # type: ignore[no-any-return]
    except Exception as error:
        if (folder := folder_of(known)) is None:
            raise
        raise outside.broken(folder, error) from None
