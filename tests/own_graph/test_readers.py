"""CSV and .npz files: a defect is one line with its place. Damaged by the thousand: tests/fuzz/test_own_graphs.py."""

import tempfile
from pathlib import Path

import networkx
import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.own_graph.arrays import read_npz
from dpgraph.own_graph.objects import own_graph
from dpgraph.own_graph.scales import ranges_of, with_ranges
from dpgraph.own_graph.tables import read_csv_graph

NODES = "id,label,x,split\n" + "".join(f"v{i},{'ab'[i % 2]},{i}.5,{'train' if i % 3 else 'test'}\n" for i in range(8))
EDGES = "source,target\nv0,v1\nv1,v2\nv2,v2\nv0,v1\n"


def read(nodes, edges, **options):
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "edges.csv", Path(folder) / "nodes.csv"
        for path, text in zip(paths, (edges, nodes)):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_csv_graph(*paths, **options)


def test_a_whole_file_is_read():
    own = read(NODES, EDGES)
    assert own.classes == ("a", "b")
    assert own.columns == ("x",)
    assert own.features[3, 0] == 3.5
    graph = own.graph()
    assert graph.num_edges == 4  # two edges, both ways: the loop and the repetition are left out
    assert read(NODES, EDGES, directed=True).graph().num_edges == 2


@pytest.mark.parametrize(
    ("nodes", "edges", "named"),
    [
        (NODES.replace("v3", "v2"), EDGES, "nodes.csv, row 5: id=v2 again"),
        (NODES, EDGES + "v9,v1\n", "edges.csv, row 6, column source: v9: expected an id of"),
        (NODES.replace("3.5", "many"), EDGES, "nodes.csv, row 5, column x: many: expected a finite number"),
        (NODES.replace("3.5", "1e999"), EDGES, "nodes.csv, row 5, column x"),
        (NODES.replace("test", "tset", 1), EDGES, "nodes.csv, row 2: split=tset: expected one of train, val, test"),
        (NODES.replace("label", "lable", 1), EDGES, "did you mean lable"),
        (NODES, "source\nv1\n", "expected two"),
        (NODES, "source,target\nv0,v1,v2\n", "edges.csv, row 2: 3 cells: expected 2"),
        (NODES, "source,target\nv0\n", "edges.csv, row 2: too few cells: expected 2"),
        (NODES, "", "edges.csv: expected a CSV file"),
        (NODES.replace("v3,", ",", 1), EDGES, "row 5: no id"),
    ],
)
def test_a_defect_is_named_with_its_place(nodes, edges, named):
    with pytest.raises(UserError) as caught:
        read(nodes, edges)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_public_ranges_become_one_scale():
    own = with_ranges(read(NODES, EDGES), ranges_of(["x=0.5:4.5"]))
    assert np.allclose(own.features[:, 0], [-1, -0.5, 0, 0.5, 1, 1, 1, 1])
    for text in ("x=3:3", "x=1:0", "x=0:inf", "x=a:b", "x"):
        with pytest.raises(UserError, match=r"COLUMN=LOW:HIGH[^;]*$"):
            with_ranges(own, ranges_of([text]))
    with pytest.raises(UserError, match=r"--range=z=0:1: expected a column of .*\bx\b"):
        with_ranges(own, ranges_of(["z=0:1"]))


def test_classes_that_are_not_listed_are_refused():
    with pytest.raises(UserError, match="row 3: label=b: expected one of --classes"):
        read(NODES, EDGES, classes=["a", "c"])


def test_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "g.npz", edge_index=np.array([[{}], [{}]], dtype=object), y=np.arange(4))
    with pytest.raises(UserError, match="without pickles"):
        read_npz(tmp_path / "g.npz")


def test_the_order_of_the_rows_is_not_published():
    """A table that is sorted by label would publish the labels: a release lists the ids in its order."""
    head, *rows = [*NODES.splitlines(), "v10,a,0,train", "v9,b,1,val"]
    one = read("\n".join([head, *rows]), EDGES)
    two = read("\n".join([head, *sorted(rows, key=lambda row: (row.split(",")[1], row[::-1]))]), EDGES)
    assert one.ids == two.ids == (*(f"v{i}" for i in range(8)), "v9", "v10")
    for name in ("source", "target", "features", "labels", "split"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    graph = networkx.Graph()
    graph.add_nodes_from((f"v{i}", {"label": "ab"[i % 2]}) for i in (7, 1, 3, 0, 2))
    graph.add_edges_from([("v7", "v1"), ("v3", "v0")])
    own = own_graph(graph, split=["test", "train", "train", "val", "train"])
    assert own.ids == ("v0", "v1", "v2", "v3", "v7")
    assert own.labels.tolist() == [0, 1, 0, 1, 1]
    assert own.split.tolist() == [VALIDATION, TRAIN, TRAIN, TRAIN, TEST]
    ends = np.sort([own.source, own.target], axis=0)
    assert {tuple(one) for one in ends.T.tolist()} == {(1, 4), (0, 3)}
