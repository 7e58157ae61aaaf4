"""Graphs of other libraries: what each says of labels, features, splits and directions, and what is refused."""

import networkx
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, InMemoryDataset

from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.own_graph.objects import own_graph

ENDS = np.array([[0, 1, 2], [1, 2, 0]])
LABELS = np.array([0, 1, 0, 1])
FEATURES = np.eye(4, 2, dtype=np.float32)


class One(InMemoryDataset):
    def __init__(self, data, root):
        super().__init__(str(root))
        self.data, self.slices = self.collate([data])


class OfOgb:
    """As `NodePropPredDataset`: one item, a dictionary of arrays and labels in a column."""

    def __len__(self):
        return 1

    def __getitem__(self, place):
        return {"edge_index": ENDS, "node_feat": FEATURES, "num_nodes": 4, "edge_feat": None}, LABELS[:, None]


def geometric(**more):
    return Data(x=torch.from_numpy(FEATURES), y=torch.from_numpy(LABELS), edge_index=torch.from_numpy(ENDS), **more)


def same(own, directed=False):
    assert np.array_equal(np.stack([own.source, own.target]), ENDS)
    assert np.array_equal(own.labels, LABELS)
    assert np.array_equal(own.features, FEATURES)
    assert own.classes == ("0", "1")
    assert own.directed is directed


def test_data_sets_of_one_graph(tmp_path):
    same(own_graph(One(geometric(), tmp_path)))
    same(own_graph(OfOgb()))
    same(own_graph(OfOgb()[0]))
    same(own_graph(OfOgb(), directed=True), directed=True)
    assert own_graph(OfOgb()[0], split=["train", "val", "test", "train"]).split.tolist() == [
        TRAIN, VALIDATION, TEST, TRAIN,
    ]  # fmt: skip


def test_labels_of_geometric_in_a_column_or_missing():
    data = geometric()
    data.y = data.y[:, None]
    same(own_graph(data))
    data.y = torch.tensor([0.0, 1.0, float("nan"), 1.0])[:, None]  # as OGB has what is missing
    assert own_graph(data).labels.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize("none", [None, float("nan"), -1, pandas.NA], ids=str)
def test_a_missing_label_is_no_class_whatever_says_so(none):
    graph = networkx.path_graph(4)
    for place, label in enumerate((0, 1, none, 1.0)):
        graph.nodes[place]["label"] = label
    assert own_graph(graph).classes == ("0", "1")
    assert own_graph(graph).labels.tolist() == [0, 1, -1, 1]
    texts = np.array(["a", "b", none, "b"], dtype=object)
    assert own_graph(ENDS, texts).labels.tolist() == [0, 1, -1, 1]
    assert own_graph(ENDS, pandas.Series(["a", "b", None, "b"], dtype="string")).classes == ("a", "b")
    assert own_graph(ENDS, np.array([True, False, True, False])).classes == ("False", "True")


def test_tensors_are_arrays():
    same(own_graph(torch.from_numpy(ENDS), torch.from_numpy(LABELS), torch.from_numpy(FEATURES)))
    with pytest.raises(UserError, match="labels=None: expected one for each node"):
        own_graph(torch.eye(4).to_sparse())


def test_a_zero_that_a_matrix_stores_is_no_edge():
    matrix = sp.coo_matrix((np.array([1, 1, 1, 0]), np.c_[ENDS, [3, 0]]), shape=(4, 4))
    same(own_graph(matrix, LABELS, FEATURES))


def test_masks_are_the_split_unless_another_is_given():
    masks = {f"{name}_mask": torch.arange(4) == place for place, name in enumerate(("train", "val", "test"))}
    data = geometric(**masks)
    assert own_graph(data).split.tolist() == [TRAIN, VALIDATION, TEST, TEST]  # a node of no mask is held out
    assert own_graph(data, split=["train"] * 4).split.tolist() == [TRAIN] * 4


def test_a_class_list_is_that_of_the_user():
    own = own_graph(ENDS, LABELS, classes=["0", "1", "2"])
    assert own.classes == ("0", "1", "2")
    assert own.classes_given


def test_directions():
    graph = networkx.DiGraph()
    graph.add_nodes_from((place, {"label": str(LABELS[place]), "x": FEATURES[place]}) for place in range(4))
    graph.add_edges_from(ENDS.T.tolist())
    same(own_graph(graph), directed=True)
    same(own_graph(graph, directed=False))
    matrix = sp.coo_matrix((np.ones(3), ENDS), shape=(4, 4))
    same(own_graph(matrix, LABELS, FEATURES))
    same(own_graph(matrix.tocsr(), LABELS, FEATURES, directed=True), directed=True)
    same(own_graph(matrix, LABELS, sp.csr_matrix(FEATURES)))


@pytest.mark.parametrize(
    ("data", "options", "named"),
    [
        (geometric(), {"labels": LABELS}, "labels: pass it inside the graph"),
        (Data(edge_index=torch.from_numpy(ENDS)), {}, "data: no y: expected a label"),
        (ENDS, {}, "labels=None: expected one for each node"),
        (sp.coo_matrix((2, 3)), {"labels": LABELS}, "expected a square matrix"),
        (ENDS.astype(float), {"labels": LABELS}, "expected integers"),
        (ENDS, {"labels": LABELS, "split": ["train"]}, "split of 1: expected a role for each of 4"),
        (own_graph(ENDS, LABELS), {"directed": True}, "expected no labels, features, classes, split or directed"),
        (geometric(train_mask=torch.ones(4, 10)), {}, "data.train_mask: 10 splits: expected one, or split="),
        (object(), {}, "data=object: expected a graph of PyTorch Geometric"),
        ([geometric(), geometric()], {}, "data of 2 graphs: expected one"),
    ],
    ids=range(10),
)
def test_what_is_refused(data, options, named):
    with pytest.raises(UserError, match=named):
        own_graph(data, **options)


def test_names_that_are_one_text_are_refused():
    graph = networkx.Graph()
    graph.add_nodes_from([(1, {"label": "a"}), ("1", {"label": "b"})])
    with pytest.raises(UserError, match="one name as text"):
        own_graph(graph)


def test_the_order_of_columns_is_that_of_their_names():
    """Names and order of columns are part of a release: no node's record decides them."""
    found = []
    for first in ({"income": 1.0, "age": 2.0}, {"age": 0.0, "income": 0.0}):
        graph = networkx.path_graph(4)
        for node in graph:
            graph.nodes[node].update(first if node == 0 else {"income": 3.0, "age": 4.0}, label="ab"[node % 2])
        found.append(own_graph(graph))
    assert found[0].columns == found[1].columns == ("age", "income")
    assert found[0].features[0].tolist() == [2.0, 1.0]
