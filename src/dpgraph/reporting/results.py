"""results.parquet: reads it and gives the outcome of one entry of an artefact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from scipy.special import stdtrit

from dpgraph.config.cell import Task
from dpgraph.config.experiment import ACCURACY
from dpgraph.core.errors import UserError
from dpgraph.core.files import atomic_path
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import dictionary
from dpgraph.reporting.aggregate import CALIBRATED, COLUMNS, GRAPH, TRAIN_NODES, own_rows
from dpgraph.reporting.guarantee import COLUMN, PLACES, RunGuarantee, text, unpacked
from dpgraph.reporting.quantities import Quantity, quantity
from dpgraph.reporting.views.registry import SuiteFiles, inputs_of

CONFIDENCE = 0.95
# columns of every table that shows epsilons
PRIVACY = tuple(name for name in PLACES if name not in ("relation_claimed", "scope_claimed", "checks", "eps_beside"))


@dataclass(frozen=True)
class Summary:
    """A summary of one value per seed, in the unit of `scale` times the stored fraction."""

    mean: float
    std: float  # sample standard deviation (ddof = 1); nan for one seed
    n: int
    low: float  # 95 % Student t interval of the mean; nan for one seed
    high: float

    @property
    def columns(self) -> dict[str, float]:
        return {"mean": self.mean, "std": self.std, "ci_low": self.low, "ci_high": self.high}


def summarise(values: np.ndarray, scale: float = 100.0) -> Summary:
    """Return mean, sample standard deviation and 95 % Student t interval: exact for normal values, also at few seeds.

    >>> summarise(np.array([0.5, 0.6, 0.7])).n
    3
    """
    scaled = scale * np.asarray(values, dtype=float)
    n = len(scaled)
    mean = float(scaled.mean()) if n else np.nan
    if n < 2:
        return Summary(mean, np.nan, n, np.nan, np.nan)
    std = float(scaled.std(ddof=1))
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * std / np.sqrt(n)
    return Summary(mean, std, n, mean - half, mean + half)


def over_seeds(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the columns of one measure: mean and sample standard deviation; nan for too few seeds."""
    n = len(values)
    return {f"{name}_mean": values.mean() if n else np.nan, f"{name}_std": values.std(ddof=1) if n > 1 else np.nan}


@dataclass(frozen=True)
class EntryResult:
    """The outcome of one cell and metric at one step."""

    status: str  # ok, failed or not run
    reason: str
    values: pd.Series  # as stored, by seed: a share is a fraction
    guarantee: RunGuarantee = field(default_factory=RunGuarantee)
    fallback: str = ""
    metric: str = ACCURACY
    # the paper's own numbers by its name of the data set, in the unit that is shown, where who asks looked them up
    printed: Mapping[str, float] = field(default_factory=dict)
    members: tuple[tuple[Entry, EntryResult], ...] = ()  # of a mean over data sets: what it is the mean of

    @classmethod
    def not_run(cls, reason: str) -> EntryResult:
        return cls("not run", reason, pd.Series(dtype=float))

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def why_not(self) -> str:
        """Return why there is no value, as `failed: out of memory`; empty when ok."""
        return "" if self.ok else f"{self.status}: {self.reason}" if self.reason else self.status

    @property
    def privacy(self) -> dict[str, Any]:
        """Return the columns of every table that shows epsilons: both, and what they are about."""
        columns = self.guarantee.columns
        return {name: columns[name] for name in PRIVACY}

    @property
    def quantity(self) -> Quantity:
        return quantity(self.metric)

    @property
    def shown(self) -> np.ndarray:
        """Return values in the unit in which they are shown: shares in percent."""
        return self.quantity.scale * self.values.to_numpy(float)

    @property
    def shown_by_seed(self) -> pd.Series:
        return self.quantity.scale * self.values.astype(float)

    def summary(self) -> Summary:
        return summarise(self.values.to_numpy(), self.quantity.scale)

    def minus(self, other: EntryResult) -> Summary:
        """Return the summary of the differences from another outcome, seed by seed, over the seeds that both have."""
        return summarise((self.shown_by_seed - other.shown_by_seed).dropna().to_numpy(), scale=1.0)


