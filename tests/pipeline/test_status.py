"""Status of a synthetic suite of 50 cells, from files made by hand."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.experiments.paths import Paths
from dpgraph.experiments.summary import SUMMARY
from dpgraph.files import read_json, write_json, write_text
from dpgraph.pipeline.status import SILENT_SECONDS, Watcher
from dpgraph.pipeline.status_text import line, page, watch
from dpgraph.planning.cost import train_seconds
from tests.synthetic_suite import synthetic_plan, write_records

OLD = SILENT_SECONDS + 60


class Suite:
    """The suite's files in the working directory, and the means to change them."""

    def __init__(self, folder: Path, plan, options) -> None:
        self.folder, self.plan, self.options = folder, plan, options
        self.paths = Paths(plan.config)
        self.watcher = Watcher(plan)
        self.cells = list(plan.cells.values())

    def status(self):
        return self.watcher.status()

    def bundle_of(self, slug):
        return next(bundle for bundle in self.watcher.bundles.values() if slug in bundle.members)

    def log(self, rule, name, text, age=0.0):
        path = self.folder / "logs" / self.plan.config.suite / rule / f"{name}.log"
        write_text(path, text)
        aged(path, age)
        return path

    def mark(self, output):
        """As Snakemake marks a job's output when it begins."""
        name = urlsafe_b64encode(str(output).encode()).decode()
        folder = self.folder / ".snakemake/incomplete"
        parts = [f"@{name[i : i + 40]}" for i in range(0, len(name) - 40, 40)]
        path = folder.joinpath(*parts, name[40 * len(parts) :])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def change(self, of, **changed):
        path = self.paths.result(of)
        write_text(path, json.dumps(read_json(path) | changed, indent=1))
        path.with_name(SUMMARY).unlink(missing_ok=True)

    def remove(self, cell):
        """The summary stays, of a time long ago."""
        self.paths.result(cell).unlink()
        aged(self.paths.cell(cell) / SUMMARY, OLD)


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """(folder, plan, options) of a finished suite whose paths are relative."""
    folder = tmp_path_factory.mktemp("suite")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        plan, options = synthetic_plan(Path(), cells=50, seeds=2)
        write_records(plan)
    return folder, plan, options


@pytest.fixture
def finished(template, tmp_path, monkeypatch):
    folder, plan, options = template
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Suite(tmp_path, plan, options)


@pytest.fixture
def suite(finished):
    """Nothing has run."""
    shutil.rmtree(finished.paths.suite)
    return finished


def test_nothing_has_run(suite):
    status = suite.status()
    assert line(status) == "0 of 50 cells: 0 ok; 50 waiting"
    assert status.left is None
    assert not status.jobs


def test_all_has_run(finished):
    status = finished.status()
    assert line(status) == "50 of 50 cells: 50 ok"
    assert status.left is None
    assert {place: sum(counts.values()) for place, counts in status.rows.items()} == {
        ("scale", dataset): 10 for dataset in ("cora", "coauthor-cs", "ogbn-arxiv", "pubmed", "reddit-saint")
    }


def test_failures_and_missing_data_are_told_with_their_reason(finished):
    first, second, third, fourth = finished.cells[:4]
    finished.change(first, status="failed", reason="diverged: loss is nan at step 12")
    finished.change(second, status="failed", reason="diverged: loss is nan at step 70")
    finished.change(third, status="not run", reason="data not available: no mirror has it")
    log = "12:00:00 other: ok\n12:00:01 " + first.slug + ": step 11\n12:00:02 " + first.slug + ": failed diverged\n"
    finished.log("train", finished.bundle_of(first.slug).name, log)
    path = finished.paths.result(fourth)
    seeds = read_json(path)["seeds"]
    finished.change(fourth, seeds=[seeds[0], seeds[1] | {"status": "failed", "reason": "out of memory"}])
    status = finished.status()
    text = page(status)
    assert line(status) == "50 of 50 cells: 47 ok, 2 failed, 1 not run"
    assert f"failed: 2 cells, e.g. {first.slug}\n  diverged: loss is nan at step 12" in text
    assert "| 12:00:02" in text
    assert "other: ok" not in text  # lines of that cell only
    assert "not run: " in text
    assert "no mirror has it" in text
    assert f"seeds that failed: 1 cells, e.g. {fourth.slug}" in text


