"""What a bundle is called, and what its job leaves: a marker with a hash of each member, and what was asked of it.

Jobs read this; it loads nothing of the plan.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dpgraph.config.cell import Cell
from dpgraph.config.frozen import digest

PLANNED = "DPGRAPH_PLANNED"  # when the running Snakemake read the plan, for its jobs; nanoseconds


def trained(slug: str, cell: Cell) -> str:
    """Return what the name of a training bundle says of a member."""
    return f"{slug}:{','.join(map(str, cell.seeds))}"


def calibrated(key: str, cell: Cell) -> str:
    """Return what the name of a bundle of calibrations says of a member."""
    return key


def name_of(cells: Mapping[str, Cell], content: Callable[[str, Cell], str]) -> str:
    """Return a bundle's name, a hash of its content: the same cells with the same seeds have one name."""
    mark = digest([content(name, cell) for name, cell in cells.items()], 8)
    first, cell = next(iter(cells.items()))
    count = str(len(cells)) if len(cells) > 1 else first.rsplit(".", 1)[-1]
    return f"{cell.task.dataset}-{cell.task.setting}.{count}-{mark}"


def last_asked(marker: Path) -> Path:
    """Return the file of what a bundle's last good job was asked for: Snakemake removes the marker before a rerun."""
    return marker.with_suffix(".last")


def is_forced(marker: Path, asked: str) -> bool:
    """Return whether the last good job was asked for the same, and ended before the running Snakemake made its plan."""
    last = last_asked(marker)
    try:
        before_plan = last.stat().st_mtime_ns <= int(os.environ.get(PLANNED) or time.time_ns())
        return before_plan and last.read_text(encoding="utf-8") == asked
    except OSError:
        return False


def content(path: Path) -> str:
    """Hash that markers hold of each member."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
