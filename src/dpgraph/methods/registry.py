"""All methods by name: the specifications of `methods/<family>/spec.py`. What they run is imported when it is run."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

import dpgraph.methods
from dpgraph.errors import invalid
from dpgraph.loading import load
from dpgraph.methods.spec import MethodSpec
from dpgraph.privacy.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from dpgraph.methods.base import Method


PRIVATE = "dp-"  # how the names of private methods begin, and of no others


@cache
def specs() -> dict[str, MethodSpec]:
    """Raises UserError for a name that two families give."""
    by_name: dict[str, MethodSpec] = {}
    for module in pkgutil.iter_modules(dpgraph.methods.__path__, "dpgraph.methods."):
        if not module.ispkg:
            continue
        for one in importlib.import_module(f"{module.name}.spec").SPECS:
            if one.name.startswith(PRIVATE) != one.private:
                expected = f"{PRIVATE}... exactly with a mechanism for each variant, or nothing accounts for it"
                raise invalid("method", one.name, f"{expected} ({module.name}.spec)")
            if one.name in by_name:
                raise invalid("method", one.name, f"another name, one family has it already ({module.name}.spec)")
            by_name[one.name] = one
    return dict(sorted(by_name.items()))


def spec(name: str) -> MethodSpec:
    known = specs()
    if name not in known:
        raise invalid("method", name, f"one of {', '.join(known)}")
    return known[name]


def method(name: str) -> Method:
    """What runs."""
    return load(spec(name).train)()  # type: ignore[no-any-return]


def check_runs(name: str, mechanism: Mechanism) -> None:
    """Raises UserError for a mechanism that the method does not name: nothing would account for what it does."""
    known = spec(name)
    classes: set[type[Mechanism]] = {one.mechanism for one in known.variants.values()} or {known.without_noise}
    if type(mechanism) not in classes:
        kinds = sorted(kind.model_fields["kind"].default for kind in classes)
        raise invalid("mechanism", mechanism.kind, f"{' or '.join(kinds)} for the method {name}")
