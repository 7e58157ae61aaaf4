"""All rows of a suite that may be compared, ranked within what may share a ranking.

A ranking holds the proved rows of one data set (with setting, split and metric), one relation, scope, delta and
budget, and those whose promise implies it. Rows without privacy are rankings of their own; rows whose epsilon is only
claimed are in none. Below: how a page keeps the rows as values of a script.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.config.cell import Task
from dpgraph.config.experiment import ACCURACY
from dpgraph.core.files import write_text
from dpgraph.data.registry import registry
from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import chance, formats, ranking
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import EntryResult, Results

VIEWS = ("accuracy", "privacy-utility")  # which show a method as the suite set it; sweeps and searches vary it
PLAIN_SETTING = "transductive"
COLUMNS = (
    "data", "dataset", "setting", "split", "features", "metric", "paper", "artefact", "label", "method", "kind",
    "budget", "epsilon", "relation", "scope", "delta", "uncovered", "checks", "mean", "std", "low", "high", "n", "best",
    "tied", "cell", "commit", "fallback", "below",
)  # fmt: skip
RANKING = ("data", "metric", "kind", "budget")  # and the promise


def standings(plan: Plan, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cell and data set with a value, as `COLUMNS`; numbers are in the unit that tables show.

    budget: the smallest target epsilon of a private row of the data set that epsilon does not exceed;
    epsilon itself where it exceeds all. epsilon is the rigorous one of a row of kind proved, the published one of a row
    of kind claimed only, the claimed one of a method from outside, infinite without privacy. What depends on no record
    (epsilon 0) is left out, but is a floor of every relation.

    best: no other of its ranking has a larger mean over common seeds (`ranking.ranked`). tied: not significantly
    different from it (paired two-sided t test over common seeds, 5 % after Holm's correction over the methods of the
    ranking), or without a test since there are fewer than two. below: what reads nothing that is protected and that the
    row is not shown to exceed, on the same seeds.
    """
    known, commits = Results(frame), _commits(frame)
    rows: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    outcomes: dict[tuple[str, str, str, str], EntryResult] = {}
    targets: dict[str, set[float]] = {}
    names = data_names(plan)
    for entry, metric in _shown(plan):
        outcome = known.outcome(entry, metric)
        place = (entry.paper, entry.task_id, metric, entry.cell.slug)
        free = ranking.reads_nothing(outcome)
        if place in rows or not outcome.ok or (outcome.guarantee.rigorous.epsilon == 0 and not free):
            continue
        rows[place] = row = _row(entry, plan.task(entry.task_id), names[entry.task_id], metric, outcome, commits)
        row |= {"kind": ranking.FREE} if free else {}
        if metric == ACCURACY and not free:  # chance is known of no other metric
            row["below"] = ranking.not_above_chance(outcome, known.outcome(entry, chance.METRIC))
        targets.setdefault(row["data"], set()).update(() if entry.target_epsilon is None else (entry.target_epsilon,))
        outcomes[place] = outcome
    for row in rows.values():
        if row["kind"] != ranking.PUBLIC:
            row["budget"] = ranking.budget(row["epsilon"], targets[row["data"]])
    ranks = {place: row for place, row in rows.items() if row["kind"] in ranking.RANKS}
    keys = [(*(row[name] for name in RANKING), *ranking.promise(outcomes[place])) for place, row in ranks.items()]
    marks = ranking.ranked(keys, [place[-1] for place in ranks], [outcomes[place].values for place in ranks])
    for row, mark in zip(ranks.values(), marks, strict=True):
        row |= {"best": mark == ranking.BEST, "tied": mark == ranking.TIED}
    table = pd.DataFrame(list(rows.values()), columns=list(COLUMNS))
    values = [outcomes[place].values for place in rows]
    return _ordered(ranking.with_floors(table, values) if len(table) else table)


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by data set in the suite's order, proved ones before those without privacy, the best first."""
    order, kinds = list(dict.fromkeys(table["data"])), [*ranking.RANKS, ranking.OUTSIDE, ranking.CLAIMED]
    keys = {"data": table["data"].map(order.index), "kind": table["kind"].map(kinds.index), "budget": table["budget"]}
    keys |= {"promise": table["relation"] + table["scope"], "mean": -table["mean"].astype(float)}
    return table.loc[pd.DataFrame(keys).sort_values(list(keys), kind="stable").index].reset_index(drop=True)


def _shown(plan: Plan) -> Iterator[tuple[Entry, str]]:
    """Yield the entries of tables and figures that show methods as the suite set them, with their metric."""
    for name, artefact in plan.artefacts.items():
        varies = artefact.sweep is not None or artefact.search is not None
        if artefact.view in VIEWS and not varies and quantity(artefact.metric).more_is_better:
            yield from ((entry, artefact.metric) for entry in plan.entries_of(name))


def data_names(plan: Plan) -> dict[str, str]:
    """Return the name of each task, with its split where two shown tasks have one label on unlike splits."""
    tasks = {entry.task_id: _data(entry.suite_task.label, plan.task(entry.task_id)) for entry, _ in _shown(plan)}
    splits: dict[str, set[str]] = {}
    for task, name in tasks.items():
        splits.setdefault(name, set()).add(plan.task(task).split)
    told = {task: f" ({_spoken(plan.task(task).split)})" * (len(splits[name]) > 1) for task, name in tasks.items()}
    return {task: f"{name}{told[task]}" for task, name in tasks.items()}


