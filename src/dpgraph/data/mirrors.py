"""Which mirrors a download has tried: a data set that was not found is looked for again once they change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dpgraph.core.errors import UserError
from dpgraph.core.files import write_text
from dpgraph.data.manifest import read_manifest
from dpgraph.data.registry import DatasetEntry, Source

FILE = "mirrors.txt"


def holds(entry: DatasetEntry, mirrors: Sequence[str | Path]) -> bool:
    """Whether the mirrors have the data set: its archive or every file of it. Nothing is downloaded or hashed."""

    def have(source: Source | None) -> bool:
        return source is not None and source.mirror is not None and any(
            (Path(mirror) / source.mirror).is_file() for mirror in mirrors
        )  # fmt: skip

    return have(entry.archive) or all(any(have(source) for source in file.sources) for file in entry.files)


def remember(raw_dir: Path, mirrors: Sequence[str | Path]) -> None:
    write_text(Path(raw_dir) / FILE, os.pathsep.join(map(str, mirrors)))


def mirrors_parameter(raw_dir: Path, current: Sequence[str | Path]) -> str:
    """Parameter of the download rule: a changed value runs it again.

    A good copy keeps the value it came with, whatever mirrors are named today; a data set that was unavailable, or was
    never fetched, gets today's.
    """
    raw_dir = Path(raw_dir)
    try:
        if read_manifest(raw_dir).status == "ok":
            return (raw_dir / FILE).read_text(encoding="utf-8")
    except (UserError, OSError):
        pass
    return os.pathsep.join(map(str, current))


def tried(raw_dir: Path, current: Sequence[str | Path]) -> bool:
    """Whether a download has ended: with all files, or without them and with the mirrors of today."""
    raw_dir = Path(raw_dir)
    try:
        if read_manifest(raw_dir).status == "ok":
            return True
        return (raw_dir / FILE).read_text(encoding="utf-8") == os.pathsep.join(map(str, current))
    except (UserError, OSError):
        return False