MISSING = EntryResult.not_run("")  # how to run it is said once, below the table or figure
NO_PLACES = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Results:
    """Rows of results.parquet, found by paper and cell."""

    frame: pd.DataFrame
    # claims request the same outcome many times
    _outcomes: dict[tuple[Any, ...], EntryResult] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, frame: pd.DataFrame | None) -> Results:
        """Return the results of a frame; None: every entry is `MISSING`."""
        return cls(pd.DataFrame(columns=list(COLUMNS)) if frame is None else frame)

    def __post_init__(self) -> None:
        for column in COLUMNS:
            if column not in self.frame.columns:
                raise UserError(f"results: column {column} is missing")

    @cached_property
    def _of_cells(self) -> Mapping[Any, np.ndarray]:
        """Places of rows by paper and cell."""
        return self.frame.groupby(["paper", "cell"], sort=False).indices

    @cached_property
    def _of_metrics(self) -> Mapping[Any, np.ndarray]:
        """Places of rows by paper, cell and metric."""
        return self.frame.groupby(["paper", "cell", "metric"], sort=False).indices

    @cached_property
    def _ok(self) -> np.ndarray:
        return (self.frame["status"] == "ok").to_numpy(bool, na_value=False)

    @cached_property
    def _valued(self) -> np.ndarray:
        return self._ok & self.frame["value"].notna().to_numpy(bool)

    def _of_cell(self, entry: Entry) -> pd.DataFrame:
        return self._rows(self._of_cells.get((entry.paper, entry.cell.slug), NO_PLACES))

    def _rows(self, places: np.ndarray) -> pd.DataFrame:
        return self.frame.take(places) if len(places) else self.frame.iloc[:0]

    def good(self, entry: Entry, metric: str) -> pd.DataFrame:
        """Return the rows of the entry's cell with a value of the metric: of the entry's seeds, all steps and classes.

        The cell may have more seeds: the trials of a search have their own.
        """
        places = self._of_metrics.get((entry.paper, entry.cell.slug, metric), NO_PLACES)
        own = np.isin(self.frame["seed"].to_numpy()[places], entry.cell.seeds)
        return self._rows(places[self._valued[places] & own])

    def parts(self, entry: Entry, kind: str) -> dict[str, pd.DataFrame]:
        """Return the rows of the entry's metrics `kind/...` by what follows the slash."""
        rows = self._of_cell(entry)
        names = rows.loc[(rows["status"] == "ok") & rows["metric"].str.startswith(f"{kind}/"), "metric"].unique()
        return {name.removeprefix(f"{kind}/"): self.good(entry, name) for name in names}

    def reason_of(self, entry: Entry, metric: str) -> str:
        """Return why a derived metric has no value; empty where it has one, or no row."""
        rows = self._of_cell(entry)
        return text(rows.loc[(rows["metric"] == metric) & (rows["status"] == "ok"), "reason"])

    def calibration(self, entry: Entry) -> pd.DataFrame:
        """Return the row of the entry's calibration; none where it is not there."""
        rows = self._of_cell(entry)
        return rows[rows["metric"] == CALIBRATED].head(1)

    def bad(self, entry: Entry) -> pd.DataFrame:
        """Return the rows that state why the cell (seed -1), or a seed of the entry, has no values."""
        places = self._of_cells.get((entry.paper, entry.cell.slug), NO_PLACES)
        own = np.isin(self.frame["seed"].to_numpy()[places], (-1, *entry.cell.seeds))
        return self._rows(places[~self._ok[places] & own])

    def outcome(self, entry: Entry, metric: str) -> EntryResult:
        """Return the last step of every seed. A cell with some good seeds is ok; it has fewer values than planned."""
        place = (entry.paper, entry.cell.slug, metric, entry.cell.seeds)
        if place not in self._outcomes:
            good = self.good(entry, metric)
            self._outcomes[place] = self._outcome(entry, metric, good[good["final"].astype(bool)])
        return self._outcomes[place]

    def outcomes(self, plan: Plan, artefact_id: str) -> list[tuple[Entry, EntryResult]]:
        """Return the artefact's entries, in its order, each with the outcome of the artefact's metric."""
        metric = plan.artefacts[artefact_id].metric
        return [(entry, self.outcome(entry, metric)) for entry in plan.entries_of(artefact_id)]

    def along_training(self, entry: Entry, metric: str) -> list[tuple[int, EntryResult]]:
        """Return (step, outcome) at every evaluation, ascending, with that step's epsilons; empty without values."""
        steps = self.good(entry, metric).groupby("step", sort=True)
        return [(int(step), self._outcome(entry, metric, good)) for step, good in steps]

    def reference(self, entry: Entry, metric: str) -> dict[str, float]:
        """Return column `reference`: mean of the chance baseline; no column where the metric has none."""
        name = quantity(metric).reference
        return {"reference": self.outcome(entry, name).summary().mean} if name else {}

    def by_class(self, entry: Entry, metric: str = "class_accuracy/test") -> pd.DataFrame:
        """Return fractions at the last step, a row per seed and a column per class that occurs there."""
        good = self.good(entry, metric)
        good = good[good["final"].astype(bool)]
        return good.pivot(index="seed", columns="class_id", values="value").astype(float)

    def _outcome(self, entry: Entry, metric: str, good: pd.DataFrame) -> EntryResult:
        if (entry.paper, entry.cell.slug) not in self._of_cells:
            return MISSING
        bad = self.bad(entry)
        if good.empty:
            if bad.empty:
                return EntryResult.not_run(f"no value of {metric}")
            status = str(bad["status"].iloc[0])
            return EntryResult(
                status, text(bad["reason"]), MISSING.values, RunGuarantee.weakest(bad), text(bad["fallback"])
            )
        values = good.set_index("seed")["value"].astype(float).sort_index()
        if values.index.has_duplicates:
            raise UserError(f"results: cell {entry.cell.slug} has more than one {metric} of one seed at one step")
        return EntryResult(
            "ok", text(bad["reason"]), values, RunGuarantee.weakest(good), text(good["fallback"]), metric
        )


