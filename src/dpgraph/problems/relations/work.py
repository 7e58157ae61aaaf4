"""What the pipeline does with relations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST
from dpgraph.errors import UserError
from dpgraph.experiments.record import Metric
from dpgraph.problems.base import Counts
from dpgraph.problems.relations.evaluate import evaluate, ranks
from dpgraph.problems.relations.value import Relations, load_relations


class RelationPrediction:
    """Values are `Relations`; scores are (N, d) states of the entities, whose inner products rank tails.

    Kept are (m,) int16 ranks of the true tails of the m test tuples.
    """

    def load(self, folder: Path, verify: bool, split: int) -> Relations:
        return load_relations(folder, verify=verify, split=split)

    def counts(self, value: Relations) -> Counts:
        """N are the training tuples; protected are the entities."""
        return Counts(len(value.tuples_of("train")), value.num_entities)

    def blind(self, value: Relations) -> Relations:
        """Without the test tuples."""
        kept = np.asarray(value.split) != TEST
        return replace(value, tuples=np.asarray(value.tuples)[kept], split=np.asarray(value.split)[kept])

    def unlabelled(self, value: Relations) -> Relations:
        """Without any tuple."""
        return replace(value, tuples=np.zeros((0, 2), dtype=np.int32), split=np.zeros(0, dtype=np.uint8))

    def counts_only(self, value: Relations) -> Relations:
        none = np.zeros((value.num_entities, 0), dtype=np.float32)
        return replace(self.unlabelled(value), features=none, meta={})

    def check_shown(self, value: Relations, labels: bool, records: bool) -> None:
        if not records and value.features.shape[1]:
            raise ValueError("relation: expected no features for a method whose epsilon is 0")
        if len(value.tuples_of("test")) or (not labels and len(value.tuples)):
            raise ValueError("relation: expected no tuples but those that the method may read")

    def graph(self, value: Relations) -> Graph:
        raise UserError(f"{value.name}: relations have no records that a prepared step reads: expected another method")

    def evaluate(self, value: Relations, scores: np.ndarray, step: int, final: bool) -> list[Metric]:
        return evaluate(value, scores, step, final)

    def predictions(self, value: Relations, scores: np.ndarray) -> np.ndarray:
        return ranks(value, scores, "test").astype(np.int16)

    def exposure_metrics(
        self, value: Relations, exposure: Any, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        """No attack reads more than the predictions yet."""
        raise TypeError("relations: expected no exposure")
