"""The way from a stranger's files to folders: who may read what, and what is refused."""

import csv
import json
import re
import shlex
from pathlib import Path

import networkx
import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph.cli import main
from dpgraph.errors import UserError
from dpgraph.fitting.fit import fit
from dpgraph.fitting.model import load
from dpgraph.fitting.tables import from_arrays

ROOT = Path(__file__).resolve().parents[2]
MARKER = 12345.678901


def small(seed=0, size=200, directed=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, size)
    ends = rng.integers(0, size, (2, 8 * size))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) | (rng.random(8 * size) < 0.2)]
    return from_arrays(ends, labels, np.eye(3)[labels] + 0.3 * rng.random((size, 3)), directed=directed)


def write_csv(folder, size=60, marker=None):
    own = small(size=size)
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "a", "b", "c"])
        for i in range(size):
            row = list(own.features[i])
            if i == 7 and marker is not None:
                row = [marker, 0, 0]
            writer.writerow([f"n{i}", "" if i % 5 == 0 else f"class{own.labels[i]}", *row])
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows((f"n{u}", f"n{v}") for u, v in zip(own.source, own.target))
    return ["--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")]


def test_a_release_holds_no_row_of_the_data(tmp_path):
    data = write_csv(tmp_path, marker=MARKER)
    assert main(["fit", *data, "--epsilon", "4", "--out", str(tmp_path / "out")]) == 0
    files = [path for path in (tmp_path / "out/release").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"model.safetensors", "model.json", "card.json", "card.md", "tradeoff.png"}
    marks = [np.float32(MARKER).tobytes(), np.float64(MARKER).tobytes(), b"12345.67", b"homophily", b"accuracy"]
    for path in files:
        assert not any(mark in path.read_bytes() for mark in marks), path
    card = json.loads((tmp_path / "out/release/card.json").read_text())
    assert card["status"] == "private"
    assert card["epsilon"] <= 4
    assert (card["relation"], card["scope"]) == ("node-null", "joint")
    assert "not private" in (tmp_path / "out/curator/checks.json").read_text()
    assert len((tmp_path / "out/owners/predictions.csv").read_text().splitlines()) == 61


def test_a_known_seed_gives_the_same_numbers_and_no_release(tmp_path):
    data = write_csv(tmp_path)
    for name in ("one", "two"):
        assert main(["fit", *data, "--epsilon", "4", "--seed", "3", "--out", str(tmp_path / name)]) == 0
    assert not (tmp_path / "one/release").exists()
    card = json.loads((tmp_path / "one/not-private/card.json").read_text())
    assert card["status"] == "not private: seed known"
    assert card["epsilon"] is None
    one, two = (tmp_path / f"{name}/not-private/model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_two_releases_differ_and_predictions_are_good_where_noise_is_small():
    own = small(size=600)
    first, second = fit(own, 50.0), fit(own, 50.0)
    assert (first.model.weight != second.model.weight).all()
    held = own.roles != 0
    assert (first.predictions.argmax(1) == own.labels)[held].mean() > 0.9


def test_released_buckets_have_the_noise_that_was_accounted_for():
    """What votes add to the last coordinate depends on lists alone, so two releases differ by their noise there."""
    own = small(size=2000)
    first, second = fit(own, 2.0), fit(own, 2.0)
    gap = first.model.buckets[:, -1] - second.model.buckets[:, -1]
    mechanism = first.card["mechanism"]
    accounted = mechanism["votes_ratio"] * mechanism["noise_multiplier"] * np.sqrt(1 - 1 / 3 + 0.3**2)
    assert np.isclose(first.model.header.std, accounted)
    assert 0.93 < gap.std() / (np.sqrt(2) * accounted) < 1.07
    grid = 2.0**30
    assert (first.model.buckets * grid == np.rint(first.model.buckets * grid)).all()


def test_noise_of_steps_is_what_was_accounted_for_and_a_little_more(monkeypatch):
    from dpgraph.fitting import secret

    stds, add = [], secret.noised
    monkeypatch.setattr(secret, "noised", lambda values, std, grid: stds.append(std) or add(values, std, grid))
    mechanism = fit(small(), 2.0).card["mechanism"]
    assert len(stds) == 2 * mechanism["steps"]  # weight and bias
    assert np.allclose(stds, mechanism["noise_multiplier"] * 5.0 * (1 + 2**-10))


def test_all_outputs_are_a_function_of_the_release_alone(tmp_path):
    fitted = fit(small(), 20.0, scope="all-outputs", out=tmp_path / "out")
    assert not (tmp_path / "out/owners").exists()
    assert (tmp_path / "out/release/predictions.csv").is_file()
    assert fitted.card["scope"] == "all outputs"
    assert np.array_equal(load(tmp_path / "out").outputs(), fitted.predictions)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scope": "all-outputs", "method": "own"}, "no epsilon"),
        ({"relation": "node-removed"}, "did you mean node-remove"),
        ({"method": "voter"}, "did you mean votes"),
        ({"epsilon": -1.0}, "--epsilon"),
        ({"delta": 0.5}, "--delta"),
    ],
)
def test_what_has_no_epsilon_is_refused(options, named):
    with pytest.raises(UserError, match=re.escape(named)):
        fit(small(), **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["no edges", "ten nodes", "hub", "no features"])
