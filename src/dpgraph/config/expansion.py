"""Write out what workflow files say once for many entries: `define:`, `matrix:` and `$name`, before validation.

Plain data to plain data; docs/reference/workflow-files.md describes it. A file without these three words is left as
it is.
"""

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, ClassVar, Self, TypeGuard

from pydantic import ModelWrapValidatorHandler, PrivateAttr, model_validator

from dpgraph.config.frozen import Finite
from dpgraph.core.errors import shown

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH = rf"{NAME}(?:\.{NAME})*"  # a name, and a key of the mapping that it stands for
_USED = re.compile(rf"\$(?:({NAME})|\{{({_PATH})\}}|(\$))")
_WHOLE = re.compile(rf"\$(?:({NAME})|\{{({_PATH})\}})")
_ADDED = "with"  # in a value of a matrix: merged into the entry
_NO_MAPPINGS = frozenset({str, int, float, bool, type(None), list, tuple})

Scope = Mapping[str, Any]


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge layers of settings, mapping by mapping; later layers win.

    >>> merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
    {'a': {'x': 1, 'y': 3}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if _is_mapping(value):
                below = result.get(key)
                result[key] = merged(below, value) if _is_mapping(below) else merged(value)
            else:
                result[key] = value
    return result


def flat(settings: Mapping[str, Any], above: str = "", by: str = ".") -> dict[str, Any]:
    """Return nested settings by path, its parts joined with `by`.

    >>> flat({"a": {"x": 1, "y": 2}, "b": None})
    {'a.x': 1, 'a.y': 2, 'b': None}
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{above}{key}{by}", by) if _is_mapping(value) else {f"{above}{key}": value}
    return found


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the inverse of `flat` for one setting.

    >>> nested("a.x", 1)
    {'a': {'x': 1}}
    """
    for key in reversed(path.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Ask plain types first: the general question is slow, and a plan asks half a million times."""
    kind = type(value)
    return kind is dict or (kind not in _NO_MAPPINGS and isinstance(value, Mapping))


def expanded(
    document: Mapping[str, Any], sections: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the document with every entry written out, and the places of entries that a matrix or a name has made.

    `sections` names keys of entries that refer to a section of that name at the document's top, each with the key that
    receives that section: with {"published_as": "published"}, `published_as: mlp` becomes `published: {...}`.
    The second value gives, by the place written out ("methods.gcn-2", "rules[3]"), the place in the user's file.
    Raises ValueError that names the user's own key, its value and the expected one.

    >>> expanded({"methods": {"gcn-$k": {"matrix": {"k": [1, 2]}, "hops": "$k"}}})
    ({'methods': {'gcn-1': {'hops': 1}, 'gcn-2': {'hops': 2}}}, \
{'methods.gcn-1': 'methods.gcn-1, matrix of gcn-$k', 'methods.gcn-2': 'methods.gcn-2, matrix of gcn-$k'})
    """
    sections = sections or {}
    if not ("define" in document or sections.keys() & document.keys() or _repeats(document)):
        return dict(document), {}
    names = _section(document, "define")
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise ValueError(f"define.{shown(name)}: expected a name of letters, digits and _")
    templates = {key: (into, _tables(key, _section(document, key))) for key, into in sections.items()}
    if "matrix" in document:
        raise ValueError("matrix: expected in an entry of a mapping or a list, not of the file")
    work = _Expansion(templates)
    rest = {key: value for key, value in document.items() if key not in {"define", *sections}}
    try:
        return work.mapping(rest, names, "", ""), work.origins
    except RecursionError:
        raise ValueError(f"{shown(work.looking)}: a name that stands for itself") from None


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name, {})
    if not isinstance(section, Mapping):
        raise ValueError(f"{name}={shown(section)}: expected a mapping of names to values")
    return section


def _repeats(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "matrix" in value or any(map(_repeats, value.values()))
    return isinstance(value, list | tuple) and any(map(_repeats, value))


def _tables(key: str, section: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of each name, where a key lists several of them: `table1, table3: {...}`."""
    by_name: dict[str, dict[str, Any]] = {}
    for name, entries in section.items():
        if not isinstance(entries, Mapping):
            raise ValueError(f"{key}.{shown(name)}={shown(entries)}: expected a mapping")
        by_name[name] = {}
        for keys, value in entries.items():
            for one in (part.strip() for part in str(keys).split(",")):
                if one in by_name[name]:
                    raise ValueError(f"{key}.{shown(name)}: {shown(one)} occurs twice")
                by_name[name][one] = value
    return by_name


class _Expansion:
    """One expansion. `where`: a place in the expanded document; `written`: the place in the user's file."""

    def __init__(self, templates: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        self.templates = templates
        self.origins: dict[str, str] = {}
        self.looking = ""  # the place of the name that is looked up, for an error

    def value(self, value: Any, scope: Scope, where: str, written: str) -> Any:
        if isinstance(value, str):
            return self._text(value, scope, where, written)
        if isinstance(value, Mapping):
            if "matrix" in value:
                raise ValueError(f"{written}.matrix: expected in an entry of a mapping or a list")
            return self.mapping(value, scope, where, written)
        if isinstance(value, list | tuple):
            return self._list(value, scope, where, written)
        return value

    def mapping(self, value: Mapping[str, Any], scope: Scope, where: str, written: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        made_by: dict[str, str] = {}
        for key, part in self._referred(value, scope, written).items():
            place = _below(written, key)
            for body, inner in self._repeated(part, scope, place):
                name = self._key(key, inner, place)
                if name in result:
                    raise ValueError(f"{_below(where, name)}: made by {made_by[name]} and {place}: expected by one")
                made_by[name] = place
                if inner is not scope:
                    maker = key if where == written else place
                    self.origins[_below(where, name)] = f"{_below(where, name)}, matrix of {shown(maker)}"
                result[name] = self.value(body, inner, _below(where, name), place)
        return result

    def _list(self, value: Any, scope: Scope, where: str, written: str) -> list[Any]:
        result: list[Any] = []
        for part, place in self._items(value, scope, written):
            for body, inner in self._repeated(part, scope, place):
                here = f"{where}[{len(result)}]"
                if inner is not scope:
                    self.origins[here] = f"{place}, matrix"
                elif here != place:
                    self.origins[here] = place
                result.append(self.value(body, inner, here, place))
        return result

    def _items(self, value: Any, scope: Scope, written: str) -> Iterator[tuple[Any, str]]:
        """Yield each item with its place; a name that stands for a list adds the items of that."""
        for index, part in enumerate(value):
            place = f"{written}[{index}]"
            named = self._named(part, scope, place)
            if isinstance(named, list | tuple) and named is not part:
                yield from self._items(named, scope, f"{place}, {part}")
            else:
                yield part, place

    def _key(self, key: Any, scope: Scope, written: str) -> Any:
        if not isinstance(key, str) or "$" not in key:
            return key
        name = self._text(key, scope, written, written)
        return name if isinstance(name, str) else _written_out(name, key, written)

    def _referred(self, value: Mapping[str, Any], scope: Scope, written: str) -> Mapping[str, Any]:
        """Return the entry with the sections that it refers to; its own keys win. A matrix is left for later."""
        for key, (into, section) in self.templates.items():
            if key not in value or "matrix" in value:
                continue
            name = self._key(value[key], scope, f"{written}.{key}")
            if not isinstance(name, str) or name not in section:
                known = ", ".join(section) or "a name below it at the top of the file, where none is"
                raise ValueError(f"{written}.{key}={shown(name)}: expected one of {known}")
            own = value.get(into, {})
            if not isinstance(own, Mapping):
                raise ValueError(f"{written}.{into}={shown(own)}: expected a mapping")
            rest = {one: part for one, part in value.items() if one != key}
            value = rest | {into: merged(section[name], own)}
        return value

    def _repeated(self, part: Any, scope: Scope, written: str) -> Iterator[tuple[Any, Scope]]:
        """Yield the entry for each combination of its matrix, with the names of that; once without a matrix."""
        named = self._named(part, scope, written)
        if not isinstance(named, Mapping) or "matrix" not in named:
            yield part, scope
            return
        body = {key: value for key, value in named.items() if key != "matrix"}
        for names in self._combinations(named["matrix"], scope, f"{written}.matrix"):
            inner = ChainMap(names, scope)  # type: ignore[arg-type]
            yield merged(body, *self._added(names, inner, f"{written}.matrix")), inner

    def _added(self, names: Mapping[str, Any], scope: Scope, written: str) -> Iterator[Mapping[str, Any]]:
        for name in names:
            value = self._named(f"${name}", scope, f"{written}.{name}")
            added = value.get(_ADDED, {}) if isinstance(value, Mapping) else {}
            if not isinstance(added, Mapping):
                raise ValueError(f"{written}.{name}.{_ADDED}={shown(added)}: expected a mapping, a part of the entry")
            yield added

    def _combinations(self, matrix: Any, scope: Scope, written: str) -> list[dict[str, Any]]:
        """Return names with their values, the last axis fastest."""
        if not isinstance(matrix, Mapping) or not matrix:
            raise ValueError(f"{written}={shown(matrix)}: expected names, each with a list of values")
        axes = [self._axis(key, values, scope, written) for key, values in matrix.items()]
        names = [name for axis in axes for name in axis[0]]
        if len(set(names)) < len(names):
            raise ValueError(f"{written}: {', '.join(sorted(names))}: expected each name once")
        return [{key: value for part in parts for key, value in part.items()} for parts in product(*axes)]

    def _axis(self, key: Any, values: Any, scope: Scope, written: str) -> list[dict[str, Any]]:
        """Return an axis: `hops: [1, 2]`, or names that change together: `parts, steps: [[1, 500], [2, 1000]]`."""
        names = [name.strip() for name in key.split(",")] if isinstance(key, str) else []
        if not names or not all(re.fullmatch(NAME, name) for name in names):
            raise ValueError(
                f"{written}.{shown(key)}: expected a name of letters, digits and _, or several with commas"
            )
        values = self._named(values, scope, f"{written}.{key}")
        if not isinstance(values, list | tuple) or not values:
            raise ValueError(f"{written}.{key}={shown(values)}: expected a list of values")
        items = [item for item, _ in self._items(values, scope, f"{written}.{key}")]
        rows = [[item] for item in items] if len(names) == 1 else items
        for row in rows:
            if not isinstance(row, list | tuple) or len(row) != len(names):
                raise ValueError(f"{written}.{key}: {shown(row)}: expected a list of {len(names)} values, one per name")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _named(self, value: Any, scope: Scope, written: str) -> Any:
        """Return what a name stands for, with the names in it left open; anything else as it is."""
        name = _whole(value)
        return value if name is None else self._named(self._looked_up(name, scope, written), scope, written)

    def _looked_up(self, name: str, scope: Scope, written: str) -> Any:
        self.looking = f"{written}: ${name}"
        first, *parts = name.split(".")
        if first not in scope:
            known = ", ".join(map(str, scope)) or "none"
            raise ValueError(f"{written}: ${first}: unknown name: expected one of {shown(known)}")
        value = scope[first]
        for part in parts:
            value = self._named(value, scope, written)
            if not isinstance(value, Mapping) or part not in value:
                known = ", ".join(map(str, value)) if isinstance(value, Mapping) else f"none, it is {shown(value)}"
                raise ValueError(f"{written}: ${{{name}}}: no part {part}: expected one of {shown(known)}")
            value = value[part]
        return value

    def _text(self, text: str, scope: Scope, where: str, written: str) -> Any:
        """Replace names: a name alone gives its value of any kind, one within a text its text; $$ is $."""
        if "$" not in text:
            return text
        if (name := _whole(text)) is not None:
            return self.value(self._looked_up(name, scope, written), scope, where, written)

        def piece(match: re.Match[str]) -> str:
            if match[3]:
                return "$"
            value = self.value(self._looked_up(match[1] or match[2], scope, written), scope, where, written)
            return _written_out(value, match[0], written)

        return _USED.sub(piece, text)


def _below(place: str, key: Any) -> str:
    return f"{place}.{shown(key)}" if place else shown(key)


def _whole(value: Any) -> str | None:
    """Return the name, where the whole value is a $name."""
    match = _WHOLE.fullmatch(value) if isinstance(value, str) and value.startswith("$") else None
    return None if match is None else match[1] or match[2]


def _written_out(value: Any, name: str, written: str) -> str:
    """Return a number within a text, without the zero of 1.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{written}: {shown(name)}={shown(value)}: expected a text or a number within a text")
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value) if whole else value)


class ExpandedModel(Finite):
    SECTIONS: ClassVar[Mapping[str, str]] = {}  # see `expanded`

    _places: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _expanded(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Mapping):
            return handler(value)
        plain, places = expanded(value, cls.SECTIONS)
        model = handler(plain)
        model._places = places
        return model

    def place(self, name: str) -> str:
        """Return the place of an entry in the file ("methods.dp-gcn-1"), with the matrix where one makes it."""
        return self._places.get(name, name)
