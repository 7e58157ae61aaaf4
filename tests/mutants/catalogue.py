"""All planted bugs; see tests/mutants/planting.py for what one is."""

from __future__ import annotations

from tests.mutants.bugs import (
    accounting,
    audited_parts,
    audited_releases,
    audited_steps,
    audited_votes,
    bounds,
    captured,
    clipping,
    fits,
    noise,
    relations,
    runs,
    sampling,
    streams,
    sums,
    teachers,
    units,
    votes,
)
from tests.mutants.planting import Bug

THEMES = (
    noise, sampling, clipping, bounds, runs, accounting, votes, fits, relations, sums, teachers, units, captured,
    streams, audited_steps, audited_parts, audited_votes, audited_releases,
)  # fmt: skip
BUGS: tuple[Bug, ...] = tuple(bug for theme in THEMES for bug in theme.BUGS)