def test_hostile_graphs_give_a_model(kind, directed):
    rng = np.random.default_rng(0)
    size = 10 if kind == "ten nodes" else 80
    edges = {"no edges": np.zeros((2, 0), int), "hub": np.stack([np.zeros(size, int), np.arange(size)])}.get(
        kind, rng.integers(0, size, (2, 200))
    )
    features = None if kind == "no features" else rng.random((size, 2))
    fitted = fit(from_arrays(edges, np.arange(size) % 2, features, directed=directed), 1.0)
    assert np.isfinite(fitted.predictions).all()
    relations = {one["relation"] for one in fitted.card["beside"]}
    assert ("edge" in relations) == (kind != "no features")


def test_one_class_and_no_labels_are_refused():
    with pytest.raises(UserError, match="classes=0: expected at least 2"):
        from_arrays(np.zeros((2, 0), int), np.zeros(20, int))
    for classes in (None, ["0", "1"]):
        with pytest.raises(UserError, match="no node has a label"):
            from_arrays(np.zeros((2, 0), int), np.full(20, -1), classes=classes)


def test_objects_of_other_libraries_are_the_same_graph():
    from torch import from_numpy
    from torch_geometric.data import Data

    own = small(size=50)
    ends = np.stack([own.source, own.target])
    matrix = sp.coo_matrix((np.ones(len(own.source)), ends), shape=(50, 50))
    graph = networkx.Graph()
    graph.add_nodes_from((i, {"label": int(own.labels[i]), "x": own.features[i]}) for i in range(50))
    graph.add_edges_from(ends.T.tolist())
    data = Data(x=from_numpy(own.features), y=from_numpy(own.labels), edge_index=from_numpy(ends))
    given = [
        fit(own, 4.0, seed=0),
        fit(matrix, 4.0, seed=0, labels=own.labels, features=own.features),
        fit(graph, 4.0, seed=0),
        fit(data, 4.0, seed=0),
        fit(ends, 4.0, seed=0, labels=own.labels, features=own.features),
    ]
    for one in given[1:]:
        assert np.array_equal(one.predictions, given[0].predictions)


@pytest.mark.parametrize("damage", ["cut", "flipped", "header", "no file"])
def test_load_refuses_damaged_folders(damage, tmp_path):
    fitted = fit(small(size=40), 4.0)
    fitted.model.save(tmp_path)
    loaded = load(tmp_path)
    assert np.array_equal(loaded.weight, fitted.model.weight)
    path = tmp_path / "model.safetensors"
    data = path.read_bytes()
    if damage == "no file":
        path.unlink()
    elif damage == "header":
        (tmp_path / "model.json").write_text("{}")
    else:
        path.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(UserError):
        load(tmp_path)


def test_a_failed_run_leaves_no_folder(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgraph.fitting.release.draw_curve", fails)
    with pytest.raises(KeyboardInterrupt):
        fit(small(size=40), 4.0, out=tmp_path / "out")
    assert not list(tmp_path.iterdir())
    assert main(["fit", *write_csv(tmp_path), "--epsilon", "4", "--out", str(tmp_path / "out")]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"edges.csv", "nodes.csv"}


def test_the_documented_commands_work(tmp_path, monkeypatch, capsys):
    write_csv(tmp_path)
    (tmp_path / "new.csv").write_text("id,a,b,c\nnew1,1,0,0\nnew2,0,1,0\n")
    (tmp_path / "new-edges.csv").write_text("source,target\nnew1,n1\nnew1,n2\n")
    monkeypatch.chdir(tmp_path)
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/own-graph.md")]
    commands = [
        line for page in pages for line in page.splitlines() if re.match(r"dpgraph (fit|predict) .*--out", line)
    ]
    assert len(commands) >= 4
    for command in dict.fromkeys(commands):
        words = shlex.split(command, comments=True)[1:]
        out = tmp_path / words[words.index("--out") + 1]
        if words[0] == "fit" and out.exists():
            continue
        assert main(words) == 0, command
    assert len((tmp_path / "new-predictions.csv").read_text().splitlines()) == 3
