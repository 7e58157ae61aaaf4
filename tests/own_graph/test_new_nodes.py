"""New nodes: read as the old ones were, whatever the model was made of."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.model import load
from dpgraph.own_graph.new_nodes import read_new_nodes, read_new_npz
from dpgraph.own_graph.tables import read_csv_graph
from tests.own_graph.test_fit import CLASSES, NAMES, small, write_csv


@pytest.fixture
def old(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path)
    return read_csv_graph("edges.csv", "nodes.csv", classes=NAMES)


def new(text, edges=None):
    with open("new.csv", "w") as file:
        file.write(text)
    if edges is not None:
        with open("new-edges.csv", "w") as file:
            file.write(edges)
    return ["--nodes", "new.csv", *(["--edges", "new-edges.csv"] if edges is not None else []), "--out", "found.csv"]


def found():
    """Return the rows, and move the file away: none is written over."""
    with Path("found.csv").rename("read.csv").open(newline="") as file:
        return np.array([row[2:] for row in list(csv.reader(file))[1:]], dtype=float)


def test_an_edge_of_an_undirected_graph_may_name_either_end_first(old):
    header = fit(old, 4.0, seed=0).model.header
    for wrong in ("n4,n5", "x,y"):
        new("id,a,b,c\nx,1,0,0\ny,0,1,0\n", f"new,old\nx,n1\nn2,x\n{wrong}\n")
        one, other = wrong.split(",")
        with pytest.raises(UserError, match=rf"new-edges.csv, row 4: new={one}, old={other}: expected an id of new"):
            read_new_nodes(header, "new.csv", "new-edges.csv")
    new("id,a,b,c\nx,1,0,0\ny,0,1,0\n", "new,old\nx,n1\nn2,x\nn4,y\n")
    assert read_new_nodes(header, "new.csv", "new-edges.csv").lists == [["n1", "n2"], ["n4"]]
    with pytest.raises(UserError, match=r"row 3: new=n2, old=x: expected an id of new.csv first"):
        read_new_nodes(header.model_copy(update={"directed": True}), "new.csv", "new-edges.csv")
    new("id,a,b,c\nx,1,0,0\nx,0,1,0\n")
    with pytest.raises(UserError, match=r"new.csv, row 3: id=x again"):
        read_new_nodes(header, "new.csv", None)


def test_an_id_of_an_old_node_is_refused_in_any_form(old, capsys):
    header = fit(old, 4.0, seed=0, out="mine").model.header
    new("id,a,b,c\nx,1,0,0\nn2,0,1,0\n")
    with pytest.raises(UserError, match=r"new.csv, row 3: id=n2: the model was trained with this node: expected new"):
        read_new_nodes(header, "new.csv", None)
    numbered = header.model_copy(update={"ids": tuple(name.removeprefix("n") for name in header.ids)})
    new("id,a,b,c\n2.0,1,0,0\n61.0,0,1,0\n")
    with pytest.raises(UserError, match=r"row 2: id=2.0: the model was trained"):
        read_new_nodes(numbered, "new.csv", None)
    assert main(["predict", "mine", *new("id,a,b,c\nn2,0,1,0\n")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_lists_of_new_nodes_are_those_of_the_file_in_either_order(old):
    """The old nodes again, under other names: their lists are those that fit read."""
    header = fit(old, 4.0, seed=0).model.header
    table = pd.read_csv("nodes.csv", dtype=str, keep_default_na=False)
    edges = pd.read_csv("edges.csv", dtype=str, keep_default_na=False)
    table["id"] = "new " + table["id"]
    flipped = np.arange(len(edges)) % 2 == 0
    ends = edges.to_numpy()
    ends[:, 0] = "new " + ends[:, 0]
    ends[flipped] = ends[flipped, ::-1]
    table.to_csv("again.csv", index=False)
    pd.DataFrame(ends).to_csv("again-edges.csv", index=False, header=False)
    lists = read_new_nodes(header, "again.csv", "again-edges.csv").lists
    graph = replace(old, directed=True).graph()
    order = table["id"].str.removeprefix("new ").tolist()
    for name, one in zip(order, lists, strict=True):
        place = old.ids.index(name)
        there = graph.out_idx[graph.out_ptr[place] : graph.out_ptr[place + 1]]
        assert sorted(set(one) - {name}) == sorted(old.ids[other] for other in there)


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
    model = fit(
        from_arrays(np.stack([own.source, own.target]), own.labels, own.features, classes=CLASSES), 4.0, out="mine"
    ).model
    arguments = new("id,feature 2,feature 0,feature 1\nx,3,1,2\n")
    assert main(["predict", "mine", *arguments]) == 0
    assert np.allclose(found(), model.predict(np.array([[1.0, 2, 3]])), atol=1e-6)


def test_places_in_arrays_are_ids_in_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arrays(small(size=60))) == 0
    model = load("mine")
    rows = np.ones((1, model.header.num_features))
    assert np.array_equal(model.predict(rows, [[1, np.int64(2)]]), model.predict(rows, [["1", "2"]]))
    with pytest.raises(UserError, match="list=999: expected ids of nodes"):
        model.predict(rows, [[999]])


def test_a_public_range_holds_for_new_nodes_and_is_on_the_card(old):
    table = pd.read_csv("nodes.csv", dtype=str, keep_default_na=False)
    table["a"] = [str(100 * float(value)) for value in table["a"]]
    table.to_csv("scaled.csv", index=False)
    arguments = ["fit", "--edges", "edges.csv", "--nodes", "scaled.csv", "--range", "a=0:150", "--epsilon", "4"]
    arguments += ["--classes", ",".join(NAMES)]
    assert main([*arguments, "--out", "mine"]) == 0
    model = load("mine")
    assert model.header.ranges == (("a", 0.0, 150.0),)
    assert main(["predict", "mine", *new("id,a,b,c\nx,75,0.5,0.5\n")]) == 0
    plain = model.header.model_copy(update={"ranges": ()})
    unscaled = type(model)(plain, model.weight, model.bias, model.buckets, model.row_sum)
    assert np.allclose(found(), unscaled.predict(np.array([[0.0, 0.5, 0.5]])), atol=1e-6)
    with open("mine/release/card.md") as file:
        assert "these ranges are public, and become -1..1: a 0..150 (--range)" in file.read()


def arrays(own, **others):
    np.savez("old.npz", edge_index=np.stack([own.source, own.target]), y=own.labels, x=own.features, **others)
    return ["fit", "--graph", "old.npz", "--epsilon", "4", "--seed", "1", "--classes", "0,1,2", "--out", "mine"]


@pytest.fixture
def of_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arrays(small(size=60))) == 0
    return ["predict", "mine", "--out", "found.csv", "--graph", "new.npz"]


X = np.array([[1.0, 0, 0], [0, 1, 0]])


def test_new_nodes_of_arrays_follow_the_old_ones(of_arrays):
    model = load("mine")
    np.savez("new.npz", x=X, edge_index=np.array([[60, 7, 60, 60], [3, 60, 59, 3]], dtype=np.uint64))
    assert main(of_arrays) == 0
    assert np.allclose(found(), model.predict(X, [["3", "59", "7"], []]), atol=1e-6)
    with open("read.csv", newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["id", "60", "61"]
    np.savez("new.npz", x=X, edge_index=np.zeros((2, 0)))  # nobody in the lists, which are read
    assert main(of_arrays) == 0
    assert np.allclose(found(), model.predict(X, [[], []]), atol=1e-6)
    np.savez("new.npz", x=X)  # no lists: own records alone
    assert main(of_arrays) == 0
    assert np.allclose(found(), model.predict(X), atol=1e-6)


def test_both_forms_of_new_nodes_give_the_same(of_arrays):
    np.savez("new.npz", x=X, edge_index=[[60, 61, 2], [0, 1, 61]])
    assert main(of_arrays) == 0
    first = found()
    text = "id,feature 0,feature 1,feature 2\nx,1,0,0\ny,0,1,0\n"
    assert main(["predict", "mine", *new(text, "new,old\nx,0\ny,1\n2,y\n")]) == 0
    assert np.array_equal(found(), first)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"x": X[:, :2]}, "new.npz: x of shape (2, 2), type float64: expected a row of 3 numbers for each new node"),
        ({"x": X[0]}, "x of shape (3,)"),
        ({"x": X[:0]}, "x of shape (0, 3)"),
        ({"x": X.astype(str)}, "x of shape (2, 3), type <U"),
        ({"x": X * np.nan}, "x, row 0: expected finite numbers"),
        ({"x": X * 1e300}, "features, row 0: expected finite numbers"),
        ({"edge_index": [[60], [0]]}, "no array x: expected rows of 3 numbers"),
        ({"x": X, "num_nodes": 2}, "num_nodes: expected none"),
        ({"x": X, "edge_indx": [[60], [0]]}, "array=edge_indx: expected one of x, edge_index, num_nodes"),
        ({"x": X, "edge_index": [60, 0]}, "edge_index of shape (2,)"),
        ({"x": X, "edge_index": [[60.5], [0]]}, "edge_index of shape (2, 1), type float64: expected integers (2, E)"),
        ({"x": X, "edge_index": [[60, 62], [0, 1]]}, "column 1: id=62: expected 0..61: 60 old nodes, then 2 new ones"),
        ({"x": X, "edge_index": [[60], [-1]]}, "column 0: id=-1: expected 0..61"),
        ({"x": X, "edge_index": [[60, 61], [0, 60]]}, "column 1: 61, 60: expected a new node (60..61) at one end"),
        ({"x": X, "edge_index": [[60, 4], [0, 5]]}, "column 1: 4, 5: expected a new node (60..61) at one end"),
        ({"x": np.array([[object()] * 3], dtype=object)}, "new.npz: expected a .npz file without pickles"),
    ],
)
def test_arrays_that_are_no_new_nodes_are_one_line(of_arrays, saved, message, capsys):
    np.savez("new.npz", **saved)
    assert main(of_arrays) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_one_source_of_new_nodes(of_arrays, capsys):
    np.savez("new.npz", x=X)
    new("id,feature 0,feature 1,feature 2\nx,1,0,0\n", "new,old\nx,1\n")
    for more, message in (
        (["--nodes", "new.csv"], "--graph, --nodes: expected one of them"),
        (["--edges", "new-edges.csv"], "--graph, --edges: expected one of them"),
        (["--id", "name"], "--graph, --id: expected one of them"),
    ):
        assert main([*of_arrays, *more]) == 2
        assert message in capsys.readouterr().err
    assert main(of_arrays[:-2]) == 2
    assert "expected new nodes: --nodes (CSV) or --graph (.npz)" in capsys.readouterr().err
    assert main([*of_arrays[:-1], "none.npz"]) == 2
    assert "none.npz: no such file: expected arrays x, edge_index, num_nodes" in capsys.readouterr().err


def test_arrays_with_a_model_of_a_directed_graph_or_without_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arrays(small(size=60), directed=True)) == 0
    header = load("mine").header
    np.savez("new.npz", x=X, edge_index=[[60], [5]])
    assert read_new_npz(header, "new.npz").lists == [["5"], []]
    np.savez("new.npz", x=X, edge_index=[[5], [60]])
    with pytest.raises(UserError, match=r"column 0: 5, 60: expected a new node \(60..61\) first"):
        read_new_npz(header, "new.npz")
    bare = header.model_copy(update={"degree_features": True, "directed": False})
    np.savez("new.npz", num_nodes=3, edge_index=[[60, 5], [5, 62]])
    assert read_new_npz(bare, "new.npz").lists == [["5"], [], ["5"]]
    assert read_new_npz(bare, "new.npz").features is None
    for saved, message in (
        ({"x": X, "edge_index": [[60], [0]]}, "x: expected none: the model was made without features"),
        ({"edge_index": [[60], [0]]}, "no array num_nodes"),
        ({"num_nodes": 2}, "no array edge_index"),
        ({"num_nodes": 0, "edge_index": [[60], [0]]}, "num_nodes=0: expected one integer in 1.."),
        ({"num_nodes": [2], "edge_index": [[60], [0]]}, "num_nodes="),
    ):
        np.savez("new.npz", **saved)
        with pytest.raises(UserError, match=message):
            read_new_npz(bare, "new.npz")


def test_names_of_old_nodes_are_no_numbers(old):
    np.savez("new.npz", x=X)
    with pytest.raises(UserError, match=r"--graph new.npz: nodes of this model have names, such as n0.* --nodes"):
        read_new_npz(fit(old, 4.0, seed=0).model.header, "new.npz")


@pytest.mark.parametrize("lists", ["12", ["12"], [12], [["1"], "12"]])
def test_lists_of_ids_are_no_texts(lists):
    model = fit(small(size=60), 4.0, seed=0).model
    with pytest.raises(UserError, match=r"^lists=.*: expected a list of ids for each node"):
        model.predict(np.ones((len(lists), 3)), lists)


@pytest.mark.parametrize("features", [[["a", 1, 2]], [[1, 2, float("nan")]], [[1, 2, float("inf")]], [[1, 2, 1e300]]])
def test_features_that_are_no_numbers_are_refused(features):
    model = fit(small(size=60), 4.0, seed=0).model
    with pytest.raises(UserError, match=r"^features(=|, row 0: expected finite numbers)"):
        model.predict(features)


def test_a_file_is_not_written_over(old, capsys):
    fit(old, 4.0, seed=0, out="mine")
    asked = new("id,a,b,c\nx,1,0,0\n")
    for out in ("new.csv", "mine/curator/checks.json"):
        before = Path(out).read_bytes()
        assert main(["predict", "mine", *asked[:-1], out]) == 2
        assert f"--out={out}: expected a file that does not exist yet" in capsys.readouterr().err
        assert Path(out).read_bytes() == before


def test_a_model_of_a_known_seed_says_what_it_is(old, capsys):
    fit(old, 4.0, seed=0, out="mine")
    fit(old, 4.0, out="private", audit=False)
    asked = new("id,a,b,c\nx,1,0,0\n")
    assert main(["predict", "mine", *asked]) == 0
    assert "not private: seed known: anyone who has the seed can take the noise off" in capsys.readouterr().err
    assert main(["predict", "private", *asked[:-1], "other.csv"]) == 0
    assert "seed" not in capsys.readouterr().err


def test_edges_that_are_not_read_are_named(old, capsys):
    fit(old, 4.0, seed=0, method="own", out="mine")
    fit(old, 4.0, seed=0, method="votes", out="votes")
    for model, said in (("mine", True), ("votes", False)):
        assert main(["predict", model, *new("id,a,b,c\nx,1,0,0\n", "new,old\nx,n1\n")[:-1], f"{model}.csv"]) == 0
        assert ("the lists of new nodes are not read" in capsys.readouterr().err) == said


def test_what_a_new_node_lacks_names_no_option_of_fit(old, capsys):
    fit(old, 4.0, seed=0, out="mine")
    assert main(["predict", "mine", *new("id,a,b,c\nx,1,,0\n")]) == 2
    said = capsys.readouterr().err
    assert "row 2, column b: : expected a finite number (fill it in by a public number)" in said
    assert "--ignore" not in said
