"""Peak resident memory of this process."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path


def reset_peak() -> None:
    """So that the next peak is that since now."""
    with contextlib.suppress(OSError):  # not Linux, or not allowed: peaks are those since the start
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Bytes of resident memory at their highest since the last reset."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
