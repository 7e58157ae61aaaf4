"""Files as other tools write them: the right graph, or one line with the way out. Each is a small graph, written here.

`RIGHT` are forms of one graph, which is read from each of them; `LINES` are those that nobody can be sure of.
"""

import bz2
import gzip
import json

import numpy as np
import pandas as pd
import pytest

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.own_graph.edge_tables import find_ids, without_decimals
from dpgraph.own_graph.graph import what_was_read
from dpgraph.own_graph.tables import read_csv_graph

IDS = list(range(11, 31))
LABELS = ["red", "", "blue", "blue", "red"] * 4
X, Y = [0.5 * (-1) ** place * place for place in range(20)], [7.25 - place**2 for place in range(20)]
ENDS = [(IDS[place], IDS[7 * place % 20]) for place in range(1, 20)]

PLAIN_NODES = pd.DataFrame({"id": IDS, "label": LABELS, "x": X, "y": Y}).astype(str)
PLAIN_EDGES = pd.DataFrame(ENDS, columns=["source", "target"]).astype(str)


def csv(frame, sep=",", **how):
    return frame.to_csv(sep=sep, index=how.pop("index", False), **how)


def nodes(**columns):
    """The table with columns added or replaced."""
    return csv(PLAIN_NODES.assign(**columns))


def edges(*names, **columns):
    """The list with these columns, some of them added."""
    frame = PLAIN_EDGES.assign(**columns)
    return csv(frame[[*names]] if names else frame)


def first(name, values, frame=PLAIN_EDGES):
    """The column in front, as row numbers and weights are."""
    return csv(pd.concat([pd.Series(values, name=name), frame], axis=1))


def parquet(frame, **how):
    def write(path):
        frame.to_parquet(path, **how)

    return write


NODES, EDGES = csv(PLAIN_NODES), csv(PLAIN_EDGES)
BARE = csv(PLAIN_EDGES, header=False)
BLANKS = BARE.replace(",", " ")
COUNT = [str(place) for place in range(19)]
WEIGHTS = [str(IDS[place]) for place in range(19)]  # which are ids, too
FLOATS = PLAIN_EDGES + ".0"
NUMBERS = PLAIN_EDGES.astype(int)
TYPED = PLAIN_NODES.astype({"id": int, "x": float, "y": float})

