"""What the project itself wrote and reads back: graphs, calibrations, records, manifests, the registry, results."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from random import Random

import numpy as np
import pandas as pd
import pytest

from dpgraph.config.record import CellRecord, Metric, SeedRecord
from dpgraph.data.manifest import read_manifest
from dpgraph.data.registry import parse as parse_registry
from dpgraph.data.store import GraphHeader, load_graph, save_graph
from dpgraph.data.stored import read_header
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.pipeline.run_files import RunFile, name_of, read_runs, trained
from dpgraph.privacy.calibration import Calibration, calibrated
from dpgraph.privacy.mechanisms.none import NonPrivate
from dpgraph.reporting.aggregate import COLUMNS, blocks, rows_of
from dpgraph.reporting.records import read_record
from dpgraph.reporting.results import read_results
from tests.contract.cells import cell as toy_cell
from tests.contract.conftest import toy_graph
from tests.fuzz.harness import SEEDS, fuzzed, told
from tests.fuzz.strategies import JSON_NASTY, damaged, mangled

GRAPH = toy_graph()
MANIFEST = {
    "dataset": "toy",
    "status": "ok",
    "files": [{"path": "a", "bytes": 1, "sha256": "0" * 64, "source": "mirror:a"}],
    "licence": {"name": "CC0"},
    "citation": "c",
    "time": "2026-01-01T00:00:00Z",
}
CALIBRATION = calibrated(NonPrivate(steps=5), "rigorous", None, epsilon=None).model_dump(mode="json")
TREES = PoissonTrees(
    num_roots=20, steps=2, delta=1e-3, noise_multiplier=9.0, sampling_rate=0.5, hops=1, max_degree=2, list_cap=2
)
NOISY = calibrated(TREES, "rigorous", None, epsilon=None).model_dump(mode="json")
RECORD = json.loads(
    CellRecord(
        cell=toy_cell("gnn", 1, None),
        status="ok",
        statement=CALIBRATION["statement"],
        seeds=tuple(
            SeedRecord(
                seed=seed,
                status="ok",
                seconds=1.0,
                metrics=tuple(Metric(step=step, final=step == 5, metric="accuracy/test", value=0.5) for step in (2, 5)),
            )
            for seed in (0, 1)
        ),
    ).model_dump_json()
)
CELL = toy_cell("dp-gnn", 1, "rigorous")
RUNS = RunFile(
    stage="train",
    bundle=name_of({CELL.slug: CELL}, trained),
    suite="toy",
    data="data",
    results="results",
    cells={CELL.slug: CELL.model_dump(mode="json")},
).model_dump(mode="json")
REGISTRY = files("dpgraph.data").joinpath("registry.yaml").read_text(encoding="utf-8").partition("\nciteseer:")[0]


def spoilt(tree: object, random: Random) -> bytes:
    """The tree as JSON, damaged as a tree or as a text."""
    if random.random() < 0.6:
        return json.dumps(mangled(tree, random, JSON_NASTY)).encode()
    return damaged(json.dumps(tree).encode(), random)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


@fuzzed(500, seed=SEEDS)
def test_records(place, seed):
    path = place / "result.json"
    path.write_bytes(spoilt(RECORD, Random(seed)))
    told(lambda: rows_of(("paper", block) for block in blocks(read_record(path))))


@fuzzed(500, seed=SEEDS)
def test_calibrations(place, seed):
    path = place / "calibration.json"
    path.write_bytes(spoilt(CALIBRATION, Random(seed)))
    told(lambda: Calibration.read(path, NonPrivate))
    path.write_bytes(spoilt(NOISY, Random(seed)))
    line = told(lambda: Calibration.read(path, PoissonTrees))
    assert line is None or line.startswith(str(path))


@fuzzed(400, seed=SEEDS)
def test_files_of_runs(place, seed):
    path = place / "runs.json"
    path.write_bytes(spoilt(RUNS, Random(seed)))
    line = told(lambda: read_runs(path, "train"))
    os.environ.pop("DPGRAPH_REGISTRY", None)  # what a spoilt file names stays named
    assert line is None or str(path) in line or line.startswith("registry=")


@fuzzed(400, seed=SEEDS)
def test_manifests(place, seed):
    (place / "manifest.json").write_bytes(spoilt(MANIFEST, Random(seed)))
    told(lambda: read_manifest(place))


@fuzzed(200, seed=SEEDS)
def test_registries(seed):
    text = damaged(REGISTRY.encode(), Random(seed)).decode("utf-8", "replace")
    told(lambda: parse_registry(text))


@fuzzed(500, seed=SEEDS)
def test_stored_graphs(place, seed):
    random = Random(seed)
    folder = place / "graph"
    if not (folder / "whole.json").exists():
        save_graph(GRAPH, folder)
        (folder / "whole.json").write_bytes((folder / "graph.json").read_bytes())
    header = json.loads((folder / "whole.json").read_text())
    (folder / "graph.json").write_text(json.dumps(header))
    array = random.choice(sorted(folder.glob("*.npy")))
    content = array.read_bytes()
    if random.random() < 0.5:
        (folder / "graph.json").write_bytes(spoilt(header, random))
    else:
        array.write_bytes(damaged(content, random))

    def load() -> None:
        graph = load_graph(folder)
        for ptr, idx in ((graph.out_ptr, graph.out_idx), (graph.in_ptr, graph.in_idx)):
            assert ptr[-1] == len(idx)
            assert not len(idx) or idx.max() < len(graph.labels)

    told(load)
    told(lambda: read_header(folder, GraphHeader))
    array.write_bytes(content)


@fuzzed(150, seed=SEEDS)
def test_results(place, seed):
    random = Random(seed)
    path = place / "results.parquet"
    example = {"string": ["a"], "int64": [1], "float64": [0.5], "bool": [True]}
    frame = pd.DataFrame({name: example[kind] for name, kind in COLUMNS.items()})
    if random.random() < 0.5:
        name = random.choice(list(COLUMNS))
        frame = random.choice(
            (frame.drop(columns=name), frame.assign(**{name: [random.choice(("x", 1, 0.5, None, b"x"))]}))
        )
    frame.to_parquet(path)
    if random.random() < 0.6:
        path.write_bytes(damaged(path.read_bytes(), random))
    told(lambda: read_results(path))


def test_what_they_damage_is_good(tmp_path):
    for name, tree in (("result.json", RECORD), ("calibration.json", CALIBRATION), ("manifest.json", MANIFEST)):
        (tmp_path / name).write_text(json.dumps(tree))
    assert rows_of(("paper", block) for block in blocks(read_record(tmp_path / "result.json"))).num_rows == 4
    assert Calibration.read(tmp_path / "calibration.json", NonPrivate).mode == "rigorous"
    (tmp_path / "noisy.json").write_text(json.dumps(NOISY))
    assert Calibration.read(tmp_path / "noisy.json", PoissonTrees).mechanism == TREES
    assert read_manifest(tmp_path).dataset == "toy"
    (tmp_path / "runs.json").write_text(json.dumps(RUNS))
    assert [run.cell for run in read_runs(tmp_path / "runs.json", "train").runs.values()] == [CELL]
    assert list(parse_registry(REGISTRY)) == ["cora"]


def test_a_graph_whose_edges_lead_nowhere(tmp_path):
    save_graph(GRAPH, tmp_path)
    idx = np.load(tmp_path / "out_idx.npy")
    idx[0] = 10_000
    np.save(tmp_path / "out_idx.npy", idx)
    line = str(told(lambda: load_graph(tmp_path)))
    assert "out_idx.npy: does not fit the other arrays of this graph" in line


def test_a_calibration_that_is_not_there_is_one_line(tmp_path):
    assert "none.json: no such file" in str(told(lambda: Calibration.read(tmp_path / "none.json", NonPrivate)))
