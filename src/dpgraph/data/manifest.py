"""The outcome of a download: files with hashes and sources, licence and citation, or the reason for having none.

`mirrors.txt` next to it names the mirrors that were tried: once they change, a missing data set is looked for again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dpgraph.config.frozen import Frozen
from dpgraph.core.errors import UserError
from dpgraph.core.files import read_json, write_json, write_text
from dpgraph.data.download import check
from dpgraph.data.registry import Licence

MANIFEST = "manifest.json"


class FetchedFile(Frozen):
    path: str
    bytes: int
    sha256: str
    source: str
    note: str = ""


class Manifest(Frozen):
    """`reason` is empty when the status is ok; `time` is UTC."""

    dataset: str
    status: Literal["ok", "unavailable"]
    reason: str = ""
    files: tuple[FetchedFile, ...] = ()
    licence: Licence
    citation: str
    time: str


def write_manifest(manifest: Manifest, raw_dir: Path) -> None:
    write_json(Path(raw_dir) / MANIFEST, manifest.model_dump(mode="json"))


def read_manifest(raw_dir: Path) -> Manifest:
    """Raise UserError if there is none or it cannot be read."""
    path = Path(raw_dir) / MANIFEST
    try:
        return Manifest.model_validate(read_json(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected the manifest of a download (run the download first)") from None
    except (OSError, ValueError, RecursionError):  # pydantic's errors are ValueErrors
        raise UserError(f"{path}: expected the manifest of a download (delete it and run again)") from None


def verify_files(manifest: Manifest, raw_dir: Path) -> None:
    """Raise UserError, one line with both values, for a file that is gone or no longer what was downloaded."""
    remedy = f"delete {Path(raw_dir) / MANIFEST} and run again"
    for file in manifest.files:
        path = Path(raw_dir) / file.path
        if not path.is_file():
            raise UserError(f"{path}: no such file; expected {file.bytes} bytes that were downloaded ({remedy})")
        try:
            check(path, str(path), file.bytes, file.sha256)
        except UserError as error:
            raise UserError(f"{error} ({remedy})") from None


MIRRORS = "mirrors.txt"


def remember(raw_dir: Path, mirrors: Sequence[str | Path]) -> None:
    write_text(Path(raw_dir) / MIRRORS, os.pathsep.join(map(str, mirrors)))


def mirrors_parameter(raw_dir: Path, current: Sequence[str | Path]) -> str:
    """Return the parameter of the download rule: a changed value runs it again.

    A good copy keeps the value it came with, whatever mirrors are named today; a data set that was unavailable, or was
    never fetched, gets today's.
    """
    raw_dir = Path(raw_dir)
    try:
        if read_manifest(raw_dir).status == "ok":
            return (raw_dir / MIRRORS).read_text(encoding="utf-8")
    except (UserError, OSError):
        pass
    return os.pathsep.join(map(str, current))


def tried(raw_dir: Path, current: Sequence[str | Path]) -> bool:
    """Return whether a download has ended: with all files, or without them and with the mirrors of today."""
    raw_dir = Path(raw_dir)
    try:
        if read_manifest(raw_dir).status == "ok":
            return True
        return (raw_dir / MIRRORS).read_text(encoding="utf-8") == os.pathsep.join(map(str, current))
    except (UserError, OSError):
        return False
