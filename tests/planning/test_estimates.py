"""What a suite costs before it runs, and how far that is from a run."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dpgraph.cli import main
from dpgraph.errors import UserError
from dpgraph.experiments.cell import Task
from dpgraph.experiments.config import Config
from dpgraph.methods.registry import spec
from dpgraph.planning.cost import PlannedParts, parts_of, size_of, train_seconds
from dpgraph.planning.estimates import TOTAL, Cluster, _wall, costs, hours_of
from dpgraph.planning.plan import load_plan
from dpgraph.planning.throughputs import Throughput, learnt, read_throughputs, write_throughputs
from dpgraph.reporting.throughputs import against, left_out_check, measured, throughputs
from tests.contract.cells import changed

WORKFLOW = Path(__file__).parents[2] / "workflow"


def throughput(method, factor=2.0, low=0.5, high=3.0, dataset="somewhere"):
    return Throughput(method, dataset, 4, 8, 1.0, 2.0, 7.0, 10.0 * factor, low, high, "cpu", "abc", "a core")


def knowing(*rows):
    return learnt(rows or [throughput("other")])


@pytest.fixture(scope="module")
def plan():
    return load_plan(Config(suite="demo", papers=("daigavane",)), WORKFLOW)


def results_of(plan, seconds):
    """Rows of a run in which a cell took `seconds(cell)` for each seed."""
    return pd.DataFrame(
        [
            {"cell": slug, "seed": seed, "status": "ok", "device": "cpu", "commit": "abc", "cpu_seconds": seconds(cell)}
            for slug, cell in plan.cells.items()
            for seed in cell.seeds
            for _ in range(2)  # one row for each metric
        ]
    )


def test_texts_are_as_long_as_their_layouts_say():
    """Of two graphs the first is trained on, and the entities of both are looked at."""

    def size(dataset):
        return size_of(Task(dataset=dataset, split="public" if "-text" not in dataset else "random-60-15-25"))

    assert size("m10-text").tokens == (15, 15)
    assert size("m10-cora").tokens == (15, pytest.approx((10310 * 15 + 2277 * 110) / 12587))
    assert size("cora-m10").tokens == (110, pytest.approx((10310 * 15 + 2277 * 110) / 12587))
    assert size("demo-relations").tokens is None
    assert size("pubmed").tokens is None
    encoder = {"encoder": "all-MiniLM-L6-v2", "max_tokens": 256}
    cell = changed("relation-encoder-none", model=encoder, training={"steps": 1000})
    short, long, unknown = (
        spec(cell.method).seconds(cell, replace(size("m10-text"), tokens=tokens))
        for tokens in ((15.0, 15.0), (110.0, 110.0), None)
    )
    assert unknown == pytest.approx(64 / 15 * short, rel=0.05)
    assert long == pytest.approx(110 / 15 * short, rel=0.05)


def test_a_cell_s_hours_are_the_plan_s_times_the_method_s_factor(plan):
    slug, cell = next(iter(plan.cells.items()))
    planned = train_seconds(cell) / 3600
    own = hours_of({slug: cell}, knowing(throughput(cell.method), throughput("other", 7.0)))[slug]
    assert own.mid == pytest.approx(2 * planned)
    assert (own.low, own.high) == pytest.approx((planned / 2, 3 * planned))
    assert own.measured
    other = hours_of({slug: cell}, knowing(throughput("other", 7.0)))[slug]
    assert other.mid == pytest.approx(7 * planned)
    assert not other.measured


def test_rows_share_cells_and_the_last_has_each_once(plan):
    rows = costs(plan, knowing())
    by_name = {row.artefact: row for row in rows}
    whole = by_name[TOTAL]
    assert whole.cells == len(plan.cells)
    assert whole.runs == sum(len(cell.seeds) for cell in plan.cells.values())
    assert whole.core_hours == pytest.approx(2 * sum(map(train_seconds, plan.cells.values())) / 3600)
    assert whole.unmeasured == whole.cells
    parts = [row for row in rows if row.artefact != TOTAL]
    for row in parts:
        slugs = {one.cell.slug for one in plan.entries_of(row.artefact) if one.cell.slug in plan.cells}
        elsewhere = {one.cell.slug for one in plan.entries if one.artefact != row.artefact}
        seconds = [train_seconds(plan.cells[slug]) for slug in slugs & elsewhere]
        assert row.cells == len(slugs)
        assert row.shared_hours == pytest.approx(2 * sum(seconds) / 3600)
    assert sum(row.core_hours for row in parts) > whole.core_hours
    assert sum(row.core_hours - row.shared_hours for row in parts) < whole.core_hours


@pytest.mark.parametrize("places", [1, 2, 3])
def test_no_order_of_jobs_takes_longer_than_the_wall_time(places):
    """Graham's bound against all orders of six jobs, each started as soon as a place is free."""
    jobs = [5.0, 3.0, 3.0, 2.0, 2.0, 1.0]

    def ends(order):
        free = [0.0] * places
        for length in order:
            free[free.index(min(free))] += length
        return max(free)

    worst = max(ends(order) for order in set(itertools.permutations(jobs)))
    bound = _wall(sum(jobs), max(jobs), len(jobs), Cluster(cores=places))
    assert worst <= bound + 1e-9
    assert bound <= worst + max(jobs)


