"""The operations of the pipeline on images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.problems.base import Counts
from dpgraph.problems.classification import evaluate, hidden_labels, predictions
from dpgraph.problems.images.exposure import (
    Disagreements,
    Inversion,
    disagreement_metrics,
    inversion_metrics,
    membership_metrics,
)
from dpgraph.problems.images.value import Images, load_images


class ImageClassification:
    """Values are `Images`; scores are (N, classes) logits; (N,) int16 classes are kept, -1 for none."""

    def load(self, folder: Path, verify: bool, split: int) -> Images:
        return load_images(folder, verify=verify, split=split)

    def counts(self, value: Images) -> Counts:
        return Counts(len(value.train_nodes), value.num_nodes)

    def blind(self, value: Images) -> Images:
        return replace(value, labels=hidden_labels(value))

    def unlabelled(self, value: Images) -> Images:
        return replace(value, labels=np.full(value.num_nodes, -1, dtype=np.int64))

    def counts_only(self, value: Images) -> Images:
        none = np.zeros((value.num_nodes, 0), dtype=np.float32)
        return replace(self.unlabelled(value), features=none, meta={})

    def check_shown(self, value: Images, labels: bool, records: bool) -> None:
        if not records and value.num_features:
            raise ValueError("images: expected no pixels for a method whose epsilon is 0")
        allowed = np.isin(value.split, (TRAIN, VALIDATION)) & labels
        if (np.asarray(value.labels)[~allowed] >= 0).any():
            raise ValueError("images: expected no labels but those that the method may read")

    def graph(self, value: Images) -> Graph:
        """Return images as nodes that no edge joins; methods on own records take them as they are."""
        return Graph.without_edges(replace(value, meta={**value.meta, "shape": value.shape}))

    def evaluate(self, value: Images, scores: np.ndarray, step: int, final: bool) -> list[Metric]:
        metrics = evaluate(value, scores, step, final)
        return [*metrics, *membership_metrics(value, scores, step)] if final else metrics

    def predictions(self, value: Images, scores: np.ndarray) -> np.ndarray:
        return predictions(scores).astype(np.int16)

    def exposure_metrics(
        self, value: Images, exposure: Any, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        """Return the metrics of two discriminators' disagreements, or of model inversion."""
        if isinstance(exposure, Inversion):
            return inversion_metrics(value, exposure, step), {}
        if not isinstance(exposure, Disagreements):
            raise TypeError("images: expected what discriminators disagree on, or reconstructions")
        return disagreement_metrics(np.asarray(value.labels), exposure), {}
