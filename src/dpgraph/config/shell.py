"""The environment of the rules' shell commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def export_interpreter(sources: Path | None) -> None:
    """Make `python -m dpgraph` in a rule mean this interpreter and the package in `sources`; None: the installed one.

    An activated conda environment still puts its own `python` in front.
    """
    _prepend("PATH", Path(sys.executable).parent)
    if sources is not None:
        _prepend("PYTHONPATH", sources)


def _prepend(variable: str, folder: Path) -> None:
    parts = [part for part in os.environ.get(variable, "").split(os.pathsep) if part and part != str(folder)]
    os.environ[variable] = os.pathsep.join([str(folder), *parts])
