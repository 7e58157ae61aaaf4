"""CSV files and the resident memory of a process, for all benchmarks."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import gc
import resource
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpgraph.core.files import atomic_path


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def reset_peak() -> bool:
    """Let the next peak be that since now; return whether the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not Linux, or not allowed: peaks are those since the start
        return False
    return True


def settle() -> bool:
    """Give freed memory back and reset the peak, so that it counts what comes next, not what others have left."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
    return reset_peak()


def peak_bytes() -> int:
    """Return the bytes of resident memory at their highest since the last reset."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
