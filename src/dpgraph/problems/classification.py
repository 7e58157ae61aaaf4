"""Metrics of classification from logits, in float64, for every method alike.

They are a few lines on one confusion matrix, equal to scikit-learn's (tests/problems/test_evaluate.py), whose import
would cost every training job more time than the training of a small cell. The package ogb judges the accuracy on its
own data sets, and on variants of these.
"""

import re
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.core.loading import ogb_module
from dpgraph.data.records import SPLIT_NAMES, TRAIN, VALIDATION, Records
from dpgraph.problems.base import Counts

R = TypeVar("R", bound=Records)
OF_OGB = re.compile(r"(ogbn-(?:arxiv|products|mag))(-.*)?")  # judged by accuracy


def predictions(logits: np.ndarray) -> np.ndarray:
    """Return (N,) the class with the largest logit; the smallest id among ties, -1 where any logit is not a number."""
    largest = np.argmax(logits, axis=1)
    return np.where(np.isnan(logits).any(axis=1), -1, largest)


def hidden_labels(records: Records) -> np.ndarray:
    """Return the (N,) labels as methods see them: -1 outside training and validation."""
    return np.where(np.isin(records.split, (TRAIN, VALIDATION)), records.labels, -1)


def evaluate(records: Records, logits: np.ndarray, step: int, final: bool) -> list[Metric]:
    """Return accuracy and macro-F1 of each split with labelled nodes; of the test nodes also accuracy by class, and
    chance.

    Chance level is the share of the largest class, which no constant prediction exceeds. Micro-F1 of a single-label
    task equals accuracy, so it has no row. Macro-F1 averages over the classes that occur in the split's labels.
    """
    predicted = predictions(logits)
    labels = np.asarray(records.labels)
    judge = _evaluator(found[1]) if (found := OF_OGB.fullmatch(records.name)) else None
    metrics = []

    def add(name: str, value: float, class_id: int = -1) -> None:
        metrics.append(Metric(step=step, final=final, metric=name, class_id=class_id, value=float(value)))

    for split in SPLIT_NAMES:
        nodes = records.nodes_of(split)
        nodes = nodes[labels[nodes] >= 0]
        if not len(nodes):
            continue
        counts = confusion(labels[nodes], predicted[nodes], records.num_classes)
        support, hits = counts.sum(1), np.diagonal(counts)
        present = support > 0
        accuracy = hits.sum() / support.sum()
        if judge is not None:
            accuracy = judge.eval({"y_true": labels[nodes, None], "y_pred": predicted[nodes, None]})["acc"]
        add(f"accuracy/{split}", accuracy)
        # F1 = 2 TP / (actual + predicted); a prediction of no class counts as a miss only
        add(f"macro_f1/{split}", (2 * hits / np.maximum(support + counts[:, :-1].sum(0), 1))[present].mean())
        if split == "test" and final:
            add("majority/test", support.max() / support.sum())
            for class_id in np.flatnonzero(present):
                add("class_accuracy/test", hits[class_id] / support[class_id], int(class_id))
    return metrics


@cache
def _evaluator(name: str) -> Any:
    """Return OGB's own judge of a data set."""
    return ogb_module("nodeproppred/evaluate.py").Evaluator(name)


def confusion(labels: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Return counts (classes, classes + 1): rows are labels, columns predictions; the last column is "no class"."""
    columns = np.where(predicted < 0, num_classes, predicted)
    flat = np.bincount(labels * (num_classes + 1) + columns, minlength=num_classes * (num_classes + 1))
    return flat.reshape(num_classes, num_classes + 1).astype(np.float64)


class ClassifiedRecords:
    """The operations that graphs and images share: scores are (N, classes) logits, (N,) int16 classes are kept."""

    def counts(self, value: Records) -> Counts:
        return Counts(len(value.train_nodes), value.num_nodes)

    def blind(self, value: R) -> R:
        """Return the records as methods see them: labels outside training and validation are -1."""
        return replace(value, labels=hidden_labels(value))

    def unlabelled(self, value: R) -> R:
        return replace(value, labels=np.full(value.num_nodes, -1, dtype=np.int64))

    def check_labels(self, value: Records, labels: bool) -> None:
        """Raise ValueError for labels outside training and validation, and for any if `labels` is false."""
        allowed = np.isin(value.split, (TRAIN, VALIDATION)) & labels
        if (np.asarray(value.labels)[~allowed] >= 0).any():
            raise ValueError(f"{value.name}: expected no labels but those that the method may read")

    def evaluate(self, value: Records, scores: np.ndarray, step: int, final: bool) -> list[Metric]:
        return evaluate(value, scores, step, final)

    def predictions(self, value: Records, scores: np.ndarray) -> np.ndarray:
        """Return (N,) int16 classes, -1 for none."""
        return predictions(scores).astype(np.int16)
