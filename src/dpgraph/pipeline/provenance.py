"""Versions, machine and commit of a record."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpgraph.experiments.machine import processor


def provenance() -> dict[str, Any]:
    """Versions, machine, git commit and time of writing."""
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
    return {name: version(name) for name in ("dpgraph", "torch", "numpy", "scipy", "dp-accounting")}


@cache
def _commit() -> str:
    """Commit of the checkout this package runs from, with + if there are uncommitted changes; unknown elsewhere.

    Read once: this process has imported its code by then, and records of one job name one commit.
    """
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return asked.stdout.strip()
