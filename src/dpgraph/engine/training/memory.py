"""Memory of a training process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

# of glibc's malloc.h, with values in bytes
MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2
SETTINGS = {MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 256 << 20, TOP_PAD: 64 << 20}  # the first is its largest
GROWN = 192 << 20  # by so much the heap grows at once, less than is given back
HUGE_PAGES = 14  # MADV_HUGEPAGE
TENSORS = "THP_MEM_ALLOC_ENABLE"  # of PyTorch, for tensors of 2 MiB and more on Linux
PAGE = 4096


def keep_freed_memory() -> None:
    """Lets a process keep up to 256 MiB that it has freed, instead of giving it back and asking for it again.

    A step frees and allocates the same arrays of some megabytes for each piece of its batch; pages that are new each
    time took a tenth of a private step. What it keeps is in pages of 2 MiB where Linux gives these on request: reading
    rows of many pages of 4 KiB took another. To be called again after `malloc_trim`. Of glibc only; elsewhere it does
    nothing. PyTorch is asked for such pages as well, for its larger tensors, which no heap keeps: full batches of wide
    rows spent half of their time on new pages of 4 KiB. It listens until it allocates for the first time.
    """
    os.environ.setdefault(TENSORS, "1")
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            for name, value in SETTINGS.items():
                libc.mallopt(name, value)
            _ask_for_huge_pages(libc)


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """For the heap, grown first: what it grows by later has small pages. Memory that nothing was written to is free."""
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes, libc.madvise.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mallopt(TOP_PAD, GROWN)
    libc.free(libc.malloc(SETTINGS[MMAP_THRESHOLD] - PAGE))
    libc.mallopt(TOP_PAD, SETTINGS[TOP_PAD])
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[heap]"):
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            libc.madvise(begin, end - begin, HUGE_PAGES)