def test_a_job_that_writes_is_running(finished):
    cell = finished.cells[0]
    bundle = finished.bundle_of(cell.slug)
    finished.remove(cell)
    (finished.paths.cell(cell) / "seed=0.abc.checkpoint").touch()
    finished.log("train", bundle.name, "12:00:00 step 3 of 100\n")
    finished.mark(finished.paths.trained(bundle.name))
    status = finished.status()
    assert line(status) == "49 of 50 cells: 49 ok; 1 running"
    (job,) = status.jobs
    assert (job.rule, job.name, job.state, job.lacking) == ("train", bundle.name, "running", 1)
    assert "step 3 of 100" in page(status)


@pytest.mark.parametrize(
    ("age", "marked", "state"),
    [(0, True, "running"), (0, False, "stopped"), (OLD, True, "stopped"), (OLD, False, "stopped")],
    ids=["writes", "Snakemake has seen it fail", "Snakemake was killed", "long ago"],
)
def test_running_needs_the_mark_and_a_sign_of_life(finished, age, marked, state):
    cell = finished.cells[0]
    bundle = finished.bundle_of(cell.slug)
    finished.remove(cell)
    (finished.folder / ".snakemake/incomplete").mkdir(parents=True)
    for path in finished.paths.cell(cell).parent.iterdir():
        aged(path, age)
    write_text(finished.paths.cell(cell) / "cell.json", "{}")
    aged(finished.paths.cell(cell) / "cell.json", age)
    finished.log("train", bundle.name, "12:00:00 step 3 of 100\nKilled\n", age)
    if marked:
        finished.mark(finished.paths.trained(bundle.name))
    status = finished.status()
    assert [job.state for job in status.jobs] == [state]
    assert status.cells[cell.slug].state == state
    if state == "stopped":
        assert f"stopped without a result: train {bundle.name}" in page(status)
        assert "  | Killed" in page(status)


def test_records_that_somebody_deleted_wait_only(finished):
    cell = finished.cells[0]
    bundle = finished.bundle_of(cell.slug)
    for slug in bundle.members:
        finished.remove(finished.plan.cells[slug])
    finished.log("train", bundle.name, f"12:00:00 {bundle.members[-1]}: ok \n", OLD)
    status = finished.status()
    assert not status.jobs
    assert status.counts["waiting"] == len(bundle.members)


def test_a_record_with_fewer_seeds_than_the_plan_waits(finished):
    cell = finished.cells[0]
    finished.change(cell, cell=json.loads(cell.model_dump_json()) | {"seeds": [0]})
    aged(finished.paths.result(cell), OLD)
    assert finished.status().cells[cell.slug].state == "waiting"


def test_a_damaged_record_is_a_failure(finished):
    cell = finished.cells[0]
    write_text(finished.paths.result(cell), finished.paths.result(cell).read_text()[:100])
    state = finished.status().cells[cell.slug]
    assert (state.state, state.reason) == ("failed", "the record is damaged: delete it and run again")


def test_other_jobs_that_stopped_are_told(finished):
    write_json(finished.paths.calibrated("gone"), {})
    finished.log("figure", "scale.scale", "Traceback (most recent call last):\nValueError: no such colour\n", OLD)
    finished.log("claims", "claims", "", OLD)
    status = finished.status()
    assert [(job.rule, job.name, job.state) for job in status.jobs] == [("figure", "scale/scale", "stopped")]
    assert "ValueError: no such colour" in page(status)
    write_text(finished.paths.figure("scale/scale", "png"), "")
    assert not finished.status().jobs


