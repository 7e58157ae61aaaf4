"""One graph in every shape that other libraries and people give it: read as it is, or refused in one line."""

import gzip
from types import SimpleNamespace

import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset, TemporalData
from torch_geometric.transforms import ToSparseTensor

import dpgraph
from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.own_graph import arrays
from dpgraph.own_graph.objects import own_graph
from dpgraph.own_graph.scales import with_ranges

SIZE = 6
ENDS = np.array([[0, 1, 2, 4], [1, 2, 0, 2]])  # node 3 has no edge, node 5 neither
LABELS = np.array([0, 1, -1, 1, 0, 1])
FEATURES = np.arange(18, dtype=np.float32).reshape(6, 3)
PARTS = np.array(["train", "test", "val", "train", "test", "train"])
MASKS = {name: name == PARTS for name in ("train", "val", "test")}
CODES = {"train": TRAIN, "val": VALIDATION, "test": TEST}
TENSORS = {"edge_index": torch.from_numpy(ENDS), "y": torch.from_numpy(LABELS), "x": torch.from_numpy(FEATURES)}
ADJACENCY = sp.coo_matrix((np.ones(4), ENDS), shape=(SIZE, SIZE))


def masks(*names):
    return {f"{name}_mask": torch.from_numpy(MASKS[name]) for name in names}


def data(**more):
    return Data(**{**TENSORS, **more})


def without(name, **more):
    return Data(**{key: value for key, value in (TENSORS | more).items() if key != name})


def beside(matrix, **more):
    return {"data": matrix, "labels": LABELS, "features": FEATURES, **more}


def torch_sparse(matrix):
    """As `SparseTensor` of torch_sparse: only what the reader calls of it."""
    return SimpleNamespace(coo=lambda: (*map(torch.from_numpy, (matrix.row, matrix.col)), None),
                           sparse_sizes=lambda: list(matrix.shape))  # fmt: skip


def graph(kind=networkx.Graph, edge=None, missing=(), **columns):
    """With attributes of nodes: `label` and `columns`."""
    made = kind()
    for node in range(SIZE):
        values = {"label": None if LABELS[node] < 0 else str(LABELS[node])}
        values |= {name: column[node] for name, column in columns.items() if (name, node) not in missing}
        made.add_node(f"n{node}", **values)
    made.add_edges_from((f"n{u}", f"n{v}", edge or {}) for u, v in ENDS.T.tolist())
    return made


NUMBERS = {"a": [0.5, 1, 2, 3, 4, 5], "b": [1, 0, 1, 0, 1, 0]}
PARTS_OF = {f"adj_{part}": getattr(ADJACENCY.tocsr(), part) for part in ("data", "indices", "indptr", "shape")}
PARTS_OF_X = {f"attr_{part}": getattr(sp.csr_matrix(FEATURES), part) for part in ("data", "indices", "indptr", "shape")}

