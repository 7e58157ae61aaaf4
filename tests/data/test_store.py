import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.adjacency import symmetric_csr, transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import DATA_DEPENDENT, data_dependent
from dpgraph.data.store import GraphHeader, load_graph, save_graph
from dpgraph.data.stored import read_header, save_unavailable

ARRAYS = ("out_ptr", "out_idx", "in_ptr", "in_idx", "features", "labels", "split")


def toy(edges=((0, 1), (1, 2)), nodes=4, symmetric=True):
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    ptr, idx = symmetric_csr(source, target, nodes)
    back = (ptr, idx) if symmetric else transpose(ptr, idx)
    return Graph(
        name="toy",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=back[0],
        in_idx=back[1],
        features=np.arange(nodes * 3, dtype=np.float32).reshape(nodes, 3),
        labels=np.arange(nodes, dtype=np.int64) - 1,
        split=np.array([0, 1, 2, 255][:nodes], dtype=np.uint8),
        num_classes=3,
        meta={"title": "Toy", "nested": {"a": [1, 2]}},
    )


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8), st.booleans())
def test_round_trip(tmp_path_factory, edges, symmetric):
    folder = tmp_path_factory.mktemp("graph")
    graph = toy(edges, symmetric=symmetric)
    save_graph(graph, folder)
    loaded = load_graph(folder)
    for name in ARRAYS:
        assert np.array_equal(getattr(loaded, name), getattr(graph, name))
        assert getattr(loaded, name).dtype == getattr(graph, name).dtype
        assert not getattr(loaded, name).flags.writeable
    assert (loaded.name, loaded.num_classes, loaded.meta) == (graph.name, graph.num_classes, graph.meta)
    assert (loaded.in_idx is loaded.out_idx) == symmetric
    assert (folder / "in_idx.npy").exists() == (not symmetric)


def test_memory_map_is_used(tmp_path):
    save_graph(toy(), tmp_path)
    mapped = load_graph(tmp_path).features
    assert isinstance(mapped, np.memmap)
    assert mapped.filename == tmp_path / "features.npy"


def test_status_carries_statistics(tmp_path):
    save_graph(toy(), tmp_path)
    status = read_header(tmp_path, GraphHeader)
    assert (status.name, status.status, status.reason) == ("toy", "ok", "")
    assert status.statistics["entries"] == 4


def test_unavailable(tmp_path):
    save_unavailable("toy", "data not available: a.bin", tmp_path)
    status = read_header(tmp_path, GraphHeader)
    assert (status.status, status.reason) == ("unavailable", "data not available: a.bin")
    with pytest.raises(DataUnavailable, match=r"^toy: data not available: a\.bin$"):
        load_graph(tmp_path)


@pytest.mark.parametrize("name", ["out_ptr", "out_idx", "features", "labels", "split"])
def test_truncated_array(tmp_path, name):
    save_graph(toy(), tmp_path)
    path = tmp_path / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match=rf"{name}\.npy: damaged; expected an array \[.*\] \w+ \(delete"):
        load_graph(tmp_path)


def test_a_flipped_bit_is_found_where_hashes_are_compared(tmp_path):
    save_graph(toy(), tmp_path)
    path = tmp_path / "features.npy"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    load_graph(tmp_path)
    with pytest.raises(UserError, match=r"features\.npy: damaged, sha256=\w+: expected \w+ \(delete graph\.json"):
        load_graph(tmp_path, verify=True)


def test_headers_of_different_graphs_differ(tmp_path):
    """What was trained on a graph is recognised by the header alone."""
    graph = toy()
    save_graph(graph, tmp_path / "a")
    save_graph(graph, tmp_path / "b")
    save_graph(replace(graph, features=graph.features + 1), tmp_path / "c")
    a, b, c = ((tmp_path / name / "graph.json").read_text() for name in "abc")
    assert a == b
    assert a != c