RIGHT = {
    "as it is": (NODES, EDGES),
    "tabs": (csv(PLAIN_NODES, "\t"), csv(PLAIN_EDGES, "\t")),
    "semicolons": (csv(PLAIN_NODES, ";"), csv(PLAIN_EDGES, ";")),
    "pipes": (csv(PLAIN_NODES, "|"), csv(PLAIN_EDGES, "|")),
    "a spreadsheet says its separator": ("sep=;\r\n" + csv(PLAIN_NODES, ";"), "sep=;\r\n" + csv(PLAIN_EDGES, ";")),
    "blanks": (NODES, EDGES.replace(",", "   ")),
    "a separator at each line's end": (NODES.replace("\n", ",\n"), EDGES.replace("\n", ",\n")),
    "quoted": (csv(PLAIN_NODES, quoting=1), csv(PLAIN_EDGES, quoting=1)),
    "CRLF and a mark of order": (b"\xef\xbb\xbf" + NODES.replace("\n", "\r\n").encode(), EDGES.replace("\n", "\r\n")),
    "gz": (gzip.compress(NODES.encode()), gzip.compress(EDGES.encode())),
    "bz2": (NODES, bz2.compress(EDGES.encode())),
    "comments of SNAP": (NODES, "# Undirected graph\n# Nodes: 20 Edges: 19\n# FromNodeId\tToNodeId\n" + BLANKS),
    "comments of KONECT": (NODES, "% sym unweighted\n% 19 20 20\n" + BLANKS),
    "weights and times of KONECT": (NODES, "% sym\n" + "".join(f"{u} {v} 11 1083\n" for u, v in ENDS)),
    "a header in a comment": (NODES, "#source,target\n" + BARE),
    "a comment before the header": ("\ufeff# made by hand\n" + NODES, "\ufeff# made by hand\n\n" + EDGES),
    "a comment among rows": (NODES, EDGES + "# end\n"),
    "no header": (NODES, BARE),
    "no header, and row numbers that are no ids": (NODES, csv(PLAIN_EDGES, index=True, header=False)),
    "no header, and times": (NODES, "".join(f"{u},{v},{1083000 + u}\n" for u, v in ENDS)),
    "an edge list of NetworkX": (NODES, "".join(f"{u} {v} {{}}\n" for u, v in ENDS)),
    "row numbers of pandas": (csv(PLAIN_NODES, index=True), csv(PLAIN_EDGES, index=True)),
    "row numbers of R": (first("", range(1, 21), PLAIN_NODES), first("", range(1, 20))),
    "row numbers with a name": (first("rowid", range(20), PLAIN_NODES), first("index", COUNT)),
    "a weight first": (NODES, first("weight", WEIGHTS)),
    "weights last, of any name": (NODES, csv(PLAIN_EDGES.set_axis(["a", "b"], axis=1).assign(w="0.5"))),
    "the target first": (NODES, edges("target", "source")),
    "Gephi": (csv(PLAIN_NODES.rename(columns={"id": "Id"})),
              csv(PLAIN_EDGES.rename(columns=str.title).assign(Type="Undirected", Id=COUNT, Label="", Weight="1.0"))),
    "igraph": (NODES, first("weight", WEIGHTS, PLAIN_EDGES.set_axis(["from", "to"], axis=1))),
    "SNAP's names": (NODES, first("n", WEIGHTS, PLAIN_EDGES.set_axis(["FromNodeId", "ToNodeId"], axis=1))),
    "other usual names": (NODES, first("w", WEIGHTS, PLAIN_EDGES.set_axis(["node_1", "node_2"], axis=1))),
    "ids by another usual name": (csv(PLAIN_NODES.rename(columns={"id": "node_id"})), EDGES),
    "ids are floats in the edges": (NODES, csv(FLOATS)),
    "ids are floats in the nodes": (nodes(id=PLAIN_NODES["id"] + ".0"), EDGES),
    "ids as NumPy writes them": (NODES, "".join(f"{u:.18e} {v:.18e}\n" for u, v in ENDS)),
    "empty rows of a spreadsheet": (NODES + ",,,\n,,,\n", EDGES + ",\n"),
    "ids are floats, without a header": (NODES, csv(FLOATS, header=False)),
    "labels of nan": (nodes(label=PLAIN_NODES["label"].replace("", "nan")), EDGES),
    **{f"labels of {text}": (nodes(label=PLAIN_NODES["label"].replace("", text)), EDGES)
       for text in ("NA", "None", "NULL", "?", "-", "-1", "N/A", "<NA>", "#N/A", "\\N")},
    "Parquet": (parquet(TYPED, index=False), parquet(NUMBERS, index=False)),
    "Parquet with an index": (parquet(TYPED.set_index("id")), parquet(NUMBERS.set_index(np.arange(19)[::-1]))),
    "Parquet of floats": (parquet(TYPED.astype({"id": float})), parquet(NUMBERS.astype(float))),
}  # fmt: skip


def read(folder, of_nodes, of_edges, **options):
    for path, content in ((folder / "nodes.csv", of_nodes), (folder / "edges.csv", of_edges)):
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_csv_graph(folder / "edges.csv", folder / "nodes.csv", **options)


def same(own):
    """Nothing is lost, added or moved."""
    assert [int(float(one)) for one in own.ids] == IDS
    assert list(zip(own.source.tolist(), own.target.tolist())) == [(u - 11, v - 11) for u, v in ENDS]
    assert own.columns == ("x", "y")
    assert np.array_equal(own.features, np.array([X, Y], dtype=np.float32).T)
    assert own.classes == ("blue", "red")
    assert [own.classes[one] if one >= 0 else "" for one in own.labels.tolist()] == LABELS
    assert own.split is None


@pytest.mark.parametrize("form", RIGHT)
def test_a_graph_is_the_same_in_every_form(form, tmp_path):
    own = read(tmp_path, *RIGHT[form])
    same(own)
    assert len(what_was_read(own)) == 5


