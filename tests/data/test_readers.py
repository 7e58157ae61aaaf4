import collections
import gzip
import json
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph.core.errors import UserError
from dpgraph.data.readers import digits, graphsaint, npz, ogb, planetoid, reddit
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION


def planetoid_files(folder, test=(503, 501, 505)):
    """501 nodes before the tests, of which 1 is for training and 500 for validation; test id 502 is isolated."""
    allx = sp.csr_matrix(np.eye(501, 4, dtype=np.float32))
    tx = sp.csr_matrix(np.diag([7.0, 8.0, 9.0, 1.0]).astype(np.float32)[:3])
    parts = {
        "x": allx[:1],
        "tx": tx,
        "allx": allx,
        "y": np.eye(3)[[2]],
        "ty": np.eye(3)[[0, 1, 2]],
        "ally": np.eye(3)[np.full(501, 2)],
        "graph": collections.defaultdict(list, {0: [1, 503, 0], 503: [0], 505: [501, 501]}),
    }
    for name, value in parts.items():
        (folder / f"ind.toy.{name}").write_bytes(legacy_pickle(value))
    (folder / "ind.toy.test.index").write_text("".join(f"{node}\n" for node in test))


def legacy_pickle(value):
    """With the module names that the old files of the data set carry."""
    data = pickle.dumps(value, protocol=3)
    return data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray").replace(
        b"scipy.sparse._csr", b"scipy.sparse.csr"
    )


def test_planetoid(tmp_path):
    planetoid_files(tmp_path)
    raw = planetoid.read(tmp_path, "toy")
    assert raw.num_nodes == 506
    assert raw.labels[[0, 503, 501, 505, 502]].tolist() == [2, 0, 1, 2, 0]
    assert raw.features[[503, 501, 505, 502]].toarray().tolist() == [[7, 0, 0, 0], [0, 8, 0, 0], [0, 0, 9, 0], [0] * 4]
    assert raw.features[3].toarray().tolist() == [[0, 0, 0, 1]]
    assert np.bincount(raw.split, minlength=256)[[TRAIN, VALIDATION, TEST, NO_SPLIT]].tolist() == [1, 500, 3, 2]
    ptr, idx = raw.symmetric
    assert [idx[ptr[node] : ptr[node + 1]].tolist() for node in (0, 501, 503)] == [[1, 503], [505], [0]]
    assert raw.meta["isolated_test_nodes"] == 2
    assert planetoid.read(tmp_path, "toy", isolated_label=-1).labels[502] == -1


class Harmful:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("graph", pickle.dumps(Harmful()), r"ind\.toy\.graph: .*type \w+\.system is not admitted"),
        ("allx", b"", r"ind\.toy\.allx: expected a readable file"),
        ("ally", b"\x80\x02garbage", r"ind\.toy\.ally: expected a readable file"),
        ("test.index", b"7\n8\n9\n", r"test\.index: .*3 test ids from 7, for 3 rows after 501"),
        ("test.index", b"x\n", r"test\.index: expected a readable file"),
        ("test.index", None, r"test\.index: no such file"),
    ],
)
def test_planetoid_damage(tmp_path, part, content, message):
    planetoid_files(tmp_path)
    path = tmp_path / f"ind.toy.{part}"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        planetoid.read(tmp_path, "toy")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("layout", [("adj_matrix.", "attr_matrix."), ("adj_", "attr_")])
def test_npz_layouts(tmp_path, layout):
    adjacency = sp.csr_matrix(np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]], dtype=np.float32))
    attributes = sp.csr_matrix(np.array([[0, 2], [1, 0], [0, 0]], dtype=np.float64))
    arrays = {"labels": np.array([0, 1, 0], dtype=np.int32), "names": np.array([{}], dtype=object)}
    for prefix, matrix in zip(layout, (adjacency, attributes)):
        for key in ("data", "indices", "indptr", "shape"):
            arrays[prefix + key] = np.asarray(getattr(matrix, key))
    np.savez(tmp_path / "toy.npz", **arrays)
    raw = npz.read(tmp_path, "toy.npz", directed=True)
    assert set(zip(raw.source.tolist(), raw.target.tolist())) == {(0, 1), (2, 0)}
    assert raw.features.toarray().tolist() == [[0, 2], [1, 0], [0, 0]]
    assert raw.features.dtype == np.float32
    assert raw.split is None
    assert raw.directed


@pytest.mark.parametrize("damage", ["truncated", "pickled", "keys", "missing"])
def test_npz_damage(tmp_path, damage):
    path = tmp_path / "toy.npz"
    if damage == "keys":
        np.savez(path, a=np.zeros(1))
    elif damage == "pickled":
        np.savez(path, adj_indptr=np.zeros(1), adj_data=np.array([{}], dtype=object))
    elif damage == "truncated":
        np.savez(path, a=np.zeros(1000))
        path.write_bytes(path.read_bytes()[:500])
    expected = "no such file" if damage == "missing" else "expected a readable file"
    with pytest.raises(UserError, match=rf"toy\.npz: {expected}"):
        npz.read(tmp_path, "toy.npz", directed=True)


