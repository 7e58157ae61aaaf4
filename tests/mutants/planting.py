"""Plant bugs in the imported package: change the syntax tree of one object, or put another object in its place.

An object is named `package.module:Class.method`, `package.module:function` or `package.module:CONSTANT`. If the module
has no such object any more, it is looked up by its qualified name in the whole package. Whitespace, comments, the place
in a file and whatever stands around the object do not matter. Plant in a process of its own: nothing is taken back.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import dpgraph
from dpgraph.core.compiled import Compiled

PACKAGE = Path(inspect.getfile(dpgraph)).parent
ANYTHING = ast.parse("...").body[0]


class CannotPlantError(Exception):
    """The object or the fragment is not there, or not once."""


@dataclass(frozen=True)
class Edit:
    """Replace the one occurrence of a fragment in an object; `old` and `new` are an expression or statements.

    A body of `...` stands for whatever is there: `if x: ...` by `if False: ...` changes the condition alone.
    """

    target: str
    old: str
    new: str


@dataclass(frozen=True)
class Swap:
    """Replace an object, in its class or in every module that imported it, by what `make` makes of it."""

    target: str
    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Audit:
    """An audit that must fail; with `cases` on each of these cases alone, of the methods and variants that it takes."""

    name: str
    trials: int | None = None
    cases: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class Bug:
    """A mistake, and the test (a pytest id) or the audit that must notice it."""

    name: str
    changes: tuple[Edit | Swap, ...]
    noticed_by: str | Audit


def plant(bug: Bug) -> None:
    """Plant every change of the bug. Raises CannotPlantError."""
    places = [Place.of(one.target) for one in bug.changes if isinstance(one, Edit)]
    trees = {one.module: parsed(one.module) for one in places}
    edits = [one for one in bug.changes if isinstance(one, Edit)]
    for place, edit in zip(places, edits, strict=True):
        replace_fragment(trees[place.module], place.qualified, edit)
    for place in places:
        _recompile(place, trees[place.module])
    swaps = [one for one in bug.changes if isinstance(one, Swap)]
    found = [Place.of(one.target) for one in swaps]
    for place, new in [(place, one.make(place.raw())) for place, one in zip(found, swaps, strict=True)]:
        put(place, new)


def check(bug: Bug) -> None:
    """Raise CannotPlantError if the bug cannot be planted; change nothing."""
    for one in bug.changes:
        place = Place.of(one.target)
        if isinstance(one, Edit):
            replace_fragment(parsed(place.module), place.qualified, one)


@dataclass(frozen=True)
class Place:
    """Where an object is: its module, and its qualified name there."""

    module: str
    qualified: str

    @classmethod
    def of(cls, target: str) -> Place:
        """Find the object of that name, in its module or, if it moved, in the one module that has it now."""
        module, _, qualified = target.partition(":")
        try:
            place = cls(module, qualified)
            place.raw()
        except (ImportError, AttributeError):
            found = definitions().get(qualified, [])
            if len(found) != 1:
                raise CannotPlantError(f"{target}: defined in {len(found)} modules: expected 1") from None
            return cls(found[0], qualified)
        return place

    def owner(self) -> Any:
        """Return the module or class that holds the object."""
        found: Any = importlib.import_module(self.module)
        for name in self.qualified.split(".")[:-1]:
            found = getattr(found, name)
        return found

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]

    def raw(self) -> Any:
        """Return the object as it is stored: a property, not its value."""
        return inspect.getattr_static(self.owner(), self.name)


def parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module's source."""
    return ast.parse(Path(inspect.getfile(importlib.import_module(module))).read_text(encoding="utf-8"))


@functools.cache
def definitions() -> dict[str, list[str]]:
    """Return the modules that define each qualified name, over the whole package."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for name, _ in _objects(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(module)
    return found


def _objects(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        yield from ((prefix + name, node) for name in names)
        if isinstance(node, ast.ClassDef):
            yield from _objects(node, f"{prefix}{node.name}.")


def replace_fragment(tree: ast.Module, qualified: str, edit: Edit) -> None:
    """Replace the fragment in the object of a tree. Raises CannotPlantError unless it is there once."""
    found = [node for name, node in _objects(tree) if name == qualified]
    if len(found) != 1:
        raise CannotPlantError(f"{edit.target}: {len(found)} definitions: expected 1")
    old, new = ast.parse(edit.old).body, ast.parse(edit.new).body
    header = _header(found[0])
    one_expression = all(len(part) == 1 and isinstance(part[0], ast.Expr) for part in (old, new))
    places: list[Any] = list(_expressions(found[0], old) if one_expression else _statements(found[0], old))
    if len(places) != 1:
        raise CannotPlantError(f"{edit.target}: found {len(places)} times: {edit.old!r}: expected once")
    if one_expression:
        places[0](new[0].value)  # type: ignore[attr-defined]
    else:
        ((block, place),) = places
        for one in new:
            if _is_open(one):
                one.body = block[place].body  # type: ignore[attr-defined]
                if hasattr(one, "orelse"):
                    one.orelse = getattr(block[place], "orelse", [])
        block[place : place + len(old)] = new or [ast.Pass()]
    if _header(found[0]) != header:
        raise CannotPlantError(f"{edit.target}: a changed signature or decorator cannot be planted: use Swap")
    _locate(found[0])


def _locate(node: ast.stmt) -> None:
    """Give new nodes a line: a fragment's own are of another text."""
    first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
    for one in ast.walk(node):
        if isinstance(one, ast.expr | ast.stmt) and one is not node:
            one.lineno = max(getattr(one, "lineno", first), first)
            one.end_lineno, one.col_offset, one.end_col_offset = one.lineno, 0, 0
    ast.fix_missing_locations(node)