def test_a_cluster_s_gpus_cores_and_queue(plan):
    known = knowing()
    alone = costs(plan, known)[-1]
    assert alone.wall_hours == pytest.approx(alone.core_hours)
    assert math.isnan(alone.gpu_hours)
    faster = costs(plan, known, Cluster(core_speed=2.0))[-1]
    assert faster.wall_hours == pytest.approx(alone.core_hours / 2)
    gpus = costs(plan, known, Cluster(cores=64, gpus=1, gpu_speed=10.0))[-1]
    assert gpus.gpu_hours == pytest.approx(alone.core_hours / 10)
    assert gpus.wall_hours == pytest.approx(gpus.gpu_hours)
    waiting = costs(plan, known, Cluster(queue_seconds=36.0))[-1]
    assert waiting.wall_hours == pytest.approx(alone.wall_hours + 0.01 * alone.cells)


def test_what_is_learnt_from_a_run_gives_its_hours(plan):
    results = results_of(plan, lambda cell: 1.0 if cell.method == "mlp" else 3.0)
    rows = {(row.method, row.dataset): row for row in throughputs(plan, results)}
    assert set(rows) == {(cell.method, cell.task.dataset) for cell in plan.cells.values()}
    for (method, dataset), row in rows.items():
        cells = [cell for cell in plan.cells.values() if (cell.method, cell.task.dataset) == (method, dataset)]
        spent = sum(len(cell.seeds) * (1.0 if method == "mlp" else 3.0) for cell in cells)
        assert (row.cells, row.runs) == (len(cells), sum(len(cell.seeds) for cell in cells))
        assert row.measured_s == pytest.approx(spent)
        assert row.parts == pytest.approx(PlannedParts(*(sum(part) for part in zip(*parts_of(cells), strict=True))))
        assert row.low <= row.measured_s / row.parts.total <= row.high
    assert against(plan, results, learnt(rows.values()))["ratio"] == pytest.approx(1.0)


def test_cells_that_did_not_end_teach_nothing(plan):
    results = results_of(plan, lambda cell: 1.0)
    slug = next(slug for slug, cell in plan.cells.items() if len(cell.seeds) > 1)
    results.loc[(results["cell"] == slug) & (results["seed"] == plan.cells[slug].seeds[0]), "status"] = "failed"
    assert set(measured(plan, results)["cell"]) == set(plan.cells) - {slug}
    results["device"] = "cuda"
    with pytest.raises(UserError, match="no cell was trained on a CPU"):
        throughputs(plan, results)


def test_a_data_set_is_checked_by_the_others(plan):
    datasets = sorted({cell.task.dataset for cell in plan.cells.values()})
    assert len(datasets) > 1
    slow = datasets[0]
    results = results_of(
        plan,
        lambda cell: train_seconds(cell) / len(cell.seeds) * (3.0 if cell.task.dataset == slow else 1.0),
    )
    table = left_out_check(plan, results).set_index("dataset")
    assert table.at[slow, "ratio"] == pytest.approx(1 / 3)  # the others do not know that it is slow
    assert table["estimated_h"].drop("all").sum() == pytest.approx(table.at["all", "estimated_h"])


def test_the_subcommand_says_what_it_rests_on(tmp_path, capsys):
    path = tmp_path / "throughputs.csv"
    write_throughputs([throughput("other")], path)
    given = ["cost", "--suite", "demo", "--workflow", str(WORKFLOW), "--throughputs", str(path)]
    assert main([*given, "--config", '{"papers": ["daigavane"]}']) == 0
    text = capsys.readouterr().out
    assert "Estimates." in text
    assert "From 4 cells of suites cpu\n(commits abc)" in text
    assert "GPU hours: not known" in text
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("name: big\ncoers: 64\n")
    assert main([*given, "--config", '{"papers": ["daigavane"]}', "--cluster", str(cluster)]) == 2
    assert "coers" in capsys.readouterr().err


def test_a_run_replaces_its_own_suite_and_is_checked_by_the_others(plan, tmp_path, monkeypatch, capsys):
    """The other suite knows factor 2 for all methods; the run took four times its plan."""
    monkeypatch.chdir(tmp_path)
    results = results_of(plan, lambda cell: 4 * train_seconds(cell) / len(cell.seeds))
    monkeypatch.setattr("dpgraph.reporting.results.read_results", lambda path: results)
    out = tmp_path / "throughputs.csv"
    other = replace(throughput("other"), suite="search")
    write_throughputs([other, replace(throughput("other", 9.0), suite="demo")], out)
    given = [
        "--suite",
        "demo",
        "--workflow",
        str(WORKFLOW),
        "--config",
        '{"papers": ["daigavane"]}',
        "--throughputs",
        str(out),
    ]
    before = out.read_bytes()
    assert main(["cost", *given, "--check"]) == 0
    assert out.read_bytes() == before
    assert "suite demo: estimated" in capsys.readouterr().out
    assert main(["cost", *given, "--learn"]) == 0
    text = capsys.readouterr().out
    assert "from suites search, measured" in text
    assert ": 0.50\n" in text
    rows = read_throughputs(out)
    assert rows[0] == other
    assert {row.suite for row in rows[1:]} == {"demo"}
    assert all(row.measured_s / row.parts.total == pytest.approx(4, rel=2e-3) for row in rows[1:])
