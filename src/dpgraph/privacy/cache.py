"""Answers of calibrations, kept between processes: one file per question, never stale.

A file's name is the hash of the question, of this package's source files and of the versions of the libraries that
count. Files appear whole (atomic rename), so processes may share the folder; one that cannot be read is computed again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpgraph.config.frozen import canonical_json, digest
from dpgraph.config.sources import PACKAGE, job_digest
from dpgraph.core.files import read_json, write_json

log = logging.getLogger("dpgraph")
VARIABLE = "DPGRAPH_CACHE"
LIBRARIES = ("dp-accounting", "scipy", "numpy")


@cache
def versions() -> dict[str, str]:
    """Return the versions of this package and of the libraries of its accountants."""
    return {name: version(name) for name in ("dpgraph", *LIBRARIES)}


@cache
def accountants_digest() -> str:
    """Hash the accountants: the files of this package, Python's and the libraries' versions."""
    hashed = hashlib.sha256(canonical_json([versions(), platform.python_version()]).encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        hashed.update(str(path.relative_to(Path(__file__).parent)).encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


@cache
def made_elsewhere(made: type | Callable[..., Any]) -> tuple[str, ...] | None:
    """Hash the modules of a mechanism or an accountant outside privacy/, whose files `accountants_digest` hashes.

    None for one outside of this package: nobody knows which files its epsilon depends on, so no answer is kept.
    """
    top, _, module = made.__module__.partition(".")
    if top != PACKAGE.name:
        return None
    return () if module.startswith("privacy.") else (job_digest((module,)),)


@dataclass(frozen=True)
class Cache:
    """A folder of answers: `folder`/HASH.json holds the question and its answer, both JSON values."""

    folder: Path

    def path(self, question: Any) -> Path:
        return self.folder / f"{digest([question, accountants_digest()], 32)}.json"

    def get(self, question: Any) -> Any | None:
        """Return a stored answer; None where there is none, or it is not readable."""
        try:
            stored = read_json(self.path(question))
            same = canonical_json(stored["question"]) == canonical_json(question)
            return stored["answer"] if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, question: Any, answer: Any) -> None:
        """Store an answer. A folder that cannot be written only costs the next process its time."""
        try:
            write_json(self.path(question), {"question": question, "answer": answer})
        except OSError as error:
            log.warning("%s: calibrations are not kept: %s", self.folder, error)


def default_cache() -> Cache:
    """Return `$DPGRAPH_CACHE/calibrations`, by default `.cache/dpgraph/calibrations` below the working directory."""
    return Cache(Path(os.environ.get(VARIABLE) or ".cache/dpgraph") / "calibrations")
