"""Labelled records with a split: what graphs and sets of images have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from dpgraph.core.errors import invalid

TRAIN, VALIDATION, TEST, NO_SPLIT = 0, 1, 2, 255
SPLIT_NAMES = {"train": TRAIN, "val": VALIDATION, "test": TEST}
DATA_DEPENDENT = "data_dependent"  # key of `meta`
FIRST_PROBLEM = "node-classification"  # of data sets that name none: it was there first


@dataclass(frozen=True, kw_only=True)
class Records:
    """N records of F numbers, each with a class or none; arrays may be memory-mapped and are read-only."""

    name: str
    features: np.ndarray  # (N, F) float32
    labels: np.ndarray  # (N,) int64; -1: none
    split: np.ndarray  # (N,) uint8: TRAIN, VALIDATION, TEST or NO_SPLIT
    num_classes: int
    meta: dict[str, object] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """N"""
        return len(self.labels)

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @cached_property
    def train_nodes(self) -> np.ndarray:
        """Ids of the training records, ascending; of a graph the roots of training subgraphs."""
        return np.flatnonzero(self.split == TRAIN)

    def nodes_of(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.split == SPLIT_NAMES[split])


class Described(Protocol):
    """A prepared data set of any kind."""

    @property
    def name(self) -> str: ...

    @property
    def meta(self) -> dict[str, object]: ...


def data_dependent(data: Described) -> tuple[str, ...]:
    """Return the steps before training that read all records together, a phrase each; no epsilon of a run covers them.

    Raises UserError for a header that states it in another form.
    """
    phrases = data.meta.get(DATA_DEPENDENT, ())
    if not isinstance(phrases, list | tuple) or not all(isinstance(one, str) for one in phrases):
        raise invalid(f"{data.name}: meta.{DATA_DEPENDENT}", phrases, "a list of texts (run the preprocessing again)")
    return tuple(phrases)
