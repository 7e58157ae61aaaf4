"""The state of a suite's cells by their records, on any machine, while Snakemake runs or after it was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic_core import from_json
from tabulate import tabulate

from dpgraph.config.cell import Cell
from dpgraph.config.paths import Paths
from dpgraph.planning.plan import Plan

STATES = ("ok", "failed", "not run", "missing")  # missing: no record yet of all seeds
SHOWN = 10  # reasons of one state


@dataclass(frozen=True)
class CellState:
    """State of a cell, and why it is no result."""

    state: str
    reason: str = ""
    failed_seeds: int = 0


@dataclass(frozen=True)
class Status:
    """States of a suite's cells, and their counts by artefact."""

    suite: str
    folder: str
    cells: dict[str, CellState]
    artefacts: dict[str, Counter[str]]

    @classmethod
    def read(cls, plan: Plan) -> Status:
        """Read every cell's record."""
        paths = plan.paths
        cells = {slug: _state(paths, cell) for slug, cell in plan.cells.items()}
        slugs: dict[str, set[str]] = {}
        for entry in plan.entries:
            if entry.cell.slug in cells:
                slugs.setdefault(entry.artefact, set()).add(entry.cell.slug)
        artefacts = {name: Counter(cells[slug].state for slug in found) for name, found in slugs.items()}
        return cls(plan.suite.name, str(paths.suite), cells, artefacts)

    @property
    def counts(self) -> Counter[str]:
        """Return the number of cells in each state."""
        return Counter(cell.state for cell in self.cells.values())

    def page(self) -> str:
        """Return a page of text, whose last line has the counts of all cells."""
        states = [state for state in STATES if self.counts[state] or state == "ok"]
        rows = [
            [name, sum(counts.values()), *(counts[state] or "" for state in states)]
            for name, counts in self.artefacts.items()
        ]
        table = tabulate(rows, headers=["artefact", "cells", *states], tablefmt="plain")
        parts = [f"suite {self.suite}: {self.folder}", table, *self._reasons("failed"), *self._reasons("not run")]
        partly = [slug for slug, cell in self.cells.items() if cell.state == "ok" and cell.failed_seeds]
        if partly:
            parts.append(f"ok, but with seeds that failed: {len(partly)} cells, e.g. {partly[0]}")
        told = ", ".join(f"{self.counts[state]} {state}" for state in states)
        return "\n\n".join([*parts, f"{len(self.cells)} cells: {told}"])

    def _reasons(self, state: str) -> Iterator[str]:
        """Yield one part for each reason, most frequent first; numbers in it differ from cell to cell."""
        by_reason: dict[str, list[str]] = {}
        for slug, cell in self.cells.items():
            if cell.state == state:
                by_reason.setdefault("".join("#" if one.isdigit() else one for one in cell.reason), []).append(slug)
        ordered = sorted(by_reason.values(), key=len, reverse=True)
        for slugs in ordered[:SHOWN]:
            named = slugs[0] if len(slugs) == 1 else f"{len(slugs)} cells, e.g. {slugs[0]}"
            yield f"{state}: {named}\n  {self.cells[slugs[0]].reason or 'no reason was recorded'}"
        if len(ordered) > SHOWN:
            yield f"{state}: {len(ordered) - SHOWN} more reasons"


def _state(paths: Paths, cell: Cell) -> CellState:
    try:
        record = from_json(paths.result(cell).read_bytes())
        asked, status, reason = set(record["cell"]["seeds"]), str(record["status"]), str(record["reason"])
        failed = sum(seed["status"] == "failed" for seed in record["seeds"])
    except FileNotFoundError:
        return CellState("missing")
    except (OSError, ValueError, KeyError, TypeError):
        return CellState("failed", "the record is damaged: delete it and run again")
    return CellState(status, reason, failed) if asked.issuperset(cell.seeds) else CellState("missing")
