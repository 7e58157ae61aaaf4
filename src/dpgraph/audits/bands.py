"""Audit of correlated noise over cyclic batches: steps of `dp-votes` with bands, as they are prepared for a cell.

Every record has a feature of its own, so that one run shows what each of them adds, step by step. The attacker knows
the matrix and the groups, both public, undoes the correlation and mixes over the steps of a record's group. Rates,
noise and the curve are worked out here again, from docs/privacy.md, 12.12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2, norm

from dpgraph.audits import theory
from dpgraph.audits.cases import CPU
from dpgraph.audits.graphs import directed_graph, null_records
from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.audits.votes import LEVEL, planted_in
from dpgraph.data.graph import Graph
from dpgraph.experiments.cell import Model
from dpgraph.methods.jobs import make_jobs
from dpgraph.methods.votes.prepared import ROW_NORM, PreparedVotes
from dpgraph.models.network import Network
from dpgraph.planning.resolve import mechanism_for, resolve
from dpgraph.preparation.base import expected
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.privacy.banded import BandedMatrix, best_matrix
from dpgraph.privacy.calibration import Calibration
from dpgraph.privacy.mechanisms.votes import PoissonVotes
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.training.banded import BandedNoise

RECORDS, STEPS, BANDS, RATE, NOISE = 400, 8, 2, 0.4, 1.0
QUIET = 0.01  # noise with which each single draw is seen
DELTAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
TITLE = "correlated noise over records that take turns"
SHORT = math.sqrt(ROW_NORM**2 / (ROW_NORM**2 + 1))  # of a clipped gradient, what is not of the bias
WAY = np.array([1.0, -1.0]) / math.sqrt(2)  # of a gradient of label 0 at equal chances, over the two classes, downwards


def prepared_bands(graph: Graph, noise: float, seed: int) -> PreparedVotes:
    cell = resolve(
        {
            "task": {"dataset": "audit"},
            "method": "dp-votes",
            "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0},
            "training": {
                "optimizer": "sgd", "learning_rate": 1.0, "steps": STEPS, "sampling_rate": RATE, "bands": BANDS,
            },
            "privacy": {"noise_multiplier": noise, "votes_share": 0.0, "delta": 1e-3},
            "seeds": (0,),
        }
    )  # fmt: skip
    mechanism = mechanism_for(cell, len(graph.train_nodes), graph.num_nodes)
    (job,) = make_jobs(graph, cell, [seed], Calibration.model_construct(mechanism=mechanism), CPU)
    return expected(job.prepared, PreparedVotes)


def movements(noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, PreparedVotes]:
    """((T, N) what each step shows of each record, in clip norms; (N,) who has a record; what was prepared).

    Parameters go back to zero before each step, so that all gradients are the same.
    """
    present = numpy_generator("audits", "bands", seed).permutation(RECORDS) < RECORDS // 2
    graph = directed_graph([], [], np.eye(RECORDS), np.zeros(RECORDS))
    step_of = prepared_bands(null_records(graph, np.flatnonzero(~present)), noise, seed)
    network = Network(
        Model(architecture="mlp", hops=0, encoder_layers=0), RECORDS, 2, torch_generator("audits", "bands")
    )
    step = step_of.step(network, torch.optim.SGD(network.parameters(), lr=1.0))
    found = np.zeros((STEPS, RECORDS))
    for place in range(STEPS):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.zero_()
        step()
        weights = next(network.parameters()).detach().double().numpy()  # (2, N)
        found[place] = WAY @ weights * RATE * RECORDS
    return found, present, step_of


def public_matrix() -> np.ndarray:
    """(T, T) as the theorem has it: its columns brought to norm 1 whatever the code does with them."""
    dense = best_matrix(steps=STEPS, bands=BANDS, momentum=0.0, averaged_share=0.0).dense
    return np.asarray(dense / np.linalg.norm(dense, axis=0))


def _spread(values: np.ndarray) -> float:
    """Of a sum of squares of numbers that should be standard normal, as a normal quantile of the same tail."""
    total, size = float(np.square(values).sum()), values.size
    below = norm.isf(chi2.sf(total, size))
    return float(np.clip(below if below > 0 else -norm.isf(chi2.cdf(total, size)), -99, 99))


def facts(dense: np.ndarray) -> dict[str, float]:
    """Standard deviations from what is expected, inf where exactness is broken."""
    found, present, _ = movements(QUIET, 0)
    drawn = found > SHORT / 2
    groups = np.array([int(np.flatnonzero(column)[0]) % BANDS if column.any() else -1 for column in drawn.T])
    own = np.arange(STEPS)[:, None] % BANDS == groups[None, :]
    within = drawn[:, present & (groups >= 0)][own[:, present & (groups >= 0)]]
    noise = dense @ np.where(drawn, found - SHORT, found) / QUIET
    rate = (drawn[:, present].sum() - present.sum() * STEPS / BANDS * BANDS * RATE) / math.sqrt(
        present.sum() * STEPS / BANDS * BANDS * RATE * (1 - BANDS * RATE)
    )
    claim = theory.poisson(1, BANDS * RATE, NOISE, math.ceil(STEPS / BANDS)).epsilon(1e-3)
    graph = directed_graph([], [], np.eye(RECORDS), np.zeros(RECORDS))
    stated = prepared_bands(graph, NOISE, 0).mechanism.rigorous().epsilon or math.inf
    return {
        "a record outside of its turn": 0.0 if within.sum() == drawn.sum() else math.inf,
        "batches": float(rate),
        "heights": float(np.abs(found[drawn] - SHORT).max() / (QUIET * 12 / np.diag(dense).min()) * LEVEL),
        "noise of all rows": _spread(noise),
        "neighbouring rows": float((noise[1:] * noise[:-1]).sum() / math.sqrt(noise[1:].size)),
        "epsilon": 0.0 if -3e-3 * claim <= stated - claim <= 2e-2 * claim else math.inf,
    }


def scores(dense: np.ndarray, trials: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of likelihood ratios, of records that are there and of those that are not."""
    with_, without = [], []
    for seed in range(1, 1 + math.ceil(2 * trials / RECORDS)):
        found, present, step_of = movements(NOISE, seed)
        groups = step_of.terms[0].draws.sampler.groups  # type: ignore[attr-defined]
        along = dense.T @ (dense @ found) / SHORT  # rows' own columns: one number for each step
        logs = np.log1p(BANDS * RATE * np.expm1((along - 0.5) / NOISE**2))
        own = np.arange(STEPS)[:, None] % BANDS == groups[None, :]
        total = np.where(own, logs, 0.0).sum(axis=0)
        with_.append(total[present])
        without.append(total[~present])
    return np.concatenate(with_), np.concatenate(without)


