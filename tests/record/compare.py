"""Predictions, metrics and both epsilons of the recorded commit and of this tree, run one after the other here.

`python -m tests.record.compare [SUITE ...]` (all: record, tiny, demo). The recorded commit is run once on a machine and
kept in .cache/record. A cell that is not in the recorded commit is no difference; one that is missing is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tarfile import open as open_tar
from typing import Any

import numpy as np

from dpgraph.config.streams import stream_name
from dpgraph.planning.resolve import resolve
from tests.workflow.conftest import TINY

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
COMMIT = (HERE / "COMMIT").read_text().strip()
STORE = ROOT / ".cache" / "record"
SUITES = ("record", "tiny", "demo")
NEAR = 1e-12  # metrics; predictions and epsilons are equal


@dataclass(frozen=True)
class Seen:
    """Seed 0 of a cell."""

    name: str
    status: str
    predictions: np.ndarray | None
    epsilons: tuple[Any, ...]
    metrics: dict[tuple[Any, ...], float]


def run(tree: Path, folder: Path, suite: str) -> None:
    """Trains all cells of the suite with the sources and rules of `tree`; what is in `folder` already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(tree / name, folder / name)
    for name in ("rules", "workflow", "envs"):
        shutil.copytree(tree / name, folder / name, dirs_exist_ok=True)
    (folder / "workflow/suites/tiny.yaml").write_text(TINY)
    # cells of settings that this tree's demonstration may no longer have
    shutil.copy(recorded_tree() / "workflow/suites/demo.yaml", folder / "workflow/suites/demo.yaml")
    shutil.copy(HERE / "suite.yaml", folder / "workflow/suites/record.yaml")
    shutil.copy(HERE / "experiment.yaml", folder / "workflow/experiments/record.yaml")
    if not (folder / "src").exists():
        (folder / "src").symlink_to(tree / "src")
    start = time.monotonic()
    command = [sys.executable, "-m", "snakemake", "--cores", str(os.cpu_count() or 1), "--quiet", "--keep-going"]
    done = subprocess.run(
        [*command, "--config", f"suite={suite}", "seeds=1", "--", "cells"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"error: suite {suite} in {folder}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    print(f"{suite} in {folder}: {time.monotonic() - start:.0f} s", flush=True)


def results(suite: Path) -> Iterator[tuple[str, Seen]]:
    """Yield the name of each cell's folder, which holds the hash of its settings, and its seed 0."""
    for path in sorted(suite.glob("cells/*/result.json")):
        record = json.loads(path.read_text())
        stored = path.parent / "seed=0.predictions.npy"
        statement = record["statement"] or {}
        epsilons = tuple(
            statement.get(mode, {}).get(field)
            for mode in ("published", "rigorous")
            for field in ("epsilon", "delta", "relation", "scope")
        )
        metrics = {
            (row["metric"], row["step"], row["class_id"]): row["value"]
            for seed in record["seeds"]
            if seed["seed"] == 0
            for row in seed["metrics"]
        }
        yield (
            path.parent.name,
            Seen(
                path.parent.name,
                record["status"],
                np.load(stored) if stored.is_file() else None,
                epsilons,
                metrics,
            ),
        )


def recorded_name(cell: dict[str, Any]) -> str:
    """Return the name of the cell's random streams, a hash of its settings."""
    return stream_name(resolve(cell))


def differences(before: dict[str, Seen], now: dict[str, Seen]) -> Iterator[str]:
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            yield f"{old.name}: is missing"
        elif old.status != new.status or old.epsilons != new.epsilons:
            yield f"{old.name}: {old.status} {old.epsilons}: now {new.status} {new.epsilons}"
        elif old.predictions is not None and not np.array_equal(old.predictions, new.predictions):
            yield f"{old.name}: {(old.predictions != new.predictions).sum()} predictions differ"
        elif old.metrics.keys() != new.metrics.keys():
            yield f"{old.name}: other metrics: {sorted(old.metrics.keys() ^ new.metrics.keys())[:3]}"
        else:
            for key, value in old.metrics.items():
                if not np.isclose(value, new.metrics[key], rtol=0, atol=NEAR, equal_nan=True):
                    yield f"{old.name}: {key}: {value}: now {new.metrics[key]}"
                    break


def recorded_tree() -> Path:
    """The recorded commit's files."""
    tree = STORE / COMMIT / "tree"
    if not tree.is_dir():
        archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, capture_output=True, check=True).stdout
        tree.parent.mkdir(parents=True, exist_ok=True)
        with open_tar(fileobj=BytesIO(archive)) as files:
            files.extractall(tree.with_name("partial"), filter="data")
        tree.with_name("partial").rename(tree)
    return tree


def main(suites: list[str]) -> int:
    lost = 0
    tree = recorded_tree()
    for suite in suites or SUITES:
        run(tree, STORE / COMMIT / "run", suite)
        before = dict(results(STORE / COMMIT / "run/results" / suite))
        if all(seen.status == "not run" for seen in before.values()):
            raise SystemExit(f"error: suite {suite}: its data is not available: set DPGRAPH_MIRROR")
        shutil.rmtree(STORE / "now/results", ignore_errors=True)
        run(ROOT, STORE / "now", suite)
        now = dict(results(STORE / "now/results" / suite))
        found = list(differences(before, now))
        lost += len(found)
        summary = f"{suite}: {len(before)} recorded cells, {len(now)} now, {len(found)} differ"
        print(summary, *found, sep="\n  ", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