def write_csv(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def ogb_files(folder, relation="", kind=""):
    raw = folder / "raw"
    edges = raw / "relations" / relation if relation else raw
    write_csv(edges / "edge.csv.gz", "0,1\n2,0\n")
    write_csv(edges / "num-edge-list.csv.gz", "2\n")
    if kind:
        write_csv(raw / "num-node-dict.csv.gz", f"author,{kind}\n7,3\n")
    else:
        write_csv(raw / "num-node-list.csv.gz", "3\n")
    write_csv(raw / ("node-feat" if kind else "") / kind / "node-feat.csv.gz", "0.5,-1\n1e-2,2\n0,3\n")
    write_csv(raw / ("node-label" if kind else "") / kind / "node-label.csv.gz", "4\nnan\n1\n")
    for part, node in (("train", 2), ("valid", 0), ("test", 1)):
        write_csv(folder / "split" / "time" / kind / f"{part}.csv.gz", f"{node}\n")


@pytest.mark.parametrize("options", [{}, {"relation": "paper___cites___paper", "node_type": "paper"}])
def test_ogb(tmp_path, options):
    ogb_files(tmp_path, options.get("relation", ""), options.get("node_type", ""))
    raw = ogb.read(tmp_path, split="time", directed=True, **options)
    assert np.column_stack([raw.source, raw.target]).tolist() == [[0, 1], [2, 0]]
    assert np.allclose(raw.features, [[0.5, -1], [0.01, 2], [0, 3]])
    assert raw.features.dtype == np.float32
    assert raw.labels.tolist() == [4, -1, 1]
    assert raw.split.tolist() == [VALIDATION, TEST, TRAIN]
    assert ogb.read(tmp_path, split="time", directed=True, with_features=False, **options).features is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("raw/edge.csv.gz", b"0,1,2\n", "3 columns instead of 2"),
        ("raw/edge.csv.gz", b"0,x\n", r"edge\.csv\.gz: expected a readable file"),
        ("raw/edge.csv.gz", b"0,1\n2,\n", r"edge\.csv\.gz: expected a readable file"),
        pytest.param("raw/edge.csv.gz", b"0,1\n", r"edge\.csv\.gz: .*1 edges instead of 2", id="fewer edges"),
        ("raw/edge.csv.gz", b"0,3\n0,1\n", r"edge target ids 1\.\.3: expected 0\.\.2"),
        ("raw/node-feat.csv.gz", b"1,2\n3,4,5\n6,7\n", r"node-feat\.csv\.gz: expected a readable file"),
        ("raw/node-feat.csv.gz", b"1,2\n3,x\n6,7\n", r"node-feat\.csv\.gz: expected a readable file"),
        ("raw/node-feat.csv.gz", b"1,2\n3\n6,7\n", "features: expected finite numbers"),
        ("raw/node-feat.csv.gz", b"1,2\n3,4\n", "rows of features=2: expected 3"),
        ("raw/node-label.csv.gz", b"4\n1\n", r"node-label\.csv\.gz: .*2 labels for 3 nodes"),
        ("raw/node-label.csv.gz", b"4,1\n", "2 columns instead of 1"),
        ("raw/num-node-list.csv.gz", b"three\n", r"num-node-list\.csv\.gz: expected a readable file"),
        ("raw/num-node-list.csv.gz", None, r"num-node-list\.csv\.gz: no such file"),
        ("split/time/train.csv.gz", b"2\n0\n", "split/time: .*4 ids for 3 nodes"),
    ],
)
def test_ogb_damage(tmp_path, name, content, message):
    ogb_files(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        write_csv(tmp_path / name, content.decode())
    with pytest.raises(UserError, match=message) as error:
        ogb.read(tmp_path, split="time", directed=True)
    assert "\n" not in str(error.value)


def test_ogb_of_several_graphs(tmp_path):
    ogb_files(tmp_path)
    for name in ("node", "edge"):
        write_csv(tmp_path / f"raw/num-{name}-list.csv.gz", "1\n1\n")
    with pytest.raises(UserError, match=r"num-node-list\.csv\.gz: .*2 graphs instead of 1"):
        ogb.read(tmp_path, split="time", directed=True)


def test_ogb_truncated_gzip(tmp_path):
    ogb_files(tmp_path)
    path = tmp_path / "raw" / "edge.csv.gz"
    generator = np.random.default_rng(0)
    write_csv(path, "".join(f"{a},{b}\n" for a, b in generator.integers(0, 3, (5000, 2))))
    for content in (path.read_bytes()[:-400], b"not gzip"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"edge\.csv\.gz"):
            ogb.read(tmp_path, split="time", directed=True)


def test_reddit(tmp_path):
    np.savez(
        tmp_path / "reddit_data.npz",
        feature=np.eye(4, 2),
        label=np.array([0, 1, 2, 0]),
        node_types=np.array([1, 3, 2, 1]),
    )
    sp.save_npz(tmp_path / "reddit_graph.npz", sp.coo_matrix(([1, 1], ([0, 1], [1, 0])), shape=(4, 4)))
    raw = reddit.read(tmp_path)
    assert raw.split.tolist() == [TRAIN, TEST, VALIDATION, TRAIN]
    assert raw.features.shape == (4, 2)
    assert len(raw.symmetric[1]) == 2
    (tmp_path / "reddit_graph.npz").write_bytes(b"x")
    with pytest.raises(UserError, match=r"reddit_graph\.npz: expected a readable file"):
        reddit.read(tmp_path)


def test_reddit_sample_keeps_a_share_of_each_class_and_the_edges_among_them(tmp_path):
    labels = np.repeat([0, 1, 2], [41, 9, 20])
    features = np.arange(70, dtype=np.float32)[:, None]
    np.savez(tmp_path / "reddit_data.npz", feature=features, label=labels, node_types=np.arange(70) % 3 + 1)
    pairs = np.random.default_rng(0).integers(0, 70, (800, 2))
    sp.save_npz(tmp_path / "reddit_graph.npz", sp.coo_matrix((np.ones(800), pairs.T), shape=(70, 70)))
    raw = reddit.read(tmp_path, one_in=4)
    assert raw.data_dependent == ("the nodes: a share of each class, by the labels of all posts",)
    assert reddit.read(tmp_path).data_dependent == ()
    assert np.bincount(raw.labels).tolist() == [10, 2, 5]
    kept = raw.features[:, 0].astype(int)
    assert np.array_equal(raw.labels, labels[kept])
    assert np.array_equal(raw.split, (kept % 3).astype(np.uint8))
    ids = set(kept.tolist())
    expected = {(u, v) for u, v in pairs.tolist() if {u, v} <= ids}
    assert set(zip(kept[raw.source].tolist(), kept[raw.target].tolist())) == expected
    assert np.array_equal(kept, reddit.read(tmp_path, one_in=4).features[:, 0])
    with pytest.raises(UserError, match=r"^one_in=0: expected an integer >= 1$"):
        reddit.read(tmp_path, one_in=0)


def graphsaint_files(folder):
    sp.save_npz(folder / "adj_full.npz", sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)))
    np.save(folder / "feats.npy", np.arange(6.0).reshape(3, 2))
    (folder / "class_map.json").write_text(json.dumps({"2": 5, "0": 1, "1": 0}))
    (folder / "role.json").write_text(json.dumps({"tr": [2], "va": [0], "te": [1]}))