def test_names_in_a_comment_decide(tmp_path):
    same(read(tmp_path, NODES, "# w FromNodeId ToNodeId\n" + "".join(f"12 {u} {v}\n" for u, v in ENDS)))


LINES = {
    # edges
    "a header that is partly ids": (NODES, "11,target\n" + BARE, ["edges.csv", "names of columns?", "source,target"]),
    "names that are ids": (nodes(id=["source", *IDS[1:]]), EDGES, ["an edge or the names of columns?"]),
    "row numbers, no header": (nodes(id=range(20)), csv(NUMBERS - 11, index=True, header=False), ["--source and"]),
    "weights that are ids, no header": (NODES, csv(PLAIN_EDGES.assign(w="12"), header=False), ["--source and"]),
    "row numbers, and other names": (NODES, first("", COUNT, PLAIN_EDGES.set_axis(["a", "b"], axis=1).assign(w=12)),
                                     ["columns Unnamed: 0, a, b", "--source and --target"]),
    "a first edge of unknown ids": (nodes(id=[f"n{place}" for place in IDS]), "n99,n98\nn12,n13\n", ["row 1", "n99"]),
    "a wrong end beside weights that are ids": (NODES, csv(PLAIN_EDGES.assign(w="12"), header=False) + "12,99,12\n",
                                                ["--source and --target"]),
    "weights first, and other names": (NODES, first("w", WEIGHTS, PLAIN_EDGES.set_axis(["a", "b"], axis=1)),
                                       ["columns w, a, b", "--source and --target"]),
    "two pairs of names": (NODES, edges(**{"from": PLAIN_EDGES["target"], "to": PLAIN_EDGES["source"]}),
                           ["source, target, from, to", "--source and --target"]),
    "row numbers and one end": (NODES, first("", COUNT, PLAIN_EDGES[["target"]]), ["Unnamed: 0", "--source"]),
    "leading zeros": (NODES, csv(PLAIN_EDGES.replace("12", "00012")), ["00012", "which has 12", "same form"]),
    "a float among texts": (nodes(id=["n", *IDS[1:]]), "source,target\nn,12.0\n13,n\n", ["12.0", "which has 12"]),
    "a float that is not exact": (nodes(id=["12345678901234568", *IDS[1:]]), EDGES + "12345678901234568.0,12\n",
                                  ["12345678901234568.0", "expected an id of"]),
    "no second end": (NODES, EDGES + "12,\n", ["row 21, column target", "expected an id of"]),
    "rows of names of R": (NODES, "source target\n" + "".join(f"{i} {u} {v}\n" for i, (u, v) in enumerate(ENDS)),
                           ["edges.csv, row 2: 3 cells: expected 2", "no names of rows"]),
    "an adjacency list": (NODES, "# a\n\n11 12 13\n12 13\n13 14 15 16\n", ["edges.csv, row 5: 4 cells", "expected 3"]),
    "GraphML": (NODES, "<?xml version='1.0'?><graphml/>", ["XML"]),
    "JSON": (NODES, '{"edges": [[11, 12]]}', ["JSON"]),
    "Matrix Market": (NODES, "%%MatrixMarket matrix coordinate pattern general\n" + BLANKS, ["SciPy"]),
    "how many there are": (nodes(id=range(1, 21)), "20 19\n" + csv(NUMBERS - 10, " ", header=False), ["how many"]),
    "all pairs of nodes": (NODES, edges(weight=["1"] * 18 + ["0"]), ["row 20, column weight: 0: an edge or none?"]),
    "all pairs, true or not": (NODES, edges(adj=["True"] * 18 + ["False"]), ["row 20, column adj: 0: an edge or"]),
    "a quote that takes rows in": (NODES, csv(PLAIN_EDGES.assign(note=[*"abcdefgh", '"Bo', *"abcd", 'Al"', *"abcde"]),
                                              "\t", quoting=3), ["Bo", "a quote that opens a cell", "leave it out"]),
    "hashtags without a header": (NODES, "#a,#b\n#b,#c\n", ["each row begins with #", "source,target"]),
    "Feather": (NODES, b"ARROW1\0\0", ["Feather: save it"]),
    "a pickle": (b"\x80\x04\x95", EDGES, ["a pickle: save it"]),
    "a workbook": (b"PK\x03\x04", EDGES, ["save the sheet as CSV"]),
    "UTF-16": (NODES.encode("utf-16"), EDGES, ["UTF-16"]),
    "a row after a comment": (NODES, "# nothing\n" + EDGES + "99,12\n", ["row 22", "99"]),
    # nodes
    "no header of nodes": (csv(PLAIN_NODES, header=False), EDGES, ["no names of columns in the first row", "id,label"]),
    "no nodes": ("id,label,x\n", EDGES, ["nodes.csv: no row"]),
    "zeros in front of floats": (NODES, csv(FLOATS.replace("12.0", "0012.0")), ["expected an id of"]),
    "no column of ids": (csv(PLAIN_NODES.rename(columns={"id": "customer"})), EDGES, ["no column id (--id): it has"]),
    "ids without a name": (first("", IDS, PLAIN_NODES[["label", "x", "y"]].set_axis(["label", "0", "1"], axis=1)),
                           EDGES, ["no column id (--id): it has Unnamed: 0, label, 0, 1"]),
    "labels as a one-hot code": (csv(pd.get_dummies(PLAIN_NODES, columns=["label"])), EDGES, ["no column label"]),
    "row numbers out of order": (csv(PLAIN_NODES.sample(frac=1, random_state=0), index=True), EDGES,
                                 ["column Unnamed: 0 is no feature", "--ignore", "--range"]),
    "row numbers by another name": (nodes(fid=range(1, 21)), EDGES, ["column fid", "numbers the rows", "--ignore"]),
    "a second column of ids": (nodes(customer_id=7), EDGES, ["customer_id is no feature", "--ignore"]),
    "masks": (nodes(train_mask="True"), EDGES, ["train_mask is a mask", "one column split"]),
    "a missing feature": (nodes(x=["", *X[1:]]), EDGES, ["row 2, column x", "expected a finite number", "--ignore"]),
    "a decimal comma": (nodes(x=["0,5", *X[1:]]), EDGES, ["0,5", "a point for decimals"]),
    "thousands": (nodes(x=["1,000.5", *X[1:]]), EDGES, ["1,000.5", "no commas"]),
    "lists in cells": (parquet(TYPED.assign(e=[[1.0, 2.0]] * 20)), EDGES, ["column e", "a list in a cell", "--ignore"]),
    "one id in two forms": (nodes(id=["12.0", *IDS[1:]]), EDGES, ["row 3: id=12 again"]),
    # labels
    "labels of two cases": (nodes(label=["RED", *LABELS[1:]]), EDGES, ["RED and red", "--classes"]),
    "labels with a space within": (nodes(label=["r ed", *LABELS[1:]]), EDGES, ["r ed and red", "--classes"]),
    "labels with leading zeros": (nodes(label=["01", "1"] * 10), EDGES, ["01 and 1", "--classes"]),
    "numbers as labels": (nodes(label=[f"{place / 7:.3f}" for place in range(20)]), EDGES, ["decimals", "--label"]),
    "signs as labels": (nodes(label=["-1", "1"] * 10), EDGES, ["classes=1: expected at", "-1 mean none", "--cl"]),
    **{f"labels that may be none: {text}": (nodes(label=PLAIN_NODES["label"].replace("", text)), EDGES,
                                            [f"label={text}: a class, or none?", "--classes", f"--missing='{text}'"])
       for text in ("unknown", "-999", "n.a.")},
    "names as labels": (csv(pd.DataFrame({"id": range(11, 51), "label": range(40), "x": 2.5})), EDGES,
                        ["40 distinct labels of 40 nodes", "--label"]),
}  # fmt: skip


