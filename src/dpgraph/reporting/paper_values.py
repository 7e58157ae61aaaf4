"""The value that the paper prints for an entry of an artefact, as text and as a number."""

from __future__ import annotations

from collections.abc import Mapping
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

    A number that the paper states for one epsilon (or a cap on it) is not compared with ours at another target. In a
    sweep the row is the one that prints the entry's value under the sweep's `published_key`.
    """
    found = _printed(experiment, entry, table, metric)
    if len(found) > 1:
        where = f"{table}, {entry.method_id} on {entry.suite_task.published}"
        raise UserError(f"results_{experiment.published}.csv: {where}: expected one row, found {len(found)}")
    return found[0] if found else None


def paper_values(experiment: Experiment, entry: Entry, metric: str) -> list[PaperValue]:
    """What a figure shows beside ours: the method on this data set in all result tables of the paper.

    In a sweep only the table of the sweep counts; elsewhere a table that prints several values (a sweep's) does not.
    """
    name = entry.artefact.split("/")[1]
    artefact = experiment.artefacts[name]
    if artefact.sweep is not None:
        found = paper_value(experiment, entry, artefact.published_table or name, metric)
        return [] if found is None else [found]
    tables = {row["table"] for row in published.rows(f"results_{experiment.published}")}
    candidates = (_printed(experiment, entry, table, metric) for table in entry.method.published if table in tables)
    return [values[0] for values in candidates if len(values) == 1]


def paper_gap(experiment: Experiment, reference: Entry, private: Entry, table: str) -> str:
    """The difference as the paper prints it, reference minus private, in points; empty where it prints none."""
    one, two = (entry.method.published.get(table, {}).get("model") for entry in (reference, private))
    columns = {"model": f"{one} minus {two}"}
    found = _rows(experiment, private, table, "accuracy_gap_pct", columns) if one and two else []
    return found[0]["value"] if len(found) == 1 else ""


def _printed(experiment: Experiment, entry: Entry, table: str, metric: str) -> list[PaperValue]:
    columns = entry.method.published.get(table)
    if columns is None or metric not in METRICS:
        return []
    name, to_percent = METRICS[metric]
    values = []
    for row in _rows(experiment, entry, table, name, columns):
        std = float(row["std"]) * to_percent if row["std"] else None
        text = row["value"] + (f" ± {row['std']}" if row["std"] else "")
        value = float(row["value"]) * to_percent
        values.append(PaperValue(table, value, std, text, row["epsilon"].replace("<=", "≤ ")))
    return values


def _rows(
    experiment: Experiment, entry: Entry, table: str, metric: str, columns: Mapping[str, str]
) -> list[dict[str, str]]:
    """Printed rows of the entry; `other_params` in `columns` may be a part of the row's."""
    if entry.suite_task.published is None:
        return []
    wanted = _parameters(columns.get("other_params", ""))
    sweep = experiment.artefacts[entry.artefact.split("/")[1]].sweep
    if sweep is not None:
        if sweep.published_key is None or entry.value is None:
            return []
        wanted[sweep.published_key] = entry.value
    exact = {name: text for name, text in columns.items() if name != "other_params"}
    place = {"table": table, "dataset": entry.suite_task.published, "metric": metric}
    return [
        row
        for row in published.match(f"results_{experiment.published}", **place, **exact)
        if row["value"]
        and _same_budget(entry, row["epsilon"])
        and wanted.items() <= _parameters(row["other_params"]).items()
    ]


def _parameters(text: str) -> dict[str, str]:
    """
    >>> _parameters("batch_size=2500;layers=1")
    {'batch_size': '2500', 'layers': '1'}
    """
    return dict(part.split("=", 1) for part in text.split(";") if "=" in part)


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
