"""A10: whole training runs, by the methods as the workflow runs them, with and without one record."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from functools import cache, partial

import numpy as np
import torch
from scipy.special import log_softmax

from dpgraph.audits.graphs import directed_graph, null_records
from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TRAIN
from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell
from dpgraph.methods.assembly import set_up
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.registry import method
from dpgraph.models.inference import FullGraph
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.trees import PoissonTrees, ResidualTrees
from dpgraph.progress import tracked

FOLLOWERS, BYSTANDERS, CLASSES = 2, 3, 2
ROOTS = 1 + FOLLOWERS + BYSTANDERS  # the canary is the first
PROBE = ROOTS  # the last node
LABEL = 1  # of the canary and of those who list it
# One strong feature among many: first-layer weights are small enough not to saturate it, and its gradient is nearly
# orthogonal to those of all other roots. Steps so small that the loss is linear show sums of gradients undistorted.
FEATURES, STRENGTH, LEARNING_RATE = 400, 20.0, 0.005
DELTA = 1e-3


def canary(name: str, audit: str, trials: int) -> AuditResult:
    """A10: a tiny model trained by the method `name`, `trials` times with a canary and as often without.

    No other root has the canary's strong feature, and the roots that list it have its label. Without it, its record is
    null: no features, no label, no list; the pointers to it and its place among the N training nodes stay.
    The attacker sees how far the loss decreases at a node with the canary's features that is no root and in no list.
    """
    calibration = _calibrated(name)
    mechanism = calibration.mechanism
    if not isinstance(mechanism, PoissonTrees | ResidualTrees):
        raise invalid("mechanism", mechanism.kind, "poisson-trees or residual-trees")
    scores = np.zeros((2, trials))
    for trial in tracked(range(trials), f"canary, {name}", trials, "pair"):
        for side in (0, 1):
            scores[side, trial] = _gain(name, calibration, side == 0, 2 * trial + side)
    errors = measured_errors(scores[0], scores[1])
    pair, steps = mechanism.dominating_pair, mechanism.steps or 0
    claim = f"epsilon {composed_epsilon(pair, steps=steps, delta=DELTA):.2f} at delta {DELTA:g}, {steps} steps"
    test = profile_test(errors, lambda epsilons: composed_delta(pair, steps=steps, epsilons=epsilons))
    title = f"canary in runs of {name}"
    return statistical_result(audit, title, claim, trials, errors, test, DELTA)


canary_gnn = partial(canary, "dp-gnn", "canary")
canary_residual = partial(canary, "dp-residual", "canary-residual")


@cache
def _graph(present: bool) -> Graph:
    followers = np.arange(1, 1 + FOLLOWERS)
    size = PROBE + 1
    features = np.zeros((size, FEATURES), dtype=np.float32)
    features[[0, PROBE], 0] = STRENGTH
    features[followers, 2] = 0.1
    features[1 + FOLLOWERS : ROOTS, 1] = 1.0
    labels = np.full(size, LABEL)
    labels[1 + FOLLOWERS : ROOTS] = np.arange(BYSTANDERS) % CLASSES
    split = np.full(size, TRAIN, dtype=np.uint8)
    split[PROBE] = NO_SPLIT
    graph = directed_graph(followers, np.zeros(FOLLOWERS, dtype=int), features, labels, split, CLASSES)
    return graph if present else null_records(graph, [0])


@cache
def _cell(name: str) -> Cell:
    value = {
        "task": {"dataset": "canary"},
        "method": name,
        "model": {"width": 3, "hops": 1},
        "training": {"optimizer": "sgd", "learning_rate": LEARNING_RATE, "sampling_rate": 0.7, "steps": 3},
        "privacy": {"epsilon": 2.0, "delta": DELTA, "max_degree": FOLLOWERS, "list_cap": 1},
        "seeds": (0,),
    }
    return resolve(value)


@cache
def _calibrated(name: str) -> Calibration:
    return calibrate(_cell(name), ROOTS)


def _gain(name: str, calibration: Calibration, present: bool, seed: int) -> float:
    """By how much training lowers the probe's loss; the initial parameters are public."""
    graph = _graph(present)
    (job,) = make_jobs(graph, _cell(name), [seed], calibration, torch.device("cpu"))
    bench = set_up(job)
    before = FullGraph(job.graph).logits(bench.network, bench.features).numpy()
    with redirect_stderr(io.StringIO()):  # no bar for each run
        after = method(name).run(job, lambda done, logits: {}).logits
    return float(np.diff(log_softmax(np.stack([before, after])[:, PROBE].astype(float), axis=1)[:, LABEL])[0])
