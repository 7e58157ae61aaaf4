"""Snakemake killed, doubled, and files that somebody damaged, deleted or touched: the next run mends what it must."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dpgraph.cli import main
from dpgraph.core.files import locked

SUITE = "results/tiny"
TABLE = (f"{SUITE}/tables/daigavane/table1.csv",)  # needs every stage before it


def stamps(copy, pattern: str) -> dict[str, int]:
    suite = copy.folder / SUITE
    return {str(path.relative_to(suite)): path.stat().st_mtime_ns for path in suite.glob(pattern)}


def seeds(copy) -> dict[str, int]:
    return stamps(copy, "cells/*/seed=?.json")


def test_touched_files_are_no_other_files(finished):
    """All of results and data in the past or in the future: clocks that disagree, a copy that kept no times."""
    for name in ("results", "data", "workflow", "rules"):
        for number, path in enumerate(sorted((finished.folder / name).rglob("*"))):
            moment = time.time() + (3600, -86400)[number % 2]
            os.utime(path, (moment, moment))
    assert finished.jobs(targets=TABLE) == {}


def until(condition) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_a_second_snakemake_is_refused_and_a_killed_one_leaves_its_job_alone(finished):
    """A job outlives its Snakemake; the next run's job waits for it and finds its seeds."""
    marker = next(path for path in (finished.folder / SUITE / "trained").glob("*.json") if "sbm" in path.name)
    cell = finished.folder / SUITE / "cells" / sorted(json.loads(marker.read_text()))[0]
    content, before = marker.read_bytes(), seeds(finished)
    marker.unlink()
    log = finished.folder / "logs/tiny/train" / f"{marker.stem}.log"
    log.unlink(missing_ok=True)
    target = (str(marker.relative_to(finished.folder)),)
    with locked(cell):
        command = [sys.executable, "-m", "snakemake", "--cores", "2", "--config", "suite=tiny", "--", *target]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "DPGRAPH_MIRROR": ""}
        first = subprocess.Popen(command, cwd=finished.folder, env=environment, start_new_session=True, **quiet)
        until(lambda: log.is_file() and f"{cell.name}: waiting for process {os.getpid()} on" in log.read_text())
        second = finished.snakemake(targets=target)
        assert second.returncode != 0
        assert "cannot be locked" in second.stdout + second.stderr
        assert "Traceback" not in second.stdout + second.stderr
        first.send_signal(signal.SIGKILL)
        first.wait(60)
    run = finished.snakemake("--rerun-incomplete", targets=target)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"removed the lock of process {first.pid} on" in run.stderr
    assert marker.read_bytes() == content
    assert seeds(finished) == before
    assert finished.jobs(targets=TABLE) == {}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_what_was_deleted_or_cut_off_is_made_again_and_nothing_is_trained_without_need(finished):
    """A cell's folder, the records of two others, a calibration, a graph's folder and the table of all results."""
    suite = finished.folder / SUITE
    results = pd.read_parquet(suite / "results.parquet").drop(columns=["seconds", "cpu_seconds", "steps_per_second"])
    before = seeds(finished)
    gone, damaged, bare, *_ = sorted((suite / "cells").glob("demo-sbm-*.*gnn-*"))
    shutil.rmtree(gone)
    (bare / "result.json").unlink()
    cut(damaged / "result.json")
    cut(next((suite / "privacy").glob("demo-sbm-*.json")))
    shutil.rmtree(finished.folder / "data/graphs/demo-sbm/transductive.public")
    (suite / "results.parquet").unlink()
    run = finished.snakemake(targets=(f"{SUITE}/results.parquet",))
    assert run.returncode == 0, run.stdout + run.stderr
    after = seeds(finished)
    assert {name.split("/")[1] for name in before if after[name] != before[name]} == {gone.name}
    assert (bare / "result.json").is_file()
    again = pd.read_parquet(suite / "results.parquet").drop(columns=["seconds", "cpu_seconds", "steps_per_second"])
    unlike = ["peak_memory_bytes"]
    pd.testing.assert_frame_equal(again.drop(columns=unlike), results.drop(columns=unlike))


def test_a_damaged_table_of_results_is_named_with_the_remedy(finished, monkeypatch, capsys):
    monkeypatch.chdir(finished.folder)
    table = Path(SUITE, "results.parquet")
    column = pq.read_metadata(table).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(table.read_bytes())
    content[begin + column.total_compressed_size - 1] ^= 8  # of the page's values: no checksum covers page headers
    table.write_bytes(content)
    assert main(["artefacts", "daigavane/table1", "--suite", "tiny"]) == 2
    text = capsys.readouterr().err
    assert f"error: {SUITE}/results.parquet: not a parquet file (" in text
    assert "): delete it and run again" in text
