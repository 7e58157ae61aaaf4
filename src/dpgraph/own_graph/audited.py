"""Audits of the card: attacks on the mechanism's own code, run on made-up graphs where the card is made.

They do not read the user's graph. Some attack the benchmark's run of the mechanism, whose votes, caps and steps a
release takes over. SECRET attacks what a release has of its own: noise of the operating system on a grid. It is
observed through an order that records each addition; the noise itself is that of `fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dpgraph.audits import scale
from dpgraph.audits.cases import KINDS, jobs_of, prepared_by
from dpgraph.audits.one_run import RUNS, attack
from dpgraph.audits.one_run import judged as judged_run
from dpgraph.audits.outside import AUDITS as BY_METHOD
from dpgraph.audits.outside import only
from dpgraph.audits.registry import run_audit
from dpgraph.audits.result import AuditResult
from dpgraph.core.errors import UserError
from dpgraph.core.progress import tracked
from dpgraph.data.records import TRAIN
from dpgraph.engine.methods.base import Job
from dpgraph.own_graph.budget import METHODS, RELATIONS, BudgetedRun, PublicNumbers, budgeted
from dpgraph.own_graph.secret import SecretOrder
from dpgraph.own_graph.training import SecretVotes
from dpgraph.privacy.relation import Relation

Trials = tuple[tuple[str, int | None], ...]
# names and trials: seconds in all. The first four compare noise, rates, clip norms, reads and epsilon with a second
# computation, for the method alone
STEPS: Trials = tuple((name, None) for name in BY_METHOD)
VOTES: Trials = (("votes", 1000),)
MEAN: Trials = (("votes-mean", 100),)
READERS: Trials = (("votes-learnt", 4),)
REMOVED: Trials = (("votes-capped", 4),)


EPSILON = 100.0  # of made-up runs; noise is compared in units of what was accounted for
DRAWS = 10_000
CANARIES: Trials = (("secret one-run", 5000),)
# of 1 / noise: 5,000 canaries show .65 and .83, each six standard deviations or more above this
LEAST = {"f-DP": 0.3, "independent trials": 0.5}


@dataclass(frozen=True)
class RecordedSecretOrder(scale.RecordedOrder, SecretOrder):
    """The order of a release, whose noise is put on record."""


def secret(*fields: Any) -> SecretVotes:
    """Prepare a run as `fit` prepares a release."""
    return SecretVotes(SecretOrder(*fields))


def noise_of_releases(kind: str, relation: Relation, trials: int) -> AuditResult:
    """Run made-up releases until each kind of noise has given `trials` numbers: their scale, and who is related."""
    graph = scale.toy_graph()
    removed = relation is Relation.NODE_REMOVE
    split = graph.split if removed else np.full_like(graph.split, TRAIN)
    graph = replace(graph, split=split)
    roots = len(graph.train_nodes)
    numbers = PublicNumbers(
        scale.NODES, roots, scale.CLASSES, voters=roots if removed else None, features=scale.FEATURES
    )
    what = budgeted(kind, numbers, epsilon=EPSILON, relation=relation)

    def job_of(seed: int, record: scale.NoiseRecord) -> Job:
        with prepared_by(scale.on_record(record, RecordedSecretOrder, SecretVotes)):
            return jobs_of(graph, what.cell, what.mechanism, [seed])[0]

    found = scale.run_on_record(job_of, trials)
    return scale.judged(
        "secret noise", "noise of a release", {name: scale.scale_of(runs) for name, runs in found.items()}
    )


def canaries_of_releases(trials: int) -> AuditResult:
    """Attack one run with the noise of a release by `trials` canaries."""
    with prepared_by(secret):
        (runs,) = [attack(name, trials) for name in RUNS if name in KINDS and KINDS[name].votes]
    return judged_run("secret one-run", runs, trials, LEAST)


SECRET: dict[str, Callable[[int], AuditResult]] = {
    f"secret noise, {kind}, {relation}": partial(noise_of_releases, kind, relation)
    for kind in METHODS
    for relation in RELATIONS
} | {"secret one-run": canaries_of_releases}


def audits_of(what: BudgetedRun) -> Trials:
    mean = MEAN if what.mechanism.mean_ratio is not None else ()
    own: Trials = ((f"secret noise, {what.kind}, {what.relation}", DRAWS), *CANARIES)
    if not what.votes:
        return (*STEPS, *mean, *own)
    learnt = READERS if what.mechanism.reader_ratio is not None else ()
    return (*STEPS, *mean, *(REMOVED if what.relation is Relation.NODE_REMOVE else VOTES), *learnt, *own)


@cache
def audited(method: str, audits: Trials) -> Mapping[str, str]:
    """Return each audit's claim and finding. Raise UserError where one fails: no release may follow."""
    found = {}
    with only(method):
        for name, trials in tracked(audits, "audits of the mechanism on made-up graphs", len(audits), "audit"):
            result = SECRET[name](trials or DRAWS) if name in SECRET else run_audit(name, trials)
            if not result.passed:
                raise UserError(f"audit {name} FAILED: {result.finding}: nothing is released")
            found[f"audit {name}"] = f"passed: {result.claim}; found {result.finding}; {result.trials} trials"
    return MappingProxyType(found)
