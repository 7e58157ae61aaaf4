"""Published statistics, found in the real files of a mirror."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph.config.cell import Task
from dpgraph.data.adjacency import apply_setting, owners, statistics
from dpgraph.data.clusters import cluster_split
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.graph import Graph
from dpgraph.data.readers import graphsaint, ogb, read
from dpgraph.data.records import TEST, data_dependent
from dpgraph.data.registry import entry
from dpgraph.data.store import GraphHeader, load_graph
from dpgraph.data.stored import read_header
from dpgraph.problems.preprocess import preprocess
from tests.data.offline import fetch_offline

pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def mirrors():
    if not os.environ.get("DPGRAPH_MIRROR"):
        pytest.skip("DPGRAPH_MIRROR names no mirror of the real data")
    return mirrors_from([], os.environ)


@pytest.fixture(scope="module")
def raw_dir(mirrors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")

    def bring(name):
        if not (folder / name / "manifest.json").exists():
            manifest = fetch_offline(name, folder / name, mirrors)
            if manifest.status != "ok" and name != "ogbn-arxiv":
                pytest.skip(f"{name}: {manifest.reason}")
        return folder / name

    return bring


@pytest.mark.parametrize(
    ("task", "nodes", "edges", "features", "classes", "sizes"),
    [
        (Task(dataset="cora"), 2708, 5278, 1433, 7, (140, 500, 1000)),
        (Task(dataset="citeseer"), 3327, 4552, 3703, 6, (120, 500, 1000)),
        (Task(dataset="pubmed"), 19717, 44324, 500, 3, (60, 500, 1000)),
        (Task(dataset="cora", split="train-rest"), 2708, 5278, 1433, 7, (1208, 500, 1000)),  # Igamberdiev, Table 1
        (Task(dataset="citeseer", split="train-rest"), 3327, 4552, 3703, 6, (1827, 500, 1000)),
        (Task(dataset="pubmed", split="train-rest"), 19717, 44324, 500, 3, (18217, 500, 1000)),
        (Task(dataset="cora-ml", split="random-80-0-20"), 2995, 8158, 2879, 7, (2396, 0, 599)),
        (Task(dataset="coauthor-cs", split="random-80-0-20"), 18333, 81894, 6805, 15, (14666, 0, 3667)),
        (Task(dataset="amazon-photo", split="random-80-0-20"), 7650, 119081, 745, 8, (6120, 0, 1530)),
        (Task(dataset="amazon-computers", split="random-80-0-20"), 13752, 245861, 767, 10, None),
        (Task(dataset="coauthor-cs", split="random-80-0-20", features="project-100"), 18333, 81894, 100, 15, None),
        (Task(dataset="ogbn-arxiv-text"), 169343, 1157799, 40, 40, (90941, 29799, 48603)),
        (Task(dataset="pokec-20k"), 20000, 201960, 419, 5, (11497, 1437, 1437)),
        (Task(dataset="mnist"), 70000, 0, 784, 10, (60000, 0, 10000)),
        (Task(dataset="fashion-mnist"), 70000, 0, 784, 10, (60000, 0, 10000)),
        (Task(dataset="ogbn-arxiv-text-half", setting="disjoint"), 169343, 457109, 40, 40, (90941, 29799, 48603)),
    ],
    ids=lambda value: value.folder if isinstance(value, Task) else "",
)
def test_published_statistics(raw_dir, tmp_path, task, nodes, edges, features, classes, sizes):
    preprocess(task, raw_dir(task.dataset), tmp_path)
    found = read_header(tmp_path, GraphHeader).statistics
    assert (found["nodes"], found["undirected_edges"]) == (nodes, edges)
    assert (found["features"], found["classes"]) == (features, classes)
    assert sizes is None or tuple(found["split_sizes"].values()) == sizes
    assert data_dependent(load_graph(tmp_path, verify=True)) == ()


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "median"),
    [("facebook-cornell5", 15348, 651726, 346, 6, 67), ("facebook-johnshopkins55", 4155, 154172, 239, 5, 59)],
)
def test_class_years_of_a_campus(raw_dir, tmp_path, name, nodes, edges, features, classes, median):
    preprocess(Task(dataset=name, split="random-75-10-15"), raw_dir(name), tmp_path)
    found, graph = read_header(tmp_path, GraphHeader).statistics, load_graph(tmp_path)
    assert (found["nodes"], found["undirected_edges"]) == (nodes, edges)
    assert (found["features"], found["classes"]) == (features, classes)
    assert np.median(np.diff(graph.out_ptr)) == median
    assert len(data_dependent(graph)) == 2  # the classes, the columns


def test_age_groups_of_pokec_are_homophilous(raw_dir, tmp_path):
    preprocess(Task(dataset="pokec-20k"), raw_dir("pokec-20k"), tmp_path)
    graph = load_graph(tmp_path)
    assert (graph.labels < 0).sum() == 5629
    shares = np.bincount(graph.labels[graph.labels >= 0]) / (20000 - 5629)
    assert shares.max() == pytest.approx(0.384, abs=5e-4)
    assert read_header(tmp_path, GraphHeader).statistics["homophily"] == pytest.approx(0.548, abs=5e-4)
    assert (np.bincount(graph.labels[graph.train_nodes]) / 11497 - shares).max() < 0.01
    assert set(graph.features.sum(1)) <= {3.0, 4.0, 5.0, 6.0}


@pytest.mark.parametrize(("name", "counts"), [("mnist", (5923, 6742, 5958)), ("fashion-mnist", (6000, 6000, 6000))])
def test_class_counts_of_the_training_images(raw_dir, name, counts):
    raw = read(entry(name), raw_dir(name))
    assert tuple(np.bincount(raw.labels[:60000])[:3]) == counts
    assert (raw.features.min(), raw.features.max()) == (0, 1)


@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_planetoid_agrees_with_pytorch_geometric(raw_dir, tmp_path, name):
    from torch_geometric.datasets import Planetoid

    source = raw_dir(name.lower())
    raw = tmp_path / name / "raw"
    raw.mkdir(parents=True)
    for path in source.glob("ind.*"):
        shutil.copy(path, raw)
    theirs = Planetoid(str(tmp_path), name)[0]
    preprocess(Task(dataset=name.lower()), source, tmp_path / "ours")
    ours = load_graph(tmp_path / "ours")
    assert np.array_equal(ours.features, theirs.x.numpy())
    assert np.array_equal(ours.labels, theirs.y.numpy())
    pairs = set(map(tuple, theirs.edge_index.T.tolist()))
    assert pairs == set(zip(owners(ours.out_ptr).tolist(), ours.out_idx.tolist()))
    for part, mask in (("train", theirs.train_mask), ("val", theirs.val_mask), ("test", theirs.test_mask)):
        assert np.array_equal(ours.nodes_of(part), np.flatnonzero(mask.numpy()))


@pytest.fixture(scope="module")
def arxiv(raw_dir):
    folder = raw_dir("ogbn-arxiv")
    if not (folder / "raw" / "edge.csv.gz").exists():
        pytest.skip("the mirror holds no graph of ogbn-arxiv")
    return ogb.read(folder, split="time", directed=True, with_features=False)


def test_arxiv_graph_without_features(arxiv):
    ptr, idx = arxiv.symmetric
    graph = Graph(
        name="ogbn-arxiv",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=np.zeros((arxiv.num_nodes, 0), dtype=np.float32),
        labels=arxiv.labels,
        split=arxiv.split,
        num_classes=40,
    )
    found = statistics(graph)
    assert (found["nodes"], found["entries"], found["max_degree"]) == (169343, 2315598, 13161)
    assert round(found["mean_degree"], 1) == 13.7  # Daigavane et al., Table 7
    assert tuple(found["split_sizes"].values()) == (90941, 29799, 48603)
    assert [round(value, 2) for value in found["split_fractions"].values()] == [0.54, 0.18, 0.29]
    assert len(np.unique(arxiv.labels)) == 40
    assert found["homophily"] == pytest.approx(0.655, abs=0.005)
    disjoint = statistics(apply_setting(graph, "disjoint"))
    assert disjoint["entries"] == found["entries_within_splits"] == 914218
    assert round(disjoint["mean_degree"], 1) == 5.4
    # Table 7 prints 5.5: there a mutual citation counts as two undirected edges
    within = (arxiv.split[arxiv.source] == arxiv.split[arxiv.target]).sum()
    assert round(2 * within / arxiv.num_nodes, 1) == 5.5
    assert ((arxiv.split[arxiv.source] == 0) & (arxiv.split[arxiv.target] == 0)).sum() == 374839


def test_arxiv_without_features_is_unavailable_and_names_the_file(raw_dir, tmp_path):
    folder = raw_dir("ogbn-arxiv")
    if (folder / "raw" / "node-feat.csv.gz").exists():
        pytest.skip("the mirror holds the features")
    preprocess(Task(dataset="ogbn-arxiv"), folder, tmp_path)
    status = read_header(tmp_path, GraphHeader)
    assert status.status == "unavailable"
    assert status.reason.startswith("data not available: raw/node-feat.csv.gz (in none of")


@pytest.fixture(scope="module")
def arxiv_text(raw_dir):
    return read(entry("ogbn-arxiv-text"), raw_dir("ogbn-arxiv-text"))


def test_guessed_classes_of_arxiv(raw_dir, arxiv, arxiv_text):
    assert np.array_equal(arxiv_text.labels, arxiv.labels)
    named = arxiv_text.features.any(axis=1)
    assert (~named).sum() == 36
    first = arxiv_text.features.argmax(axis=1)
    assert np.mean((first == arxiv_text.labels)[named]) == pytest.approx(0.7351, abs=5e-5)
    half = read(entry("ogbn-arxiv-text-half"), raw_dir("ogbn-arxiv-text-half"))
    kept = half.features.any(axis=1)
    assert 169343 // 2 - 36 <= (named & ~kept).sum() <= 169343 // 2
    assert np.array_equal(half.features[kept], arxiv_text.features[kept])
    # what docs/reference/datasets.md says of both, without training
    assert largest_column_is_the_class(arxiv_text) == pytest.approx((0.744, 0.727), abs=5e-4)
    assert largest_column_is_the_class(half) == pytest.approx((0.370, 0.681), abs=5e-4)
    # the choice knows neither split nor labels: each split loses about a half
    assert [kept[arxiv_text.split == part].mean() for part in range(3)] == pytest.approx([0.5] * 3, abs=0.015)


def largest_column_is_the_class(raw):
    """Shares of test nodes: by their own features, and by the mean over them and their neighbours."""
    ptr, idx = raw.symmetric
    around = sp.csr_matrix((np.ones(len(idx), dtype=np.float32), idx, ptr)) @ raw.features + raw.features
    test = raw.split == TEST
    return tuple((found.argmax(axis=1) == raw.labels)[test].mean() for found in (raw.features, around))


@pytest.mark.slow
def test_arxiv_clustered_meets_the_published_ratio(arxiv_text):
    split, declared = cluster_split(arxiv_text, (67, 18, 15))
    assert np.abs(np.bincount(split) / len(split) - (0.67, 0.18, 0.15)).max() <= 0.005
    assert declared["clusters"] <= 40


def test_graphsaint_layout_holds_the_same_arxiv(mirrors, arxiv, tmp_path):
    folder = next((mirror / "ogbn_arxiv" / "graphsaint" for mirror in mirrors), Path())
    if not (folder / "adj_full.npz").exists():
        pytest.skip("the mirror holds no ogbn-arxiv in GraphSAINT's layout")
    other = graphsaint.read(folder, directed=True, with_features=False)
    assert np.array_equal(other.labels, arxiv.labels)
    assert np.array_equal(other.split, arxiv.split)
    assert all(np.array_equal(a, b) for a, b in zip(other.symmetric, arxiv.symmetric))
