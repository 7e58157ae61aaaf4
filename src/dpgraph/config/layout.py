"""The layout of a paper's table that is not methods by data sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import Field, model_validator

from dpgraph.config.claim_tests import Id
from dpgraph.config.frozen import Finite

Line = tuple[Id | None, ...]


class Layout(Finite):
    """Columns are methods, in a block for each data set. Methods that are not named are in the long form only."""

    columns: Annotated[tuple[tuple[str, str], ...], Field(min_length=1, max_length=20)]
    """Head of several columns (empty: none), and of the column: [DP split, Adam]"""
    rows: dict[str, dict[str, Line]] = Field(min_length=1)
    """Our lines by their names, below the paper's name of the row (empty: it has none): a method for each column, null
    where it is empty"""

    @property
    def lines(self) -> Iterator[Line]:
        return (line for lines in self.rows.values() for line in lines.values())

    @property
    def methods(self) -> set[Id]:
        return {method for line in self.lines for method in line if method is not None}

    @model_validator(mode="after")
    def _filled(self) -> Layout:
        for line in self.lines:
            if len(line) != len(self.columns):
                raise ValueError(f"rows: a line of {len(line)} methods: expected {len(self.columns)}, as columns")
        return self

    def check(self, methods: Collection[Id]) -> None:
        """Raise ValueError for a method that the artefact has not."""
        if unknown := sorted(self.methods - set(methods)):
            raise ValueError(f"layout.rows: {unknown[0]}: expected one of methods of the artefact")
