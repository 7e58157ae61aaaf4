"""The benchmark of the training steps on a small graph: what it writes, not what it measures."""

from __future__ import annotations

import csv

from bench.steps import AUTOGRAD, CAPTURED, COLUMNS, NOT_CAPTURED, StepSetting, bench


def test_bench_writes_one_row_for_each_step(tmp_path):
    settings = (StepSetting("mlp", 0, 1, 50), StepSetting("gat", 1, 3, 50))
    rows = bench(tmp_path / "steps.csv", "cpu", repeats=1, nodes=400, settings=settings)
    assert [(row["architecture"], row["step"]) for row in rows] == [
        *(("mlp", f"{step}{engine}") for engine in ("", AUTOGRAD) for step in ("plain", "private")),
        ("mlp", CAPTURED),
        *(("gat", f"{step}{engine}") for engine in ("", AUTOGRAD) for step in ("plain", "private", "residual")),
    ]
    with (tmp_path / "steps.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [tuple(row) for row in written] == [COLUMNS] * 11
    assert [float(row["ratio"]) for row in written if row["step"] == "plain"] == [1, 1]
    assert all(float(row["of_autograd"]) == 1 for row in written if row["step"].endswith(AUTOGRAD))
    assert [row["step"] for row in written if row["note"] == NOT_CAPTURED] == [CAPTURED]
    assert all(float(row["cpu_ms"]) > 0 and float(row["peak_mib"]) > 0 for row in written)
<<<<<<< HEAD:tests/bench/test_steps.py
=======


def test_growth_writes_exponents_and_a_figure(tmp_path):
    varied = {"batch_size": Varied((10, 40), field="batch_size"), "width": Varied((8, 16), width=True)}
    rows = growth.bench(tmp_path / "growth.csv", repeats=1, varied=varied, nodes=400)
    assert [(row["quantity"], row["value"]) for row in rows if row["step"] == "private"] == [
        *(("batch_size", 10), ("batch_size", 40), ("width", 8), ("width", 16)),
    ]
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_exponents_are_slopes_of_logarithms():
    rows = growth._fitted("nodes", iter([(10, {"plain": 5.0}), (20, {"plain": 20.0}), (40, {"plain": 80.0})]))
    assert [row["exponent"] for row in rows] == [2.0, 2.0, 2.0]
>>>>>>> h-engine:tests/benchmarks/test_steps.py
