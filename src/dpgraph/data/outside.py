"""Files of a user's own data set: the folder of its entry is the first mirror, and an edited file is taken again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpgraph.data.download import sha256_of
from dpgraph.data.registry import entry, home_of


def with_home(dataset: str, mirrors: Sequence[Path]) -> tuple[Path, ...]:
    home = home_of(dataset)
    return tuple(mirrors) if home is None else (home, *mirrors)


def forget_changed(dataset: str, raw_dir: Path) -> None:
    """Removes copies that are no longer what lies beside the entry."""
    home = home_of(dataset)
    for file in entry(dataset).files if home is not None else ():
        copy = Path(raw_dir) / file.path
        for source in file.sources:
            given = Path(home or "", source.mirror or "")
            if source.mirror and given.is_file() and copy.is_file() and sha256_of(copy) != sha256_of(given):
                copy.unlink()
