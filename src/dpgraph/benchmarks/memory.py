"""Peak resident memory of this process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource
from pathlib import Path


def reset_peak() -> bool:
    """So that the next peak is that since now; whether it could be done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not Linux, or not allowed: peaks are those since the start
        return False
    return True


def settle() -> bool:
    """Gives freed memory back and resets the peak, so that it counts what comes next, not what others have left."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
    return reset_peak()


def peak_bytes() -> int:
    """Bytes of resident memory at their highest since the last reset."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