def test_records_without_a_summary_are_read(finished):
    finished.change(finished.cells[0], status="failed", reason="diverged")
    before = finished.status()
    for cell in finished.cells:
        (finished.paths.cell(cell) / SUMMARY).unlink(missing_ok=True)
    after = Watcher(finished.plan).status()
    assert (after.cells, after.rows) == (before.cells, before.rows)
    assert line(after) == "50 of 50 cells: 49 ok, 1 failed"


def test_where_there_are_summaries_no_record_is_read(finished):
    """Only its size and time are."""
    for cell in finished.cells:
        path = finished.paths.result(cell)
        stat = path.stat()
        path.write_bytes(b"x" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert line(finished.status()) == "50 of 50 cells: 50 ok"


def test_time_left_scales_estimates_by_what_finished_cells_took(finished):
    gone = [cell for cell in finished.cells if cell.task.dataset == "cora"]
    factor = 3.0
    for cell in finished.cells:
        if cell in gone:
            finished.remove(cell)
        else:
            seeds = read_json(finished.paths.result(cell))["seeds"]
            finished.change(cell, seeds=[seed | {"seconds": factor * train_seconds(cell) / 2} for seed in seeds])
            aged(finished.paths.result(cell), 7200)
    left = finished.status().left
    assert left.seconds == pytest.approx(factor * sum(map(train_seconds, gone)))
    assert left.wall_seconds is None  # nothing finished in the last hour
    assert left.unmeasured == ()
    for cell in finished.cells:
        if cell not in gone:
            aged(finished.paths.result(cell), 1800)
    left = finished.status().left
    trained = factor * sum(train_seconds(cell) for cell in finished.cells if cell not in gone)
    longest = factor * max(train_seconds(cell) for cell in finished.cells if cell not in gone)
    assert left.wall_seconds == pytest.approx(left.seconds * min(1800 + longest, 3600) / trained, rel=1e-2)


def test_methods_of_which_nothing_finished_are_named(finished):
    for cell in finished.cells:
        if cell.method == "mlp":
            finished.remove(cell)
    status = finished.status()
    assert status.left.unmeasured == ("mlp",)
    assert "rough: no cell of mlp has finished" in page(status)


def test_watch_repeats_the_line_until_all_is_there(finished):
    cell = finished.cells[0]
    path = finished.paths.result(cell)
    text = path.read_text()
    path.unlink()
    said = io.StringIO()
    watch(finished.watcher, said, sleep=lambda _: write_text(path, text))
    lines = said.getvalue().splitlines()
    assert [text.split(" ", 1)[1].split(":")[0] for text in lines] == ["49 of 50 cells", "50 of 50 cells"]


def test_watch_in_place_on_a_terminal(finished, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    said = Terminal()
    watch(finished.watcher, said)
    assert said.getvalue() == "\r\x1b[K50 of 50 cells: 50 ok\n"


def test_command_line(finished, capsys):
    finished.change(finished.cells[0], status="failed", reason="diverged")
    assert main(["status", *finished.options]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "50 of 50 cells: 49 ok, 1 failed"
    assert main(["status", *finished.options, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["counts"] == dict.fromkeys(value["counts"], 0) | {"ok": 49, "failed": 1}
    assert [(cell["cell"], cell["reason"]) for cell in value["cells"]] == [(finished.cells[0].slug, "diverged")]
    assert main(["status", *finished.options, "--suite", "none"]) == 2
    assert capsys.readouterr().err.splitlines() == ["error: --suite=none: expected one of scale"]


def test_a_login_node_needs_no_torch(finished):
    code = (
        "import sys\nfrom dpgraph.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "heavy = [name for name in ('torch', 'pandas', 'scipy', 'matplotlib') if name in sys.modules]\n"
        "sys.exit(status or ' '.join(heavy) or 0)"
    )
    command = [sys.executable, "-c", code, "status", *finished.options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
