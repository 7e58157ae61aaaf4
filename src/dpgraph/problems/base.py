"""The interface of a problem: a kind of data set with what is learnt from it."""

import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from dpgraph.config.cell import Task
from dpgraph.config.record import Metric
from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import atomic_path
from dpgraph.core.loading import load
from dpgraph.data.graph import Graph
from dpgraph.data.registry import DatasetEntry


@dataclass(frozen=True)
class Counts:
    """Public numbers of a data set that mechanisms read."""

    num_train: int  # N: training nodes, images or tuples
    num_protected: int | None = None  # everybody whose record the guarantee is for; None: the N


@dataclass(frozen=True)
class Size:
    """The sizes of a task's data that the registry expects; guesses where it states none."""

    nodes: int  # nodes, images or entities
    entries: int  # directed edges; tuples of a relation
    features: int
    classes: int
    train_nodes: int
    words: float | None = None  # features that are not 0 in a mean record; None: most
    degree_bound: int | None = None  # assumed to be public: no node has more edges
    signed: bool = False  # features are declared to be of either sign
    tokens: tuple[float, float] | None = None  # of a mean text: of those trained on, of all; None: not known

    @property
    def density(self) -> float:
        """The share of a mean record's numbers that are not 0; 1 where it is not stated."""
        return 1.0 if self.words is None else self.words / max(1, self.features)

    @property
    def megabytes(self) -> float:
        """MiB of features in float32, and of both directions of the edges as indices and weights."""
        return (4 * self.nodes * self.features + 24 * self.entries) / 2**20


class Work(Protocol):
    """The operations on the data of a problem. `value` is of the problem's own class; it has a name and `meta`."""

    def load(self, folder: Path, verify: bool, split: int) -> Any:
        """Return the value with random split number `split`. Raise DataUnavailable with the recorded reason."""

    def counts(self, value: Any) -> Counts:
        """Return the public counts, which are equal for all splits."""

    def blind(self, value: Any) -> Any:
        """Return the value as a method without privacy may read it: the tested parts are hidden."""

    def unlabelled(self, value: Any) -> Any:
        """Return the value as a private method may read it, next to its prepared step."""

    def counts_only(self, value: Any) -> Any:
        """Return the value as a method with epsilon 0 may read it: without records."""

    def check_shown(self, value: Any, labels: bool, records: bool) -> None:
        """Raise ValueError for a value that shows more than a method may read: labels, or any record."""

    def graph(self, value: Any) -> Graph:
        """Return the records as prepared steps read them. Raise UserError where they cannot read this problem's."""

    def evaluate(self, value: Any, scores: np.ndarray, step: int, final: bool) -> list[Metric]:
        """Return the metrics of a method's `Outcome.logits`; `value` is the whole one."""

    def predictions(self, value: Any, scores: np.ndarray) -> np.ndarray:
        """Return the part of a seed's scores that is kept: small, and enough for all tables."""

    def exposure_metrics(
        self, value: Any, exposure: Any, step: int, *names: str | int
    ) -> tuple[tuple[Metric, ...], dict[str, str]]:
        """Return metrics of attacks on a method's exposure, and notes for the record."""


class SavedArrays:
    """A base of dataclasses of arrays that a job leaves in a file: what a method exposes to attacks."""

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary:
            np.savez(temporary, **{one.name: getattr(self, one.name) for one in fields(self)})  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the saved arrays. Raise UserError for a damaged file."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return cls(**{one.name: arrays[one.name] for one in fields(cls)})  # type: ignore[arg-type]
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile):
            raise UserError(f"{path}: damaged; delete result.json next to it and train the cell again") from None


@dataclass(frozen=True)
class Problem:
    """A problem's own description, without torch. No other module knows a problem by its name.

    `store` is called with the task, the registry's entry, the reader's result and the folder to fill.
    """

    name: str
    summary: str
    store: str  # "module:function" (task, entry of the registry, what its reader returned, folder to fill)
    work: str  # "module:class" of a `Work`
    settings: tuple[str, ...] = ("transductive",)  # of its tasks
    features: str = "raw"  # regular expression of the feature transforms of its tasks
    size: Callable[[Task, DatasetEntry], Size] = field(default=lambda task, known: size_by_registry(task, known))

    def check(self, task: Task) -> None:
        """Raise UserError for a setting or a feature transform that the problem does not have."""
        if task.setting not in self.settings:
            raise invalid("task.setting", task.setting, f"{' or '.join(self.settings)} for the problem {self.name}")
        if not re.fullmatch(self.features, task.features):
            raise invalid("task.features", task.features, f"{self.features} for the problem {self.name}")

    def working(self) -> Work:
        """Return the problem's `Work`."""
        return load(self.work)()  # type: ignore[no-any-return]


def described(task: Task, known: DatasetEntry) -> dict[str, object]:
    """Return the `meta` that every stored data set has."""
    return {
        "task": task.model_dump(mode="json"),
        "title": known.title,
        "licence": known.licence.name,
        "upstream": list(known.upstream),
    }


def class_count(known: DatasetEntry, labels: np.ndarray) -> tuple[int, tuple[str, ...]]:
    """Return the number of classes, the registry's or counted over all labels, and what was so read of the records."""
    if known.expected.classes:
        return known.expected.classes, ()
    return int(labels.max(initial=-1)) + 1, ("the number of classes: counted over all labels",)


def check_expected(dataset: str, known: DatasetEntry, seen: Mapping[str, object]) -> None:
    """Raise UserError that names the first statistic in which the files differ from the registry, with both values."""
    for statistic, value in seen.items():
        wanted = getattr(known.expected, statistic)
        if wanted is not None and wanted != value:
            raise UserError(f"{dataset}: {statistic}={value}: expected {wanted} as in the registry")


def size_by_registry(task: Task, known: DatasetEntry) -> Size:
    """Return the sizes of a task's data, from the numbers of the registry."""
    expected = known.expected
    nodes = expected.nodes or 20_000
    entries = expected.entries if expected.entries is not None else round((expected.mean_degree or 10) * nodes)
    features = expected.features or 2_000
    if task.features.startswith("project-"):
        features = min(features, int(task.features.removeprefix("project-")))
    train = round(0.7 * nodes)
    if expected.split is not None:
        train = expected.split[0] if task.split == "public" else nodes - sum(expected.split[1:])
    if task.split.startswith(("random-", "ratio-")):
        train = nodes * int(task.split.split("-")[1]) // 100
    if task.split.startswith("per-class-"):
        train = (expected.classes or 10) * int(task.split.split("-")[2])
    projected = task.features.startswith("project-")  # on directions of both signs
    return Size(
        nodes=nodes,
        entries=entries,
        features=features,
        classes=expected.classes or 10,
        train_nodes=max(train, 1),
        words=None if projected else expected.words,
        degree_bound=known.degree_bound,
        signed=projected or bool(expected.signed),
    )
