"""Which mirrors a download has tried: a data set that was not found is looked for again once they change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dpgraph.data.manifest import read_manifest
from dpgraph.errors import UserError
from dpgraph.files import write_text

FILE = "mirrors.txt"


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