@pytest.mark.parametrize("form", LINES)
def test_what_is_not_sure_is_one_line_with_the_way_out(form, tmp_path):
    of_nodes, of_edges, words = LINES[form]
    with pytest.raises(UserError) as caught:
        read(tmp_path, of_nodes, of_edges)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("of_nodes", "of_edges", "options"),
    [
        (NODES, csv(PLAIN_EDGES.set_axis(["a", "b"], axis=1).assign(w="12")), {"source": "a", "target": "b"}),
        (NODES, csv(PLAIN_EDGES, index=True, header=False), {"source": "column 2", "target": "column 3"}),
        (NODES, edges(**{"from": "12", "to": "13"}), {"source": "source", "target": "target"}),
        (first("", IDS, PLAIN_NODES[["label", "x", "y"]]), EDGES, {"id_column": "Unnamed: 0"}),
        (nodes(fid=range(1, 21), train_mask="no"), EDGES, {"ignored": ["fid", "train_mask"]}),
        (csv(PLAIN_NODES.rename(columns={"id": "customer"})), EDGES, {"id_column": "customer"}),
        (nodes(label=PLAIN_NODES["label"].replace("", "0")), EDGES, {"missing": ["0"]}),
        (nodes(label=PLAIN_NODES["label"].replace("", "unknown")), EDGES, {"missing": ["unknown"]}),
        (NODES, edges(w="0"), {"source": "source", "target": "target"}),
    ],
)
def test_the_way_out_is_one(of_nodes, of_edges, options, tmp_path):
    same(read(tmp_path, of_nodes, of_edges, **options))


