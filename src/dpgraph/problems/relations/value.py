"""The value that methods on relations take, and its files."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.core.errors import UserError
from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES, TEST, TRAIN
from dpgraph.data.splits import random_percentages, random_split
from dpgraph.data.stored import REMEDY, ArraysHeader, read_arrays, read_header, write_stored

DTYPES = {
    "features": "float32",
    "tuples": "int32",
    "split": "uint8",
    "domain": "uint8",
    "letters": "uint8",
    "text_ends": "int64",
}


@dataclass(frozen=True, kw_only=True)
class Relations:
    """N entities with F features each, and M tuples (head, tail) of entities that the relation joins.

    A tuple of an undirected relation occurs once, its smaller entity first. `domain` is TRAIN for the entities that are
    private, TEST for those of another graph, to which what was learnt is transferred; without a transfer all are TRAIN.
    Arrays may be memory-mapped.
    """

    name: str
    features: np.ndarray  # (N, F) float32
    tuples: np.ndarray  # (M, 2) int32
    split: np.ndarray  # (M,) uint8: the tuple's part
    domain: np.ndarray  # (N,) uint8
    letters: np.ndarray  # (B,) uint8: all texts in UTF-8, one after the other; none: no texts
    text_ends: np.ndarray  # (N,) int64
    meta: dict[str, object] = field(default_factory=dict)

    @property
    def num_entities(self) -> int:
        return len(self.features)

    @property
    def num_private(self) -> int:
        """n, public: entities whose records the guarantee protects, null ones included; their ids come first."""
        return int((np.asarray(self.domain) == TRAIN).sum())

    @property
    def recorded(self) -> np.ndarray:
        """(N,) bool: entities with a text, or with features where the data have no texts."""
        if len(self.letters):  # features are functions of the text
            return np.asarray(np.diff(self.text_ends, prepend=0) > 0)
        if self.features.shape[1]:
            return np.asarray(np.any(self.features, axis=1))
        return np.ones(self.num_entities, dtype=bool)  # no records are shown: all count as present

    @property
    def present(self) -> np.ndarray:
        """(N,) bool: private entities with a record.

        One without is null: it has no loss and is no negative, whatever tuples name it.
        """
        return (np.asarray(self.domain) == TRAIN) & self.recorded

    def candidates(self, part: str) -> np.ndarray:
        """Return the ids among which the tail of a tuple of `part` is ranked: those of its graph."""
        transfer = part == "test" and self.num_private < self.num_entities
        return np.flatnonzero(np.asarray(self.domain) == (TEST if transfer else TRAIN))

    def texts(self) -> list[str]:
        """Return N texts; empty where the data have none."""
        letters, ends = np.asarray(self.letters).tobytes(), np.asarray(self.text_ends).tolist()
        return [letters[start:end].decode() for start, end in zip([0, *ends], ends)]

    def tuples_of(self, split: str) -> np.ndarray:
        """Return the (m, 2) tuples of one part."""
        return np.asarray(self.tuples)[np.asarray(self.split) == SPLIT_NAMES[split]]


class RelationsHeader(ArraysHeader):
    """The header graph.json of a relation."""

    @property
    def expected(self) -> Iterable[str]:
        return DTYPES


def save_relations(relations: Relations, folder: Path) -> None:
    """Write the relation to a folder."""
    arrays = {name: getattr(relations, name) for name in DTYPES}
    sizes = {name: len(relations.tuples_of(name)) for name in SPLIT_NAMES}
    counted: dict[str, Any] = {"nodes": relations.num_entities, "tuples": len(relations.tuples)}
    counted |= {"features": relations.features.shape[1], "split_sizes": sizes}
    write_stored(folder, relations.name, arrays, DTYPES, counted, relations.meta, problem="relations")


def load_relations(folder: Path, verify: bool = False, split: int = 0) -> Relations:
    """Return the relation with random split number `split`; features stay on disk until they are read.

    Raises DataUnavailable with the recorded reason if the data could not be had, UserError for a damaged array.
    """
    folder = Path(folder)
    header = read_header(folder, RelationsHeader)
    arrays = read_arrays(folder, header, DTYPES, verify)
    tuples, parts = arrays["tuples"], arrays["split"]
    if arrays["features"].ndim != 2 or tuples.ndim != 2 or tuples.shape[1] != 2 or parts.shape != (len(tuples),):
        raise UserError(f"{folder / 'tuples.npy'}: does not fit the other arrays of this relation ({REMEDY})")
    domain, ends = arrays["domain"], arrays["text_ends"]
    if not domain.shape == ends.shape == (len(arrays["features"]),) or np.any(np.diff(domain.astype(int)) < 0):
        raise UserError(f"{folder / 'domain.npy'}: expected the entities of the first graph first ({REMEDY})")
    if len(ends) and (ends[-1] != len(arrays["letters"]) or ends[0] < 0 or np.any(np.diff(ends) < 0)):
        raise UserError(f"{folder / 'text_ends.npy'}: does not fit the texts ({REMEDY})")
    if len(tuples) and not 0 <= tuples.min() <= tuples.max() < len(arrays["features"]):
        raise UserError(f"{folder / 'tuples.npy'}: expected entities in 0..{len(arrays['features']) - 1} ({REMEDY})")
    if not np.isin(parts, [*SPLIT_NAMES.values(), NO_SPLIT]).all():
        raise UserError(f"{folder / 'split.npy'}: expected {[*SPLIT_NAMES.values(), NO_SPLIT]} ({REMEDY})")
    relations = Relations(name=header.name, meta=header.meta, **arrays)
    task = relations.meta.get("task")
    named = str(task.get("split")) if isinstance(task, dict) else ""
    percent = random_percentages(named)
    return relations if split == 0 or percent is None else with_split(relations, percent, named, split)


def with_split(relations: Relations, percent: tuple[int, ...], name: str, number: int) -> Relations:
    """Return the relation with another random split of the tuples; the entities stay."""
    parts = random_split(np.zeros(len(relations.tuples)), percent, relations.name, name, number=number)
    return replace(relations, split=parts)
