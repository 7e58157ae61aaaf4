"""New nodes: read as the old ones were, whatever the model was made of."""

import csv

import numpy as np
import pandas as pd
import pytest

from dpgraph.cli import main
from dpgraph.errors import UserError
from dpgraph.fitting.fit import fit
from dpgraph.fitting.model import load
from dpgraph.fitting.new_nodes import read_new_nodes
from dpgraph.fitting.tables import from_arrays, read_csv_graph
from tests.fitting.test_fit import small, write_csv


@pytest.fixture
def old(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path)
    return read_csv_graph("edges.csv", "nodes.csv")


def new(text, edges=None):
    with open("new.csv", "w") as file:
        file.write(text)
    if edges is not None:
        with open("new-edges.csv", "w") as file:
            file.write(edges)
    return ["--nodes", "new.csv", *(["--edges", "new-edges.csv"] if edges is not None else []), "--out", "found.csv"]


def found():
    with open("found.csv", newline="") as file:
        return np.array([row[2:] for row in list(csv.reader(file))[1:]], dtype=float)


def test_an_edge_of_an_undirected_graph_may_name_either_end_first(old):
    header = fit(old, 4.0, seed=0).model.header
    new("id,a,b,c\nx,1,0,0\ny,0,1,0\n", "new,old\nx,n1\nn2,x\nn4,n4\n")
    with pytest.raises(UserError, match=r"new-edges.csv, row 4: new=n4, old=n4: expected an id of new.csv at one end"):
        read_new_nodes(header, "new.csv", "new-edges.csv")
    new("id,a,b,c\nx,1,0,0\ny,0,1,0\n", "new,old\nx,n1\nn2,x\nn4,y\n")
    assert read_new_nodes(header, "new.csv", "new-edges.csv").lists == [["n1", "n2"], ["n4"]]
    with pytest.raises(UserError, match=r"row 3: new=n2, old=x: expected an id of new.csv first"):
        read_new_nodes(header.model_copy(update={"directed": True}), "new.csv", "new-edges.csv")
    new("id,a,b,c\nx,1,0,0\nx,0,1,0\n")
    with pytest.raises(UserError, match=r"new.csv, row 3: id=x again"):
        read_new_nodes(header, "new.csv", None)


def test_old_nodes_have_the_lists_that_fit_read(old):
    header = fit(old, 4.0, seed=0).model.header
    lists = read_new_nodes(header, "nodes.csv", "edges.csv").lists
    graph = old.graph()
    for place, one in enumerate(lists):
        there = graph.out_idx[graph.out_ptr[place] : graph.out_ptr[place + 1]]
        assert sorted(set(one)) == sorted(old.ids[other] for other in there)


def test_without_features_the_lengths_of_lists_are_read(old):
    table = pd.read_csv("nodes.csv", dtype=str, keep_default_na=False)
    table[["id", "label"]].to_csv("bare.csv", index=False)
    assert (
        main(["fit", "--edges", "edges.csv", "--nodes", "bare.csv", "--epsilon", "9", "--seed", "1", "--out", "mine"])
        == 0
    )
    arguments = ["predict", "mine/not-private"]
    assert main([*arguments, *new("id\nx\ny\n", "new,old\nx,n1\nx,n2\nx,n2\nx,n3\n")]) == 0
    rows = np.zeros((2, 16))
    rows[0, 2] = 1  # three neighbours: log2(3 + 1)
    expected = load("mine").predict(rows, [["n1", "n2", "n3"], []])
    assert np.allclose(found(), expected, atol=1e-6)
    with pytest.raises(UserError, match="--edges: expected with a model without features"):
        read_new_nodes(load("mine").header, "new.csv", None)


def test_features_of_an_array_are_named_by_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = small()
    model = fit(from_arrays(np.stack([own.source, own.target]), own.labels, own.features), 4.0, out="mine").model
    arguments = new("id,feature 2,feature 0,feature 1\nx,3,1,2\n")
    assert main(["predict", "mine", *arguments]) == 0
    assert np.allclose(found(), model.predict(np.array([[1.0, 2, 3]])), atol=1e-6)


def test_a_public_range_holds_for_new_nodes_and_is_on_the_card(old):
    table = pd.read_csv("nodes.csv", dtype=str, keep_default_na=False)
    table["a"] = [str(100 * float(value)) for value in table["a"]]
    table.to_csv("scaled.csv", index=False)
    arguments = ["fit", "--edges", "edges.csv", "--nodes", "scaled.csv", "--range", "a=0:150", "--epsilon", "4"]
    assert main([*arguments, "--out", "mine"]) == 0
    model = load("mine")
    assert model.header.ranges == (("a", 0.0, 150.0),)
    assert main(["predict", "mine", *new("id,a,b,c\nx,75,0.5,0.5\n")]) == 0
    plain = model.header.model_copy(update={"ranges": ()})
    unscaled = type(model)(plain, model.weight, model.bias, model.buckets, model.row_sum)
    assert np.allclose(found(), unscaled.predict(np.array([[0.0, 0.5, 0.5]])), atol=1e-6)
    with open("mine/release/card.md") as file:
        assert "these ranges are public, and become -1..1: a 0..150 (--range)" in file.read()
