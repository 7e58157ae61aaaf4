"""All audits by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dpgraph.audits import accounted, exact, facts, inputs, one_run, prepared, reach, scale
from dpgraph.audits.result import AuditResult
from dpgraph.core.errors import invalid
from dpgraph.core.files import atomic_path
from dpgraph.families.aggregates import audit as sums
from dpgraph.families.aggregates import embedding_audit as embedding
from dpgraph.families.pate import audit as teachers
from dpgraph.families.pate.nodes import audit as node_teachers
from dpgraph.families.subgraphs import audit as subgraphs
from dpgraph.families.tuples import audit as tuples
from dpgraph.families.units import audit as units
from dpgraph.families.votes import audit as votes
from dpgraph.families.votes import audit_capped as votes_capped
from dpgraph.families.votes import audit_learnt as votes_learnt
from dpgraph.families.votes import audit_mean as votes_mean
from dpgraph.families.votes import audit_membership as votes_membership
from dpgraph.families.votes import audit_removed as votes_removed
from dpgraph.families.votes import audit_strangers as votes_strangers


@dataclass(frozen=True)
class Audit:
    """`nightly`: takes a minute or more, or says little; not among those that every change has to pass."""

    run: Callable[[int], AuditResult]
    trials: int  # by default
    nightly: bool = False
    quick: int | None = None  # trials of a demonstration, where those by default take long


AUDITS = {
    "facts": Audit(facts.facts, 400, quick=200),
    "reach": Audit(reach.reach, 4),
    "accounted": Audit(accounted.accounted, 4),
    "self-terms": Audit(inputs.self_terms, 4),
    "prepared": Audit(prepared.prepared, 2500, nightly=True),
    "votes": Audit(votes.votes, 4000, quick=500),
    "votes-capped": Audit(votes_capped.votes_capped, 12),
    "votes-learnt": Audit(votes_learnt.votes_learnt, 4),
    "votes-mean": Audit(votes_mean.votes_mean, 200),
    "votes-membership": Audit(votes_membership.votes_membership, 4000, quick=2400),
    "votes-removed": Audit(votes_removed.votes_removed, 12, quick=4),
    "votes-strangers": Audit(votes_strangers.votes_strangers, 6, quick=4),
    "sums": Audit(sums.sums, 4),
    "embedding": Audit(embedding.embedding, 4),
    "teachers": Audit(teachers.teachers, 10_000),
    "node-teachers": Audit(node_teachers.node_teachers, 10_000),
    "units": Audit(units.units, 2000),
    "lists": Audit(exact.lists, 5),
    "sensitivity": Audit(exact.sensitivity, 60, quick=20),
    "subgraph-steps": Audit(subgraphs.steps, 6000, quick=1000),
    "subgraph-locality": Audit(subgraphs.locality, 30),
    "tuple-facts": Audit(tuples.tuple_facts, 400, quick=100),
    "tuple-sensitivity": Audit(tuples.tuple_sensitivity, 6),
    "scale": Audit(scale.scale, 20_000, quick=4000),
    "one-run": Audit(one_run.one_run, 5000, quick=1000),
}


def names_of(audit: str, nightly: bool = False) -> list[str]:
    """`all`: those that are not nightly, or with `nightly` every one; else the audit itself."""
    if audit != "all":
        return [audit]
    return [name for name, one in AUDITS.items() if nightly or not one.nightly]


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
    """Parquet: one row per point of a curve; an audit without a curve has one row, with epsilon and deltas empty."""
    rows = []
    for one in results:
        shared = one.model_dump(exclude={"curve"})
        empty = {"epsilon": None, "claimed": None, "measured": None}
        rows += [{**shared, **point} for point in ([p.model_dump() for p in one.curve] or [empty])]
    table = pd.DataFrame(rows).astype({"epsilon": float, "claimed": float, "measured": float})
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False)