def test_graphsaint_places_labels_by_key(tmp_path):
    graphsaint_files(tmp_path)
    raw = graphsaint.read(tmp_path)
    assert raw.labels.tolist() == [1, 0, 5]
    assert raw.split.tolist() == [VALIDATION, TEST, TRAIN]
    assert raw.features.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("class_map.json", b"{"),
        ("class_map.json", b'{"9": 1}'),
        ("class_map.json", b'{"a": 1}'),
        ("class_map.json", b"[1]"),
        ("role.json", b'{"tr": [0]}'),
        ("role.json", b'{"tr": [7], "va": [], "te": []}'),
        ("feats.npy", b"\x93NUMPY"),
        ("adj_full.npz", b""),
    ],
)
def test_graphsaint_damage(tmp_path, name, content):
    graphsaint_files(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: expected a readable file"):
        graphsaint.read(tmp_path)


def test_digits(tmp_path):
    raw = digits.read(tmp_path, "demo-digits", 4)
    assert raw.data_dependent == ("the edges: nearest neighbours among all images",)
    ptr, _ = raw.symmetric
    assert raw.features.min() == 0
    assert raw.features.max() == 1
    assert np.diff(ptr).min() >= 4
    assert np.array_equal(raw.split, digits.read(tmp_path, "demo-digits", 4).split)


ZERO = sp.csr_matrix((np.array([1.0, 0.0, 1.0]), ([0, 0, 1], [1, 2, 2])), shape=(3, 3))  # (0, 2) is stored, and 0


def read_npz(folder):
    matrices = {"adj": ZERO, "attr": sp.csr_matrix(np.eye(3, dtype=np.float32))}
    keys = ("data", "indices", "indptr", "shape")
    arrays = {f"{name}_{key}": np.asarray(getattr(matrix, key)) for name, matrix in matrices.items() for key in keys}
    np.savez(folder / "toy.npz", labels=np.arange(3), **arrays)
    return npz.read(folder, "toy.npz", directed=True)


def read_graphsaint(folder):
    graphsaint_files(folder)
    sp.save_npz(folder / "adj_full.npz", ZERO)
    return graphsaint.read(folder)


def read_reddit(folder):
    np.savez(folder / "reddit_data.npz", feature=np.eye(3), label=np.arange(3), node_types=np.arange(3) + 1)
    sp.save_npz(folder / "reddit_graph.npz", ZERO.tocoo())
    return reddit.read(folder)


@pytest.mark.parametrize("read", [read_npz, read_graphsaint, read_reddit])
def test_a_stored_zero_of_an_adjacency_is_no_edge(tmp_path, read):
    raw = read(tmp_path)
    assert list(zip(raw.source.tolist(), raw.target.tolist())) == [(0, 1), (1, 2)]
