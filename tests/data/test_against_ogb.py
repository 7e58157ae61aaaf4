"""Our reader of OGB's folders against ogb's own data set class on the same folders, and how ogb is imported."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.loading import ogb_module
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import ogb
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from tests.data.offline import fetch_offline

META = {
    "version": 1, "url": "none", "download_name": "toy", "num tasks": 1, "task type": "multiclass classification",
    "eval metric": "acc", "num classes": 3, "is hetero": "False", "binary": "False", "add_inverse_edge": "False",
    "additional node files": "None", "additional edge files": "None", "split": "time",
}  # fmt: skip
PARTS = {"train": TRAIN, "valid": VALIDATION, "test": TEST}
CITES = ("paper", "cites", "paper")


@pytest.fixture(scope="module")
def ogb_package():
    """Imported without what asks PyPI for a newer version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "outdated", None)
        import ogb.nodeproppred

        yield ogb.nodeproppred


def theirs(package, folder, **meta):
    """Their data set of a folder, as for one that was downloaded and unpacked."""
    (folder / "RELEASE_v1.txt").touch()
    (folder / "processed").mkdir(exist_ok=True)
    return package.NodePropPredDataset("toy", meta_dict={**META, "dir_path": str(folder), **meta})


def put(path, rows, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False, header=header or False, compression="gzip", na_rep="nan")


def assert_same(raw: RawGraph, edges, features, labels, split) -> None:
    assert np.array_equal(np.stack([raw.source, raw.target]), edges)
    if features is None:
        assert raw.features is None
    else:
        assert raw.features.dtype == np.float32
        assert np.array_equal(raw.features, features.astype(np.float32))
    assert np.array_equal(raw.labels, np.nan_to_num(labels[:, 0].astype(float), nan=-1.0))
    for part, code in PARTS.items():
        assert np.array_equal(np.flatnonzero(raw.split == code), np.sort(split[part]))


@st.composite
def contents(draw):
    nodes = draw(st.integers(3, 12))
    random = numpy_generator("ogb", draw(st.integers(0, 10**6)))
    edges = random.integers(0, nodes, (draw(st.integers(1, 30)), 2))
    features = random.normal(size=(nodes, draw(st.integers(1, 4)))) * 10.0 ** random.integers(-30, 30)
    if draw(st.booleans()):
        features = random.integers(-5, 5, features.shape)
    labels = random.integers(0, 3, (nodes, 1)).astype(float if draw(st.booleans()) else int)
    if labels.dtype == float:
        labels[random.integers(0, nodes)] = np.nan
    cuts = np.sort(random.choice(np.arange(1, nodes), 2, replace=False))
    split = dict(zip(PARTS, np.split(random.permutation(nodes), cuts), strict=True))
    return nodes, edges, features, labels, split


@settings(max_examples=25, deadline=None)
@given(content=contents())
def test_a_folder_in_the_layout_of_ogb(ogb_package, tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("toy")
    nodes, edges, features, labels, split = content
    raw = folder / "raw"
    for name, rows in (
        ("edge", edges), ("node-feat", features), ("node-label", labels),
        ("num-node-list", [nodes]), ("num-edge-list", [len(edges)]),
    ):  # fmt: skip
        put(raw / f"{name}.csv.gz", rows)
    for part, chosen in split.items():
        put(folder / "split/time" / f"{part}.csv.gz", chosen)
    dataset = theirs(ogb_package, folder)
    graph, found = dataset[0]
    assert graph["num_nodes"] == nodes
    ours = ogb.read(folder, split="time", directed=True)
    assert ours.num_nodes == nodes
    assert_same(ours, graph["edge_index"], graph["node_feat"], found, dataset.get_idx_split())
    assert_same(ours, edges.T, ours.features, labels, split)
    np.testing.assert_array_max_ulp(ours.features, features.astype(np.float32), maxulp=1)  # through digits and float64


@settings(max_examples=10, deadline=None)
@given(content=contents())
def test_a_folder_in_the_binary_layout_of_ogb(ogb_package, tmp_path_factory, content):
    """As ogbn-papers100M: raw/data.npz."""
    folder = tmp_path_factory.mktemp("toy")
    nodes, edges, features, labels, split = content
    (folder / "raw").mkdir()
    np.savez(folder / "raw/data.npz", edge_index=edges.T, num_nodes_list=[nodes], num_edges_list=[len(edges)],
             node_feat=features.astype(np.float32), node_year=np.zeros((nodes, 1)))  # fmt: skip
    np.savez(folder / "raw/node-label.npz", node_label=labels)
    for part, chosen in split.items():
        put(folder / "split/time" / f"{part}.csv.gz", chosen)
    dataset = theirs(ogb_package, folder, binary="True")
    graph, found = dataset[0]
    ours = ogb.read(folder, split="time", directed=True)
    assert_same(ours, graph["edge_index"], graph["node_feat"], found, dataset.get_idx_split())
    assert_same(ours, edges.T, features, labels, split)


def test_ogb_asks_no_network(tmp_path, monkeypatch):
    """Its own __init__ asks PyPI in a thread, unless an answer of the last day is among temporary files."""
    asked = []

    def ask(*names, **more):
        asked.append(names)
        raise OSError("no network")

    for owner, name in ((socket.socket, "connect"), (socket, "create_connection"), (socket, "getaddrinfo")):
        monkeypatch.setattr(owner, name, ask)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] in ("ogb", "outdated")]:
        monkeypatch.delitem(sys.modules, name)
    threads = set(threading.enumerate())
    for path in ("io/read_graph_raw.py", "nodeproppred/evaluate.py"):
        ogb_module.__wrapped__(path)
    for thread in set(threading.enumerate()) - threads:
        thread.join()
    assert "outdated" not in sys.modules
    assert not asked


