"""`release/` is a function of the mechanism's output and of public values: other private data, the same bytes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpgraph.data.records import TEST, TRAIN
from dpgraph.fitting import fit as fitting
from dpgraph.fitting.fit import fit
from dpgraph.fitting.own_graph import OwnGraph
from dpgraph.fitting.training import Trained
from dpgraph.methods.votes.readers import BucketReader
from dpgraph.methods.votes.rows import RowMean

SIZE, CLASSES, FEATURES = 80, 3, 4


def own_graph(seed: int, free: bool) -> OwnGraph:
    """Public: ids, classes, columns, split, how many have a label. All else is drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    split = np.where(np.arange(SIZE) % 4 == 0, TEST, TRAIN).astype(np.uint8)
    labels = rng.integers(0, CLASSES, SIZE)
    labels[rng.permutation(np.flatnonzero(split == TRAIN))[:10]] = -1
    ends = rng.integers(0, SIZE, (2, rng.integers(100, 400)))
    features = None if free else rng.normal(size=(SIZE, FEATURES)).astype(np.float32)
    return OwnGraph(
        tuple(f"n{i}" for i in range(SIZE)), ends[0], ends[1], features, labels, ("a", "b", "c"), split,
        columns=() if free else ("w", "x", "y", "z"), classes_given=True, where=f"file {seed}",
    )  # fmt: skip


def as_released(own, what, seed, output=7):
    """In the place of training: an output of the mechanism that is the same whatever the data."""
    rng = np.random.default_rng(output)
    mean = RowMean(rng.normal(size=own.num_features) + 1, 0.8)
    width = len(mean.kept)
    buckets = rng.normal(size=(SIZE, CLASSES + 1)) if what.votes else None
    scores = np.random.default_rng(len(own.source)).normal(size=(SIZE, CLASSES))  # reads raw records: for owners
    parameters = rng.normal(size=(CLASSES, width)), rng.normal(size=CLASSES)
    return Trained(what, *parameters, mean, buckets, BucketReader(3.0, rng.random()), scores, seed is None)


def bytes_in(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CASES = {
    "votes": {},
    "all outputs": {"scope": "all-outputs"},
    "own records": {"method": "own"},
    "edge": {"relation": "edge"},
    "node-remove": {"relation": "node-remove", "mean_degree": 60.0, "epsilon": 8.0},
}


@pytest.mark.parametrize(
    ("asked", "free"),
    [(asked, free) for asked in CASES.values() for free in (False, True) if not (free and "relation" in asked)],
    ids=str,
)
def test_other_private_data_and_the_same_output_are_the_same_release(asked, free, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "train", as_released)
    for seed in (1, 2):
        fit(own_graph(seed, free), out=tmp_path / str(seed), **{"epsilon": 4.0, **asked})
    one, two = (bytes_in(tmp_path / str(seed) / "release") for seed in (1, 2))
    assert one == two
    assert {"model.safetensors", "model.json", "card.json", "card.md", "tradeoff.png"} <= set(one)
    assert ("predictions.csv" in one) == ("scope" in asked)
    for name in ("curator", *(["owners"] if "scope" not in asked else [])):  # these do read the data
        assert bytes_in(tmp_path / "1" / name) != bytes_in(tmp_path / "2" / name)


def test_another_output_is_another_release(tmp_path, monkeypatch):
    found = []
    for output in (1, 2):
        monkeypatch.setattr(fitting, "train", partial(as_released, output=output))
        fit(own_graph(1, False), 4.0, out=tmp_path / str(output))
        found.append(bytes_in(tmp_path / str(output) / "release")["model.safetensors"])
    assert found[0] != found[1]


def test_what_is_public_is_in_the_card(tmp_path, monkeypatch):
    """The converse: were a public value not stated, two releases might differ in what no card speaks of."""
    monkeypatch.setattr(fitting, "train", as_released)
    own = own_graph(1, False)
    fit(own, 4.0, out=tmp_path / "one")
    fit(replace(own, labels=np.where(np.arange(SIZE) < 40, own.labels, -1)), 4.0, out=tmp_path / "two")
    one, two = (bytes_in(tmp_path / name / "release")["card.md"].decode() for name in ("one", "two"))
    changed = set(one.splitlines()) ^ set(two.splitlines())
    assert any("the number of labels to train on is taken for public" in line for line in changed)
