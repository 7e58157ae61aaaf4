"""Graphs of texts: every layout, what is left out and counted, and how two graphs become one task."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpgraph.config.cell import Task
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.readers import text_relations
from dpgraph.data.readers.text_relations import HASHED_WORDS, read, read_graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.registry import registry
from dpgraph.data.text.encoders import PACKAGES, encoder_folder
from dpgraph.problems.preprocess import preprocess
from dpgraph.problems.relations.value import load_relations

NODES = [("p1", "Graphs, private"), ("p2", ' a "quoted"\ttitle '), ("p3", ""), ("p4", "Ünïcode"), ("p5", "alone")]
PAIRS = [("p1", "p2"), ("p2", "p1"), ("p1", "p3"), ("p4", "p4"), ("p1", "p9"), ("p3", "p1"), ("p4", "p3")]
COUNTED = {
    "entities": 5,
    "listed_relations": 7,
    "unknown_id": 1,
    "self_relation": 1,
    "duplicate": 2,
    "relations": 3,
    "empty_texts": 1,
    "without_relation": 1,
}


def write_csv(folder: Path, nodes=NODES, pairs=PAIRS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(nodes, columns=["id", "text"]).to_csv(folder / "nodes.csv", index=False)
    pd.DataFrame(pairs, columns=["head", "tail"]).to_csv(folder / "relations.csv", index=False)
    return folder


def write_cane(folder: Path) -> Path:
    folder.mkdir()
    (folder / "data.txt").write_text("".join(f"{text}\n" for _, text in NODES), encoding="utf-8")
    (folder / "graph.txt").write_text("".join(f"{int(a[1:]) - 1}\t{int(b[1:]) - 1}\n" for a, b in PAIRS))
    return folder


def write_tridnr(folder: Path) -> Path:
    folder.mkdir()
    (folder / "docs.txt").write_text("".join(f"{name} {text}\n" for name, text in NODES), encoding="utf-8")
    links = {name: [b for a, b in PAIRS if a == name] for name, _ in NODES}
    (folder / "adjedges.txt").write_text("".join(f"{name} {' '.join(to)}\n" for name, to in links.items()))
    return folder


@pytest.mark.parametrize(("layout", "write"), [("csv", write_csv), ("cane", write_cane), ("tridnr", write_tridnr)])
def test_every_layout_keeps_every_entity_and_counts_what_it_leaves_out(tmp_path, layout, write):
    graph = read_graph(write(tmp_path / "graph"), layout)
    assert graph.texts == ["Graphs, private", 'a "quoted" title', "", "Ünïcode", "alone"]
    assert sorted(zip(graph.source.tolist(), graph.target.tolist())) == [(0, 1), (0, 2), (2, 3)]
    assert graph.counted == COUNTED
    of = graph.counted
    assert of["listed_relations"] == of["unknown_id"] + of["self_relation"] + of["duplicate"] + of["relations"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "{end}"])
def test_a_separator_within_a_text_shifts_no_other_entity(tmp_path, end, last):
    texts = ["one", "two\u2029of", "three\x0b\x1c\x85of", "", "five\rof"]
    (tmp_path / "data.txt").write_bytes((end.join(texts) + last.format(end=end)).encode())
    (tmp_path / "graph.txt").write_text("3 4\n")
    graph = read_graph(tmp_path, "cane")
    assert graph.texts == ["one", "two of", "three of", "", "five of"]
    assert (graph.source.tolist(), graph.target.tolist()) == ([3], [4])


def test_an_empty_file_of_texts_has_no_entity(tmp_path):
    (tmp_path / "data.txt").write_bytes(b"")
    (tmp_path / "graph.txt").write_text("0 1\n")
    assert read_graph(tmp_path, "cane").texts == []


def test_no_relations_at_all(tmp_path):
    graph = read_graph(write_csv(tmp_path, pairs=[]), "csv")
    assert len(graph.source) == 0
    assert graph.counted["without_relation"] == 5


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "nodes.csv").unlink(), r"nodes\.csv: no such file"),
        (lambda f: (f / "nodes.csv").write_text("a,b\n1,2\n"), "columns a, b: expected id, text"),
        (lambda f: (f / "relations.csv").write_text("head\n1\n"), "columns head: expected head, tail"),
        (lambda f: write_csv(f, nodes=[*NODES, NODES[0]]), "1 ids given twice: expected each once"),
        (lambda f: (f / "nodes.csv").write_bytes(b"id,text\n\xff\xfe,1\n"), r"nodes\.csv: expected a readable file"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, break_it, message):
    break_it(write_csv(tmp_path))
    with pytest.raises(UserError, match=message) as found:
        read_graph(tmp_path, "csv")
    assert "\n" not in str(found.value)
    with pytest.raises(UserError, match="layout=xml: expected one of csv, cane, tridnr"):
        read_graph(tmp_path, "xml")


def test_of_two_graphs_the_first_trains_and_the_second_tests(tmp_path):
    write_csv(tmp_path / "one")
    write_csv(tmp_path / "two", nodes=NODES[:2], pairs=[("p2", "p1")])
    raw = read(tmp_path, ["one", "two"], ["csv", "csv"], "words")
    assert raw.split.tolist() == [TRAIN] * 5 + [TEST] * 2
    assert raw.features.shape == (7, HASHED_WORDS)
    assert np.array_equal(raw.features[:2], raw.features[5:])  # a row depends on its own text only
    assert not raw.features[2].any()
    assert (raw.source[-1], raw.target[-1]) == (5, 6)
    assert raw.meta["counted"]["one"] == COUNTED
    assert read(tmp_path, ["one"], ["csv"], "words").split is None
    with pytest.raises(UserError, match="expected one for each folder of one or two"):
        read(tmp_path, ["one", "two"], ["csv"], "words")


def test_an_encoder_that_is_not_there_is_one_line(tmp_path):
    for name, message in (
        ("nobody/knows-this", "expected a folder, a name in Hugging Face's cache"),
        (str(tmp_path), r"has no config\.json: expected a checkpoint"),
    ):
        with pytest.raises(DataUnavailable, match=message) as found:
            encoder_folder(name)
        assert "\n" not in str(found.value)
    (tmp_path / "config.json").write_text("{}")
    assert encoder_folder(str(tmp_path)) == tmp_path
    assert set(PACKAGES) == {"all-MiniLM-L6-v2"}


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["m10-cora-words", "hepth-text-words"])
def test_real_texts_come_through_to_a_relation(name, tmp_path):
    """Statistics are the registry's; texts are stored with their letters."""
    from dpgraph.data.fetch import fetch

    if not mirrors_from([], os.environ):
        pytest.skip("DPGRAPH_MIRROR names no mirror")
    if fetch(name, tmp_path / "raw", mirrors=mirrors_from([], os.environ)).status != "ok":
        pytest.skip("the mirror has no such texts")
    task = Task(dataset=name, split="public" if "cora" in name else "random-80-0-20")
    preprocess(task, tmp_path / "raw", tmp_path / "out")
    found = load_relations(tmp_path / "out", verify=True)
    assert found.num_entities == registry()[name].expected.nodes
    assert len(found.texts()) == found.num_entities
    assert all(found.texts()[i] for i in (0, found.num_private - 1, found.num_entities - 1))
    if "cora" in name:
        assert found.num_private == 10310
        assert (len(found.tuples_of("train")), len(found.tuples_of("test"))) == (5688, 4771)
        assert found.tuples_of("train").max() < 10310 <= found.tuples_of("test").min()
        assert found.candidates("test").tolist() == list(range(10310, 12587))


def test_a_graph_of_two_pairs_is_encoded_once(tmp_path, monkeypatch):
    """Each graph by itself, in a folder that all data sets share."""
    asked = []

    def means(columns, folder, work, special_tokens):
        asked.append((tuple(columns["text"]), work))
        return np.full((len(columns["text"]), 3), float(len(asked)), dtype=np.float32), {"checkpoint": "tiny"}

    monkeypatch.setattr(text_relations, "column_means", means)
    monkeypatch.setattr(text_relations, "encoder_folder", lambda name: tmp_path)
    for pair, (one, two) in {"there": ("a", "b"), "back": ("b", "a")}.items():
        write_csv(tmp_path / pair / "a")
        write_csv(tmp_path / pair / "b", nodes=NODES[:2], pairs=[])
        raw = read(tmp_path / pair, [one, two], ["csv", "csv"], "tiny")
    assert asked[0] == asked[3]
    assert asked[1] == asked[2]
    assert {work for _, work in asked} == {tmp_path / "encoded"}
    assert raw.features[:, 0].tolist() == [3] * 2 + [4] * 5
    assert raw.meta["encoded"] == {"b": {"checkpoint": "tiny"}, "a": {"checkpoint": "tiny"}}
