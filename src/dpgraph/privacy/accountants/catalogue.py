"""Every declared accountant by name: of this package, of its methods, and from outside. Declarations are light."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from dpgraph.core import outside
from dpgraph.core.errors import UserError, invalid
from dpgraph.privacy.accountants.declaration import EPSILON, Accountant
from dpgraph.privacy.guarantee import Mode

PACKAGE = Path(outside.__file__).parents[1]
DECLARES = b"\n@accountant("
Accountants = dict[tuple[str, Mode, str], Accountant]


def accountants() -> Accountants:
    """Return all accountants by name, mode and quantity. Raises UserError for a file from outside that is broken."""
    return _accountants(outside.places())


@cache
def _accountants(places: outside.Places) -> Accountants:
    own = (*sorted(Path(__file__).parent.glob("*.py")), *sorted(PACKAGE.glob("families/*/*accountant.py")))
    modules = {
        path: import_module(".".join(("dpgraph", *path.relative_to(PACKAGE).with_suffix("").parts)))
        for path in own
        if DECLARES in path.read_bytes()
    }
    modules |= {path: outside.import_file(path) for path in outside.accountant_files(places)}
    found: Accountants = {}
    for path, module in modules.items():
        for one in declared_in(module):
            if one.key in found:
                raise UserError(f"{path}: {one.name}: declared twice: expected another name")
            found[one.key] = one
    return found


def declared_in(module: ModuleType) -> Iterator[Accountant]:
    """Return the accountants that a module declares, not those that it imports."""
    for one in vars(module).values():
        if isinstance(one, Accountant) and one.function.__module__ == module.__name__:
            yield one


def names() -> tuple[str, ...]:
    """Return the names of all that have an epsilon."""
    return tuple(dict.fromkeys(name for name, _, quantity in accountants() if quantity == EPSILON))


def modes(name: str) -> dict[Mode, Accountant]:
    """Return the accountants of epsilon of this name."""
    return {mode: one for (known, mode, what), one in accountants().items() if (known, what) == (name, EPSILON)}


def find(name: str, mode: Mode, quantity: str = EPSILON) -> Accountant:
    """Return an accountant. Raises UserError for an unknown name, and with the reason for a mode that it has not."""
    every = accountants()
    if (name, mode, quantity) in every:
        return every[name, mode, quantity]
    if (reason := unproved(name)) is not None and mode == "rigorous":
        raise UserError(f"accountant={name} (rigorous, {quantity}): nothing is guaranteed: {reason}")
    known = sorted({f"{name} ({kind}, {what})" for name, kind, what in every})
    raise invalid("accountant", f"{name} ({mode}, {quantity})", f"one of {'; '.join(known)}")


def unproved(name: str) -> str | None:
    """Return why a published accountant has no rigorous twin, and which one to use instead."""
    published = modes(name).get("published")
    return None if published is None else published.unproved
