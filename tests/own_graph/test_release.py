"""`release/` tells neighbours apart by declared noise alone, from files to every file, name, shape, type and field.

Neighbours are built by the relation's own definition in the user's CSV files: a record becomes null, a node leaves with
its edges, an edge goes. The one whose record changes has the only label of its class.
"""

import csv
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from dpgraph.cli import main
from dpgraph.cli.graph_options import GraphOptions
from dpgraph.own_graph import classes
from dpgraph.own_graph.card import PREDICTIONS, markdown
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.model import HEADER, PARAMETERS
from tests.own_graph.test_fit import small

SIZE, ONE = 200, 7  # nodes, and whose record changes
# What may differ between neighbours by the noise of training, by file: numbers in arrays, not their names, shapes and
# types; fields of an object; columns, by how their names begin. All else is public, and a new field is by default. What
# is chosen by noisy counts (classes, the number of labels) and what follows from it is equal where that noise is.
NOISY = {
    PARAMETERS: ("bias", "buckets", "reader_bias", "reader_factor", "reader_weight", "row_sum", "weight"),
    HEADER: ("sha256", "shrinkage", "strength"),
    PREDICTIONS: ("prediction", "probability of "),
}


@dataclass(frozen=True)
class Tables:
    """What is in the user's files; a list is made of the edges that begin at its owner."""

    rows: tuple[tuple[str, str, float, float, float], ...]  # label, part and features, by id
    edges: tuple[tuple[int, int], ...]

    def write(self, folder, split, features):
        folder.mkdir()
        with (folder / "nodes.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "label", *(["split"] if split else []), *("abc" if features else "")])
            for place, (label, part, *numbers) in enumerate(self.rows):
                writer.writerow([place, label, *([part] if split else []), *(numbers if features else [])])
        with (folder / "edges.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("source", "target"), *self.edges])
        return ["--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")]


def tables():
    rng = np.random.default_rng(0)
    place = rng.integers(0, 3, SIZE)
    features = np.round(np.eye(3)[place] + 0.3 * rng.random((SIZE, 3)), 3)
    names = np.where(np.arange(SIZE) % 6 == 5, "", np.array(["red", "green", "blue"])[place])
    names[ONE] = "rare"
    parts = np.where(np.arange(SIZE) % 4 == 0, "test", "train")
    ends = {(int(u), int(v)) for u, v in rng.integers(0, SIZE, (900, 2)) if u != v}
    ends |= {(ONE, (ONE + step) % SIZE) for step in range(1, 30)}
    rows = tuple((str(name), str(part), *row) for name, part, row in zip(names, parts, features.tolist()))
    return Tables(rows, tuple(sorted(ends)))


def null(one):
    """Label, features and own list; the part of its id, and pointers to it in others' lists, stay."""
    rows = list(one.rows)
    rows[ONE] = ("", rows[ONE][1], 0.0, 0.0, 0.0)
    return replace(one, rows=tuple(rows), edges=tuple(edge for edge in one.edges if edge[0] != ONE))


def without_node(one):
    gone = null(one)
    return replace(gone, edges=tuple(edge for edge in gone.edges if ONE not in edge))


def without_edge(one):
    return replace(one, edges=tuple(edge for edge in one.edges if edge != (ONE, ONE + 1)))


LISTS = ["--directed"]  # in an undirected file an edge is in both lists
REMOVED = ["--relation", "node-remove", "--mean-degree", "60"]
STATED = ["--classes", "blue,green,rare,red"]
CASES = {
    "null": (null, LISTS, False),
    "null, a split": (null, LISTS, True),
    "null, stated": (null, [*LISTS, *STATED, "--labelled", "140"], False),
    "null, classes stated": (null, [*LISTS, *STATED], False),
    "null, all outputs": (null, [*LISTS, "--scope", "all-outputs"], False),
    "null, own": (null, [*LISTS, *STATED, "--method", "own", "--words", "2", "--signed"], True),
    "null, learnt": (null, [*LISTS, "--method", "votes-learnt"], False),
    "node leaves": (without_node, REMOVED, True),
    "node leaves, stated": (without_node, [*REMOVED, *STATED], True),
    "node leaves, own": (without_node, [*REMOVED, "--method", "own"], False),
    "edge": (without_edge, ["--relation", "edge"], False),
    "edge, stated": (without_edge, ["--relation", "edge", *STATED], True),
    # relations whose epsilon stands beside the one that was asked for
    "null, beside an edge": (null, [*LISTS, "--relation", "edge", *STATED], False),
    "edge, beside null": (without_edge, [], False),
    "edge, beside null, stated": (without_edge, STATED, False),
    "null, beside a node that leaves": (null, [*LISTS, *REMOVED, *STATED], True),
}


def released(folder):
    """All of `release/` that is not declared noisy."""
    found = {}
    for path in sorted(folder.iterdir()):
        noisy = NOISY.get(path.name, ())
        if path.suffix == ".safetensors":
            arrays = load_file(path)
            found[path.name] = {
                name: (array.shape, str(array.dtype), None if name in noisy else array.tolist())
                for name, array in arrays.items()
            }
        elif path.suffix == ".json":
            value = json.loads(path.read_text())
            assert set(noisy) <= set(value)
            found[path.name] = {name: None if name in noisy else one for name, one in value.items()}
        elif path.suffix == ".csv":
            head, *rows = csv.reader(path.open())
            public = [place for place, name in enumerate(head) if not name.startswith(noisy)]
            found[path.name] = head, len(rows), [[row[place] for place in public] for row in rows]
        else:
            found[path.name] = path.read_bytes()
    return found


def documented():
    """{file: {field: kind}} and {beginning of a line: kind}, as docs/reference/own-graph.md lists them."""
    page = (Path(__file__).resolve().parents[2] / "docs/reference/own-graph.md").read_text()
    page = page.partition("### Every field of a release")[2].partition("\n## ")[0]
    fields, lines = {}, {}
    for *named, kind in (row.strip("| ").split(" | ") for row in page.splitlines() if row.startswith("| `")):
        names = re.findall(r"`([^`]+)`", named[-1])
        if len(named) == 1:
            lines |= dict.fromkeys(names, kind)
        else:
            found = fields.setdefault(re.findall(r"`([^`]+)`", named[0])[0], {})
            found |= {name.removesuffix("..."): kind for name in names if ".json" not in name} or {"": kind}
    return fields, lines


FIELDS, LINES = documented()


def said(text, folder):
    """Lines of the screen that are no curator's; each begins as docs list it."""
    kinds = {}
    for line in text.splitlines():
        (kind,) = {one for beginning, one in LINES.items() if line.startswith(beginning)} or {f"not listed: {line}"}
        assert not kind.startswith("not"), kind
        kinds[line.replace(str(folder), "...")] = kind
    assert "curator" in kinds.values()
    return [line for line, kind in kinds.items() if kind != "curator"]


def in_fields(name, value):
    """{field: value} of a file as `released` has it."""
    if name.endswith(".csv"):
        head, size, rows = value
        public = [one for one in head if not one.startswith(NOISY[name])]
        named = {one.partition("probability of ")[1] or one: size for one in head}
        return named | {one: [row[place] for row in rows] for place, one in enumerate(public)}
    return value if isinstance(value, dict) else {"": value}


def counts_masked(monkeypatch):
    """Noisy counts that are the same on both sides, as noise alone can make them; the rare class is beyond them."""
    monkeypatch.setattr(classes, "noisy_counts", lambda counts, *_: np.where(counts > 5, 50, 0))


@pytest.mark.parametrize("case", CASES)
def test_neighbours_release_the_same_but_for_declared_noise(case, tmp_path, monkeypatch, capsys):
    neighbour, options, split = CASES[case]
    counts_masked(monkeypatch)
    found, lines = [], []
    for name, one in (("whole", tables()), ("other", neighbour(tables()))):
        data = one.write(tmp_path / name, split, True)
        budget = "8" if "node-remove" in options else "4"
        asked = ["fit", *data, "--epsilon", budget, *options, "--no-audit", "--out", str(tmp_path / f"{name}-out")]
        assert main(asked) == 0, capsys.readouterr().err
        found.append(released(tmp_path / f"{name}-out/release"))
        lines.append(said(capsys.readouterr().out, tmp_path / f"{name}-out"))
    assert found[0].keys() == found[1].keys()
    for name in found[0]:
        assert found[0][name] == found[1][name], name
    assert {"model.safetensors", "model.json", "card.json", "card.md", "tradeoff.png"} <= set(found[0])
    assert ("predictions.csv" in found[0]) == ("all-outputs" in options)
    assert lines[0] == lines[1]  # the plan
    card = json.loads((tmp_path / "whole-out/release/card.json").read_text())
    assert (tmp_path / "whole-out/release/card.md").read_text() == markdown(card)
    for name in found[0]:
        assert set(in_fields(name, found[0][name])) <= set(FIELDS[name])


def test_every_field_that_is_listed_is_that_of_a_release_and_the_rest_of_the_list_is_the_code_s(tmp_path, monkeypatch):
    counts_masked(monkeypatch)
    seen, data = {}, tables().write(tmp_path / "data", True, True)
    for place, case in enumerate(("null, all outputs", "null, learnt", "node leaves, own")):
        out = tmp_path / str(place)
        assert main(["fit", *data, "--epsilon", "8", *CASES[case][1], "--no-audit", "--out", str(out)]) == 0
        for name, value in released(out / "release").items():
            seen[name] = seen.get(name, set()) | set(in_fields(name, value))
    assert seen == {name: set(fields) for name, fields in FIELDS.items()}
    noisy = {name: {one for one, kind in fields.items() if kind == "noisy"} for name, fields in FIELDS.items()}
    assert {name: fields for name, fields in noisy.items() if fields} == {
        name: {one.removesuffix("...") for one in fields} for name, fields in NOISY.items()
    }


@pytest.mark.parametrize("case", ["null", "null, all outputs", "null, learnt", "node leaves", "edge"])
def test_what_is_listed_as_public_does_not_follow_from_noisy_counts(case, tmp_path, monkeypatch, capsys):
    """Other counts by noise alone: fewer classes, more labels. Nothing that is public may differ."""
    _, options, split = CASES[case]
    data = tables().write(tmp_path / "data", split, True)
    found, lines = [], []
    for name, kept in (("few", 2), ("many", 3)):
        monkeypatch.setattr(
            classes, "noisy_counts", lambda counts, *_, kept=kept: (np.cumsum(counts > 5) <= kept) * (counts > 5) * 70
        )
        out = tmp_path / name
        assert main(["fit", *data, "--epsilon", "8", *options, "--no-audit", "--out", str(out)]) == 0
        found.append(released(out / "release"))
        lines.append(capsys.readouterr().out.replace(str(out), "...").splitlines())
    assert found[0]["model.json"]["classes"] != found[1]["model.json"]["classes"]
    for name, fields in FIELDS.items():
        few, many = (in_fields(name, one[name]) if name in one else {} for one in found)
        public = {one for one, kind in fields.items() if kind == "public"}
        assert {one: few[one] for one in public & set(few)} == {one: many[one] for one in public & set(many)}
    public = [tuple(one for one in LINES if LINES[one] == "public")] * 2
    few, many = ([one for one in text if one.startswith(names)] for text, names in zip(lines, public))
    assert few == many != []


def test_without_features_neighbours_release_the_same(tmp_path, monkeypatch):
    counts_masked(monkeypatch)
    found = []
    for name, one in (("whole", tables()), ("other", null(tables()))):
        data = one.write(tmp_path / name, False, False)
        out = tmp_path / f"{name}-out"
        assert main(["fit", *data, "--epsilon", "4", *LISTS, "--signed", "--no-audit", "--out", str(out)]) == 0
        found.append(released(out / "release"))
    assert found[0] == found[1]


def test_other_noise_is_another_release(tmp_path):
    """The converse: what is declared noisy is all that differs between two runs, and it does."""
    arrays = []
    data = tables().write(tmp_path / "data", False, True)
    for name in ("one", "two"):
        out = tmp_path / name
        assert main(["fit", *data, "--epsilon", "4", *STATED, "--no-audit", "--out", str(out)]) == 0
        arrays.append(load_file(out / "release/model.safetensors"))
    assert released(tmp_path / "one/release") == released(tmp_path / "two/release")
    for name in ("weight", "row_sum", "buckets"):  # after one step the bias is 0
        assert (arrays[0][name] != arrays[1][name]).all()


def test_a_card_assumes_nothing_that_the_run_has_not():
    own = small()
    cards = {name: fit(own, 4.0, audit=False, **asked).card for name, asked in (
        ("own", {"method": "own"}), ("votes", {"method": "votes"}), ("all", {"scope": "all-outputs"}),
        ("edge", {"relation": "edge"}),
    )}  # fmt: skip
    texts = {name: " ".join([*card["assumptions"], *card["not_covered"]]) for name, card in cards.items()}
    for name, text in texts.items():
        assert "nothing is said of publishing" not in text
        assert ("a node's own prediction, once it is published" in text) == (name != "all")
        assert "below" not in text
        assert "in the view of all but" not in " ".join(cards[name]["assumptions"])
        assert ("all votes of a record move the buckets" in text) == (name != "own")
        assert "a gradient and a row of the mean read one record each" in text
    assert "bucket" not in texts["own"]
    assert "in its neighbours' lists" not in texts["own"]
    assert "in its neighbours' lists" in texts["votes"]


@pytest.mark.parametrize(("relation", "assumed"), [("node-null", True), ("edge", False)])
def test_a_card_says_what_was_made_from_all_records_before_and_what_edges_may_not_be_made_of(relation, assumed):
    said = []
    own = replace(small(), uncovered=("the edges: nearest neighbours",))
    card = fit(own, 4.0, relation=relation, say=said.append, audit=False).card
    assert "the edges: nearest neighbours" in card["not_covered"]
    assert "not covered: the edges: nearest neighbours" in said
    assert any("no edge between other nodes is made from" in text for text in card["assumptions"]) == assumed


def test_a_data_set_brings_what_its_entry_and_reader_say_of_all_records():
    assert GraphOptions(dataset="demo-digits").read().uncovered == ("the edges: nearest neighbours among all images",)
