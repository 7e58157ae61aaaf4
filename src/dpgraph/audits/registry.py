"""The registry of audits by name."""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd

from dpgraph.audits import accounted, exact, facts, inputs, one_run, reach, scale
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.core.errors import invalid
from dpgraph.core.files import atomic_path
from dpgraph.families.registry import declared

SHARED = (accounted, exact, facts, inputs, one_run, reach, scale)


# those that all families share, then those of each family's `audit*.py`
AUDITS: dict[str, Audit] = {
    **{name: audit for module in SHARED for name, audit in module.AUDITS.items()},
    **declared("audit*.py", "AUDITS"),
}


def names_of(audit: str) -> list[str]:
    """Return the names of all audits for `all`, else the one name."""
    return list(AUDITS) if audit == "all" else [audit]


def quick_trials(audit: str) -> int | None:
    """Return the trials of a demonstration; None: those by default."""
    return AUDITS[audit].quick if audit in AUDITS else None


def run_audit(name: str, trials: int | None = None) -> AuditResult:
    """Run an audit with its own number of trials or another one. Raises UserError for an unknown audit."""
    if name not in AUDITS:
        raise invalid("audit", name, f"one of {', '.join(AUDITS)}")
    audit = AUDITS[name]
    count = audit.trials if trials is None else trials
    if count < 4:
        raise invalid("trials", count, "an integer >= 4")
    start = time.monotonic()
    result = audit.run(count)
    return result.model_copy(update={"seconds": round(time.monotonic() - start, 2)})


def write_audits(results: list[AuditResult], path: Path) -> None:
    """Write results as Parquet: one row per point of a curve.

    An audit without a curve has one row, with epsilon and deltas empty.
    """
    rows = []
    for one in results:
        shared = one.model_dump(exclude={"curve"})
        empty = {"epsilon": None, "claimed": None, "measured": None}
        rows += [{**shared, **point} for point in ([p.model_dump() for p in one.curve] or [empty])]
    table = pd.DataFrame(rows).astype({"epsilon": float, "claimed": float, "measured": float})
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False)
