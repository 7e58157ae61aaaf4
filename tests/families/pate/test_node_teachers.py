"""Teachers on nodes, all at once: each as if it were alone, on the subgraph of its part and the public nodes."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from dpgraph.audits import cases
from dpgraph.audits.cases import NODE_TEACHER_KINDS
from dpgraph.config.frozen import digest
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.adjacency import Csr
from dpgraph.data.records import TEST, VALIDATION
from dpgraph.families.pate.audit import TEACHERS
from dpgraph.families.pate.nodes.audit import PUBLIC, RECORDS, graph_of, prepared
from dpgraph.families.pate.nodes.prepared import (
    STACK,
    NodeTeacherPlan,
    PreparedNodeTeachers,
    edges_in_views,
    even_parts,
    fitted,
    node_teachers_votes,
    queries_of,
    view_means,
)
from dpgraph.families.pate.prepared import NOISE
from tests.contract.cells import changed

NODES, TRAINING, QUERIES, CLASSES = 120, 90, 20, 3
TRAIN, ASKED = np.arange(TRAINING), np.arange(TRAINING, TRAINING + QUERIES)
PLAN = NodeTeacherPlan(teachers=9, reads="means", components=4, ridge=0.1, names=("test", "nodes"))


def graph(directed: bool = False):
    """Rows, labels and a dense adjacency: entry (u, w) says that w is in u's list."""
    random = numpy_generator("test", "node teachers")
    entries = random.random((NODES, NODES)) < 0.15
    entries = entries & ~np.eye(NODES, dtype=bool) if directed else np.triu(entries, 1) | np.triu(entries, 1).T
    return random.normal(size=(NODES, 4)).astype(np.float32), random.integers(0, CLASSES, NODES), entries


def lists_of(entries) -> Csr:
    owners, members = np.nonzero(entries)
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=NODES))]), members


def votes(rows, labels, entries, plan=PLAN):
    return node_teachers_votes(torch.from_numpy(rows), labels, lists_of(entries), TRAIN, ASKED, CLASSES, plan)


def one_teacher(rows, labels, entries, part, reads):
    """By itself, with dense matrices, from nothing but its view; ridge regression from normal equations."""
    view = np.concatenate([np.flatnonzero(part), ASKED])
    states, inner = rows[view].astype(np.float64), entries[np.ix_(view, view)] | np.eye(len(view), dtype=bool)
    if reads == "means":
        mean = inner / inner.sum(axis=1, keepdims=True)
        states = mean @ mean @ states
    states = np.concatenate([states, np.ones((len(view), 1))], axis=1)
    known = labels[view[: part.sum()]] >= 0
    own, wanted = states[: part.sum()][known], np.eye(CLASSES)[labels[view[: part.sum()]][known]]
    weights = np.linalg.solve(own.T @ own + PLAN.ridge * np.eye(own.shape[1]), own.T @ wanted)
    return (states[part.sum() :] @ weights).argmax(axis=1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("reads", "teachers"), [("own", 9), ("means", 9), ("means", STACK + 5)])
def test_each_teacher_is_what_it_is_alone_on_its_view(reads, teachers, directed):
    rows, labels, entries = graph(directed)
    labels[7] = -1
    plan = replace(PLAN, reads=reads, teachers=teachers)
    found, parts = votes(rows, labels, entries, plan), even_parts(teachers, NODES, TRAIN, *PLAN.names)
    wanted = np.stack([one_teacher(rows, labels, entries, parts == one, reads) for one in range(teachers)])
    assert np.array_equal(found, wanted)
    assert found.dtype == np.int16


def test_parts_are_disjoint_even_and_of_public_ids_alone():
    parts = even_parts(7, NODES, TRAIN, "a")
    assert (parts[TRAINING:] == -1).all()
    sizes = np.bincount(parts[TRAIN], minlength=7)
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(parts, even_parts(7, NODES, TRAIN, "a"))
    assert not np.array_equal(parts, even_parts(7, NODES, TRAIN, "b"))


@pytest.mark.parametrize("teachers", [0, TRAINING + 1])
def test_more_teachers_than_nodes_are_one_line(teachers):
    line = rf"^training.teachers={teachers}: expected at most 90, the number of training nodes$"
    with pytest.raises(UserError, match=line):
        even_parts(teachers, NODES, TRAIN, "a")


@pytest.mark.parametrize("node", [0, 33])
def test_a_node_of_any_degree_moves_one_teacher_only(node):
    """Another record, and edges to all nodes; or it leaves with all edges, without label and features."""
    rows, labels, entries = graph()
    before, part = votes(rows, labels, entries), even_parts(9, NODES, TRAIN, *PLAN.names)[node]
    for connected, content, label in ((True, 5.0, (labels[node] + 1) % CLASSES), (False, 0.0, -1)):
        other, features, classes = entries.copy(), rows.copy(), labels.copy()
        other[node], other[:, node] = connected, connected
        other[node, node] = False
        features[node], classes[node] = content, label
        moved = (votes(features, classes, other) != before).any(axis=1)
        assert np.flatnonzero(moved).tolist() == [part]


