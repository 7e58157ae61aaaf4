"""What a function that decides a claim without training finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    verdict: str
    evidence: str
    n: int  # cases that were computed