def _spoken(split: str) -> str:
    """
    >>> _spoken("random-70-10-20"), _spoken("per-class-20-30"), _spoken("train-rest")
    ('random 70/10/20', 'per class 20/30', 'train rest')
    """
    words = split.split("-")
    numbers = [word for word in words if word.isdigit()]
    return " ".join([*(word for word in words if not word.isdigit()), *filter(None, ["/".join(numbers)])])


def _row(
    entry: Entry, task: Task, data: str, metric: str, outcome: EntryResult, commits: dict[str, str]
) -> dict[str, Any]:
    what, (relation, scope, delta) = ranking.kind(outcome), ranking.promise(outcome)
    public, own = what == ranking.PUBLIC, outcome.guarantee
    return {
        "data": data, **{name: getattr(task, name) for name in ("dataset", "setting", "split", "features")},
        "metric": quantity(metric).label, "paper": entry.paper, "artefact": entry.artefact,
        "label": ranking.label_of(entry.cell, entry.method.label), "method": entry.cell.method, "kind": what,
        "budget": math.inf, "epsilon": getattr(own, ranking.MODES[what]).epsilon,
        "relation": relation, "scope": scope, "delta": math.nan if public else delta,
        "uncovered": "" if public else own.uncovered, "checks": own.checks,
        **vars(outcome.summary()), "best": False, "tied": False, "cell": entry.cell.slug,
        "commit": commits.get(entry.cell.slug, ""), "fallback": outcome.fallback, "below": "",
    }  # fmt: skip


def _data(label: str, task: Task) -> str:
    """Return the label, with the setting and that a graph is synthetic where neither it nor the default says so.

    >>> _data("PubMed", Task(dataset="pubmed", setting="disjoint"))
    'PubMed, disjoint'
    >>> _data("mean degree 4", Task(dataset="demo-words-degree-4", setting="transductive"))
    'synthetic, mean degree 4'
    """
    known = registry()
    if task.dataset in known and not known[task.dataset].files and not re.search("synthetic|demo|constructed", label):
        label = f"synthetic, {label}"
    named = task.setting == PLAIN_SETTING or task.setting in label.replace(",", " ").split()
    return label if named else f"{label}, {task.setting}"


def _commits(frame: pd.DataFrame) -> dict[str, str]:
    by_cell = frame[["cell", "commit"]].drop_duplicates().groupby("cell", sort=False)["commit"]
    return {str(cell): ", ".join(sorted(text for text in texts.dropna() if text)) for cell, texts in by_cell}


NUMBERS = ("budget", "epsilon", "delta", "mean", "std", "low", "high")
FALLS_BACK = "‡"  # after the value of a row whose method fell back to another one
BELOW = "§"  # after the value of a row that is not shown to be above a floor
MARKS = {
    "fallback": f"{FALLS_BACK} The method {{}}.",
    "below": f"{BELOW} Not shown to be above {{}}, which reads nothing that is protected (ε = 0).",
}
EQUALS = " = "


def value_shown(row: Mapping[str, Any]) -> str:
    """Return the mean, half of its 95 % interval and the row's marks."""
    half = (row["high"] - row["low"]) / 2
    mark = "".join(f" {words[0]}" for column, words in MARKS.items() if row[column])
    return f"{row['mean']:.1f}" + ("" if math.isnan(half) else f" ± {half:.1f}") + mark


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: no nan and no infinity, and as many digits as CSV files have."""
    kept = dict(row)
    for name in NUMBERS:
        value = float(row[name])
        kept[name] = float(f"{value:.8g}") if math.isfinite(value) else None
    kept["shown"] = value_shown(row)
    kept["eps"] = formats.epsilon(row["epsilon"])
    kept["promise"] = "; ".join(part for part in (row["relation"], row["scope"]) if part)
    return kept


def columns_of(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Return rows by column, each text once: {texts, at} where texts repeat, else {values}. script.js makes rows of it.

    >>> columns_of([{"n": 1, "data": "A"}, {"n": 2, "data": "A"}])
    {'n': {'values': [1, 2]}, 'data': {'texts': ['A'], 'at': [0, 0]}}
    """
    found: dict[str, dict[str, list[Any]]] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        texts = list(dict.fromkeys(values))
        if all(isinstance(text, str) for text in texts) and len(texts) < len(values):
            places = {text: place for place, text in enumerate(texts)}
            found[name] = {"texts": texts, "at": [places[value] for value in values]}
        else:
            found[name] = {"values": values}
    return found


def script(value: Any) -> str:
    """Return JSON that can stand in a script element: no text of it closes the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("</", "<\\/").replace("<!", "\\u003c!")  # <!-- would hide the end


def write_values(values: Mapping[str, Any], path: Path) -> None:
    """Write what the page over all suites loads of one: a page of the file system may load scripts alone."""
    write_text(path, f"suites[{json.dumps(values['suite'])}]{EQUALS}{script(values)};\n")


def read_values(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8").partition(EQUALS)[2].rstrip(";\n"))  # type: ignore[no-any-return]


def standings_of(values: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows that `page_values` packed, as `standings` made them, with eight digits."""
    columns = {
        name: [column["texts"][at] for at in column["at"]] if "texts" in column else column["values"]
        for name, column in values["rows"].items()
    }
    frame = pd.DataFrame(columns, columns=list(COLUMNS)).fillna({"below": "", "features": ""})
    frame["epsilon"] = frame["epsilon"].fillna(math.inf).where(frame["kind"] == ranking.PUBLIC, frame["epsilon"])
    frame["budget"] = frame["budget"].astype(float).fillna(math.inf)
    return frame.astype(dict.fromkeys(NUMBERS, float))
