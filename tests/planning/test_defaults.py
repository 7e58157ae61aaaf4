"""A default never changes its meaning: identities of cells hash only what differs from it.

A new setting is added with `python tests/planning/test_defaults.py`; what means something new is a new setting.
"""

import json
from pathlib import Path
from types import UnionType
from typing import get_args

import pytest
from pydantic import BaseModel

from dpgraph.config.streams import FIRST_DEFAULTS
from dpgraph.families.registry import specs

STORED = Path(__file__).with_name("defaults.json")


def defaults(name):
    """By part of the method's cell and setting."""
    found = {}
    for part, field in specs()[name].cell.model_fields.items():
        kinds = get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                fields = kind.model_fields.items()
                found[part] = {key: one.default for key, one in fields if not one.is_required()}
    return found


@pytest.mark.parametrize("name", specs())
def test_defaults_are_what_they_were(name):
    pinned, found = json.loads(STORED.read_text()), defaults(name)
    if name not in pinned:
        pytest.skip("a method of somebody else, whose results nobody has yet")
    for part, values in pinned[name].items():
        assert {key: found[part].get(key, "is gone") for key in values} == values
    assert {part: set(values) for part, values in found.items()} == {
        part: set(values) for part, values in pinned[name].items()
    }, "a new setting: python tests/planning/test_defaults.py"


@pytest.mark.parametrize("name", specs())
def test_streams_fill_in_the_defaults_that_methods_have(name):
    """Else a run would change its random numbers when a default is written out."""
    for part, values in defaults(name).items():
        first = FIRST_DEFAULTS.get(part, {})  # of a section that came later every setting is in the name
        assert {key: first[key] for key in values if key in first} == {
            key: values[key] for key in values if key in first
        }


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: defaults(name) for name in specs()}, indent=1) + "\n")
