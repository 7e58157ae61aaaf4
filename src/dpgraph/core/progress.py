"""Progress of long work: a bar with an ETA, drawn at once on a terminal and every few seconds in a log."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

LOG_SECONDS = 10.0  # between two states of a bar in a log; shorter work has none
T = TypeVar("T")


def duration(seconds: float) -> str:
    """
    >>> duration(42.2), duration(3700)
    ('42 s', '1 h 2 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def last_line(path: Path, most_bytes: int = 65536) -> str | None:
    """Return the last line of a log that is not blank, of a progress bar what it showed last; None without one."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(handle.tell() - most_bytes, 0))
            text = handle.read().decode("utf-8", "replace")
    except OSError:
        return None
    lines = (line.rstrip().rpartition("\r")[2].strip() for line in text.split("\n")[::-1])
    return next(filter(None, lines), None)


@contextmanager
def progress(name: str, total: int, unit: str = "step") -> Iterator[Any]:
    """Yield a bar whose `update` counts finished units."""
    from tqdm import tqdm  # a tenth of a second, which every start of Snakemake would take

    seconds = 0.1 if sys.stderr.isatty() else LOG_SECONDS
    with tqdm(
        total=total, desc=name, unit=unit, unit_scale=total > 10**6, mininterval=seconds, delay=seconds, ascii=True
    ) as bar:
        yield bar


def tracked(items: Iterable[T], name: str, total: int, unit: str = "item") -> Iterator[T]:
    with progress(name, total, unit) as bar:
        for item in items:
            yield item
            bar.update()
