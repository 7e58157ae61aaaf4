"""The value that the paper prints for an entry of an artefact, as text and as a number."""

from __future__ import annotations

from dataclasses import dataclass

from dpgraph.errors import UserError
from dpgraph.experiments import published
from dpgraph.experiments.experiment import Experiment
from dpgraph.experiments.plan import Entry

METRICS = {"accuracy/test": ("accuracy_pct", 1.0), "macro_f1/test": ("f1", 100.0)}  # name in the CSV, to percent


@dataclass(frozen=True)
class PaperValue:
    """One printed cell; `value` and `std` in percent, `text` and `epsilon` as printed."""

    table: str
    value: float
    std: float | None
    text: str
    epsilon: str


def paper_value(experiment: Experiment, entry: Entry, table: str, metric: str) -> PaperValue | None:
    """The paper's number for this method on this data set in `table`; None where the paper has none.

    A number that the paper states for one epsilon (or a cap on it) is not compared with ours at another target.
    """
    dataset, columns = entry.suite_task.published, entry.method.published.get(table)
    if dataset is None or columns is None or metric not in METRICS:
        return None
    name, to_percent = METRICS[metric]
    file = f"results_{experiment.published}"
    found = [
        row
        for row in published.match(file, table=table, dataset=dataset, metric=name, **columns)
        if row["value"] and _same_budget(entry, row["epsilon"])
    ]
    if not found:
        return None
    if len(found) > 1:
        raise UserError(f"{file}.csv: {table}, {entry.method_id} on {dataset}: expected one row, found {len(found)}")
    row = found[0]
    std = float(row["std"]) * to_percent if row["std"] else None
    text = row["value"] + (f" ± {row['std']}" if row["std"] else "")
    return PaperValue(table, float(row["value"]) * to_percent, std, text, row["epsilon"].replace("<=", "≤ "))


def paper_values(experiment: Experiment, entry: Entry, metric: str) -> list[PaperValue]:
    """In all result tables of the paper that have this method on this data set: what a figure shows beside ours."""
    tables = {row["table"] for row in published.rows(f"results_{experiment.published}")}
    candidates = (paper_value(experiment, entry, table, metric) for table in entry.method.published if table in tables)
    return [value for value in candidates if value is not None]


def paper_datasets(experiment: Experiment, table: str) -> list[str]:
    """Data sets of one of the paper's result tables, in its order."""
    rows = published.match(f"results_{experiment.published}", table=table)
    return list(dict.fromkeys(row["dataset"] for row in rows))


def epsilon_limit(text: str) -> float:
    """The number in a printed epsilon.

    >>> epsilon_limit("<=12"), epsilon_limit("≤ 12"), epsilon_limit("inf")
    (12.0, 12.0, inf)
    """
    return float(text.lstrip("<=≤ "))


def _same_budget(entry: Entry, printed: str) -> bool:
    if not printed or entry.cell.privacy is None:
        return printed in ("", "inf")
    return printed != "inf" and (entry.epsilon is None or entry.epsilon == epsilon_limit(printed))
