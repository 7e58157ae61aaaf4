"""The value that the paper prints for an entry of an artefact, as text and as a number."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from dpgraph.config import published
from dpgraph.config.experiment import ACCURACY, HARD_CASES, Experiment
from dpgraph.core.errors import UserError, invalid
from dpgraph.planning.plan import Entry

# names in the CSV and what turns them into percent, by quantity: micro-F1 of a single-label task is accuracy
METRICS: dict[str, dict[str, int]] = {
    ACCURACY: {"accuracy_pct": 0, "f1": 2},  # decimals that percent takes off
    HARD_CASES: {"hard_case_pct": 0},
    "epsilon": {"epsilon": 0},
    "prec_at_1/test": {"prec_at_1_pct": 0},
    "mrr/test": {"mrr_pct": 0},
}


@dataclass(frozen=True)
class PaperValue:
    """One printed cell; `value` and `std` in percent, `text` and `epsilon` as printed."""

    table: str
    value: float
    std: float | None
    text: str
    epsilon: str


def paper_value(experiment: Experiment, entry: Entry, metric: str) -> PaperValue | None:
    """Return the paper's number for this method on this data set in the artefact's table; None where it prints none.

    A number that the paper states for one epsilon (or a cap on it) is not compared with ours at another target. In a
    sweep the row is the one that prints the entry's value under the sweep's `published_key`. Of several tables the
    first one counts that prints a number.
    """
    name = entry.artefact.split("/")[1]
    for table in experiment.artefacts[name].tables(name):
        values = _printed(experiment, entry, table, metric)
        if len(values) > 1:
            where = f"{table}, {entry.method_id} on {entry.suite_task.published}"
            raise UserError(f"results_{experiment.published}.csv: {where}: expected one row, found {len(values)}")
        if values:
            return values[0]
    return None


def printed_by_data_set(experiment: Experiment, entry: Entry, metric: str) -> dict[str, float]:
    """Return the paper's numbers for the entry's method in the artefact's tables, by data set.

    On a data set of the paper its own number; on any other one the numbers of all data sets of the first table that
    prints some, where a row is found without doubt.
    """
    own = entry.suite_task.published
    if own is not None:
        value = paper_value(experiment, entry, metric)
        return {} if value is None else {own: value.value}
    name = entry.artefact.split("/")[1]
    for table in experiment.artefacts[name].tables(name):
        found = {}
        for data_set in paper_datasets(experiment, [table]):
            task = entry.suite_task.model_copy(update={"published": data_set})
            values = _printed(experiment, replace(entry, suite_task=task), table, metric)
            if len(values) == 1:
                found[data_set] = values[0].value
        if found:
            return found
    return {}


def paper_values(experiment: Experiment, entry: Entry, metric: str) -> list[PaperValue]:
    """Return the numbers that a figure shows next to ours: this method and data set in all result tables of the paper.

    In a sweep only the tables of the artefact count; elsewhere a table that prints several values (a sweep's) does not.
    """
    name = entry.artefact.split("/")[1]
    artefact = experiment.artefacts[name]
    tables = artefact.tables(name) if artefact.sweep is not None else tuple(entry.method.published)
    candidates = (_printed(experiment, entry, table, metric) for table in tables)
    return [values[0] for values in candidates if len(values) == 1]


def paper_gap(experiment: Experiment, reference: Entry, private: Entry, table: str) -> str:
    """Return the difference as the paper prints it, reference minus private, in points; empty where it prints none."""
    one, two = (entry.method.published.get(table, {}).get("model") for entry in (reference, private))
    columns = {"model": f"{one} minus {two}"}
    rows = _rows(experiment, private, table, "accuracy_gap_pct", columns) if one and two else []
    return rows[0]["value"] if len(rows) == 1 else ""


def paper_confusions(experiment: Experiment, entry: Entry) -> dict[tuple[int, int], str]:
    """Return the printed shares (%) by (true class, predicted class)."""
    printed = _with_parameters(experiment, entry, "confusion_pct")
    return {(int(at["true_class"]), int(at["predicted_class"])): value for at, value in printed}


BY_CLASS = {"inversion_l2/train": "mia_distance_l2", "inversion_ssim/train": "mia_distance_1-ssim"}  # in the CSV


def paper_class_values(experiment: Experiment, entry: Entry, metric: str) -> dict[int, str]:
    """Return the printed distances of the entry's method on this data set in the artefact's tables, by class."""
    printed = _with_parameters(experiment, entry, BY_CLASS[metric]) if metric in BY_CLASS else ()
    return {int(at["class"]): value for at, value in printed}


def _with_parameters(experiment: Experiment, entry: Entry, metric: str) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the parameters and the value of each printed row of the entry in the artefact's tables."""
    name = entry.artefact.split("/")[1]
    for table in experiment.artefacts[name].tables(name):
        if (columns := entry.method.published.get(table)) is not None:
            for row in _rows(experiment, entry, table, metric, columns):
                yield parameters_of(row["other_params"]), row["value"]


def _printed(experiment: Experiment, entry: Entry, table: str, metric: str) -> list[PaperValue]:
    columns = entry.method.published.get(table)
    names = METRICS.get(metric.partition("/")[0] if metric.startswith(HARD_CASES) else metric)
    if columns is None or names is None:
        return []
    values = []
    for name, shift in names.items():
        for row in _rows(experiment, entry, table, name, columns):
            text, std = (_percent(row[column], shift) for column in ("value", "std"))
            full = text + (f" ± {std}" if std else "")
            budget = row["epsilon"].replace("<=", "≤ ")
            values.append(PaperValue(table, float(text), float(std) if std else None, full, budget))
    return values


def _percent(text: str, shift: int) -> str:
    """Return a printed number times 10^shift, with the printed digits.

    >>> _percent("0.90", 2), _percent("0.826", 2), _percent("61.8", 0), _percent("", 2)
    ('90', '82.6', '61.8', '')
    """
    return format(Decimal(text).scaleb(shift), "f") if text else ""


def _rows(
    experiment: Experiment, entry: Entry, table: str, metric: str, columns: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return the printed rows of the entry; `other_params` in `columns` may be a part of the row's.

    Parameters that only distinguish the suite's task from others of its name need not be stated by the row.
    """
    if entry.suite_task.published is None:
        return []
    dataset, _, of_task = entry.suite_task.published.partition(";")
    wanted = parameters_of(columns.get("other_params", ""))
    swept: dict[str, str] = {}
    default = None
    sweep = experiment.artefacts[entry.artefact.split("/")[1]].sweep
    if sweep is not None:
        if sweep.published_key is None or entry.value is None:
            return []
        several = isinstance(sweep.published_key, tuple)
        keys = sweep.published_key if isinstance(sweep.published_key, tuple) else (sweep.published_key,)
        labels = [part.strip() for part in entry.value.split(",")] if several else [entry.value]
        if len(labels) != len(keys):
            raise invalid(f"{entry.artefact}.values", entry.value, f"a label of {len(keys)} parts, as published_key")
        swept, default = dict(zip(keys, labels)), sweep.published_default
    exact = {name: text for name, text in columns.items() if name != "other_params"}
    matches = []
    for row in published_rows(experiment.published):
        if row["table"] != table or row["metric"] != metric or row["dataset"] not in (dataset, "all"):
            continue
        stated = parameters_of(row["other_params"])
        at = stated if any(key in stated for key in swept) else {key: default for key in swept} | stated
        if (
            row["value"]
            and all(row[name] == text for name, text in exact.items())
            and _same_budget(entry, row["epsilon"])
            and wanted.items() <= stated.items()
            and swept.items() <= at.items()
            and all(stated.get(key, text) == text for key, text in parameters_of(of_task).items())
        ):
            matches.append(row)
    return matches


@cache
def published_rows(paper: str) -> tuple[dict[str, str], ...]:
    """Return the rows of the paper's tables and prose; a number on a figure has the figure's id as its table."""
    prose = [
        row | {"table": figure[1].replace(".", "") if (figure := ON_FIGURE.search(row["table"])) else row["table"]}
        for row in published.match("inline", paper=paper)
    ]
    return (*published.rows(f"results_{paper}"), *prose)


ON_FIGURE = re.compile(r"\(on (fig\.\d+)\)$")


def parameters_of(text: str) -> dict[str, str]:
    """
    >>> parameters_of("batch_size=2500;layers=1")
    {'batch_size': '2500', 'layers': '1'}
    """
    return dict(part.split("=", 1) for part in text.split(";") if "=" in part)


def paper_datasets(experiment: Experiment, tables: Sequence[str]) -> list[str]:
    """Return the data sets that the paper's result tables name, in its order; none where they are of all data sets."""
    rows = [row for row in published.rows(f"results_{experiment.published}") if row["table"] in tables]
    return [name for name in dict.fromkeys(row["dataset"] for row in rows) if name != "all"]


def epsilon_limit(text: str) -> float:
    """Return the number in a printed epsilon.

    >>> epsilon_limit("<=12"), epsilon_limit("≤ 12"), epsilon_limit("inf")
    (12.0, 12.0, inf)
    """
    return float(text.lstrip("<=≤ "))


def _same_budget(entry: Entry, printed: str) -> bool:
    """Return whether the printed epsilon is the entry's target, which may be printed with fewer digits (9.75 as 10)."""
    if not printed or entry.cell.privacy is None:
        return printed in ("", "inf", "0")
    if printed == "all" or printed == "inf" or entry.target_epsilon is None:
        return printed != "inf"
    limit = epsilon_limit(printed)
    digits = len(printed.partition(".")[2])
    rounded = round(entry.target_epsilon, digits) == limit and abs(entry.target_epsilon / limit - 1) < ROUNDED
    return entry.target_epsilon == limit or rounded


ROUNDED = 0.05  # beyond, a printed epsilon is another one, even if it rounds to the same digits
