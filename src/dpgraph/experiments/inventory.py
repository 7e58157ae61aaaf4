"""What the papers contain, table by table and claim by claim, and what of a suite shows it, or why nothing does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from dpgraph.experiments.claim import Id
from dpgraph.experiments.frozen import Finite

Sentence = Annotated[str, Field(min_length=10)]


class Item(Finite):
    """One table, figure or claim of a paper: what shows it, or the reason why nothing does."""

    shown_by: tuple[Id, ...] = Field(default=(), description="Artefacts, or claims, of the paper's experiment file")
    reason: Sentence | None = Field(default=None, description="Why nothing shows it")

    @model_validator(mode="after")
    def _one(self) -> Item:
        if bool(self.shown_by) == (self.reason is not None):
            raise ValueError(f"shown_by={list(self.shown_by)}, reason={self.reason}: expected exactly one of them")
        return self


class PaperItems(Finite):
    """All of one paper, or of one chapter."""

    title: str
    experiment: Id | None = Field(default=None, description="Experiment file; null: none, every item has a reason")
    tables: dict[Id, Item] = Field(default_factory=dict)
    figures: dict[Id, Item] = Field(default_factory=dict)
    claims: dict[Id, Item] = Field(default_factory=dict)
    ours: dict[str, Sentence] = Field(
        default_factory=dict,
        description="Artefacts and claims that are in no paper, and what for; * matches any characters",
    )

    @model_validator(mode="after")
    def _experiment(self) -> PaperItems:
        shown = [name for _, name, item in self.items() if item.shown_by]
        if self.experiment is None and (shown or self.ours):
            raise ValueError(f"experiment=null: expected one, which shows {', '.join([*shown, *self.ours])}")
        return self

    def items(self) -> Iterator[tuple[str, Id, Item]]:
        """Kind (table, figure, claim), id and item."""
        for kind, of_kind in (("table", self.tables), ("figure", self.figures), ("claim", self.claims)):
            for name, item in of_kind.items():
                yield kind, name, item


class Row(NamedTuple):
    """A line of the listing."""

    paper: str
    kind: str
    item: str
    shown_by: str
    reason: str


class Inventory(Finite):
    """workflow/inventory.yaml."""

    suite: Id = Field(description="The suite that has all of it")
    papers: dict[Id, PaperItems]

    def rows(self, paper: str | None = None) -> list[Row]:
        """A row per item, of all papers or of one."""
        return [
            Row(name, kind, item, ", ".join(entry.shown_by), entry.reason or "")
            for name, part in self.papers.items()
            if paper in (None, name)
            for kind, item, entry in part.items()
        ]

    def mistakes(self, artefacts: Mapping[str, set[str]], claims: Mapping[str, set[str]]) -> list[str]:
        """What does not agree with the suite's artefacts and claims by experiment, a line each.

        What an item names must be there, and what is there must be named by an item or be ours.
        """
        lines = []
        named: dict[str, set[str]] = {}
        ours: dict[str, set[str]] = {}
        for paper, part in self.papers.items():
            experiment = part.experiment or ""
            for kind, item, entry in part.items():
                known = (claims if kind == "claim" else artefacts).get(experiment, set())
                named.setdefault(experiment, set()).update(entry.shown_by)
                lines += [
                    f"{paper}: {kind} {item}: {name}: not in suite {self.suite}"
                    for name in entry.shown_by
                    if name not in known
                ]
            ours.setdefault(experiment, set()).update(part.ours)
        for experiment in {**artefacts, **claims}:
            there = artefacts.get(experiment, set()) | claims.get(experiment, set())
            own = ours.get(experiment, set())
            for name in sorted(there - named.get(experiment, set())):
                if not any(fnmatchcase(name, pattern) for pattern in own):
                    lines.append(f"{experiment}/{name}: no item of the inventory names it, and it is not among ours")
            lines += [
                f"{experiment}: ours {pattern}: matches nothing of suite {self.suite}"
                for pattern in sorted(own)
                if not any(fnmatchcase(name, pattern) for name in there)
            ]
        return lines
