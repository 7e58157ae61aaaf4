"""The scale of noise on record: what is recorded, size and power of the test, and every problem's methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from dpgraph.audits.cases import CPU, jobs_of, prepared_by
from dpgraph.audits.scale import (
    NoiseRecord,
    cells,
    chance_of,
    on_record,
    power,
    recorded_job,
    run_on_record,
    scale_of,
    toy_graph,
)
from dpgraph.data.records import FIRST_PROBLEM
from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method
from dpgraph.planning.resolve import mechanism_for
from dpgraph.privacy.calibration import Calibration
from dpgraph.problems.registry import problem_of
from tests.contract.cells import CELLS, PRIVATE
from tests.contract.values import prepared

ALARM = 1e-6
GAUSSIAN = [
    name for name in PRIVATE if problem_of(CELLS[name].task).name != FIRST_PROBLEM and "pate" not in name
]  # the noise of PATE is in counts of votes, which audits teachers and node-teachers look at
# of each way in which noise is added: to sums, into an engine's buffers, to releases
WAYS = (
    "dp-mlp 0-rigorous",
    "dp-subgraph 3-rigorous",
    "dp-appr random-rigorous",
    "dp-votes node-remove-capped",
    "dp-dgc rigorous",
)


def test_size_and_power() -> None:
    """10,000 draws notice .9 and 1.1 of the std for certain, and .95 most of the time; a true std is an alarm 1e-6."""
    assert power(10_000, 1.0, ALARM) <= ALARM
    assert min(power(10_000, factor, ALARM) for factor in (0.9, 1.1)) > 1 - 1e-9
    assert power(10_000, 0.95, ALARM) > 0.97
    assert power(20_000, 0.95, ALARM) > 1 - 1e-4
    # as the audit tests it, each of a hundred kinds of noise has a hundredth of the alarm
    assert power(10_000, 0.9, ALARM / 100) > 1 - 1e-9
    assert power(20_000, 0.95, ALARM / 100) > 0.999


def test_the_threshold_is_that_of_the_chi_square_law() -> None:
    """Just inside both quantiles nothing is broken, just outside something is."""
    count = 5000
    for quantile, way in ((chi2.ppf(0.005 / 4, count), 1), (chi2.isf(0.005 / 4, count), -1)):
        for step, expected in ((way, ""), (-way, "std")):
            found = scale_of([[np.full(count, np.sqrt((quantile + step) / count))]])
            assert found.broken(0.005).startswith(expected)
            assert bool(found.broken(0.005)) == bool(expected)


def test_the_bound_of_related_draws_holds() -> None:
    """It is at least the probability, seen in 20,000 chains, and not far above where it matters."""
    random = np.random.default_rng(0)
    for count in (10, 60, 500):
        draws = random.standard_normal((20_000, count + 1))
        sums = np.sort(np.abs((draws[:, 1:] * draws[:, :-1]).sum(axis=1)))[::-1]
        for place in (20, 200):
            assert place / 20_000 < chance_of(float(sums[place]), count) < 60 * place / 20_000
    assert chance_of(0.0, 100) == 1.0
    assert chance_of(1000.0, 1000) < 1e-60


@pytest.mark.parametrize(
    ("why", "runs"),
    [
        ("", lambda z: [list(part) for part in z]),
        ("std 0.89", lambda z: [list(0.9 * part) for part in z]),
        ("std 0.94", lambda z: [list(0.95 * part) for part in z]),
        ("std 1.09", lambda z: [list(1.1 * part) for part in z]),
        ("draws are related", lambda z: [[part[0]] * 4 for part in z]),  # one noise for all steps
        ("draws are related", lambda z: [[part[0], part[0][:40], part[1], part[1][:40]] for part in z]),  # and for both
        ("draws are related", lambda z: [list(z[0]) for _ in z]),  # one noise for all seeds
    ],
)
def test_wrong_noise_is_noticed(why: str, runs) -> None:  # type: ignore[no-untyped-def]
    z = np.random.default_rng(1).standard_normal((10, 4, 500))
    found = scale_of(runs(z)).broken(ALARM)
    assert why in found
    assert bool(found) == bool(why)


@pytest.mark.parametrize("name", WAYS)
def test_all_noise_for_whole_run_is_on_record_with_its_std(name: str) -> None:
    """At least 10,000 draws of each kind, and not one of them broken; .9 of it would be."""
    cell, graph = cells()[name], toy_graph()
    found = run_on_record(lambda seed, record: recorded_job(cell, graph, seed, record), 10_000)
    for kind, runs in found.items():
        assert scale_of(runs).count >= 10_000
        assert not scale_of(runs).broken(ALARM), kind
        for factor in (0.9, 1.1):
            assert scale_of([[factor * part for part in run] for run in runs]).broken(ALARM), kind


def test_every_release_and_every_step_is_on_record() -> None:
    kinds, graph = {}, toy_graph()
    for name in WAYS[-2:]:
        cell = cells()[name]
        kinds[name] = set(run_on_record(lambda seed, record, cell=cell: recorded_job(cell, graph, seed, record), 1))
    assert kinds == {
        WAYS[-2]: {"steps", "mean of the rows", "who is a hub", "degrees", "votes"},
        WAYS[-1]: {"steps", "steps 2", "sums over neighbours"},
    }


def test_recording_changes_no_noise() -> None:
    """The seam of audits: the same numbers are drawn, and what no audit prepares is not recorded."""
    cell, toy = cells()["dp-votes softmax"], toy_graph()
    mechanism = mechanism_for(cell, len(toy.train_nodes), toy.num_nodes).with_noise(1.0)  # type: ignore[union-attr]
    calibration = Calibration.model_construct(mechanism=mechanism)
    (plain,) = make_jobs(toy, cell, [0], calibration, CPU)
    record = NoiseRecord()
    with prepared_by(on_record(record)):
        (watched,) = jobs_of(toy, cell, mechanism)  # type: ignore[arg-type]
    logits = [method(cell.method).run(job, lambda done, logits: {}).logits for job in (plain, watched)]
    assert np.array_equal(*logits)
    assert record.steps[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
def test_noise_of_other_problems(name: str) -> None:
    """Tuples and units of images, on their demo data."""
    cell = CELLS[name]
    value = prepared(cell.task)
    problem = problem_of(cell.task).working()
    counts = problem.counts(value)
    mechanism = mechanism_for(cell, counts.num_train, counts.num_protected)
    if mechanism.noise_multiplier is None:  # type: ignore[union-attr]
        mechanism = mechanism.with_noise(1.0)  # type: ignore[union-attr]

    def job_of(seed: int, record: NoiseRecord):  # type: ignore[no-untyped-def]
        calibration = Calibration.model_construct(mechanism=mechanism)
        return make_jobs(value, cell, [seed], calibration, CPU, preparing=on_record(record))[0]

    for kind, runs in run_on_record(job_of, 10_000).items():
        assert scale_of(runs).count >= 10_000
        assert not scale_of(runs).broken(ALARM), kind