SAME = {
    "Data": data(),
    "EdgeIndex": data(edge_index=EdgeIndex(TENSORS["edge_index"], sparse_size=(SIZE, SIZE))),
    "int32 edges": data(edge_index=TENSORS["edge_index"].int()),
    "num_nodes": data(num_nodes=SIZE),
    "Batch of one": Batch.from_data_list([data()]),
    "y in a column": data(y=TENSORS["y"][:, None]),
    "y float with NaN": data(y=torch.tensor([0.0, 1.0, float("nan"), 1.0, 0.0, 1.0])),
    "y bfloat16": data(y=TENSORS["y"].bfloat16()),
    "y int8": data(y=TENSORS["y"].to(torch.int8)),
    "x that requires a gradient": data(x=TENSORS["x"].clone().requires_grad_()),
    **{f"x {kind}": data(x=TENSORS["x"].to(kind)) for kind in (torch.float16, torch.bfloat16, torch.float64)},
    "x int64": data(x=TENSORS["x"].long()),
    "x sparse": data(x=TENSORS["x"].to_sparse()),
    "x sparse and bfloat16": data(x=TENSORS["x"].bfloat16().to_sparse()),
    "x sparse CSR": data(x=TENSORS["x"].to_sparse_csr()),
    "x sparse CSC": data(x=TENSORS["x"].to_sparse_csc()),
    "x of SciPy": data(x=sp.csr_matrix(FEATURES)),
    "adj_t": ToSparseTensor()(data()),
    "adj_t CSC": without("edge_index", adj_t=ToSparseTensor()(data()).adj_t.to_sparse_csc()),
    "adj_t COO": ToSparseTensor(layout=torch.sparse_coo)(data()),
    "adj_t of torch_sparse": without("edge_index", adj_t=torch_sparse(ADJACENCY.T.tocoo())),
    "list of one": [data()],
    "simple object": SimpleNamespace(**TENSORS),
    "dictionary": dict(TENSORS),
    "dictionary, other names": {"edges": ENDS.T, "labels": LABELS, "features": FEATURES},
    "dictionary, adj": {"adj": ADJACENCY, "target": LABELS, "node_feat": FEATURES},
    "sparse parts": PARTS_OF | PARTS_OF_X | {"labels": LABELS},
    "OGB": ({"edge_index": ENDS, "node_feat": FEATURES, "num_nodes": SIZE, "edge_feat": None}, LABELS[:, None]),
    **{f"SciPy {kind}": beside(ADJACENCY.asformat(kind)) for kind in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")},
    "SciPy array": beside(sp.csr_array(ADJACENCY)),
    "stored zero": beside(sp.coo_matrix((np.r_[np.ones(4), 0], np.c_[ENDS, [5, 3]]), shape=(SIZE, SIZE))),
    **{f"x {kind}": beside(ENDS, features=sp.coo_array(FEATURES).asformat(kind)) for kind in ("csc", "lil", "dok")},
    "tensor": beside(TENSORS["edge_index"]),
    "sparse tensor": beside(torch.sparse_coo_tensor(TENSORS["edge_index"], torch.ones(4), (SIZE, SIZE))),
    "dense": beside(ADJACENCY.toarray()),
    "dense tensor": beside(torch.from_numpy(ADJACENCY.toarray())),
    "np.matrix": beside(ADJACENCY.todense()),
    "(2, E)": beside(ENDS),
    "(E, 2)": beside(ENDS.T),
    "list of edges": beside(ENDS.T.tolist()),
    "pandas": beside(ENDS, labels=pandas.Series(LABELS), features=pandas.DataFrame(FEATURES)),
    "list of labels": beside(ENDS, labels=["0", "1", None, "1", "0", "1"]),
    "x in NetworkX": graph(x=FEATURES),
    "x in NetworkX as lists": graph(x=FEATURES.tolist()),
    "x in NetworkX as tensors": graph(x=TENSORS["x"]),
    "MultiGraph": graph(networkx.MultiGraph, x=FEATURES),
    "numbers in NetworkX": graph(**{f"feature {place}": FEATURES[:, place] for place in range(3)}),
}  # fmt: skip


def read(given, **options):
    if isinstance(given, dict) and "data" in given:
        given, options = given["data"], {key: value for key, value in given.items() if key != "data"} | options
    return own_graph(given, **options)


def ends_of(own):
    """Return the set of edges, from the first end to the second if directed."""
    ends = np.stack([own.source, own.target])
    return {tuple(one) for one in (ends if own.directed else np.sort(ends, axis=0)).T.tolist()}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_a_shape_is_read_as_the_reference_graph(name, directed):
    if directed and isinstance(SAME[name], networkx.Graph):
        pytest.skip("an undirected graph of NetworkX has no first ends")
    own = read(SAME[name], directed=directed)
    expected = {tuple(one) for one in (ENDS if directed else np.sort(ENDS, axis=0)).T.tolist()}
    assert ends_of(own) == expected
    assert own.labels.tolist() == LABELS.tolist()
    assert own.classes == ("0", "1")
    assert np.array_equal(own.features, FEATURES)
    assert with_ranges(own, {}).features.dtype == np.float32
    assert own.split is None
    assert "not read" not in " ".join(own.read)


def test_a_bool_and_half_precision_are_numbers():
    assert own_graph(data(x=TENSORS["x"] > 8)).features.tolist() == (FEATURES > 8).tolist()
    assert own_graph(ENDS, LABELS, FEATURES.astype(np.float16)).features.tolist() == FEATURES.tolist()


SPLITS = {
    "all masks": (masks("train", "val", "test"), PARTS),
    "train and test": (masks("train", "test"), np.where(MASKS["train"], "train", "test")),
    "train and val": (masks("train", "val"), PARTS),
    "train alone": (masks("train"), np.where(MASKS["train"], "train", "test")),
    "test alone": (masks("test"), np.where(MASKS["test"], "test", "train")),
    "val and test": (masks("val", "test"), PARTS),
    "valid": ({"train_mask": MASKS["train"], "valid_mask": MASKS["val"]}, PARTS),
    "uint8": ({f"{name}_mask": torch.from_numpy(mask.astype(np.uint8)) for name, mask in MASKS.items()}, PARTS),
    "one split in a column": ({f"{name}_mask": torch.from_numpy(mask)[:, None] for name, mask in MASKS.items()}, PARTS),
    "indices": ({f"{name}_idx": torch.from_numpy(np.flatnonzero(mask)) for name, mask in MASKS.items()}, PARTS),
}


@pytest.mark.parametrize("name", SPLITS)
def test_what_is_outside_of_the_training_mask_is_held_out(name):
    given, expected = SPLITS[name]
    codes = [CODES[role] for role in expected]
    assert own_graph(data(**given)).split.tolist() == codes
    assert own_graph({**TENSORS, **given}).split.tolist() == codes
    assert own_graph(data(**given), split=["train"] * SIZE).split.tolist() == [TRAIN] * SIZE
    if "column" not in name and "indices" not in name:
        columns = {key: np.asarray(value).tolist() for key, value in given.items()}
        own = own_graph(graph(x=FEATURES, **columns))
        assert own.split.tolist() == codes
        assert own.columns == ()


def test_a_split_is_a_dictionary_too_and_that_of_the_data_set():
    indices = {"train": np.flatnonzero(MASKS["train"]), "valid": np.flatnonzero(MASKS["val"]), "test": MASKS["test"]}
    codes = [CODES[role] for role in PARTS]
    assert own_graph(data(), split=indices).split.tolist() == codes

    class OfOgb(list):
        def get_idx_split(self):
            return indices

    assert own_graph(OfOgb([data()])).split.tolist() == codes


class Several(InMemoryDataset):
    def __init__(self, root):
        super().__init__(str(root))
        self.data, self.slices = self.collate([data(), data()])


def test_a_data_set_of_several_graphs_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"data of 2 graphs: expected one of them, such as data\[0\]"):
        own_graph(Several(tmp_path))
    assert ends_of(own_graph(Several(tmp_path)[1])) == ends_of(own_graph(data()))