def test_nodes_that_are_neither_taught_nor_asked_are_not_read():
    rows, labels, entries = graph()
    before = votes(rows, labels, entries)
    rows[TRAINING + QUERIES :], labels[TRAINING:] = 9.0, 0  # classes of public nodes neither
    entries[TRAINING + QUERIES :], entries[:, TRAINING + QUERIES :] = True, True
    assert np.array_equal(votes(rows, labels, entries), before)


def test_edges_between_parts_are_in_no_view():
    _, _, entries = graph()
    parts = even_parts(9, NODES, TRAIN, *PLAN.names)
    owners, members = edges_in_views(lists_of(entries), parts, ASKED)
    both = np.isin(owners, TRAIN) & np.isin(members, TRAIN)
    assert both.any()
    assert (parts[owners[both]] == parts[members[both]]).all()


def test_a_teacher_without_labels_answers_the_first_class():
    rows, labels, entries = graph()
    parts = even_parts(9, NODES, TRAIN, *PLAN.names)
    labels[parts == 4] = -1
    assert (votes(rows, labels, entries)[4] == 0).all()


def test_views_have_no_edges_where_there_are_none():
    rows, _, entries = graph()
    parts = even_parts(9, NODES, TRAIN, *PLAN.names)
    mine = TRAIN[np.argsort(parts[TRAIN], kind="stable")]
    nothing = edges_in_views(lists_of(np.zeros_like(entries)), parts, ASKED)
    own, asked = view_means(torch.from_numpy(rows), nothing, parts, mine, ASKED, 0, 9)
    assert np.allclose(own, rows[mine])
    assert np.allclose(asked, rows[ASKED][None])


def test_weights_of_a_group_do_not_depend_on_the_others():
    rows = torch.from_numpy(graph()[0])
    labels = np.arange(10) % CLASSES
    sizes = np.array([4, 6])
    both = fitted(rows[:10], labels, sizes, CLASSES, 0.3)
    assert torch.allclose(both[0], fitted(rows[:4], labels[:4], sizes[:1], CLASSES, 0.3)[0], atol=1e-5)
    assert torch.allclose(both[1], fitted(rows[4:10], labels[4:], sizes[1:], CLASSES, 0.3)[0], atol=1e-5)


@pytest.mark.parametrize("content", [3000.0, 1e8, 3e38, np.inf])
def test_a_record_that_makes_a_system_singular_moves_its_teacher_alone(content):
    """Twins: the ridge is rounded away beside their products. Other teachers' weights keep every bit."""
    rows, labels = torch.from_numpy(graph()[0])[:10].clone(), np.arange(10) % CLASSES
    sizes = np.array([4, 6])
    before = fitted(rows, labels, sizes, CLASSES, 0.1)
    rows[:2] = torch.tensor([content, 0.0, 0.0, 0.0])
    after = fitted(rows, labels, sizes, CLASSES, 0.1)
    assert (after[0] == 0).all()
    assert torch.equal(after[1], before[1])


def test_usual_systems_are_solved_to_the_same_bits_as_by_a_solver_that_raises():
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        rows = torch.randn(60, 5, generator=random) * 10 ** (seed / 10)
        labels, sizes = np.arange(60) % CLASSES, np.array([10, 25, 25])
        with patch.object(torch.linalg, "solve_ex", lambda *told: (torch.linalg.solve(*told), torch.zeros(3))):
            wanted = fitted(rows, labels, sizes, CLASSES, 0.1)
        assert torch.equal(fitted(rows, labels, sizes, CLASSES, 0.1), wanted)


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


@pytest.mark.parametrize("reads", ["own", "means"])
def test_there_is_a_release_whatever_one_record_holds(reads):
    """Else an error would tell of it. Means of a huge record are huge rows of several nodes of its view."""
    value = graph_of(PUBLIC, edges())
    before = prepared(KIND, value, reads, 0, CAPS).votes()
    for node in range(RECORDS):
        features = value.features.copy()
        features[node] = 1e8
        step = prepared(KIND, replace(value, features=features), reads, 0, CAPS)
        assert ((step.votes() != before).any(axis=1)).sum() <= 1
        assert step.labels().shape == (PUBLIC,)


def test_each_kind_of_device_has_noise_of_its_own_and_a_cpus_keeps_its_name():
    """Devices round differently: votes may differ in two runs whose settings are the same."""
    step = prepared(KIND, graph_of(PUBLIC), "own", 0, CAPS)
    names = step.ledger.entries[NOISE].names
    assert names[-1] == digest([step.gnmax.chosen, step.plan.told(), step.threshold], 32)
    with patch.object(cases, "CPU", torch.device("meta")):  # another device that every machine has
        other = prepared(KIND, graph_of(PUBLIC), "own", 0, CAPS).ledger.entries[NOISE].names
    assert other[:-1] == names[:-1]
    assert other[-1] != names[-1]


@pytest.mark.parametrize("method", ["dp-node-pate-own", "node-pate-means", "dp-pate-gan", "pate-co-teaching-plus"])
@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_votes_have_one_precision(method, precision):
    """Another one gives other votes, and its noise would have the same name."""
    with pytest.raises(UserError, match=rf"training.precision={precision}: expected 'float32'$"):
        changed(method, training={"precision": precision})


def test_a_release_states_its_relation_once_it_is_made():
    step = prepared(KIND, graph_of(PUBLIC), "own", 0, CAPS)
    assert step.ran().relation == "none"
    step.labels()
    assert step.check().relation == "training-node"
