"""The modules of a package that a module imports, directly and through others, read from the sources.

Every import counts, wherever it is: within a function, and those for type checkers alone, too (there are few, and a
module too many costs a rerun, one too few a wrong number). An import by a computed name is not seen: its users
name it as a root (sources.py), and a test knows every place of that kind.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

# An import that begins a line, up to the end of its brackets: to parse these alone takes a tenth of the time.
_STATEMENT = re.compile(rb"^[ \t]*((?:from|import)[ \t][^\n(]*(?:\([^)]*\))?)", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """The sources below a folder, as they are at first use; names of modules begin with the folder's."""

    folder: Path
    _sources: dict[Path, bytes] = field(default_factory=dict, init=False, compare=False)
    _imports: dict[str, frozenset[str]] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Paths by the modules' names; a package's is its `__init__.py`."""
        return {self._name(path): path for path in sorted(self.folder.rglob("*.py"))}

    def source(self, path: Path) -> bytes:
        if path not in self._sources:
            self._sources[path] = path.read_bytes()
        return self._sources[path]

    def matching(self, pattern: str) -> list[str]:
        """Return the modules of a pattern: `a.b` one, `a.*` all of package a at any depth, `a.*.b` those ending so."""
        if "*" not in pattern:
            return [pattern] if pattern in self.modules else []
        return [name for name in self.modules if fnmatchcase(name, pattern)]

    def closure(self, roots: Iterable[str], without: Collection[str] = ()) -> list[str]:
        """Return the roots and what they import, modules in `without` left out with all that only they import."""
        reached: set[str] = set()
        todo = [name for root in roots for name in self.matching(root)]
        while todo:
            name = todo.pop()
            if name not in reached and name not in without:
                reached.add(name)
                todo.extend(self.loaded_with(name))
        return sorted(reached)

    def loaded_with(self, name: str) -> frozenset[str]:
        """Return the modules of this package that `name` imports, and the packages that contain them and it."""
        if name not in self._imports:
            path = self.modules[name]
            base = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
            imported = imported_names(self.source(path), self.folder.name, base)
            prefixes = {prefix for one in {name, *imported} for prefix in _prefixes(one)}
            self._imports[name] = frozenset(prefixes - {name}) & self.modules.keys()
        return self._imports[name]

    def _name(self, path: Path) -> str:
        parts = (self.folder.name, *path.relative_to(self.folder).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(source: bytes, top: str, base: list[str]) -> set[str]:
    """Return what a source in `base` imports of the package `top`, `from a import b` as `a.b` (b may be a module)."""
    name = top.encode()
    statements = [one for one in _STATEMENT.findall(source) if name in one or one[4:].lstrip().startswith(b".")]
    anywhere = len(re.findall(rb"(?:from|import)[ \t]+" + name + rb"\b", source))
    tree = None
    if anywhere <= len(statements) and not any(one.rstrip().endswith((b"\\", b";")) for one in statements):
        with suppress(SyntaxError):  # a line of a text that begins like an import
            tree = ast.parse(b"\n".join(statements))
    nodes = ast.walk(ast.parse(source)) if tree is None else tree.body
    return {one for one in _names(nodes, base) if one.split(".")[0] == top}


def _names(nodes: Iterable[ast.AST], base: list[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base[: len(base) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _prefixes(name: str) -> list[str]:
    """Return `a`, `a.b`, ... and the name itself."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]
