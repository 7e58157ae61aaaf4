"""YAML and JSON as users write them: read strictly and within bounds, refused in one line.

What the parsers would let pass or choke on is refused here: keys that occur twice, aliases that multiply, nesting and
numbers that Python cannot hold, dates that do not exist.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dpgraph.errors import UserError, shown

LARGEST = 1 << 20  # characters of a YAML text
MOST_NODES = 200_000  # of a YAML text, aliases followed
DEEPEST = 60  # lists and mappings within each other
# what PyYAML's constructors raise besides its own errors, for !!int "", 2024-13-45 or a list under !!map
_CONSTRUCTION = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def text_of(path: Path) -> str:
    """Content of a text file in UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text in UTF-8: byte {error.start}: {error.reason}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_yaml(path: Path) -> Any:
    return yaml_value(text_of(path), str(path))


def yaml_value(text: str, where: str) -> Any:
    """Plain data; anchors, aliases and merges are followed, tags of Python objects refused."""
    if len(text) > LARGEST:
        raise UserError(f"{where}: {len(text)} characters: expected at most {LARGEST}")
    try:
        _check_depth(text)
        return yaml.load(text, _Strict)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
    except _CONSTRUCTION as error:
        reason = f"a value that is none of its type: {error}"
    raise UserError(f"{where}: not a YAML file: {shown(reason)}") from None


def json_value(text: str, where: str) -> Any:
    """Plain data."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"{where}: not valid JSON: {shown(reason)}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {shown(next(name for name in names if names.count(name) > 1))} occurs twice")
    return mapping


# in C where PyYAML was built with it: every start of Snakemake and every job reads the suite's files
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _check_depth(text: str) -> None:
    """What is nested deeper would be composed by recursion in C, which ends in a crash."""
    depth = 0
    for event in yaml.parse(text, _SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _refused(f"nested more than {DEEPEST} deep", event)


class _Strict(_SafeLoader):  # type: ignore[misc, valid-type]
    """Refuses a key that occurs twice, where YAML's reader would keep the last one and say nothing."""

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _extent(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("a key that is a list or a mapping", key)
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise _refused(f"key {shown(key.value)} occurs twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _extent(node: yaml.Node, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """(nodes, depth) of what `node` stands for, each alias counted as what it names."""
    if isinstance(node, yaml.ScalarNode):
        return 1, 0
    if id(node) in known:
        extent = known[id(node)]
        if extent is None:
            raise _refused("an alias within what it names", node)
        return extent
    known[id(node)] = None
    parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
    extents = [_extent(part, known) for part in parts]
    size, depth = 1 + sum(one for one, _ in extents), 1 + max((one for _, one in extents), default=0)
    if size > MOST_NODES:
        raise _refused(f"more than {MOST_NODES} values, aliases followed", node)
    if depth > DEEPEST:
        raise _refused(f"nested more than {DEEPEST} deep", node)
    known[id(node)] = size, depth
    return size, depth


def _refused(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
