"""Audit: an attacker who sees what all others predict decides whether one record is there.

Own-record training whose predictions read the raw graph has no guarantee. There the attack must succeed, or its failure
against votes, whose epsilon covers them, would mean little.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from functools import cache

import numpy as np

from dpgraph.audits.cases import CPU
from dpgraph.audits.graphs import directed_graph, null_records, with_edges
from dpgraph.audits.result import Audit, AuditResult, statistical_result
from dpgraph.config.cell import Cell
from dpgraph.core.progress import tracked
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.families.votes.audit import NOISE, claimed_curve, prepared_votes
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.privacy.calibration import Calibration

FRIENDS, OTHERS, FEATURES, CLASSES = 8, 12, 3, 2
CHANGED, EMPTY, LABEL = 0, 1, 1  # the node whose record is null on the other side; a null node; the former's class
SIZE = 2 + 2 * FRIENDS + OTHERS
EPSILON, DELTA = 1.0, 1e-3  # guarantee of the parameters of runs that read the raw graph
RUNS = 40  # trials per whole training with predictions on the raw graph
TITLE = "who is there, from what all others predict"


@cache
def _graph(present: bool) -> Graph:
    """Return the changed node, for training, with its friends; their twins around a null node; unlinked training nodes.

    A twin has its friend's features, and the null node in its list instead of the changed one.
    """
    pairs = np.arange(2, 2 + 2 * FRIENDS).reshape(2, FRIENDS)
    split = np.full(SIZE, TRAIN)
    split[EMPTY], split[pairs] = TEST, TEST
    features = np.zeros((SIZE, FEATURES))
    features[np.arange(SIZE), np.arange(SIZE) % 2] = 1.0
    features[CHANGED] = np.eye(FEATURES)[2]
    features[EMPTY] = 0
    labels = np.where(np.arange(SIZE) == CHANGED, LABEL, np.arange(SIZE) % CLASSES)
    graph = directed_graph([], [], features, labels, split, CLASSES)
    centres = np.repeat([CHANGED, EMPTY], FRIENDS)
    ends = pairs.ravel()
    back = ends[:FRIENDS]  # the null node has no list
    owners, members = np.concatenate([ends, centres[:FRIENDS]]), np.concatenate([centres, back])
    whole = with_edges(graph, owners, members)
    return whole if present else null_records(whole, [CHANGED])


@cache
def _cell() -> Cell:
    """Return a cell that trains on own records and predicts from the raw graph."""
    return resolve(
        {
            "task": {"dataset": "audit"},
            "method": "dp-residual",
            "model": {"architecture": "gcn", "hops": 1, "encoder_layers": 1, "width": 3},
            "training": {"optimizer": "sgd", "learning_rate": 1.0, "steps": 1, "sampling_rate": 1.0},
            "privacy": {
                "epsilon": EPSILON, "delta": DELTA, "neighbour_clip_ratio": 0,
                "max_degree": FRIENDS, "list_cap": FRIENDS,
            },
            "seeds": (0,),
        }
    )  # fmt: skip


@cache
def _calibrated() -> Calibration:
    """Return the calibration of that cell."""
    return calibrate(_cell(), len(_graph(True).train_nodes), num_protected=SIZE)


def _apart(scores: np.ndarray) -> np.ndarray:
    """Return (FRIENDS,) by how much more than its twin a friend leans to the record's class."""
    friends, twins = scores[2 : 2 + 2 * FRIENDS].astype(float).reshape(2, FRIENDS, CLASSES)
    lean = friends - twins
    return np.asarray(lean[:, LABEL] - lean[:, 1 - LABEL])


def by_votes(trials: int) -> np.ndarray:
    """Return (2, trials) of releases with and without the record: how much its friends lean to its class, in all.

    Own predictions are public here; the guarantee of votes holds given them.
    """
    own = np.full((SIZE, CLASSES), 1 / CLASSES)
    found = np.zeros((2, trials))
    for side in (0, 1):
        step = prepared_votes(_graph(side == 0), side, degree_floor=1)
        found[side] = [_apart(step.scores(own)).sum() for _ in range(trials)]
    return found


def by_raw_graph(trials: int) -> np.ndarray:
    """Return (2, trials) of whole runs: the largest difference between a friend and its twin.

    A friend of a null record predicts what its twin does, whatever the parameters.
    """
    found = np.zeros((2, trials))
    for trial in tracked(range(trials), "predictions on the raw graph", trials, "pair"):
        for side in (0, 1):
            (job,) = make_jobs(_graph(side == 0), _cell(), [2 * trial + side], _calibrated(), CPU)
            with redirect_stderr(io.StringIO()):  # no bar for each run
                found[side, trial] = np.abs(_apart(method("dp-residual").run(job, lambda done, seen: {}).logits)).max()
    return found


def votes_membership(trials: int) -> AuditResult:
    """Audit that votes keep the curve of their mu, and that the raw graph leaks more than its epsilon."""
    errors = measured_errors(*by_votes(trials))
    test = profile_test(errors, claimed_curve)
    claim = f"mu = {1 / NOISE:.3f} covers others' predictions by votes; no epsilon covers those on the raw graph"
    result = statistical_result("votes-membership", TITLE, claim, trials, errors, test, DELTA)
    runs = max(1, trials // RUNS)
    shown = measured_errors(*by_raw_graph(runs)).epsilon(DELTA)
    return result.model_copy(
        update={
            "passed": result.passed and shown > EPSILON,
            "finding": f"{result.finding}; on the raw graph eps_lb {shown:.3g} in {runs} runs at epsilon {EPSILON:g}",
        }
    )


AUDITS = {"votes-membership": Audit(votes_membership, 4000, quick=2400)}
