"""Cells that share a job: every one in exactly one bundle, stable names, sizes, markers that no longer stand."""

import os
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
from dpgraph.pipeline.bundles import LENGTHS, Bundle, _grouped, calibration_bundles, forget_changed, training_bundles
from dpgraph.pipeline.run_files import content, name_of, trained
from dpgraph.planning.cost import memory_mb
from dpgraph.planning.plan import load_plan
from dpgraph.planning.run import Run
from dpgraph.planning.throughputs import train_seconds
from dpgraph.problems.registry import size_of
from tests.contract.cells import cell as toy_cell
from tests.plans import plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"
CELL = toy_cell("gnn", 1, None).model_copy(update={"task": Task(dataset="cora")})
RUN = Run.resolve(CELL)


@pytest.fixture(scope="module")
def plan():
    return plan_of("demo")


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


def bundles_for(plan, places, device="cpu"):
    config = plan.config.model_copy(update={"parallel_jobs": places, "device": device})
    return training_bundles(replace(plan, config=config))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_there_are_two_jobs_for_each_place_and_none_is_longer_than_an_hour(device):
    plan = load_plan(Config(suite="cpu"), WORKFLOW)
    counts = []
    for places in (1, 2, 16, 64):
        bundles = bundles_for(plan, places, device)
        counts.append(len(bundles))
        assert len(bundles) >= 2 * places
        assert all(one.seconds <= 60 * LENGTHS[0] for one in bundles.values() if len(one.runs) > 1)
    assert counts == sorted(counts)
    assert counts[-1] > 3 * counts[0]


def test_longer_cells_stand_alone(plan):
    for bundle in bundles_for(plan, 10_000).values():
        assert len(bundle.runs) == 1 or bundle.seconds <= 60 * LENGTHS[-1]


def test_few_more_places_regroup_nothing(plan):
    four = bundles_for(plan, 4).keys()
    assert bundles_for(plan, 3).keys() == four
    assert bundles_for(plan, 5).keys() == bundles_for(plan, 8).keys() != four


def test_without_a_number_of_places_jobs_are_no_shorter_than_two_minutes(plan):
    bundles = training_bundles(plan)
    tasks = {cell.task for cell in plan.cells.values()}
    assert len(tasks) <= len(bundles) <= len(tasks) + 3  # the suite takes few minutes in all
    assert len(bundles) < len(bundles_for(plan, 16))


@given(names=st.sets(st.text("abcdef", min_size=1, max_size=6), min_size=1, max_size=40), seconds=st.floats(0.1, 50))
def test_one_more_cell_changes_one_group(names, seconds):
    def grouped(chosen):
        return {frozenset(name for name, *_ in group) for group in _grouped([(n, RUN, seconds) for n in chosen], 1.0)}

    before, after = grouped(sorted(names)), grouped([*sorted(names), "z"])
    assert sorted(name for group in after for name in group) == sorted([*names, "z"])
    assert all(len(group) * seconds <= 60 for group in after)
    assert len(before - after) <= 1
    assert grouped(sorted(names, reverse=True)) == before


def test_names_say_the_seeds_too():
    more = CELL.model_copy(update={"seeds": (*CELL.seeds, 99)})
    assert name_of({CELL.slug: CELL}, trained) != name_of({more.slug: more}, trained)


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
        forget_changed(plan, bundles.values(), calibrations.values())
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
    later = marker.stat().st_mtime + 10
    first, *others = results.values()

    def stands():
        forget_changed(plan, [bundle], [])
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
    for text in ("{", "[]", "{}"):
        write_text(marker, text)
        os.utime(marker, (0, 0))
        assert not stands()


def test_a_marker_that_may_not_be_removed_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of("demo")
    name, bundle = next(iter(training_bundles(plan).items()))

    def refuse(self, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    marker = Paths(plan.config).trained(name)
    with pytest.raises(UserError, match=rf"^{marker}: permission denied \(its contents are unknown; delete it"):
        forget_changed(plan, [bundle], [])
