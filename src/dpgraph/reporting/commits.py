"""Commits that results are of: which of them are the same code."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def latest_of(commits: Sequence[str], apart: str) -> str | None:
    """The one of `commits` that has all others before it, if they differ in the file `apart` alone; None: they do more.

    A single commit is that one, whether or not the checkout this package runs from has it.
    """
    if len(commits) == 1:
        return commits[0]
    for last in commits:
        if all(_lines("merge-base", "--is-ancestor", one, last) is not None for one in commits):
            changed = [_lines("diff", "--name-only", one, last, "--", ":/") for one in commits]
            return last if all(found is not None and set(found) <= {apart} for found in changed) else None
    return None


def _lines(*asked: str) -> list[str] | None:
    """What git prints; None where it says no."""
    try:
        done = subprocess.run(
            ["git", *asked], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()
