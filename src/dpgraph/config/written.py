"""Models of files whose entries may be written once for many: expanded first, validated then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, model_validator

from dpgraph.config.expansion import expanded
from dpgraph.config.frozen import Finite


class Written(Finite):
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
