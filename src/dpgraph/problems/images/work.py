"""The operations of the pipeline on images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.config.record import Metric
from dpgraph.data.graph import Graph
from dpgraph.problems.classification import ClassifiedRecords
from dpgraph.problems.images import exposure as exposures
from dpgraph.problems.images.value import Images, load_images


class ImageClassification(ClassifiedRecords):
    """Values are `Images`."""

    def load(self, folder: Path, verify: bool, split: int) -> Images:
        return load_images(folder, verify=verify, split=split)

    def counts_only(self, value: Images) -> Images:
        none = np.zeros((value.num_nodes, 0), dtype=np.float32)
        return replace(self.unlabelled(value), features=none, meta={})

    def check_shown(self, value: Images, labels: bool, records: bool) -> None:
        if not records and value.num_features:
            raise ValueError("images: expected no pixels for a method whose epsilon is 0")
        self.check_labels(value, labels)

    def graph(self, value: Images) -> Graph:
        """Return images as nodes that no edge joins; methods on own records take them as they are."""
        return Graph.without_edges(replace(value, meta={**value.meta, "shape": value.shape}))

    def evaluate(self, value: Images, scores: np.ndarray, step: int, final: bool) -> list[Metric]:  # type: ignore[override]
        metrics = super().evaluate(value, scores, step, final)
        return [*metrics, *exposures.membership_metrics(value, scores, step)] if final else metrics

    def exposure_metrics(
        self, value: Images, exposure: Any, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        """Return the metrics of two discriminators' disagreements, or of model inversion."""
        if isinstance(exposure, exposures.Inversion):
            return exposures.inversion_metrics(value, exposure, step), {}
        if not isinstance(exposure, exposures.Disagreements):
            raise TypeError("images: expected what discriminators disagree on, or reconstructions")
        return exposures.disagreement_metrics(np.asarray(value.labels), exposure), {}
