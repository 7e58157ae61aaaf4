"""Progress of long work: a bar on a terminal, a line with an ETA every few seconds in a log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

log = logging.getLogger("dpgraph")
T = TypeVar("T")


class Progress:
    """Counts finished units of `total`; `unit` names them. Times are wall seconds."""

    def __init__(self, name: str, total: int, unit: str = "step", every_seconds: float = 10.0):
        self.name, self.total, self.unit, self.every = name, total, unit, every_seconds
        self.done = 0
        self.start = self.last = time.monotonic()
        self.bar = tqdm(total=total, desc=name, unit=unit, unit_scale=total > 10**6) if sys.stderr.isatty() else None

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
