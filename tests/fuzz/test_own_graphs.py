"""The readers of `fit`, `predict` and `load`: small good files, damaged. One line, or a value that can be used.

What is read runs in this process. With DPGRAPH_FUZZ_ALL there are 10^4 cases and more; each test says how many it has
else, since the default run has seconds for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dpgraph.cli import main
from dpgraph.data.graph import Graph
from dpgraph.own_graph.arrays import from_arrays, read_npz
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.graph import what_was_read
from dpgraph.own_graph.model import HEADER, PARAMETERS, SavedModel, load
from dpgraph.own_graph.new_nodes import read_new_npz
from dpgraph.own_graph.scales import ranges_of, with_ranges
from dpgraph.own_graph.tables import read_csv_graph
from tests.fuzz.harness import SEEDS, files_in, fuzzed, told
from tests.fuzz.strategies import JSON_NASTY, damaged, mangled
from tests.fuzz.test_readers import npy, wrong_array, zipped

NODES = "id,label,a,b,split\n" + "".join(
    f"v{i},{'' if i == 3 else 'kl'[i % 2]},{i}.5,-{i}e-1,{'test' if i % 4 == 1 else 'train'}\n" for i in range(9)
)
EDGES = "source,target\n" + "".join(f"v{i},v{(3 * i + 1) % 9}\n" for i in range(9)) + "v2,v2\nv0,v1\n"
CELLS = (
    *(
        ",",
        "\n",
        "\r",
        '"',
        "'",
        ";",
        "\t",
        "\x00",
        "\u202e",
        "\ufeff",
        " ",
        "\ud83d\ude00",
        "é",
        "x" * 300,
        "9" * 5000,
    ),
    *("nan", "inf", "1e999", "-1", "0x1", "1_000", "1,5", "v1", "v99", "k", "train", "TEST", "id", "label"),
)
NPZ: dict[str, np.ndarray] = {
    "edge_index": np.array([[0, 1, 2, 5], [1, 2, 2, 0]]), "y": np.arange(6) % 2, "x": np.eye(6, 3),
    "split": np.array(["train", "val", "test"] * 2), "directed": np.array(False),
}  # fmt: skip


def spoilt(text: str, random: Random) -> bytes:
    """Bytes cut and flipped, or cells, columns and lines that are something else."""
    if random.random() < 0.4:
        return damaged(text.encode(), random)
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(random.randint(1, 3)):
        row = random.randrange(len(rows))
        column = random.randrange(len(rows[row])) if rows[row] else 0
        what = random.randrange(7)
        if what <= 2 and rows[row]:
            rows[row][column] = random.choice(CELLS) + (rows[row][column] if random.random() < 0.3 else "")
        elif what == 3:
            rows.insert(row, list(random.choice(rows)))
        elif what == 4 and len(rows) > 1:
            del rows[row]
        elif what == 5:
            rows[row] += [random.choice(CELLS)] * random.randint(1, 3)
        else:
            rows = [line[:column] + line[column + 1 :] for line in rows]
    return random.choice(("\n", "\r\n", "\r")).join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


def sound(graph: Graph) -> None:
    size = len(graph.labels)
    assert graph.out_ptr[-1] == len(graph.out_idx)
    assert not len(graph.out_idx) or 0 <= graph.out_idx.min() <= graph.out_idx.max() < size
    assert np.isfinite(graph.features).all()
    assert graph.labels.max() < graph.num_classes


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


def options_of(random: Random) -> dict[str, Any]:
    """Mostly none: what is asked for may be wrong, too."""
    found: dict[str, Any] = {}
    if random.random() < 0.2:
        found["classes"] = random.choice((["k", "l"], ["l", "k", "m"], ["k"], ["k", "k"], [], ["", "k"]))
    if random.random() < 0.1:
        found["ranges"] = [random.choice(("a=0:9", "a=9:0", "z=0:1", "a=", "=", "a=nan:1", "a=-inf:inf", "a=0:1e-320"))]
    if random.random() < 0.1:
        found["split_column"] = random.choice(("split", "label", "spilt", ""))
    if random.random() < 0.1:
        found["ignored"] = [random.choice(("a", "b", "id", "c", ""))]
    if random.random() < 0.1:
        found["label_column"] = random.choice(("label", "id", "a", ""))
    return {**found, "directed": random.random() < 0.3}


def read(folder: Path, nodes: bytes, edges: bytes, **options: Any) -> str | None:
    (folder / "nodes.csv").write_bytes(nodes)
    (folder / "edges.csv").write_bytes(edges)
    before = files_in(folder)

    def scaled() -> None:
        ranges = ranges_of(options.pop("ranges", ()))
        own = with_ranges(read_csv_graph(folder / "edges.csv", folder / "nodes.csv", kept=ranges, **options), ranges)
        assert len(what_was_read(own)) == 5
        sound(own.graph())

    line = told(scaled)
    assert files_in(folder) == before
    return line


@fuzzed(2600, light=160, seed=SEEDS)
def test_tables_of_nodes(place, seed):
    random = Random(seed)
    line = read(place, spoilt(NODES, random), EDGES.encode(), **options_of(random))
    assert line is None or ".csv" in line or line.startswith("--"), line  # the file, or the option


@fuzzed(1400, light=80, seed=SEEDS)
def test_lists_of_edges(place, seed):
    random = Random(seed)
    line = read(place, NODES.encode(), spoilt(EDGES, random), directed=random.random() < 0.5)
    assert line is None or "edges.csv" in line, line


@fuzzed(900, light=80, seed=SEEDS)
def test_archives_cut_and_flipped(place, seed):
    random = Random(seed)
    (place / "g.npz").write_bytes(damaged(zipped(**NPZ), random))
    told(lambda: sound(read_npz(place / "g.npz").graph()))


@fuzzed(1700, light=120, seed=SEEDS)
def test_archives_of_wrong_arrays(place, seed):
    random = Random(seed)
    arrays = dict(NPZ)
    for _ in range(random.randint(1, 2)):
        name = random.choice(sorted(NPZ))
        source = NPZ[random.choice(sorted(NPZ))]
        arrays[name] = wrong_array(source, random) if random.random() < 0.8 else source
    if random.random() < 0.2:
        del arrays[random.choice(sorted(arrays))]
    if random.random() < 0.1:
        arrays[random.choice(("z", "X", "edge_indx"))] = np.zeros(3)
    (place / "a.npz").write_bytes(zipped(**arrays))
    line = told(lambda: sound(read_npz(place / "a.npz").graph()))
    assert line is None or "a.npz" in line, line


@fuzzed(600, light=60, seed=SEEDS)
def test_arrays_of_other_libraries(seed):
    """What `dpgraph.fit` is given in Python: no file stands between."""
    random = Random(seed)
    given = {"edge_index": NPZ["edge_index"], "labels": NPZ["y"], "features": NPZ["x"], "split": None}
    name = random.choice(sorted(given))
    given[name] = random.choice(
        (wrong_array(NPZ[random.choice(sorted(NPZ))], random), None, [], "text", 3, [["a"], ["b", "c"]], {}, object())
    )
    told(lambda: sound(from_arrays(**given).graph()))


MODEL = fit(from_arrays(NPZ["edge_index"], NPZ["y"], NPZ["x"], classes=["0", "1"]), 4.0).model


def usable(model: SavedModel) -> None:
    """What `load` lets pass predicts."""
    header = model.header
    rows = model.predict(np.ones((2, header.num_features)), [list(header.ids[:2]), []])
    assert rows.shape == (2, len(header.classes))
    assert np.isfinite(rows).all()
    if model.buckets is not None:
        assert np.isfinite(model.outputs()).all()


def saved(folder: Path) -> tuple[Path, Path]:
    MODEL.save(folder)
    return folder / HEADER, folder / PARAMETERS


def rehashed(header: Path, data: bytes) -> bytes:
    """The header with the hash of the damaged file, as an attacker would write it."""
    value = json.loads(header.read_bytes())
    return json.dumps(value | {"sha256": hashlib.sha256(data).hexdigest()}).encode()


NEW: dict[str, np.ndarray] = {"x": np.eye(3), "edge_index": np.array([[6, 0, 8], [1, 7, 5]])}
LENGTHS = {"num_nodes": np.array(3), "edge_index": NEW["edge_index"]}


@fuzzed(900, light=80, seed=SEEDS)
def test_new_nodes_of_wrong_arrays(place, seed):
    """What the reader lets pass is predicted."""
    random = Random(seed)
    lengths = random.random() < 0.3
    arrays = dict(LENGTHS if lengths else NEW)
    for _ in range(random.randint(1, 2)):
        arrays[random.choice(sorted(arrays))] = wrong_array(random.choice([*NEW.values(), np.array(3)]), random)
    if random.random() < 0.2:
        del arrays[random.choice(sorted(arrays))]
    if random.random() < 0.1:
        arrays[random.choice(("z", "ids", "num_nodes"))] = np.zeros(3)
    whole = zipped(**arrays)
    (place / "new.npz").write_bytes(damaged(whole, random) if random.random() < 0.2 else whole)
    header = MODEL.header.model_copy(update={"degree_features": lengths, "directed": random.random() < 0.3})

    def predicted() -> None:
        new = read_new_npz(header, place / "new.npz")
        assert new.lists is None or len(new.lists) == len(new.ids)
        rows = MODEL.predict(np.ones((len(new.ids), 3)) if new.features is None else new.features, new.lists)
        assert rows.shape == (len(new.ids), 2)
        assert np.isfinite(rows).all()

    line = told(predicted)
    assert line is None or "new.npz" in line, line


def test_new_nodes_that_they_damage_are_good(place):
    for lengths, arrays in ((True, LENGTHS), (False, NEW)):
        (place / "new.npz").write_bytes(zipped(**arrays))
        new = read_new_npz(MODEL.header.model_copy(update={"degree_features": lengths}), place / "new.npz")
        assert new.lists == [["1"], ["0"], ["5"]]


@fuzzed(500, light=50, seed=SEEDS)
def test_headers_cut_and_flipped(place, seed):
    header, _ = saved(place / "bytes")
    header.write_bytes(damaged(header.read_bytes(), Random(seed)))
    told(lambda: usable(load(place / "bytes")))


@fuzzed(1300, light=100, seed=SEEDS)
def test_headers_of_wrong_values(place, seed):
    header, _ = saved(place / "values")
    wrong = mangled(json.loads(header.read_bytes()), Random(seed), JSON_NASTY)
    header.write_text(json.dumps(wrong), encoding="utf-8", errors="surrogatepass")
    told(lambda: usable(load(place / "values")))


@fuzzed(900, light=80, seed=SEEDS)
def test_parameters_with_the_hash_of_their_damage(place, seed):
    random = Random(seed)
    header, parameters = saved(place / "parameters")
    data = parameters.read_bytes()
    if random.random() < 0.5:  # what safetensors says of itself: names, types, shapes, places
        size = struct.unpack("<Q", data[:8])[0]
        about = json.dumps(mangled(json.loads(data[8 : 8 + size]), random, JSON_NASTY)).encode("utf-8", "replace")
        data = struct.pack("<Q", len(about)) + about + data[8 + size :]
    else:
        data = damaged(data, random)
    parameters.write_bytes(data)
    header.write_bytes(rehashed(header, data))
    told(lambda: usable(load(place / "parameters")))


@fuzzed(400, light=30, seed=SEEDS)
def test_a_file_that_is_swapped(place, seed):
    """Another kind of file under the name of one of a release."""
    random = Random(seed)
    paths = saved(place / "swapped")
    kinds = (npy(np.zeros(3)), zipped(a=np.zeros(2)), b"", b"{}", b"[]", b"null", b"\x80\x04.", EDGES.encode())
    random.choice(paths).write_bytes(random.choice(kinds))
    assert told(lambda: usable(load(place / "swapped"))) is not None


@fuzzed(150, light=12, seed=SEEDS, known=st.booleans())
def test_fit_leaves_a_whole_folder_or_none(tmp_path_factory, seed, known):
    """The command itself: status 2 and one line and no folder, or 0 and a model that `load` takes."""
    random = Random(seed)
    folder = tmp_path_factory.mktemp("fit")
    nodes, edges = (spoilt(text, random) if random.random() < 0.6 else text.encode() for text in (NODES, EDGES))
    (folder / "nodes.csv").write_bytes(nodes)
    (folder / "edges.csv").write_bytes(edges)
    before, error, status = files_in(folder), io.StringIO(), []
    words = ["fit", "--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--epsilon", "4"]
    words += ["--no-audit", "--out", str(folder / "out"), *(["--seed", "1"] if known else [])]
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        assert told(lambda: status.append(main(words)), most_seconds=10) is None
    if status[0]:
        assert status[0] == 2
        assert error.getvalue().startswith("error: ")
        assert error.getvalue().count("\n") == 1
        kept = files_in(folder)
        charged = {name for name in kept if str(name).endswith(".releases.jsonl")}  # a choice of classes that failed
        assert {name for name in kept if name not in charged} == set(before)
        assert not (known and charged)
    else:
        load(folder / "out" / ("not-private" if known else "release"))


def test_what_they_damage_is_good(tmp_path):
    assert read(tmp_path, NODES.encode(), EDGES.encode()) is None
    (tmp_path / "g.npz").write_bytes(zipped(**NPZ))
    sound(read_npz(tmp_path / "g.npz").graph())
    saved(tmp_path)
    usable(load(tmp_path))
