"""Graphs with canaries: coins are told by friends' labels and canaries' words, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.canaries import WORDS, Canaries, generate
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers.canaries import read
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION

OPTIONS = {"name": "toy", "canaries": 200, "friends": 3, "train": 300, "validation": 30}
CANARIES = slice(330, 530)


@pytest.fixture(scope="module")
def graph() -> RawGraph:
    return generate(Canaries.model_validate(OPTIONS))


def test_friends_list_their_canary_alone_and_have_its_coin_as_label(graph: RawGraph) -> None:
    ptr, idx = graph.symmetric
    friends = np.flatnonzero(graph.split == TEST)
    assert len(friends) == 600
    assert (np.diff(ptr)[friends] == 1).all()
    canary = idx[ptr[friends]]
    assert (np.bincount(canary)[CANARIES] == 3).all()
    there = graph.features.any(axis=1)
    assert (graph.labels[friends] == there[canary]).all()
    assert 60 < there[CANARIES].sum() < 140
    words = graph.features[CANARIES][there[CANARIES]]
    assert (words[:, WORDS : 2 * WORDS] == 1).all()
    assert words.sum() == WORDS * len(words)


def test_nothing_else_depends_on_a_coin(graph: RawGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other coins, all but canaries' words and friends' labels is the same."""
    import dpgraph.data.canaries as module

    plain = module.numpy_generator
    monkeypatch.setattr(
        module, "numpy_generator", lambda *key: plain(*key, "others") if "coins" in key else plain(*key)
    )
    other = generate(Canaries.model_validate(OPTIONS))
    tested, canaries = graph.split == TEST, np.arange(len(graph.labels))[CANARIES]
    assert (graph.labels[tested] != other.labels[tested]).any()
    assert (graph.labels[~tested] == other.labels[~tested]).all()
    same = np.delete(graph.features, canaries, axis=0) == np.delete(other.features, canaries, axis=0)
    assert same.all()
    assert all((one == two).all() for one, two in zip(graph.symmetric, other.symmetric, strict=True))
    assert np.array_equal(graph.split, other.split)


def test_what_is_learnt_from_reads_no_canary(graph: RawGraph) -> None:
    ptr, idx = graph.symmetric
    assert idx[: ptr[330]].max() < 330
    assert (graph.labels[CANARIES] == -1).all()
    kinds = [int((graph.split == kind).sum()) for kind in (TRAIN, VALIDATION, NO_SPLIT, TEST)]
    assert kinds == [300, 30, 200, 600]


def test_options_are_checked() -> None:
    with pytest.raises(UserError, match="options of reader canaries, friends: "):
        read(Path(), **{**OPTIONS, "friends": 0})
