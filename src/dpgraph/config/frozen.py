"""The base of every model that a user writes or that a file holds."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Immutable; an unknown key is an error, never ignored; inf and nan survive JSON as strings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="strings", validate_default=True, use_attribute_docstrings=True
    )


class Finite(Frozen):
    """A model of what a user requests: no number in it is inf or nan."""

    model_config = ConfigDict(allow_inf_nan=False)


def chosen(model: BaseModel, **options: Any) -> dict[str, Any]:
    """Return what differs from the defaults, as JSON: a new setting with a default changes no hash of it."""
    return model.model_dump(mode="json", exclude_defaults=True, **options)


def canonical_json(value: Any) -> str:
    """Return one text per value: sorted keys, no blanks. 4 and 4.0 differ: fields have types, so they agree."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any, length: int = 8) -> str:
    """Return the first `length` hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]