@pytest.mark.parametrize("name", ["fid", "customer_id"])
def test_a_column_that_has_a_public_range_is_a_feature(name, tmp_path):
    assert read(tmp_path, nodes(**{name: range(1, 21)}), EDGES, kept=[name]).columns == ("x", "y", name)


def test_classes_that_are_stated_are_classes(tmp_path):
    stated = ["RED", "red", "blue", "NA"]
    own = read(tmp_path, nodes(label=["RED", "NA", "nan", *LABELS[3:]]), EDGES, classes=stated)
    assert own.classes == tuple(stated)
    assert own.labels.tolist()[:5] == [0, 3, -1, 2, 1]
    own = read(tmp_path, nodes(label=["1.0", "0", "1", "", "0.0"] * 4), EDGES, classes=["0.0", "1.0"])
    assert own.labels.tolist()[:5] == [1, 0, 1, -1, 0]
    with pytest.raises(UserError, match=r"row 2: label=Red: expected one of --classes, \['RED', .*; did you mean red"):
        read(tmp_path, nodes(label=["Red", *LABELS[1:]]), EDGES, classes=stated)


def test_yes_and_no_are_one_and_zero(tmp_path):
    for yes, no in (("True", "False"), ("yes", "no"), ("TRUE", "FALSE")):
        own = read(tmp_path, nodes(x=[yes, no] * 10), EDGES)
        assert own.features[:, 0].tolist() == [1, 0] * 10
    own = read(tmp_path, parquet(TYPED.assign(x=[True, False] * 10)), EDGES)
    assert own.features[:, 0].tolist() == [1, 0] * 10


def test_ids_are_texts(tmp_path):
    """Numbers of 17 digits that are one as floats, and zeros in front."""
    names = ["10000000000000001", "10000000000000002", "007", "7"]
    table = pd.DataFrame({"id": names, "label": list("abab"), "x": [0.5, 1.5, 3.0, 7.0]})
    own = read(tmp_path, csv(table), "source,target\n10000000000000002,007\n7,10000000000000001\n")
    found = {(own.ids[u], own.ids[v]) for u, v in zip(own.source.tolist(), own.target.tolist())}
    assert found == {("10000000000000002", "007"), ("7", "10000000000000001")}


def test_an_edge_says_nothing_of_the_nodes_of_another(tmp_path):
    """A node 1, a node 1.0 and one whose id is no number: with 7.0 among the ends, 1.0 stays 1.0."""
    ids = ["1", "1.0", "x", "7"]
    assert find_ids(["1.0", "1", "x"], ids).tolist() == [1, 0, 2]
    assert find_ids(["1.0", "1", "7.0"], ids).tolist() == [1, 0, -1]
    whole = [str(one) for one in range(10)]
    for more in ([], ["3.0"], ["a"], ["1.5"]):
        assert find_ids(["1.0", "1", *more], whole).tolist()[:2] == [1, 1]
    table = pd.DataFrame({"id": ids, "label": list("abab"), "x": [0.5, 1.5, 3.0, 7.0]})
    with pytest.raises(UserError, match=r"row 3, column target: 7\.0: expected an id of .*, which has 7: expected the"):
        read(tmp_path, csv(table), "source,target\n1,1.0\n7,7.0\n")


