"""Averages over columns, and what becomes of the encoder's process; the encoder itself: tests/models."""

import importlib.util
import subprocess

import numpy as np
import pytest

from dpgraph.config.cell import Task
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.readers import pokec_bert
from dpgraph.data.store import load_graph
from dpgraph.data.text import bert
from dpgraph.data.text.bert import column_means, weighted_sum, weights_of_texts
from dpgraph.problems.preprocess import preprocess
from tests.data.offline import fetch_offline
from tests.data.test_pokec import toy_profiles
from tests.data.test_pokec import write as write_pokec

TEXTS = {"one": ["a", "b", "", " a "], "two": ["c", "  ", "", "a"], "three": ["a", "", "", "d"]}
VECTORS = {"a": [1.0, 0.0], "b": [0.0, 2.0], "c": [4.0, 4.0], "d": [-1.0, 0.0]}
EXPECTED = [[2.0, 4 / 3], [0.0, 2.0], [0.0, 0.0], [1 / 3, 0.0]]


def test_mean_over_the_columns_that_hold_text():
    weights, distinct = weights_of_texts(TEXTS)
    assert sorted(distinct) == ["a", "b", "c", "d"]
    assert np.allclose(np.asarray(weights.sum(axis=1)).ravel(), [1, 1, 0, 1])
    assert np.allclose(weights @ np.array([VECTORS[text] for text in distinct]), EXPECTED)


def encoded(folder, distinct, files=2):
    """What the encoder leaves: the vectors in an order of its own, in several files."""
    folder.mkdir(parents=True, exist_ok=True)
    order = np.arange(len(distinct))[::-1]
    np.save(folder / bert.ORDER, order)
    for number, part in enumerate(np.array_split(order, files)):
        np.save(bert.chunk_path(folder, number), np.array([VECTORS[distinct[i]] for i in part], dtype=np.float32))
    (folder / bert.META).write_text('{"checkpoint": "toy"}')


def test_vectors_are_read_file_by_file(tmp_path):
    weights, distinct = weights_of_texts(TEXTS)
    encoded(tmp_path, distinct, files=3)
    assert np.allclose(weighted_sum(weights, tmp_path), EXPECTED)


def test_an_encoding_is_used_for_its_own_texts_checkpoint_and_settings_only(tmp_path, monkeypatch):
    calls = []

    def encode(folder, checkpoint, special_tokens):
        calls.append((checkpoint.name, special_tokens))
        encoded(folder, weights_of_texts(texts)[1])

    monkeypatch.setattr(bert, "_encode", encode)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
    texts = TEXTS
    for _ in range(2):
        means, meta = column_means(texts, tmp_path / "first", tmp_path / "work")
        assert np.allclose(means, EXPECTED)
        assert meta == {"checkpoint": "toy"}
    column_means(texts, tmp_path / "first", tmp_path / "work", special_tokens=True)
    column_means(texts, tmp_path / "second", tmp_path / "work")
    texts = {"one": ["b", "a", "c", "d"]}
    assert np.allclose(column_means(texts, tmp_path / "first", tmp_path / "work")[0], [VECTORS[t] for t in "bacd"])
    assert calls == [("first", False), ("first", True), ("second", False), ("first", False)]


def test_files_that_do_not_fit_are_named(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.setattr(bert, "_encode", lambda folder, *_: encoded(folder, ["a", "b"]))
    with pytest.raises(UserError, match=r"order\.npy is not an order of 4 texts"):
        column_means(TEXTS, tmp_path / "model", tmp_path / "work")


def test_no_checkpoint_is_unavailable_and_nothing_else_stands_in(tmp_path):
    with pytest.raises(DataUnavailable, match="nowhere: no such folder: expected a checkpoint of transformers"):
        column_means(TEXTS, tmp_path / "nowhere", tmp_path / "work")
    with pytest.raises(UserError, match="texts hold no words"):
        column_means({"one": ["", " "]}, tmp_path / "nowhere", tmp_path / "work")


@pytest.mark.parametrize(
    ("status", "printed", "kind", "message"),
    [
        (3, "noise\nmodel: no checkpoint\n", DataUnavailable, "^model: no checkpoint$"),
        (2, "batch_tokens=0: expected\n", UserError, "encoding texts ended: batch_tokens=0: expected .*kept"),
        (-9, "", UserError, "encoding texts ended: status -9"),
    ],
)
def test_what_the_encoder_says_is_passed_on(tmp_path, monkeypatch, status, printed, kind, message):
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, status, printed))
    (tmp_path / "model").mkdir()
    with pytest.raises(kind, match=message) as error:
        column_means(TEXTS, tmp_path / "model", tmp_path / "work")
    assert type(error.value) is kind
    assert "\n" not in str(error.value)


def test_reader_runs_the_process(tmp_path):
    """In a folder without a model: the process reports that, or that transformers is missing."""
    write_pokec(tmp_path, toy_profiles())
    (tmp_path / "model").mkdir()
    installed = importlib.util.find_spec("transformers") is not None
    expected = "no checkpoint that transformers can read" if installed else "expected the package transformers"
    with pytest.raises(UserError, match=expected) as error:
        pokec_bert.read(tmp_path, per_class=2, label_column_in_text=False, checkpoint="model")
    assert "\n" not in str(error.value)
    assert isinstance(error.value, DataUnavailable) == installed


def test_a_data_set_without_its_model_is_recorded_as_unavailable(tmp_path):
    """In a mirror with the profiles but no checkpoint, and no network."""
    (tmp_path / "mirror").mkdir()
    write_pokec(tmp_path / "mirror" / "pokec", toy_profiles())
    manifest = fetch_offline("pokec-bert", tmp_path / "raw", [tmp_path / "mirror"])
    assert manifest.status == "unavailable"
    assert manifest.reason.startswith("data not available: bert/config.json, bert/tokenizer_config.json, ")
    preprocess(Task(dataset="pokec-bert"), tmp_path / "raw", tmp_path / "graph")
    with pytest.raises(DataUnavailable, match=r"pokec-bert: data not available: bert/config\.json"):
        load_graph(tmp_path / "graph")