def hetero():
    made = HeteroData()
    made["person"].x = TENSORS["x"]
    return made


WIDE = sp.csr_matrix((200_000, 100_000), dtype=np.float32)
REFUSED = {
    "two splits": (data(train_mask=torch.ones(SIZE, 10)), "data.train_mask: 10 splits: expected one, or split="),
    "splits in rows": ({**TENSORS, "train_masks": np.ones((10, SIZE))}, "data.train_masks: 10 splits: expected one"),
    "overlap": (data(**masks("train"), test_mask=torch.ones(SIZE) > 0), "node 0 is in train and test: expected one"),
    "short mask": (data(train_mask=torch.ones(3) > 0), r"data.train_mask of shape \(3,\), .*: expected true or false"),
    "indices as a mask": (data(train_mask=torch.arange(SIZE)), "train_mask of shape .* expected true or false for"),
    "indices out of range": (data(train_idx=torch.tensor([0, 9])), "train_idx of shape .*: expected indices of"),
    "negative indices": (data(train_idx=torch.tensor([-1])), "expected indices of nodes, 0..5"),
    "an index again": (data(train_idx=torch.tensor([1, 1])), "train_idx: a node again: expected the index of each"),
    "mask of texts": (data(train_mask=["a"] * SIZE), "train_mask of shape .*: expected true or false"),
    "two of a role": (data(**masks("val"), valid_mask=torch.ones(SIZE) > 0), "valid_mask: val again: expected one"),
    "split of no role": (beside(ENDS, split={"first": [0]}), "split.first: expected train, val or test"),
    "empty split": (beside(ENDS, split={}), "split: expected train, val or test in it"),
    "split and masks": ({**TENSORS, **masks("train"), "split": PARTS}, "data: split and train_mask: expected one of"),
    "both in NetworkX": (graph(split=PARTS, test_mask=MASKS["test"]), "graph: split and test_mask: expected one"),
    "HeteroData": (hetero(), "data=HeteroData: expected a graph with one type of nodes"),
    "hetero of OGB": (({"edge_index_dict": {}, "num_nodes_dict": {}}, {}), "graph: no edges: expected edge_index"),
    "Batch": (Batch.from_data_list([data(), data()]), r"data of 2 graphs: expected one of them, such as data\[0\]"),
    "several": ([data(), data(), data()], "data of 3 graphs: expected one"),
    "TemporalData": (TemporalData(src=TENSORS['y'], dst=TENSORS['y']), "data: no edges: expected edge_index"),
    "no y": (without("y"), "data: no y: expected a label for each node, -1 for none: it has .*edge_index"),
    "no edges": (without("edge_index"), "data: no edges: expected edge_index"),
    "one-hot y": (data(y=torch.eye(SIZE, 2)), r"y of shape \(6, 2\), .* \(of rows with a single 1: y.argmax"),
    "y with decimals": (data(y=torch.arange(6) / 2), "expected whole numbers"),
    "y of the graph": (data(y=torch.tensor([1])), r"data: x of shape \(6, 3\), y of 1: expected a row of numbers and"),
    "long y": (data(y=torch.arange(9) % 2), r"data: x of shape \(6, 3\), y of 9"),
    "num_nodes": (data(num_nodes=9), "num_nodes=9, y of 6: expected a label for each node, -1 for none"),
    "complex x": (data(x=TENSORS["x"].to(torch.complex64)), "x of type complex64: expected numbers"),
    "sparse complex x": (data(x=TENSORS["x"].to(torch.complex64).to_sparse()), "x of type complex64: expected numbers"),
    "x without data": (data(x=torch.ones(6, 3, device="meta")), "data: x: expected an array"),
    "one row of x": (data(x=torch.ones(6)), r"x of shape \(6,\), y of 6: expected a row of numbers"),
    "infinite x": (data(x=TENSORS["x"] * 1e38), "features: expected finite numbers"),
    "x of texts": (beside(ENDS, features=np.full((6, 2), "a")), "x of type <U1: expected numbers"),
    "wide x": (beside(sp.coo_matrix((200_000, 200_000)), labels=np.arange(200_000) % 2, features=WIDE),
               r"x of shape \(200000, 100000\): 20000000000 numbers: expected at most 2000000000 in all"),
    "wide tensor": (Data(x=torch.sparse_coo_tensor(torch.zeros(2, 1).long(), torch.ones(1), (6, 10**10)),
                         y=TENSORS["y"], edge_index=TENSORS["edge_index"]), "60000000000 numbers: expected at most"),
    "adj_t of another size": (ToSparseTensor()(data(num_nodes=9)), "num_nodes=9, y of 6"),
    "adj of another size": ({"adj": np.eye(5), "y": LABELS}, r"adj of shape \(5, 5\), y of 6: expected a square"),
    "adj of texts": ({"adj": np.full((6, 6), "a"), "y": LABELS}, "expected a square matrix of numbers"),
    "two kinds of edges": ({"adj": ADJACENCY, **TENSORS}, "data: edge_index and adj: expected one of them"),
    "two kinds of labels": ({"labels": LABELS, **TENSORS}, "data: y and labels: expected one of them"),
    "unknown name": ({"splt": PARTS, **TENSORS}, "data: array splt: expected edge_index"),
    "parts of a matrix": ({"labels": LABELS, "adj_data": np.ones(4)}, "adj_data: expected adj_data, adj_indices"),
    "indices beyond it": (PARTS_OF | {"adj_indices": np.array([1, 9, 0, 2]), "y": LABELS}, "adj_data: expected a"),
    "SciPy of another size": (beside(sp.coo_matrix((9, 9))), r"graph of shape \(9, 9\), y of 6: expected a square"),
    "nan for no edge": (beside(np.where(np.eye(6), 1, np.nan)), "graph: nan or inf in the matrix: .* 0 for no edge"),
    "inf in SciPy": (beside(sp.coo_matrix(([np.inf], ([0], [1])), (6, 6))), "nan or inf in the matrix"),
    "masked x": (beside(ENDS, features=np.ma.masked_greater(np.ones((6, 2)) * [1, 5], 3)), "x: masked cells: expected"),
    "negative y": (data(y=torch.tensor([0, 1, -100, 1, 0, 1])), "y: expected whole numbers, -1 for no label"),
    "SciPy not square": (beside(sp.coo_matrix((6, 5))), r"graph of shape \(6, 5\)"),
    "dense of another size": (beside(np.eye(5)), r"edges of shape \(5, 5\): expected \(2, E\), or \(E, 2\)"),
    "(2, 2)": (beside(ENDS[:, :2]), r"edges of shape \(2, 2\): a row may be an edge, or all first ends"),
    "(2, 2) and two labels": ({"data": np.eye(2), "labels": [0, 1]}, r"edges of shape \(2, 2\): a row may be"),
    "(2, 2) by the name edges": ({"edges": ENDS[:, :2], "y": LABELS}, r"edges of shape \(2, 2\): a row may be"),
    "edge_index the other way": (data(edge_index=TENSORS["edge_index"].T), r"edge_index of shape \(4, 2\).*expected"),
    "no labels": ({"data": torch.eye(4).to_sparse()}, "labels=None: expected one for each node"),
    "labels beside Data": ({"data": data(), "labels": LABELS}, "labels: pass it inside the graph"),
    "no label": (networkx.karate_club_graph(), r"graph: no attribute label of nodes \(--label\): they have club"),
    "number that a node lacks": (graph(missing={("a", 3)}, **NUMBERS), "node n3: a=None: expected a number"),
    "number as text": (graph(a=[1, 2, 3, "4", 5, 6]), "node n3: a=4: expected a number, as other nodes"),
    "rows of several lengths": (graph(x=[[1], [1, 2]] * 3), "lengths of x=.* expected as many numbers for each node"),
    "rows of texts": (graph(x=[["a"]] * 6), "x of type .*: expected numbers"),
    "attribute that is not there": ({"data": graph(), "split": "part"}, r"no attribute part of nodes \(--split\)"),
    "features of texts": ({"data": graph(a=list("abcdef")), "features": "a"}, "attribute a: expected a number"),
    "array beside NetworkX": ({"data": graph(), "features": FEATURES}, "--features of type .*: expected the name"),
    "data frame": (pandas.DataFrame({"a": [1]}), "data=DataFrame: expected the paths of two files"),
    "two data frames": ((pandas.DataFrame(), pandas.DataFrame()), "data=DataFrame: expected the paths of two files"),
    "text": ("edges.csv", "edges.csv: no such file"),
    "list of lists": ([[ENDS, LABELS]], "data=list: expected a graph"),
    "nothing": (None, "data=NoneType: expected a graph"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_shape_is_refused_in_one_line(name):
    given, line = REFUSED[name]
    with pytest.raises(UserError, match=line):
        read(given)


def test_a_matrix_is_refused_before_it_is_made_dense(monkeypatch):
    monkeypatch.setattr(sp.csr_matrix, "toarray", lambda self: pytest.fail("made dense"))
    with pytest.raises(UserError, match="expected at most"):
        read(REFUSED["wide x"][0])


def test_features_that_do_not_fit_into_memory_are_one_line(monkeypatch):
    def none(self):
        raise MemoryError

    monkeypatch.setattr(sp.csr_matrix, "toarray", none)
    with pytest.raises(UserError, match=r"x of shape \(6, 3\): too little memory"):
        own_graph(ENDS, LABELS, sp.csr_matrix(FEATURES))


WEIGHTED = sp.coo_matrix((np.array([1, 2.5, 1, 1]), ENDS), shape=(SIZE, SIZE))
UNREAD = {
    "edge_weight": (data(edge_weight=torch.ones(4), pos=torch.ones(6, 2)), ["pos", "edge_weight"]),
    "edge_attr": ({**TENSORS, "edge_attr": np.ones(4)}, ["edge_attr"]),
    "adj_t beside edge_index": (data(adj_t=torch.eye(6).to_sparse_csr()), ["adj_t"]),
    "SciPy": (beside(WEIGHTED), ["weights of the matrix"]),
    "dense": (beside(WEIGHTED.toarray()), ["weights of the matrix"]),
    "adj": ({"adj": WEIGHTED, "y": LABELS, "x": FEATURES, "node_names": LABELS}, ["node_names", "weights of adj"]),
    "NetworkX": (graph(x=FEATURES, town=list("abcdef"), edge={"weight": 2}), ["town", "weight of edges"]),
    "ids in NetworkX": (graph(x=FEATURES, id=range(6)), ["id"]),
    "OGB": (({"edge_index": ENDS, "node_feat": FEATURES, "node_year": LABELS}, LABELS), ["node_year"]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_named(name):
    given, names = UNREAD[name]
    own = read(given)
    assert own.read[0].partition("not read: ")[2] == ", ".join(names)
    assert np.array_equal(own.features, FEATURES)
    assert ends_of(own) == ends_of(own_graph(data()))


def test_attributes_that_are_numbers_are_columns():
    own = own_graph(graph(**NUMBERS, town=list("abcdef")))
    assert own.columns == ("a", "b")
    assert own.features.tolist() == np.array([*NUMBERS.values()]).T.tolist()
    own = own_graph(graph(a=NUMBERS["a"], x=FEATURES))
    assert own.columns == ("a", "x 0", "x 1", "x 2")
    own = own_graph(graph(**NUMBERS), features=["b"])
    assert own.columns == ("b",)
    assert own.read == ("label: label; features: b; split: none; not read: a",)
    assert own_graph(ENDS, LABELS, pandas.DataFrame({"a": range(6), "b": range(6)})).columns == ("a", "b")


def test_attributes_have_other_names():
    own = own_graph(networkx.karate_club_graph(), labels="club")
    assert own.classes == ("Mr. Hi", "Officer")
    assert own.read == ("label: club; features: none; split: none; not read: weight of edges",)
    own = own_graph(graph(x=FEATURES, part=PARTS.tolist(), split=PARTS.tolist()[::-1]), split="part")
    assert own.split.tolist() == [CODES[role] for role in PARTS]
    assert own_graph(graph(split=PARTS.tolist())).split.tolist() == own.split.tolist()


def test_a_label_that_came_in_a_tensor_is_its_value():
    made = graph(x=FEATURES)
    for node, label in enumerate(LABELS):
        made.nodes[f"n{node}"]["label"] = torch.tensor([label]) if node % 2 else np.array(label)
    assert own_graph(made).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("suffix", [".graphml", ".graphml.gz"])
@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph])
def test_graphml_is_read_as_the_graph_that_it_holds(tmp_path, kind, suffix):
    made = graph(kind, **NUMBERS, split=PARTS.tolist())
    del made.nodes["n2"]["label"]  # GraphML has no None
    networkx.write_graphml(made, tmp_path / f"g{suffix}")
    own, same = own_graph(tmp_path / f"g{suffix}"), own_graph(made)
    assert ends_of(own) == ends_of(same)
    assert own.directed is made.is_directed()
    for name in ("labels", "features", "split"):
        assert np.array_equal(getattr(own, name), getattr(same, name))
    assert (own.ids, own.columns) == (same.ids, same.columns)
    assert own.files == (tmp_path / f"g{suffix}",)


def test_a_damaged_graphml_is_one_line(tmp_path):
    for name, content in (("a.graphml", b"<graphml>"), ("b.graphml.gz", b"no"), ("c.graphml", b"<graphml/>"),
                          ("d.graphml.gz", gzip.compress(b"<x>")[:-9])):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=rf"{name}: (expected a GraphML file|0 graphs: expected one)"):
            own_graph(tmp_path / name)


def test_npz_under_other_names(tmp_path):
    np.savez(tmp_path / "g.npz", **PARTS_OF, **PARTS_OF_X, labels=LABELS, node_names=np.arange(SIZE).astype(str))
    own = own_graph(tmp_path / "g.npz")
    assert ends_of(own) == ends_of(own_graph(data()))
    assert np.array_equal(own.features, FEATURES)
    assert own.read == ("edges: adj; label: labels; features: attr; split: none; not read: node_names",)
    np.savez(tmp_path / "h.npz", edges=ENDS.T, node_labels=LABELS, node_features=FEATURES, train_mask=MASKS["train"])
    own = own_graph(tmp_path / "h.npz")
    assert ends_of(own) == ends_of(own_graph(data()))
    assert own.split.tolist() == [TRAIN if one else TEST for one in MASKS["train"]]
    np.savez(tmp_path / "p.npz", **PARTS_OF, labels=LABELS, idx_to_class=np.array({0: "a"}, dtype=object))
    with pytest.raises(UserError, match=r"p.npz: expected a .npz file without pickles: array idx_to_class"):
        own_graph(tmp_path / "p.npz")


def test_csv_files_are_read_from_python(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"n{u},n{v}\n" for u, v in ENDS.T))
    names = ["" if label < 0 else label for label in LABELS]
    rows = (f"n{node},{names[node]},{FEATURES[node, 0]},{PARTS[node]}\n" for node in range(SIZE))
    (tmp_path / "n.csv").write_text("id,club,a,part\n" + "".join(rows))
    files = tmp_path / "e.csv", str(tmp_path / "n.csv")
    own = own_graph(files, labels="club", split="part")
    assert ends_of(own) == ends_of(own_graph(data()))
    assert own.labels.tolist() == LABELS.tolist()
    assert own.split.tolist() == [CODES[role] for role in PARTS]
    with pytest.raises(UserError, match="features: expected none with CSV files"):
        own_graph(files, features=FEATURES)


