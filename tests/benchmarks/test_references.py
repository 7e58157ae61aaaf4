"""The benchmark against Opacus and PyTorch Geometric on small inputs: all compute the same."""

from __future__ import annotations

import csv

import pytest

from dpgraph.benchmarks.references import COLUMNS, bench


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
def test_every_implementation_gives_the_same(tmp_path):
    rows = bench(tmp_path / "references.csv", repeats=1, batches=(60,), nodes=80)
    assert [(row["case"], row["implementation"]) for row in rows] == [
        *(("clipped sum", name) for name in ("dpgraph", "opacus ghost", "opacus hooks")),
        *((kind, name) for kind in ("gcn", "gin", "gat") for name in ("dpgraph", "pyg")),
    ]
    assert all(row["difference"] < 1e-4 for row in rows)
    with (tmp_path / "references.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [tuple(row) for row in written] == [COLUMNS] * len(rows)