def ran(table: pd.DataFrame) -> bool:
    """Return whether a row of a table was run, or needs no run."""
    return "status" not in table or bool((table["status"] != "not run").any())


NOT_PRINTED = ("published_dataset", "published_unmet")  # what a row is of, and a premise of ours


def worth_showing(table: pd.DataFrame) -> pd.DataFrame:
    """Return all rows of a table if one of them was run, otherwise those for which the paper prints something."""
    if ran(table):
        return table
    printed = table.filter(regex="^(gap_)?published").drop(columns=list(NOT_PRINTED), errors="ignore")
    return table[~printed.isin(["", np.nan]).all(axis=1)]


def read_results(path: Path | BytesIO, more: tuple[str, ...] = ()) -> pd.DataFrame:
    """Read the rows as the workflow aggregated them, with columns of settings or mechanisms that `more` begins.

    Raises UserError, which names a missing column.
    """
    if isinstance(path, Path) and not path.is_file():
        raise UserError(f"{path}: no such file: run `dpgraph run {path}` first, with the same --suite")
    try:
        # settings of the cells are for readers: no table is made of them
        names = pq.read_schema(path).names
        kept = [name for name in names if name in (*COLUMNS, COLUMN) or (more and name.startswith(more))]
        frame = unpacked(pq.read_table(path, columns=kept, page_checksum_verification=True)).to_pandas()
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (OSError, ValueError, TypeError, LookupError, RuntimeError, MemoryError) as error:  # as Arrow finds damage
        reason = " ".join(str(error).split())[:120]
        raise UserError(f"{path}: not a parquet file ({reason}): delete it and run again") from None
    for column, kind in COLUMNS.items():
        if column not in frame.columns:
            raise UserError(f"{path}: column {column} is missing")
        if (frame[column].dtype.kind in "iufb") != (kind != "string"):
            raise UserError(f"{path}: column {column} has type {frame[column].dtype}: expected {kind}")
    return frame[[*COLUMNS, *(name for name in frame if name not in COLUMNS)]]


def rows_for(plan: Plan, artefact_id: str) -> pd.DataFrame | None:
    """Return the rows that the artefact is made from.

    One that needs no training, or that of its own cells, reads its own files; one that needs the plan alone has none.
    """
    reads = inputs_of(plan.artefacts[artefact_id].view).reads
    if SuiteFiles.RESULTS in reads:
        return read_results(plan.paths.results)
    return read_results(own_rows(plan, artefact_id), MECHANISM) if reads else None


MECHANISM = (f"{dictionary.MECHANISM}.",)


def graph_facts(frame: pd.DataFrame | None, task: Task) -> dict[str, Any]:
    """Return the numbers of a graph as graph.json nests them, with `status` and `reason`; empty without its rows."""
    rows = _of_graph(frame, task)
    facts: dict[str, Any] = {}
    for metric, value in zip(rows["metric"], rows["value"], strict=True):
        *path, last = metric.split("/")[1:] or [""]
        place = facts
        for name in path:
            place = place.setdefault(name, {})
        place[last] = value
    return facts | {name: rows[name].iloc[0] for name in ("status", "reason") if len(rows)}


def class_counts(plan: Plan, artefact_id: str, frame: pd.DataFrame | None) -> dict[str, np.ndarray]:
    """Return the (classes,) labelled training nodes of each task whose class frequencies are known."""
    tasks = plan.tasks_of(artefact_id)
    rows = {name: _of_graph(frame, task, TRAIN_NODES).sort_values("class_id") for name, (_, task) in tasks.items()}
    return {name: own["value"].to_numpy().astype(np.int64) for name, own in rows.items() if len(own)}


def _of_graph(frame: pd.DataFrame | None, task: Task, metric: str | None = None) -> pd.DataFrame:
    frame = Results.of(frame).frame
    rows = frame[frame["metric"].str.startswith(GRAPH) & (frame["cell"] == "")]
    for name in ("dataset", "setting", "split", "features"):
        rows = rows[rows[name] == getattr(task, name)]
    return rows[(rows["metric"] == metric) if metric else (rows["metric"] != TRAIN_NODES)]


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write eight significant digits, beyond what any table prints; missing values are empty."""
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, float_format="%.8g", lineterminator="\n")
