"""The release of the votes of teachers on nodes: what is read for it, and what its noise depends on."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from dpgraph.audits.cases import NODE_TEACHER_KINDS
from dpgraph.core.errors import UserError
from dpgraph.data.records import TEST, VALIDATION
from dpgraph.families.pate.audit import CLASSES, TEACHERS
from dpgraph.families.pate.nodes.audit import PUBLIC, RECORDS, graph_of, prepared
from dpgraph.families.pate.nodes.prepared import PreparedNodeTeachers, queries_of
from dpgraph.families.pate.prepared import NOISE

KIND = next(iter(NODE_TEACHER_KINDS.values()))
CAPS = (20, 10)


def edges():
    entries = np.triu(np.random.default_rng(0).random((RECORDS + PUBLIC + 1,) * 2) < 0.2, 1)
    return entries | entries.T


def test_queries_are_the_validation_nodes_in_a_public_order():
    value = graph_of(PUBLIC)
    found = queries_of(value, "a")
    assert sorted(found) == np.flatnonzero(value.split == VALIDATION).tolist()
    assert not np.array_equal(found, queries_of(value, "b"))
    assert np.array_equal(found, queries_of(replace(value, features=value.features + 1, labels=value.labels * 0), "a"))
    with pytest.raises(UserError, match=r"^split=without validation nodes: expected some: "):
        queries_of(replace(value, split=np.where(value.split == VALIDATION, TEST, value.split)), "a")


def test_neither_classes_of_public_nodes_nor_tested_nodes_are_read():
    value = graph_of(PUBLIC, edges())
    step = prepared(KIND, value, "means", 0, CAPS)
    before = step.votes()
    features, labels = value.features.copy(), value.labels.copy()
    features[-1], labels[RECORDS:] = 7.0, (labels[RECORDS:] + 1) % CLASSES
    other = prepared(KIND, replace(value, features=features, labels=labels), "means", 0, CAPS)
    assert np.array_equal(other.votes(), before)


def test_the_threshold_is_public():
    """Where no count can reach it nothing is answered, however much the teachers agree."""
    step = prepared(KIND, graph_of(PUBLIC), "own", 0, CAPS)
    step.threshold = 1e6
    with patch.object(PreparedNodeTeachers, "votes", lambda self: np.zeros((TEACHERS, PUBLIC), dtype=np.int16)):
        assert (step.labels() < 0).all()


def test_each_release_has_noise_of_its_own():
    """The same noise for two kinds of teachers, caps or seeds would cancel in the difference of two releases."""
    value = graph_of(PUBLIC)
    orders = (("own", 0, CAPS), ("means", 0, CAPS), ("own", 1, CAPS), ("own", 0, (21, 10)), ("own", 0, (20, 9)))
    assert len({prepared(KIND, value, *one).ledger.entries[NOISE].names for one in orders}) == len(orders)


def test_a_release_states_its_relation_once_it_is_made():
    step = prepared(KIND, graph_of(PUBLIC), "own", 0, CAPS)
    assert step.ran().relation == "none"
    step.labels()
    assert step.check().relation == "training-node"