def claimed() -> tuple[np.ndarray, np.ndarray]:
    """(epsilons, deltas) as the mechanism states them; N does not enter."""
    graph = directed_graph([], [], np.eye(RECORDS), np.zeros(RECORDS))
    mechanism = prepared_bands(graph, NOISE, 0).mechanism
    fields = {**dict(mechanism), "num_roots": 1, "num_protected": None}
    stated = [type(mechanism)(**{**fields, "delta": delta}).rigorous().epsilon for delta in DELTAS]
    return np.array(stated, dtype=float), np.array(DELTAS)


def _as_plain(self: PoissonVotes) -> PoissonVotes:
    """As if a record were drawn at rate q in the steps of its group."""
    taken = math.ceil((self.steps or 1) / self.bands)
    return type(self)(**{**dict(self), "bands": 1, "steps": taken})


def _longer(**asked: Any) -> BandedMatrix:
    return BandedMatrix(1.5 * best_matrix(**asked).columns)


def _multiplied(self: BandedNoise, like: Any) -> list[torch.Tensor]:
    """C Z in the place of C^-1 Z."""
    if self.matrix is None or self.source is None:
        raise TypeError("expected a source of noise and a matrix")
    fresh = [torch.zeros_like(one) for one in like]
    self.source.add(fresh)
    self._past.append(fresh)
    factors = self.matrix.row(self._made).tolist()
    self._made += 1
    kept = [fresh, *list(self._past)[-2::-1]]
    return [sum(factor * past[place] for factor, past in zip(factors, kept)) for place in range(len(fresh))]  # type: ignore[misc]


BANDS_BUGS: Mapping[str, Mapping[str, Any]] = {
    "noise multiplied with the matrix": {"dpgraph.training.banded.BandedNoise._row": _multiplied},
    "groups ignored": {
        "dpgraph.sampling.cyclic.CyclicSampler.of_group": lambda self, group, generator: np.flatnonzero(
            generator.random(self.num_roots) < self.rate
        )
    },
    "amplified at rate q": {"dpgraph.privacy.mechanisms.votes.PoissonVotes.charged": property(_as_plain)},
    "columns longer than 1": {"dpgraph.preparation.bands.best_matrix": _longer},
}


def bands(trials: int, planted: str | None = None) -> AuditResult:
    """Facts of one run in which draws are seen, and `trials` records a side against the curve that is stated."""
    dense = public_matrix()
    with planted_in(BANDS_BUGS[planted] if planted else {}):
        found = facts(dense)
        present, absent = scores(dense, trials)
        epsilons, deltas = claimed()
    errors = measured_errors(present, absent)
    test = profile_test(errors, lambda _: deltas, epsilons)
    broken = {name: score for name, score in found.items() if not abs(score) < LEVEL}
    claim = ", ".join(f"({epsilon:.3g}, {delta:g})" for epsilon, delta in zip(epsilons, deltas))
    result = statistical_result("bands", TITLE, planted, f"{len(found)} facts, and {claim}", trials, errors, test, 0.1)
    shown = "; ".join(f"{name}: {score:.3g}" for name, score in broken.items())
    return result.model_copy(
        update={
            "passed": not broken and not test.refuted,
            "finding": f"{result.finding}; {len(broken)} facts broken" + (f": {shown}" if shown else ""),
        }
    )
