"""The audits' own parts: what each attacks is what it says, and passing is not for want of power."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpgraph.audits import appr, canary, exact, partition, pate, residual
from dpgraph.audits.coordinates import CoordinateRun
from dpgraph.audits.registry import run_audit
from dpgraph.audits.result import AuditResult
from dpgraph.data.graph import TRAIN
from dpgraph.privacy.gaussian import gaussian_delta
from dpgraph.sampling.batches import PoissonSampler


def mu_of(found: AuditResult) -> float:
    return float(found.finding.split("mu_lb ")[1].split(";")[0])


def test_every_root_is_a_trial_of_its_own() -> None:
    """At rate 1 without noise each present root moves its own parameter by C, and nothing else; absent ones do not."""
    present = np.arange(10) % 3 > 0
    run = CoordinateRun(present, PoissonSampler(10, 1.0), 1e-12, "test")
    before = run.network.encoder.layers[0].weight.detach().clone()
    assert run.step() == pytest.approx(present.astype(float), abs=1e-9)
    moved = (run.network.encoder.layers[0].weight - before).detach().numpy()
    assert np.abs(moved).sum() == pytest.approx(0.5 * present.sum(), abs=1e-6)


def test_coordinates_have_poisson_draws_and_the_noise_of_the_step() -> None:
    present = np.ones(4000, dtype=bool)
    drawn = CoordinateRun(present, PoissonSampler(4000, 0.3), 1e-9, "test draws").step()
    assert set(np.round(drawn, 6)) == {0.0, 1.0}
    assert drawn.mean() == pytest.approx(0.3, abs=0.03)
    noise = CoordinateRun(~present, PoissonSampler(4000, 0.3), 2.0, "test noise").step()
    assert noise.std() == pytest.approx(2.0, rel=0.05)


def test_a_cyclic_partition_keeps_its_own_accountant() -> None:
    """mu = sqrt(epochs) / noise: not refuted, and nearly reached; the attack on Poisson batches has power as well."""
    found = run_audit("partition", planted="cyclic partition")
    mu = math.sqrt(partition.EPOCHS) / partition.NOISE
    points = np.array([(point.epsilon, point.measured) for point in found.curve])
    assert (points[:, 1] <= gaussian_delta(mu, points[:, 0])).all()
    assert mu_of(found) > 0.9 * mu
    honest = run_audit("partition")
    assert honest.curve[0].measured > 0.7 * honest.curve[0].claimed


def test_groups_of_a_cyclic_partition() -> None:
    sampler = partition.CyclicPartition(20)
    drawn = [sampler.draw(np.random.default_rng(0)).tolist() for _ in range(9)]
    assert sorted(root for group in drawn[:8] for root in group) == list(range(20))
    assert drawn[8] == drawn[0] == [0, 8, 16]


@pytest.mark.parametrize("side", ["with", "without"])
def test_residual_terms_are_those_of_the_theorem(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everyone drawn, no noise: C_s + 2 C_n with the record, -C_n without; the other root's self term is C_s."""
    monkeypatch.setattr(residual, "RATE", 1.0)
    plant = residual.Plant(noise=1e-12)
    y, z = residual._released(side, plant, 7, "test")
    ratio = residual.RATIO
    assert y == pytest.approx(np.full(7, 1 + 2 * ratio if side == "with" else -ratio), rel=1e-4, abs=1e-4)
    assert z == pytest.approx(np.ones(7), rel=1e-4)


def test_adaptive_clipping_changes_by_13_5_clip_norms() -> None:
    """Huang et al. claim C for a node with K = 5 tuples, each with 4 negatives; static clipping changes by K C."""
    assert 5 * exact._relations(exact.ADAPTIVE) == pytest.approx(13.5)
    assert 5 * exact._relations(exact.CLIP_NORM) == pytest.approx(5.0)


def test_columns() -> None:
    assert appr.changed_gradients(cap_support=True) == appr.COLUMN_CAP + 1
    assert appr.changed_gradients(cap_support=False) == appr.ROOTS + 1


@pytest.mark.parametrize(("name", "mu"), [("appr", appr.MU), ("pate", math.sqrt(2) * pate.MU)])
def test_gaussian_releases_are_measured_tightly(name: str, mu: float) -> None:
    assert 0.88 * mu < mu_of(run_audit(name)) <= mu


def test_the_canary_is_one_record() -> None:
    """Nothing but the canary's record and the pointers to it differs."""
    graph, without = canary._graph(True), canary._graph(False)
    assert np.flatnonzero((graph.features != without.features).any(axis=1)).tolist() == [0]
    assert np.flatnonzero(graph.split != without.split).tolist() == [0]
    assert np.flatnonzero(graph.labels != without.labels).tolist() == [0]
    assert graph.out_idx.tolist() == [0, 0]
    assert len(without.out_idx) == 0
    assert np.array_equal(graph.features[canary.PROBE], graph.features[0])
    assert graph.split[canary.PROBE] != TRAIN
    assert max(np.diff(graph.out_ptr)) <= (canary._cell("dp-gnn").privacy.list_cap or 0)


def test_runs_without_a_structural_bug_show_no_curve_of_it() -> None:
    assert run_audit("pate", planted="missing cap").curve == ()
    assert run_audit("appr", planted="column norm capped, not its support").curve == ()
