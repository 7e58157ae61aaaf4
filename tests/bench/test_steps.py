"""The benchmark of the training steps on a small graph: what it writes, not what it measures."""

from __future__ import annotations

import csv

from bench.steps import AUTOGRAD, CAPTURED, COLUMNS, NOT_CAPTURED, StepSetting, bench


def test_bench_writes_one_row_for_each_step(tmp_path):
    settings = (StepSetting("mlp", 0, 1, 50), StepSetting("gat", 1, 3, 50))
    rows = bench(tmp_path / "steps.csv", "cpu", repeats=1, nodes=400, settings=settings)
    assert [(row["architecture"], row["step"]) for row in rows] == [
        *(("mlp", f"{step}{engine}") for engine in ("", AUTOGRAD) for step in ("plain", "private")),
        *(("mlp", f"{step}{CAPTURED}") for step in ("plain", "private")),
        *(("gat", f"{step}{engine}") for engine in ("", AUTOGRAD) for step in ("plain", "private", "residual")),
        *(("gat", f"{step}{CAPTURED}") for step in ("plain", "private")),
    ]
    with (tmp_path / "steps.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [tuple(row) for row in written] == [COLUMNS] * 14
    assert [float(row["ratio"]) for row in written if row["step"] == "plain"] == [1, 1]
    assert all(float(row["of_autograd"]) == 1 for row in written if row["step"].endswith(AUTOGRAD))
    assert sum(row["note"] == NOT_CAPTURED and CAPTURED in row["step"] for row in written) == 4
    assert all(float(row["cpu_ms"]) > 0 and float(row["peak_mib"]) > 0 for row in written)