def _header(node: ast.stmt) -> str:
    """Return what a change of a function's code does not reach."""
    if not isinstance(node, ast.FunctionDef):
        return ""
    return " ".join(map(ast.dump, [node.args, *node.decorator_list]))


def _shape(node: ast.AST) -> str:
    """Return what two equal fragments have in common, wherever they stand."""
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


def _is_open(node: ast.stmt) -> bool:
    body = getattr(node, "body", None)
    return isinstance(body, list) and [_shape(one) for one in body] == [_shape(ANYTHING)]


def _opened(node: ast.stmt) -> ast.stmt:
    """Return the statement with any body in the place of its own."""
    if not isinstance(node, ast.If | ast.For | ast.While | ast.With):
        return node
    opened = copy.copy(node)
    opened.body = [ANYTHING]
    if not isinstance(opened, ast.With):
        opened.orelse = []
    return opened


def _expressions(node: ast.AST, statement: list[ast.stmt]) -> Iterator[Callable[[ast.expr], None]]:
    """Give a setter for each place of the expression that the statement is."""
    wanted = _shape(statement[0].value)  # type: ignore[attr-defined]
    for holder in ast.walk(node):
        for field, value in ast.iter_fields(holder):
            if isinstance(value, ast.expr) and _shape(value) == wanted:
                yield functools.partial(setattr, holder, field)
            elif isinstance(value, list):
                for place, one in enumerate(value):
                    if isinstance(one, ast.expr) and _shape(one) == wanted:
                        yield functools.partial(value.__setitem__, place)


def _statements(node: ast.AST, wanted: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int]]:
    """Give each block, and the place in it, where such statements follow each other."""
    shapes, any_body = [_shape(one) for one in wanted], len(wanted) == 1 and _is_open(wanted[0])
    for holder in ast.walk(node):
        for block in (getattr(holder, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                found = [_shape(_opened(one) if any_body else one) for one in block]
                yield from (
                    (block, place) for place in range(len(found)) if found[place : place + len(shapes)] == shapes
                )


def _recompile(place: Place, tree: ast.Module) -> None:
    """Give the object the code, or the value, that the changed tree gives it."""
    module = sys.modules[place.module]
    raw = place.raw()
    function = _function(raw)
    if function is None:
        (node,) = (node for name, node in _objects(tree) if name == place.qualified)
        value = node.value  # type: ignore[attr-defined]
        put(place, eval(compile(ast.Expression(value), module.__file__ or "", "eval"), vars(module)))
        return
    code = _code(compile(tree, function.__code__.co_filename, "exec"), function.__code__)
    if code is None or code.co_freevars != function.__code__.co_freevars:
        raise CannotPlantError(f"{place.module}:{place.qualified}: no code of this name with the same free variables")
    function.__code__ = code
    for one in (raw, getattr(raw, "fget", None)):
        if hasattr(one, "cache_clear"):
            one.cache_clear()
    _compile_anew(module)


def _function(raw: Any) -> FunctionType | None:
    """Return the function behind an object, whatever it is wrapped in."""
    for name in ("fget", "__func__", "func", "function", "py_func", "__wrapped__"):
        inner = getattr(raw, name, None)
        if not isinstance(raw, FunctionType | type) and inner is not None:
            return _function(inner)
    if isinstance(raw, FunctionType):
        return _function(raw.__wrapped__) if hasattr(raw, "__wrapped__") else raw
    return None


def _code(code: CodeType, like: CodeType) -> CodeType | None:
    if (code.co_qualname, code.co_firstlineno) == (like.co_qualname, like.co_firstlineno):
        return code
    inner = (_code(one, like) for one in code.co_consts if isinstance(one, CodeType))
    return next((one for one in inner if one is not None), None)


def _compile_anew(module: ModuleType) -> None:
    """Leave the machine code of the module's source alone: it was made of other code."""
    plain = Compiled._dispatcher
    files = {vars(module).get("__file__")}

    def dispatcher(self: Compiled, cache: bool) -> Any:
        return plain(self, cache and inspect.getfile(self.function) not in files)

    Compiled._dispatcher = dispatcher  # type: ignore[method-assign]


def put(place: Place, new: Any) -> None:
    """Put another object in the place of one; modules that imported it get the new one, too."""
    owner, raw = place.owner(), place.raw()
    if isinstance(owner, type):
        setattr(owner, place.name, new)
        return
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("dpgraph", "tests") and vars(module).get(place.name) is raw:
            setattr(module, place.name, new)
    setattr(owner, place.name, new)