def test_array_of_another_graph(tmp_path):
    save_graph(toy(), tmp_path)
    np.save(tmp_path / "labels.npy", np.zeros(3, dtype=np.int64))
    with pytest.raises(UserError, match=r"labels\.npy: found an array \[3\] int64; expected \[4\] int64"):
        load_graph(tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(UserError, match=r"graph\.json: no such file"):
        load_graph(tmp_path)
    save_graph(toy(), tmp_path)
    (tmp_path / "features.npy").unlink()
    with pytest.raises(UserError, match=r"features\.npy: no such file"):
        load_graph(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"name": "x"})])
def test_damaged_header(tmp_path, text):
    (tmp_path / "graph.json").write_text(text)
    with pytest.raises(UserError, match=r"graph\.json: expected a data set's header"):
        load_graph(tmp_path)


def test_a_killed_save_leaves_no_header(tmp_path, monkeypatch):
    save_graph(toy(), tmp_path)
    monkeypatch.setattr(np, "save", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_graph(toy(nodes=3), tmp_path)
    assert not (tmp_path / "graph.json").exists()


@pytest.mark.parametrize(
    ("name", "array", "told"),
    [
        ("in_idx", [1, 0, 0, 1], "a list names a node twice or does not ascend: expected ascending ids, each once"),
        ("in_idx", [1, 2, 0, 1], "a list names a node twice or does not ascend: expected ascending ids, each once"),
        ("in_idx", [1, 0, 1, 1], r"node 1 is in its own list: expected no self-loops"),
        ("in_idx", [1, 0, 4, 1], r"does not fit the other arrays of this graph: ids 0\.\.4 instead of 0\.\.3"),
        ("in_idx", [1, 0, -1, 1], r"does not fit the other arrays of this graph: ids -1\.\.1 instead of 0\.\.3"),
        ("in_ptr", [0, 1, 3, 5, 4], "does not fit the other arrays of this graph"),
        ("in_ptr", [1, 1, 3, 4, 4], "does not fit the other arrays of this graph"),
        ("in_ptr", [0, 1, 3, 4], "does not fit the other arrays of this graph"),
        ("labels", [-1, 0, 1, 3], r"labels -1\.\.3: expected -1 \(none\)\.\.2"),
        ("labels", [-2, 0, 1, 2], r"labels -2\.\.2: expected -1 \(none\)\.\.2"),
        ("split", [0, 1, 3, 255], r"the split of node 2 is 3: expected one of \[0, 1, 2, 255\]"),
    ],
)
def test_what_a_graph_promises_is_checked(tmp_path, name, array, told):
    graph = toy(symmetric=False)
    changed = replace(graph, **{name: np.array(array, dtype=getattr(graph, name).dtype)})
    save_graph(changed, tmp_path)
    with pytest.raises(UserError, match=rf"/{name}\.npy: ({told}) \(delete graph\.json next to it and run again\)$"):
        load_graph(tmp_path)


def test_a_duplicate_in_the_one_list_of_a_symmetric_graph(tmp_path):
    graph = toy()
    idx = np.array([1, 0, 0, 1], dtype=np.int32)
    save_graph(replace(graph, out_idx=idx, in_idx=idx), tmp_path)
    assert not (tmp_path / "in_idx.npy").exists()
    with pytest.raises(UserError, match=r"out_idx\.npy: a list names a node twice"):
        load_graph(tmp_path)


@pytest.mark.parametrize("found", ["the split", [1], 5])
def test_what_no_epsilon_covers_goes_through_the_file(tmp_path, found):
    assert data_dependent(toy()) == ()
    save_graph(replace(toy(), meta={DATA_DEPENDENT: ["the vocabulary: counts", "the split: clusters"]}), tmp_path)
    assert data_dependent(load_graph(tmp_path)) == ("the vocabulary: counts", "the split: clusters")
    with pytest.raises(UserError, match=r"^toy: meta\.data_dependent=.*: expected a list of texts"):
        data_dependent(replace(toy(), meta={DATA_DEPENDENT: found}))
