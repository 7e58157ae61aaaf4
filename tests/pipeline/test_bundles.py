"""Cells that share a job: every one in exactly one bundle, stable names, sizes, markers that no longer stand."""

import os
import time
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.config.cell import Task
from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.errors import UserError
from dpgraph.core.files import write_json, write_text
from dpgraph.pipeline.bundles import Bundle, _bundled, calibration_bundles, forget_unfinished, training_bundles
from dpgraph.pipeline.run_files import content, is_forced, last_request
from dpgraph.planning.cost import memory_mb, train_seconds
from dpgraph.planning.plan import load_plan
from dpgraph.planning.run import Run
from dpgraph.problems.registry import size_of
from tests.contract.cells import cell as toy_cell
from tests.plans import plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"
CELL = toy_cell("gnn", 1, None).model_copy(update={"task": Task(dataset="cora")})
RUN = Run.resolve(CELL)


@pytest.fixture(scope="module")
def plan():
    return plan_of("demo")


@pytest.fixture(autouse=True)
def _planned(monkeypatch):
    """The time of the plan, which the code leaves in the environment for its jobs, is undone after each test."""
    monkeypatch.setenv("DPGRAPH_PLANNED", "")


def test_every_cell_and_calibration_is_in_one_bundle(plan):
    for bundles, expected in (
        (training_bundles(plan), {slug: cell.task for slug, cell in plan.cells.items()}),
        (calibration_bundles(plan), {key: cell.task for key, cell in plan.calibrations.items()}),
    ):
        members = [(member, bundle.task) for bundle in bundles.values() for member in bundle.runs]
        assert len(members) == len(expected)
        assert dict(members) == expected
        assert all(name == bundle.name for name, bundle in bundles.items())
    assert len(training_bundles(plan)) < len(plan.cells) / 5


def test_long_cells_stand_alone_and_more_minutes_make_fewer_jobs(plan):
    counts = []
    for minutes in (1e-3, 0.3, 1e6):
        config = Config(suite="demo", minutes_per_job=minutes)
        bundles = training_bundles(load_plan(config, WORKFLOW))
        counts.append(len(bundles))
        assert all(len(bundle.runs) == 1 for bundle in bundles.values() if bundle.seconds > 60 * minutes * 20)
    assert counts[0] == len(plan.cells)
    assert counts[0] > counts[1] > counts[2]
    searched = any(artefact.view == "search" for artefact in plan.artefacts.values())
    tasks = {cell.task for cell in plan.cells.values()}
    assert counts[2] <= len(tasks) * (2 if searched else 1)


def test_a_suite_says_how_long_jobs_are_and_the_config_overrides_it(plan):
    shorter = replace(plan, suite=plan.suite.model_copy(update={"minutes_per_job": 1e-3}))
    assert len(training_bundles(shorter)) == len(plan.cells) > len(training_bundles(plan))
    config = plan.config.model_copy(update={"minutes_per_job": plan.suite.minutes_per_job})
    assert training_bundles(replace(shorter, config=config)).keys() == training_bundles(plan).keys()


@given(names=st.sets(st.text("abcdef", min_size=1, max_size=6), min_size=1, max_size=40), seconds=st.floats(0.1, 50))
def test_one_more_cell_changes_one_bundle_unless_their_number_doubles(names, seconds):
    def bundled(chosen):
        return {b.name: b for b in _bundled(((n, RUN, seconds) for n in chosen), 1.0, lambda name, _: name)}

    before, after = bundled(sorted(names)), bundled([*sorted(names), "z"])
    assert sorted(m for b in after.values() for m in b.runs) == sorted([*names, "z"])
    shares = [1 << max((int(seconds * n / 60.0 - 1e-12)).bit_length(), 0) for n in (len(names), len(names) + 1)]
    if shares[0] == shares[1]:
        assert len(set(after) - set(before)) == 1
        assert len(set(before) - set(after)) <= 1
    assert bundled(sorted(names, reverse=True)).keys() == before.keys()


def test_names_say_the_seeds_too():
    more = CELL.model_copy(update={"seeds": (*CELL.seeds, 99)})
    plain, longer = (
        next(iter(_bundled([(c.slug, Run.resolve(c), 1.0)], 1.0, lambda s, c: f"{s}{c.seeds}"))).name
        for c in (CELL, more)
    )
    assert plain != longer