def test_errors_name_arguments_in_python():
    with pytest.raises(UserError, match=r"graph: no attribute label of nodes \(labels\): they have club"):
        dpgraph.fit(networkx.karate_club_graph(), 4.0, quiet=True)


def test_expected_names_are_those_that_are_read():
    assert not set(arrays.NAMES["x"]) & set(arrays.NAMES["y"])
    for role in ("edge_index", "edges", "adj", "y", "x", "split", "directed"):
        assert role in arrays.EXPECTED


def test_numbers_of_nodes_are_no_feature():
    made = networkx.cycle_graph(12)
    for node in made:
        made.nodes[node].update(label="ab"[node % 2], user_id=node * 7.5, age=node % 5)
    own = own_graph(made)
    assert own.columns == ("age",)
    assert own.read[0].endswith("not read: user_id")
    networkx.set_node_attributes(made, {node: node for node in made}, "old")
    with pytest.raises(UserError, match="attribute old is no feature: it numbers the nodes"):
        own_graph(made)
    assert own_graph(made, features=["old", "age"]).columns == ("old", "age")


@pytest.mark.parametrize("suffix", [".graphml", ".graphml.gz"])
def test_the_command_line_reads_graphml(tmp_path, monkeypatch, suffix):
    made = networkx.cycle_graph(60)
    for node in made:
        made.nodes[node].update(club="ab"[node % 2], age=node % 5, town="x", old=node)
    networkx.write_graphml(made, tmp_path / f"g{suffix}")
    monkeypatch.chdir(tmp_path)
    graph, rest = ["--graph", f"g{suffix}", "--label", "club"], ["--epsilon", "4", "--seed", "1", "--classes", "a,b"]
    assert main(["fit", *graph, "--ignore", "old", *rest, "--out", "mine"]) == 0
    model = dpgraph.load(tmp_path / "mine")
    assert model.header.columns == ("age",)
    assert len(model.header.ids) == 60


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "no attribute label of nodes (--label): they have age, club"),
        (["--label", "club", "--split", "part"], "no attribute part of nodes (--split)"),
        (["--label", "club", "--ignore", "old"], "no attribute old of nodes (--ignore)"),
        (["--label", "club", "--id", "age"], "--id: expected --edges and --nodes with it"),
    ],
)
def test_options_of_graphml_are_checked(tmp_path, capsys, options, line):
    made = networkx.cycle_graph(6)
    for node in made:
        made.nodes[node].update(club="ab"[node % 2], age=node % 5)
    networkx.write_graphml(made, tmp_path / "g.graphml")
    assert main(["fit", "--graph", str(tmp_path / "g.graphml"), *options, "--epsilon", "4", "--out", "x"]) == 2
    assert line in capsys.readouterr().err


def test_a_file_of_two_graphs_is_refused(tmp_path):
    made = networkx.cycle_graph(6)
    networkx.set_node_attributes(made, {node: "ab"[node % 2] for node in made}, "label")
    text = "\n".join(networkx.generate_graphml(made))
    one = text[text.index("<graph ") : text.index("</graph>") + len("</graph>")]
    (tmp_path / "g.graphml").write_text(text.replace(one, one + one))
    with pytest.raises(UserError, match=r"g.graphml: 2 graphs: expected one"):
        own_graph(tmp_path / "g.graphml")


def test_an_attribute_that_is_called_as_indices_is_no_mask():
    made = graph(**NUMBERS, test_idx=[0, 2, 1, 3, 5, 4])
    own = own_graph(made)
    assert own.split is None
    assert own.columns == ("a", "b", "test_idx")
