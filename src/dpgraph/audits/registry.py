"""All audits by name, with the bugs that each must catch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.audits import (
    accounted,
    appr,
    canary,
    embedding,
    exact,
    facts,
    inputs,
    node_teachers,
    noise,
    one_run,
    partition,
    pate,
    prepared,
    reach,
    residual,
    subgraphs,
    sums,
    teachers,
    tuples,
    units,
    votes,
    votes_capped,
    votes_learnt,
    votes_mean,
    votes_membership,
    votes_removed,
    votes_strangers,
)
from dpgraph.audits.result import AuditResult
from dpgraph.errors import invalid
from dpgraph.files import atomic_path


@dataclass(frozen=True)
class Audit:
    """`nightly`: takes a minute or more, or says little; not among those that every change has to pass."""

    run: Callable[[int, str | None], AuditResult]
    trials: int  # by default
    bugs: Mapping[str, Any]
    nightly: bool = False


AUDITS = {
    "facts": Audit(facts.facts, 400, facts.FACTS_BUGS),
    "reach": Audit(reach.reach, 4, reach.REACH_BUGS),
    "accounted": Audit(accounted.accounted, 4, accounted.ACCOUNTED_BUGS),
    "self-terms": Audit(inputs.self_terms, 4, inputs.SELF_TERMS_BUGS),
    "prepared": Audit(prepared.prepared, 2500, prepared.PREPARED_BUGS, nightly=True),
    "update": Audit(noise.update, 40_000, noise.UPDATE_BUGS),
    "trajectory": Audit(noise.trajectory, 4000, noise.TRAJECTORY_BUGS),
    "partition": Audit(partition.partition, 10_000, partition.PARTITION_BUGS),
    "residual": Audit(residual.residual, 24_000, residual.RESIDUAL_BUGS),
    "appr": Audit(appr.appr, 20_000, appr.APPR_BUGS),
    "votes": Audit(votes.votes, 4000, votes.VOTES_BUGS),
    "votes-capped": Audit(votes_capped.votes_capped, 12, votes_capped.VOTES_CAPPED_BUGS),
    "votes-learnt": Audit(votes_learnt.votes_learnt, 4, votes_learnt.VOTES_LEARNT_BUGS),
    "votes-mean": Audit(votes_mean.votes_mean, 200, votes_mean.VOTES_MEAN_BUGS),
    "votes-membership": Audit(votes_membership.votes_membership, 4000, votes_membership.VOTES_MEMBERSHIP_BUGS),
    "votes-removed": Audit(votes_removed.votes_removed, 12, votes_removed.VOTES_REMOVED_BUGS),
    "votes-strangers": Audit(votes_strangers.votes_strangers, 6, votes_strangers.VOTES_STRANGERS_BUGS),
    "sums": Audit(sums.sums, 4, sums.SUMS_BUGS),
    "embedding": Audit(embedding.embedding, 4, embedding.EMBEDDING_BUGS),
    "pate": Audit(pate.pate, 40_000, pate.PATE_BUGS),
    "teachers": Audit(teachers.teachers, 10_000, teachers.TEACHERS_BUGS),
    "node-teachers": Audit(node_teachers.node_teachers, 10_000, node_teachers.NODE_TEACHERS_BUGS),
    "units": Audit(units.units, 2000, units.UNITS_BUGS),
    "lists": Audit(exact.lists, 5, exact.LISTS_BUGS),
    "sensitivity": Audit(exact.sensitivity, 60, exact.SENSITIVITY_BUGS),
    "clipping": Audit(exact.clipping, 30, exact.CLIP_BUGS),
    "locality": Audit(exact.locality, 30, exact.LOCALITY_BUGS),
    "subgraph-steps": Audit(subgraphs.steps, 6000, subgraphs.STEPS_BUGS),
    "subgraph-locality": Audit(subgraphs.locality, 30, subgraphs.LOCALITY_BUGS),
    "tuple-facts": Audit(tuples.tuple_facts, 400, dict.fromkeys(tuples.FACTS_BUGS)),
    "tuple-sensitivity": Audit(tuples.tuple_sensitivity, 6, dict.fromkeys(tuples.SENSITIVITY_BUGS)),
    "canary": Audit(canary.canary_gnn, 1000, canary.CANARY_BUGS, nightly=True),
    "canary-residual": Audit(canary.canary_residual, 1000, canary.CANARY_BUGS, nightly=True),
    "one-run": Audit(one_run.one_run, 1000, one_run.ONE_RUN_BUGS, nightly=True),
}


def names_of(audit: str, nightly: bool = False) -> list[str]:
    """`all`: those that are not nightly, or with `nightly` every one; else the audit itself."""
    if audit != "all":
        return [audit]
    return [name for name, one in AUDITS.items() if nightly or not one.nightly]


def run_audit(name: str, trials: int | None = None, planted: str | None = None) -> AuditResult:
    """Raises UserError for an unknown audit or bug."""
    if name not in AUDITS:
        raise invalid("audit", name, f"one of {', '.join(AUDITS)}")
    audit = AUDITS[name]
    if planted is not None and planted not in audit.bugs:
        raise invalid("planted", planted, f"one of {', '.join(audit.bugs)}")
    count = audit.trials if trials is None else trials
    if count < 4:
        raise invalid("trials", count, "an integer >= 4")
    start = time.monotonic()
    result = audit.run(count, planted)
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
