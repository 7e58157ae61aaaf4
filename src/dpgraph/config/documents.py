"""YAML and JSON as users write them: every error is one line; YAML with a key that occurs twice is refused."""

import json
from pathlib import Path
from typing import Any

import yaml

from dpgraph.core.errors import UserError, shown

# what PyYAML's constructors raise besides its own errors, for !!int "", 2024-13-45 or a list under !!map
_CONSTRUCTION = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def text_of(path: Path) -> str:
    """Return the content of a text file in UTF-8."""
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
    """Return the plain data of YAML, with anchors, aliases and merges followed and tags of Python objects refused."""
    try:
        return yaml.load(text, _Strict)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).replace('in "<unicode string>", ', "at ").split())
    except _CONSTRUCTION as error:
        reason = f"a value that is none of its type: {error}"
    raise UserError(f"{where}: not a YAML file: {shown(reason)}") from None


def json_value(text: str, where: str) -> Any:
    """Return the plain data of JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"{where}: not valid JSON: {shown(reason)}") from None


# in C where PyYAML was built with it: every start of Snakemake and every job reads the suite's files
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Strict(_SafeLoader):  # type: ignore[misc, valid-type]
    """A YAML loader that refuses a key that occurs twice; the ordinary one keeps the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    problem = f"key {shown(key.value)} occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)