def test_an_end_that_is_missing_is_like_no_id(tmp_path):
    table = pd.DataFrame({"id": ["0", "1", "2", "3"], "label": list("abab"), "x": [0.5, 1.5, 3.0, 7.0]})
    with pytest.raises(UserError) as caught:
        read(tmp_path, csv(table), "source,target\n1,2\n3,\n")
    assert str(caught.value).endswith("expected an id of " + str(tmp_path / "nodes.csv"))


def test_floats_that_are_not_exact_stay_texts():
    assert without_decimals(["12.0", "", "1.30e+01", "-4"]) == ["12", "", "13", "-4"]
    for other in (["1.2345678901234568e+16"], ["007.0"], ["1.5"], ["12.0", "n"], ["1.25e+01"]):
        assert without_decimals(other) == other


def test_what_was_read_is_said(tmp_path):
    rows = EDGES + "12,11\n11,12\n11,12\n13,13\n"
    frame = pd.read_csv(pd.io.common.StringIO(rows)).assign(weight=1, Type="Directed")
    split = ["train", "test"] * 10
    own = read(tmp_path, csv(PLAIN_NODES.assign(label=["NA", *LABELS[1:]], split=split, note="text"), index=True),
               "# by hand\n" + csv(frame, "\t"), ignored=["note"])  # fmt: skip
    lines = what_was_read(own)
    assert lines[0] == (
        "edges.csv: tabs between cells, 1 comments left out; ends: source, target; not read: weight, Type "
        "(type is Directed: --directed says how edges are read)"
    )
    assert lines[1] == (
        "nodes.csv: commas between cells; id: id; label: label; split: split; not read: note (--ignore), Unnamed: 0 "
        "(row numbers)"
    )
    kept = {tuple(sorted(pair)) for pair in [*ENDS, (11, 12)] if pair[0] != pair[1]}
    given = [pair for pair in [*ENDS, (12, 11), (11, 12), (11, 12)] if pair[0] != pair[1]]
    loops, twice = 23 - len(given), len(given) - len(set(given))
    assert lines[2] == (
        f"20 nodes; {len(kept)} undirected edges of 23 given (left out: {loops} self-loops, {twice} duplicates, "
        f"{len(set(given)) - len(kept)} the other direction of an edge); 2 features: x, y"
    )
    assert lines[3] == "2 classes: blue 8, red 7; 5 nodes without a label (1 as NA)"
    assert lines[4] == "held out by the split that was given: train 10, val 0, test 10"


