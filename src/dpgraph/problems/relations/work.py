"""The operations of the pipeline on relations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgraph.config.record import Metric
from dpgraph.data.adjacency import transpose
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN
from dpgraph.problems.base import Counts
from dpgraph.problems.relations.evaluate import evaluate, ranks
from dpgraph.problems.relations.value import Relations, load_relations


class RelationPrediction:
    """Values are `Relations`; scores are (N, d) states of the entities, whose inner products rank tails.

    The (m,) int16 ranks of the true tails of the m test tuples are kept.
    """

    def load(self, folder: Path, verify: bool, split: int) -> Relations:
        return load_relations(folder, verify=verify, split=split)

    def counts(self, value: Relations) -> Counts:
        """Return N, the training tuples, and the number of entities, which are protected."""
        return Counts(len(value.tuples_of("train")), value.num_private)

    def blind(self, value: Relations) -> Relations:
        """Return the relation without the test tuples."""
        kept = np.asarray(value.split) != TEST
        return replace(value, tuples=np.asarray(value.tuples)[kept], split=np.asarray(value.split)[kept])

    def unlabelled(self, value: Relations) -> Relations:
        """Return the relation without any tuple."""
        return replace(value, tuples=np.zeros((0, 2), dtype=np.int32), split=np.zeros(0, dtype=np.uint8))

    def counts_only(self, value: Relations) -> Relations:
        none = np.zeros((value.num_entities, 0), dtype=np.float32)
        ends = np.zeros(value.num_entities, dtype=np.int64)
        letters = np.zeros(0, dtype=np.uint8)
        return replace(self.unlabelled(value), features=none, letters=letters, text_ends=ends, meta={})

    def check_shown(self, value: Relations, labels: bool, records: bool) -> None:
        if not records and (value.features.shape[1] or len(value.letters)):
            raise ValueError("relation: expected no features for a method whose epsilon is 0")
        if len(value.tuples_of("test")) or (not labels and len(value.tuples)):
            raise ValueError("relation: expected no tuples but those that the method may read")

    def graph(self, value: Relations) -> Graph:
        """Return entities as nodes, the present ones training nodes; a list holds the partners in owned tuples.

        A public function of their ids decides which of two entities owns their tuple.
        """
        head, tail = value.tuples_of("train").T
        own = (head + tail) % 2 == 0
        ones, shape = np.ones(len(head), dtype=np.int8), (value.num_entities, value.num_entities)
        lists = sp.coo_matrix((ones, (np.where(own, head, tail), np.where(own, tail, head))), shape=shape).tocsr()
        lists.sum_duplicates()
        ptr, idx = lists.indptr.astype(np.int64), lists.indices.astype(np.int32)
        back = transpose(ptr, idx)
        return Graph(
            name=value.name,
            features=value.features,
            labels=np.full(value.num_entities, -1, dtype=np.int64),
            split=np.where(value.present, TRAIN, NO_SPLIT).astype(np.uint8),
            num_classes=0,
            meta=value.meta,
            out_ptr=ptr,
            out_idx=idx,
            in_ptr=back[0],
            in_idx=back[1],
        )

    def evaluate(self, value: Relations, scores: np.ndarray, step: int, final: bool) -> list[Metric]:
        return evaluate(value, scores, step, final)

    def predictions(self, value: Relations, scores: np.ndarray) -> np.ndarray:
        return ranks(value, scores, "test").astype(np.int16)

    def exposure_metrics(
        self, value: Relations, exposure: Any, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        """Raise TypeError: no attack reads more than the predictions."""
        raise TypeError("relations: expected no exposure")
