import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.problems.classification import confusion, evaluate, predictions
from dpgraph.randomness import numpy_generator


def graph_of(labels, split, classes):
    ptr = np.zeros(len(labels) + 1, dtype=np.int64)
    idx = np.zeros(0, dtype=np.int32)
    features = np.zeros((len(labels), 1), dtype=np.float32)
    return Graph(
        name="t",
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


def test_agrees_with_scikit_learn():
    random = numpy_generator("evaluator")
    labels = random.integers(0, 4, 200)
    logits = random.normal(size=(200, 5))  # class 4 is predicted but never true
    split = np.where(np.arange(200) < 80, TRAIN, TEST)
    found = by_name(evaluate(graph_of(labels, split, 5), logits, 3, final=True))
    for name, mask in (("train", split == TRAIN), ("test", split == TEST)):
        predicted = logits.argmax(1)[mask]
        assert found[f"accuracy/{name}", -1] == pytest.approx(accuracy_score(labels[mask], predicted))
        expected = f1_score(labels[mask], predicted, labels=range(4), average="macro")
        assert found[f"macro_f1/{name}", -1] == pytest.approx(expected)
    for class_id in range(4):
        mask = (split == TEST) & (labels == class_id)
        assert found["class_accuracy/test", class_id] == pytest.approx((logits.argmax(1)[mask] == class_id).mean())
    assert ("accuracy/val", -1) not in found


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
