"""Progress of long work: a bar on a terminal, a line with an ETA every few seconds in a log."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

log = logging.getLogger("dpgraph")
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


class Progress:
    """Counts finished units of `total`; `unit` names them. Times are wall seconds."""

    def __init__(self, name: str, total: int, unit: str = "step", every_seconds: float = 10.0):
        self.name, self.total, self.unit, self.every = name, total, unit, every_seconds
        self.done = 0
        self.start = self.last = time.monotonic()
        self.bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm  # a tenth of a second, which every start of Snakemake would take

            self.bar = tqdm(total=total, desc=name, unit=unit, unit_scale=total > 10**6)

    def update(self, count: int = 1) -> None:
        self.done += count
        if self.bar is not None:
            self.bar.update(count)
            return
        now = time.monotonic()
        if now - self.last >= self.every and self.done:
            self.last = now
            rate = self.done / (now - self.start)
            left = max(self.total - self.done, 0) / rate
            log.info("%s: %d/%d %ss, %.3g/s, ETA %.0f s", self.name, self.done, self.total, self.unit, rate, left)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


@contextmanager
def progress(name: str, total: int, unit: str = "step") -> Iterator[Progress]:
    bar = Progress(name, total, unit)
    try:
        yield bar
    finally:
        bar.close()


def tracked(items: Iterable[T], name: str, total: int, unit: str = "item") -> Iterator[T]:
    with progress(name, total, unit) as bar:
        for item in items:
            yield item
            bar.update()