def test_estimates_grow_with_the_work():
    def longer(**training):
        return Run.resolve(CELL.model_copy(update={"training": CELL.training.model_copy(update=training)}))

    assert train_seconds(longer(steps=10_000)) > 5 * train_seconds(longer(steps=10))
    one, both = (Run.resolve(CELL.model_copy(update={"seeds": seeds})) for seeds in ((0,), (0, 1)))
    assert train_seconds(both) == pytest.approx(2 * train_seconds(one))
    cora, products = Task(dataset="cora"), Task(dataset="ogbn-products")
    assert size_of(cora).train_nodes == 140
    assert size_of(Task(dataset="cora", split="train-rest")).train_nodes == 2708 - 1500
    assert size_of(Task(dataset="cora", features="project-64")).features == 64
    assert memory_mb(cora) < 2000 < 8000 < memory_mb(products) < 20000
    bundle = Bundle("x", products, {"a": RUN}, 600.0)
    assert bundle.memory_mb(2) == 2 * bundle.memory_mb(1)
    assert bundle.minutes(2) == 2 * bundle.minutes(1) == 2 * (10 + 40)


def member_of(bundle):
    """Return the cell of the first of a bundle's runs."""
    return next(iter(bundle.runs.values())).cell


def test_markers_stand_only_while_their_members_do(tmp_path):
    plan = load_plan(Config(suite="demo", results=str(tmp_path)), WORKFLOW)
    paths, bundles = Paths(plan.config), training_bundles(plan)
    calibrations = calibration_bundles(plan)
    for cell in plan.cells.values():
        write_text(paths.result(cell), "{}")
    for key in plan.calibrations:
        write_text(paths.privacy / f"{key}.json", "{}")
    for name in bundles:
        write_text(paths.trained(name), "{}")
    for name in calibrations:
        write_text(paths.calibrated(name), "{}")

    def standing():
        forget_unfinished(plan, bundles.values(), calibrations.values())
        return {name for name in bundles if paths.trained(name).exists()}, {
            name for name in calibrations if paths.calibrated(name).exists()
        }

    assert standing() == (set(bundles), set(calibrations))
    first, second, *_ = bundles
    paths.result(member_of(bundles[first])).unlink()
    newer = paths.result(member_of(bundles[second]))
    os.utime(newer, (paths.trained(second).stat().st_mtime + 10,) * 2)
    key = next(iter(calibrations))
    (paths.privacy / f"{next(iter(calibrations[key].runs))}.json").unlink()
    assert standing() == (set(bundles) - {first, second}, set(calibrations) - {key})


def test_a_touched_member_is_no_other_member(tmp_path):
    plan = load_plan(Config(suite="demo", results=str(tmp_path)), WORKFLOW)
    paths = Paths(plan.config)
    name, bundle = next((name, bundle) for name, bundle in training_bundles(plan).items() if len(bundle.runs) > 1)
    results = {member: paths.result(run.cell) for member, run in bundle.runs.items()}
    for member, path in results.items():
        write_text(path, member)
    marker = paths.trained(name)
    write_json(marker, {member: content(path) for member, path in results.items()})
    write_text(last_request(marker), "asked")
    later = marker.stat().st_mtime + 10
    first, *others = results.values()

    def stands():
        forget_unfinished(plan, [bundle], [])
        return marker.exists()

    for path in results.values():
        os.utime(path, (later, later))
    assert stands()
    os.utime(marker, (0, 0))
    assert stands()
    for path in others:
        os.utime(path, (-1, -1))
    write_text(first, "cut off")
    assert not stands()
    assert not last_request(marker).exists()  # the next job is no forced rerun
    for text in ("{", "[]", "{}"):
        write_text(marker, text)
        os.utime(marker, (0, 0))
        assert not stands()


def test_a_forced_rerun_is_one_of_a_bundle_that_ended_before_the_plan(tmp_path, monkeypatch):
    """A job that outlives its Snakemake ends later, or leaves Snakemake's note that it had begun."""
    monkeypatch.chdir(tmp_path)
    plan = plan_of("demo")
    paths = Paths(plan.config)
    name, bundle = next(iter(training_bundles(plan).items()))
    marker, last = paths.trained(name), last_request(paths.trained(name))

    def end():
        for run in bundle.runs.values():
            write_text(paths.result(run.cell), "{}")
        write_text(marker, "{}")
        write_text(last, "asked")

    assert not is_forced(marker, "asked")
    end()
    assert is_forced(marker, "asked")
    assert not is_forced(marker, "something else")
    forget_unfinished(plan, [bundle], [])
    assert is_forced(marker, "asked")
    os.utime(last, (time.time() + 10,) * 2)
    assert not is_forced(marker, "asked")
    end()
    begun = Path(".snakemake/incomplete") / urlsafe_b64encode(str(marker).encode()).decode()
    write_text(begun, "{}")
    forget_unfinished(plan, [bundle], [])
    assert marker.exists()
    assert not is_forced(marker, "asked")


def test_a_marker_that_may_not_be_removed_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of("demo")
    name, bundle = next(iter(training_bundles(plan).items()))

    def refuse(self, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    marker = Paths(plan.config).trained(name)
    with pytest.raises(UserError, match=rf"^{marker}: permission denied \(its contents are unknown; delete it"):
        forget_unfinished(plan, [bundle], [])
