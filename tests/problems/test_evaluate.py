"""Metrics of classes against counting by hand and scikit-learn's."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, recall_score

from dpgraph.core.loading import ogb_module
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.problems.classification import confusion, evaluate, predictions


def graph_of(labels, split, classes, name="t"):
    ptr = np.zeros(len(labels) + 1, dtype=np.int64)
    idx = np.zeros(0, dtype=np.int32)
    features = np.zeros((len(labels), 1), dtype=np.float32)
    return Graph(
        name=name,
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=features,
        labels=np.asarray(labels),
        split=np.asarray(split, dtype=np.uint8),
        num_classes=classes,
    )


def by_name(metrics):
    return {(metric.metric, metric.class_id): metric.value for metric in metrics}


FINITE = st.floats(-2, 2, width=16)


@st.composite
def cases(draw):
    """Up to 12 nodes in three parts: classes and parts may be absent, logits tie or be no numbers."""
    classes, count = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    each = {"min_size": count, "max_size": count}
    labels = draw(st.lists(st.integers(-1, classes - 1), **each))
    split = draw(st.lists(st.sampled_from([TRAIN, VALIDATION, TEST]), **each))
    entry = st.sampled_from([0.0, 1.0]) | FINITE | st.sampled_from([np.nan, np.inf, -np.inf])
    logits = draw(st.lists(st.lists(entry, min_size=classes, max_size=classes), **each))
    return classes, np.array(labels), np.array(split), np.array(logits)


def predicted_class(row):
    if any(value != value for value in row):
        return -1
    return next(place for place, value in enumerate(row) if all(value >= other for other in row))


def by_hand(labels, predicted):
    """Accuracy, macro-F1 over the classes that occur, and accuracy of each of these, one node at a time."""
    pairs = list(zip(labels, predicted, strict=True))
    f1, accuracy = {}, {}
    for one in sorted(set(labels)):
        hits = sum(label == guess == one for label, guess in pairs)
        actual, guessed = sum(label == one for label, _ in pairs), sum(guess == one for _, guess in pairs)
        precision, recall = (hits / guessed if guessed else 0.0), hits / actual
        f1[one] = 2 * precision * recall / (precision + recall) if hits else 0.0
        accuracy[one] = recall
    return sum(label == guess for label, guess in pairs) / len(pairs), sum(f1.values()) / len(f1), accuracy


@settings(max_examples=100, deadline=None)
@given(cases())
def test_agrees_with_counting_by_hand_and_with_scikit_learn(case):
    classes, labels, split, logits = case
    found = by_name(evaluate(graph_of(labels, split, classes), logits, 3, final=True))
    predicted = np.array([predicted_class(row) for row in logits])
    assert predictions(logits).tolist() == predicted.tolist()
    expected = {}
    for name, part in (("train", TRAIN), ("val", VALIDATION), ("test", TEST)):
        nodes = (split == part) & (labels >= 0)
        if not nodes.any():
            continue
        true, guess = labels[nodes], predicted[nodes]
        accuracy, macro, by_class = by_hand(true.tolist(), guess.tolist())
        present = np.unique(true)
        # a guess of no class is one of a class of its own, over which nothing is averaged
        macro_of_sklearn = f1_score(true, guess, labels=present, average="macro", zero_division=0)
        expected |= {(f"accuracy/{name}", -1): accuracy, (f"macro_f1/{name}", -1): macro}
        assert [accuracy, macro] == pytest.approx([accuracy_score(true, guess), macro_of_sklearn], abs=1e-12)
        assert np.mean(true == guess) == pytest.approx(accuracy, abs=1e-12)
        every = [*range(classes), -1]
        assert confusion(true, guess, classes).tolist() == confusion_matrix(true, guess, labels=every)[:-1].tolist()
        if name == "test":
            recalls = recall_score(true, guess, labels=present, average=None, zero_division=0)
            assert list(by_class.values()) == pytest.approx(recalls.tolist(), abs=1e-12)
            expected |= {("class_accuracy/test", one): value for one, value in by_class.items()}
            expected |= {("majority/test", -1): max(true.tolist().count(one) for one in true) / len(true)}
    assert found == pytest.approx(expected, abs=1e-12)


def test_micro_f1_is_accuracy():
    """Of one label for each node, where every node is given a class: so it has no row of its own."""
    random = numpy_generator("evaluator")
    labels = random.integers(0, 4, 200)
    logits = random.normal(size=(200, 5))  # class 4 is predicted but never true
    split = np.where(np.arange(200) < 80, TRAIN, TEST)
    found = by_name(evaluate(graph_of(labels, split, 5), logits, 3, final=True))
    for name, part in (("train", TRAIN), ("test", TEST)):
        true, guess = labels[split == part], logits.argmax(1)[split == part]
        assert found[f"accuracy/{name}", -1] == pytest.approx(f1_score(true, guess, average="micro"), abs=1e-12)
    assert ("accuracy/val", -1) not in found


def test_scikit_learn_is_not_loaded_by_a_training():
    """Its import takes longer than the training of a small cell."""
    modules = "dpgraph.pipeline.execute, dpgraph.problems.node_classification.work, dpgraph.problems.relations.work"
    code = f"import sys, {modules}; print([name for name in sys.modules if name.startswith('sklearn')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_nan_is_a_miss_and_unlabelled_nodes_do_not_count():
    logits = np.array([[1.0, 0.0], [np.nan, 0.0], [0.0, 1.0]])
    assert predictions(logits).tolist() == [0, -1, 1]
    found = by_name(evaluate(graph_of([0, 0, -1], [TEST, TEST, TEST], 2), logits, 1, final=True))
    assert found["accuracy/test", -1] == 0.5
    assert confusion(np.array([0, 0]), np.array([0, -1]), 2).tolist() == [[1, 0, 1], [0, 0, 0]]


def test_classes_only_at_the_end():
    metrics = evaluate(graph_of([0, 1], [TRAIN, TEST], 2), np.eye(2), 5, final=False)
    assert {metric.metric for metric in metrics} == {
        "accuracy/train",
        "accuracy/test",
        "macro_f1/train",
        "macro_f1/test",
    }
    assert {metric.step for metric in metrics} == {5}


OF_OGB = ["ogbn-arxiv", "ogbn-arxiv-text-half", "ogbn-products", "ogbn-mag"]


@pytest.mark.parametrize("name", OF_OGB)
@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_ogb_finds_the_same_numbers(name, case):
    classes, labels, split, logits = case
    ours, theirs = (evaluate(graph_of(labels, split, classes, one), logits, 1, True) for one in ("t", name))
    assert ours == theirs


@pytest.mark.parametrize("name", [*OF_OGB, "ogbn-arxivist", "pubmed"])
def test_ogb_judges_its_own_data_sets_alone(name, monkeypatch):
    asked = []
    evaluator = ogb_module("nodeproppred/evaluate.py").Evaluator
    monkeypatch.setattr(
        evaluator, "eval", lambda self, given: asked.append((self.name, len(given["y_true"]))) or {"acc": 0.25}
    )
    graph = graph_of([0, 1, -1, 1, 1], [TRAIN, TRAIN, TRAIN, VALIDATION, TEST], 2, name)
    found = by_name(evaluate(graph, np.eye(2)[[0, 0, 0, 1, 1]], 1, True))
    known = name in OF_OGB
    assert found["accuracy/test", -1] == (0.25 if known else 1.0)
    assert asked == ([("-".join(name.split("-")[:2]), count) for count in (2, 1, 1)] if known else [])