def test_ogb_is_imported_when_it_is_needed_and_alone():
    code = (
        "import sys\n"
        "from dpgraph.data.readers import ogb\n"
        "from dpgraph.problems import classification\n"
        "print('ogb' in sys.modules)\n"
        "ogb.ogb_module('io/read_graph_raw.py')\n"
        "print('torch' in sys.modules)\n"
        "classification._evaluator('ogbn-mag')\n"
        "print({'torch_geometric', 'ogb.io', 'ogb.nodeproppred', 'ogb_evaluate'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["False", "False", "set()"]


@settings(max_examples=10, deadline=None)
@given(content=contents())
def test_a_folder_with_relations(ogb_package, tmp_path_factory, content):
    """As ogbn-mag: papers have features, labels and a split; authors have none."""
    folder = tmp_path_factory.mktemp("toy")
    nodes, edges, features, labels, split = content
    raw, writes = folder / "raw", ("author", "writes", "paper")
    put(raw / "num-node-dict.csv.gz", [[2, nodes]], header=["author", "paper"])
    put(raw / "triplet-type-list.csv.gz", [writes, CITES])
    for triplet, rows in ((CITES, edges), (writes, np.array([[0, 1], [1, 2]]))):
        place = raw / "relations" / "___".join(triplet)
        put(place / "edge.csv.gz", rows)
        put(place / "num-edge-list.csv.gz", [len(rows)])
    put(raw / "node-feat/paper/node-feat.csv.gz", features)
    put(raw / "node-label/paper/node-label.csv.gz", labels)
    for place in (raw / "nodetype-has-label.csv.gz", folder / "split/time/nodetype-has-split.csv.gz"):
        put(place, [[False, True]], header=["author", "paper"])
    for part, chosen in split.items():
        put(folder / "split/time/paper" / f"{part}.csv.gz", chosen)
    dataset = theirs(ogb_package, folder, **{"is hetero": "True"})
    graph, found = dataset[0]
    ours = ogb.read(folder, split="time", directed=True, relation="___".join(CITES), node_type="paper")
    of_papers = {part: chosen["paper"] for part, chosen in dataset.get_idx_split().items()}
    assert_same(ours, graph["edge_index_dict"][CITES], graph["node_feat_dict"]["paper"], found["paper"], of_papers)
    assert ours.num_nodes == graph["num_nodes_dict"]["paper"]


@pytest.mark.real_data
@pytest.mark.skipif(not os.environ.get("DPGRAPH_MIRROR"), reason="DPGRAPH_MIRROR names no mirror of the real data")
def test_what_the_mirror_has_of_arxiv(ogb_package, tmp_path):
    folder = tmp_path / "fetched"
    fetch_offline("ogbn-arxiv", folder, mirrors_from([], os.environ))
    if not (folder / "raw" / "edge.csv.gz").exists():
        pytest.skip("the mirror holds no graph of ogbn-arxiv")
    ours = ogb.read(folder, split="time", directed=True, with_features=False)
    for part in ("raw", "split"):
        shutil.copytree(folder / part, tmp_path / part, ignore=shutil.ignore_patterns("node-feat*"))
    for name, count in (("num-node-list", ours.num_nodes), ("num-edge-list", len(ours.source))):
        (tmp_path / "raw" / f"{name}.csv.gz").write_bytes(gzip.compress(f"{count}\n".encode()))
    dataset = theirs(ogb_package, tmp_path)
    graph, labels = dataset[0]
    assert graph["num_nodes"] == ours.num_nodes == 169343
    assert_same(ours, graph["edge_index"], graph["node_feat"], labels, dataset.get_idx_split())