def test_it_is_on_the_screen_and_in_no_file_for_others(tmp_path, capsys):
    size = 60
    table = pd.DataFrame(
        {"id": range(size), "label": ["a", "b", "N/A"] * 20, "x": np.linspace(-1, 1, size) ** 3, "z": 0.5}
    )
    table["z"] = 0.5
    ends = pd.DataFrame({"source": range(size - 1), "target": range(1, size)})
    for name, frame in (("nodes", table), ("edges", ends.assign(weight=2))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    data = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--epsilon", "4"]
    assert main(["fit", *data, "--classes", "a,b", "--no-audit", "--out", str(tmp_path / "mine")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("read: ") for line in lines[:6]] == [True] * 5 + [False]
    assert "not read: weight" in lines[0]
    assert "20 as N/A" in lines[3]
    for path in (tmp_path / "mine/release").iterdir():
        assert not any(word in path.read_bytes() for word in (b"N/A", b"not read", b"weight:"))
    assert main(["compare", *data, "--methods", "own", "--seeds", "1"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("read: ")]
    assert len(said) == 5
    assert said[-1] == "read: held out: 20% of the nodes, drawn anew for each seed"


def test_numbers_as_labels_leave_nothing_behind(tmp_path, capsys):
    (tmp_path / "nodes.csv").write_text(nodes(label=[f"{place / 7:.3f}" for place in range(20)], y="0.5", x="-0.5"))
    (tmp_path / "edges.csv").write_text(EDGES)
    asked = ["fit", "--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--epsilon", "4"]
    assert main([*asked, "--out", str(tmp_path / "mine")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "a number with decimals" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_options_name_columns_and_missing_labels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = PLAIN_NODES.replace({"label": {"": "0"}}).rename(columns={"id": "customer"})
    (tmp_path / "nodes.csv").write_text(csv(table))
    (tmp_path / "edges.csv").write_text(csv(PLAIN_EDGES.set_axis(["a", "b"], axis=1).assign(w="12")))
    asked = "fit --edges edges.csv --nodes nodes.csv --seed 1 --epsilon 9 --classes blue,red --range y=as-is"
    named = "--source a --target b --id customer --missing 0"
    assert main([*asked.split(), *named.split(), "--range", "x=-9:9", "--out", "mine"]) == 0
    assert "4 nodes without a label (4 as 0)" in capsys.readouterr().out
    (tmp_path / "new.csv").write_text("customer,x,y\n51,1,2\n")
    (tmp_path / "new-edges.csv").write_text("w,a,b\n12,51,13\n")
    new = "predict mine --nodes new.csv --edges new-edges.csv --id customer --source a --target b --out found.csv"
    assert main(new.split()) == 0
    np.savez("g.npz", edge_index=np.array([[0, 1], [1, 2]]), y=np.array([0, 1, 1]))
    for option in named.replace(" --", ",--").split(","):
        assert main(["fit", "--graph", "g.npz", "--epsilon", "9", *option.split(), "--out", "no"]) == 2
        assert f"{option.split()[0]}: expected --edges and --nodes with it" in capsys.readouterr().err


def test_edges_of_new_nodes_are_read_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    asked = "fit --edges edges.csv --nodes nodes.csv --classes blue,red --seed 1 --epsilon 9 --out mine"
    assert main([*asked.split(), "--range", "x=-10:10", "--range", "y=-400:400"]) == 0
    found = []
    for place, (of_nodes, of_edges) in enumerate((
        ("id,x,y\n51,1,2\n52,3,4\n", "source,target\n51,12\n51,13\n14,52\n"),
        ("node\tx\ty\n51.0\t1\t2\n52.0\t3\t4\n", "51 12\n51 13\n14 52\n"),
        ("id,x,y\n51,1,2\n52,3,4\n", "weight,to,from\n5,12,51\n5,13,51\n5,52,14\n"),
    )):  # fmt: skip
        (tmp_path / "new.csv").write_text(of_nodes)
        (tmp_path / "new-edges.csv").write_text(of_edges)
        out = f"found-{place}.csv"
        assert main(["predict", "mine", "--nodes", "new.csv", "--edges", "new-edges.csv", "--out", out]) == 0
        found.append(pd.read_csv(out).iloc[:, 2:].to_numpy())
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    checks = json.loads((tmp_path / "mine/curator/checks.json").read_text())
    assert checks["largest_shares_of_norm"].keys() == {"x", "y"}


def test_columns_by_number_and_ids_without_a_name(tmp_path):
    """As `DataFrame(x, ids).to_csv()` writes them."""
    table = pd.DataFrame(np.array([X, Y]).T, index=IDS).assign(label=LABELS)
    own = read(tmp_path, table.to_csv(), EDGES, id_column="Unnamed: 0")
    assert own.columns == ("0", "1")
    assert [int(one) for one in own.ids] == IDS


def test_notes_of_several_lines_are_cells(tmp_path):
    same(read(tmp_path, NODES, edges(note=["two\nlines", 'a "quote", a\ncomma'] + ["plain"] * 17)))


def test_a_folder_is_called_one(tmp_path):
    with pytest.raises(UserError, match="a folder: expected a table"):
        read_csv_graph(tmp_path, tmp_path)
