"""Cells that every method puts through the contract, from the methods' own specifications."""

from __future__ import annotations

from typing import Any

from dpgraph.config.cell import Cell
from dpgraph.config.expansion import merged
from dpgraph.families.registry import specs
from dpgraph.planning.resolve import resolve

COMMON: dict[str, Any] = {
    "task": {"dataset": "toy"},
    "training": {"learning_rate": 0.05, "steps": 6, "evaluations": 3},
    "seeds": [0],
}


def raw_cells() -> dict[str, dict[str, Any]]:
    return {
        f"{name}-{short}": merged(COMMON, {"method": name}, part)
        for name, spec in specs().items()
        for short, part in spec.contract.items()
    }


CELLS: dict[str, Cell] = {name: resolve(value, name) for name, value in raw_cells().items()}
PRIVATE = [name for name, found in CELLS.items() if found.privacy is not None]


def changed(name: str, **parts: dict[str, Any]) -> Cell:
    """A cell of the contract with other settings."""
    return resolve(merged(raw_cells()[name], parts), name)


def cell(method: str, hops: int, variant: str | None, architecture: str = "gcn", **training: Any) -> Cell:
    model = {"architecture": architecture} if hops else {}
    return changed(f"{method}-{hops}-{variant or 'none'}", model=model, training=training)


def split_cell(
    method: str, variant: str | None, parts: int, model: dict[str, Any] | None = None, **training: Any
) -> Cell:
    return changed(f"{method}-3-{variant or 'none'}", model=model or {}, training={"num_splits": parts, **training})


def pagerank_cell(
    method: str,
    variant: str | None,
    release: str,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    **pagerank: Any,
) -> Cell:
    name = f"{method}-{release}-{variant or 'none'}"
    return changed(name, model=model or {}, training=training or {}, pagerank=pagerank)
