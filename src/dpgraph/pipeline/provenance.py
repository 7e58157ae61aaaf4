"""Provenance of a record: versions, machine, git commit and time."""

import os
import platform
import subprocess
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any


def provenance() -> dict[str, Any]:
    """Return versions, machine, git commit and the time."""
    return {
        "versions": dict(_versions()),
        "python": platform.python_version(),
        "processor": processor(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "commit": _commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@cache
def _versions() -> dict[str, str]:
    packages = ("dpgraph", "torch", "numpy", "scipy", "numba", "scikit-learn", "torch-geometric", "dp-accounting")
    return {name: version(name) for name in packages}


@cache
def _commit() -> str:
    """Return the commit of this package's checkout, with + for uncommitted changes; unknown elsewhere.

    Read once, when the first seed of this process starts: it has imported its code by then.
    """
    try:
        command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=12"]
        known = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return known.stdout.strip()


@cache
def processor() -> str:
    """Return the processor's name, as the operating system has it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or "unknown"])[0]
