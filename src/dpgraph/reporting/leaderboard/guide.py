"""docs/which-method.md: which method when, from the proved rows of all suites that are kept in docs/results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.data.registry import registry
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.formats import DASH, markdown, power_of_ten, significant
from dpgraph.reporting.leaderboard.finding import WHERE, WHOM
from dpgraph.reporting.leaderboard.page import template
from dpgraph.reporting.leaderboard.standings import COLUMNS, FALLS_BACK, PLAIN_SETTING, read_values, standings_of
from dpgraph.reporting.ranking import PROVED, PUBLIC, with_floors

VALUES = "values.js"  # of a suite: what its page shows
SIZES = ((5_000, "below 5,000 records"), (50_000, "5,000 to 50,000 records"), (math.inf, "above 50,000 records"))
UNSIZED = "a number of records that the registry does not declare"
BUDGETS = ((1.0, "ε ≤ 1"), (4.0, "1 < ε ≤ 4"), (15.0, "4 < ε ≤ 15"), (math.inf, "ε > 15"))
NO_VALUE = "–"
ACCURACY = "test accuracy (%)"
SHORT = 1.0  # epsilon of the short answer
COMMON_PROMISE = 3  # data sets from which a promise has a column in it
CONSTRUCTED = "constructed"  # in the label of a task that was made so that a graph must help


@dataclass(frozen=True)
class Best:
    """The best row of a ranking: one data set, one relation and scope, one delta and budget, in one suite."""

    row: dict[str, Any]
    tied: int  # other methods that cannot be told apart from it

    def text(self) -> str:
        more = f" +{self.tied}" if self.tied else ""
        return f"[{self.row['mean']:.1f}](results/{self.row['suite']}/README.md) {_named(self.row)}{more}"


def guide(folder: Path) -> str:
    """The page's text. `folder` has a folder for each suite; those of demonstrations are left out."""
    rows = _rows(folder)
    proved, public = rows[rows["kind"] == PROVED], rows[rows["kind"] == PUBLIC]
    made = proved["made"].astype(bool)
    found, promises = proved[~made], _promised(proved)
    counts = {one: _data_sets(proved[_of(proved, *one)]) for one in promises}
    shown = {name for relation, _ in promises for name in relation.split(" / ")}
    return template("which-method.md").render(
        short=_in_short(found, public),
        budget=significant(SHORT),
        counts=counts,
        what=lambda one: _words(one[0], Relation),
        may=lambda one: _words(one[1], Scope),
        protects=lambda one: _protects(*one),
        found=_sections(found, public, sorted(promises, key=lambda one: -_data_sets(found[_of(found, *one)]))),
        made=_sections(proved[made], public, promises),
        gaps={one: _gaps(found[_of(found, *one)]) for one in promises},
        others=[f"{one} ({one.short})" for one in Relation if one not in (Relation.NONE, *shown)],
        few=int((found["n"].astype(float) < 3).sum()),
        of=len(found),
        suites=dict.fromkeys(rows["suite"]),
    )


def _sections(
    rows: pd.DataFrame, public: pd.DataFrame, promises: list[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Return the lines on each promise that has rows."""
    own = {one: rows[_of(rows, *one)] for one in promises}
    return {one: list(_section(of_promise, public)) for one, of_promise in own.items() if len(of_promise)}


def _promised(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return sorted({(str(a), str(b)) for a, b in zip(rows["relation"], rows["scope"], strict=True)})


def _of(rows: pd.DataFrame, relation: str, scope: str) -> pd.Series:
    return (rows["relation"] == relation) & (rows["scope"] == scope)


def _rows(folder: Path) -> pd.DataFrame:
    frames = []
    for path in sorted(folder.glob(f"*/{VALUES}")):
        if not (values := read_values(path))["demonstration"]:
            frames.append(standings_of(values).assign(suite=path.parent.name))
    if not frames:
        return pd.DataFrame(columns=[*COLUMNS, "suite", "made"])
    rows = with_floors(pd.concat(frames, ignore_index=True))
    known = registry()
    nodes = {name: known[name].expected.nodes if name in known else None for name in rows["dataset"].unique()}
    constructed = set(rows.loc[rows["data"].str.contains(CONSTRUCTED), "dataset"])  # whatever another suite calls it
    made = {name: name in constructed or (name in known and not known[name].files) for name in nodes}
    return rows.assign(nodes=rows["dataset"].map(nodes), made=rows["dataset"].map(made).astype(bool))


def _data_sets(rows: pd.DataFrame) -> int:
    return int(rows["dataset"].nunique())


def _in_short(proved: pd.DataFrame, public: pd.DataFrame) -> dict[str, list[Any]]:
    """Of accuracies on whole graphs at the least budget: a line for each data set, a column for each promise."""
    usual = proved[(proved["metric"] == ACCURACY) & (proved["setting"] == PLAIN_SETTING) & (proved["budget"] == SHORT)]
    if usual.empty:
        return {"promises": [], "lines": []}
    promises = sorted(_promised(usual), key=lambda one: (-_data_sets(usual[_of(usual, *one)]), one))
    promises = [one for one in promises if _data_sets(usual[_of(usual, *one)]) >= COMMON_PROMISE] or promises[:1]
    usual = usual[[one in promises for one in zip(usual["relation"], usual["scope"], strict=True)]]
    lines = []
    for (_, split), rows in usual.groupby(["dataset", "split"], sort=True):
        without = public[public["dataset"].isin(rows["dataset"]) & (public["split"] == split)
                         & (public["metric"] == ACCURACY) & (public["setting"] == PLAIN_SETTING)]  # fmt: skip
        none = NO_VALUE if without.empty else f"{without['mean'].astype(float).max():.1f}"
        cells = (rows[_of(rows, *one)] for one in promises)
        texts = (_top(cell).text() if len(cell) else NO_VALUE for cell in cells)
        lines.append([min(rows["data"].unique(), key=len), *texts, none])
    return {"promises": promises, "lines": lines}


def _top(rows: pd.DataFrame) -> Best:
    """The best mean of one promise over suites and deltas."""
    return max(_best(rows), key=lambda one: float(one.row["mean"]))


def _protects(relation: str, scope: str) -> str:
    whom = " or ".join(WHOM.get(name, name) for name in relation.split(" / "))
    return f"{whom} {'; '.join(WHERE.get(name, name) for name in scope.split(' / '))}"


def _named(row: Mapping[str, Any]) -> str:
    """The label, with the marks of what no epsilon covers and of a method that fell back to another one."""
    return markdown(str(row["label"])) + "†" * bool(row.get("uncovered")) + f" {FALLS_BACK}" * bool(row.get("fallback"))


def _words(text: str, known: type[Relation] | type[Scope]) -> str:
    return "; ".join(known(name).short if name in set(known) else name for name in text.split(" / "))


def _section(own: pd.DataFrame, public: pd.DataFrame) -> Iterator[str]:
    """Sentences, and a table with a column for each range of epsilon, where a cell lists its budgets."""
    best = list(_best(own))
    yield from _sentences(best, public)
    ranges = _ranges(best)
    yield "\n| data | records (nodes, images) | δ | no privacy | " + " | ".join(ranges) + " |"
    yield "|---|--:|--:|--:|" + "---|" * len(ranges)
    lines: dict[tuple[Any, ...], list[Best]] = {}
    for one in best:
        row = one.row
        lines.setdefault((row["data"], row["metric"], row["nodes"], row["delta"]), []).append(one)
    for (data, metric, nodes, delta), values in sorted(
        lines.items(), key=lambda line: (_order(line[0][2]), *map(str, line[0]))
    ):
        about = data if metric == ACCURACY else f"{data}, {metric}"
        without = _without(public, data, metric)
        cells = [about, DASH if math.isnan(_number(nodes)) else f"{int(nodes):,}", power_of_ten(delta)]
        cells += [DASH if without is None else f"{without:.1f}"]
        cells += [_cell([one for one in values if _range(one.row["budget"]) == name]) for name in ranges]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _cell(found: list[Best]) -> str:
    """By growing budget, one to a line."""
    ordered = sorted(found, key=lambda one: float(one.row["budget"]))
    return "<br>".join(f"ε ≤ {significant(one.row['budget'])}: {one.text()}" for one in ordered) or NO_VALUE


def _best(own: pd.DataFrame) -> Iterator[Best]:
    """Of every data set, metric, delta and budget; of several suites the one with the larger mean.

    Of suites whose best is the same cell only the one of most seeds counts: the larger of its means would be chance.
    """
    for _, of_data in own.groupby(["data", "metric", "delta", "budget"], sort=True):
        found = []
        for _, of_suite in of_data.groupby("suite", sort=True):
            marked = of_suite[of_suite["best"].astype(str) == "True"]
            top = marked.loc[marked["mean"].astype(float).idxmax()].to_dict()
            alike = of_suite[(of_suite["tied"].astype(str) == "True") & (of_suite["label"] != top["label"])]
            found.append(Best(top, alike["label"].nunique()))
        found.sort(key=lambda one: -_number(one.row["n"]))
        longest = {(one.row["cell"], one.row["label"]): one for one in reversed(found)}
        yield max(longest.values(), key=lambda one: float(one.row["mean"]))


def _sentences(best: list[Best], public: pd.DataFrame) -> Iterator[str]:
    """For each size of the data and each range of epsilon: who is best how often, and what privacy costs."""
    for size in _sizes(best):
        of_size = [one for one in best if _size(one.row["nodes"]) == size]
        yield f"- {size[0].upper()}{size[1:]} ({'; '.join(dict.fromkeys(one.row['data'] for one in of_size))}):"
        for name in _ranges(of_size):
            here = [one for one in of_size if _range(one.row["budget"]) == name]
            names = [one.row["label"] for one in here]
            wins = "; ".join(
                markdown(label) + (f", best {names.count(label)} of {len(here)} times" if len(here) > 1 else " is best")
                for label in sorted(dict.fromkeys(names), key=lambda label: -names.count(label))
            )
            yield f"  - {name}: {wins}. {_cost(here, public)}"


def _cost(here: list[Best], public: pd.DataFrame) -> str:
    lost = [
        without - float(one.row["mean"])
        for one in here
        if (without := _without(public, one.row["data"], one.row["metric"])) is not None
    ]
    if not lost:
        return "What privacy costs is not known: no row without privacy."
    ends = list(dict.fromkeys(_away(value) for value in (min(lost), max(lost))))
    return f"Against the best row without privacy: {' to '.join(ends)}."


def _away(lost: float) -> str:
    """
    >>> _away(2.04), _away(-3.9), _away(-0.01)
    ('2.0 points lower', '3.9 points higher', 'equal')
    """
    return "equal" if abs(lost) < 0.05 else f"{abs(lost):.1f} points {'lower' if lost > 0 else 'higher'}"


def _without(public: pd.DataFrame, data: str, metric: str) -> float | None:
    """The best mean without privacy, of the same data, split and metric."""
    rows = public[(public["data"] == data) & (public["metric"] == metric)]
    return None if rows.empty else float(rows["mean"].astype(float).max())


def _gaps(own: pd.DataFrame) -> str:
    """Return the sizes and ranges of epsilon of which a promise has no row."""
    there = {(_size(one.row["nodes"]), _range(one.row["budget"])) for one in _best(own)}
    missing = {size: [name for _, name in BUDGETS if (size, name) not in there] for _, size in SIZES}
    return "; ".join(f"{size}: {', '.join(names)}" for size, names in missing.items() if names)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _order(nodes: Any) -> float:
    return math.inf if math.isnan(_number(nodes)) else float(nodes)


def _size(nodes: Any) -> str:
    """
    >>> _size(2708.0), _size(19717.0), _size(None)
    ('below 5,000 records', '5,000 to 50,000 records', 'a number of records that the registry does not declare')
    """
    count = _number(nodes)
    return UNSIZED if math.isnan(count) else next(name for limit, name in SIZES if count < limit)


def _range(budget: float) -> str:
    return next(name for limit, name in BUDGETS if float(budget) <= limit)


def _sizes(best: Iterable[Best]) -> list[str]:
    found = {_size(one.row["nodes"]) for one in best}
    return [name for name in (*(name for _, name in SIZES), UNSIZED) if name in found]


def _ranges(best: Iterable[Best]) -> list[str]:
    found = {_range(one.row["budget"]) for one in best}
    return [name for _, name in BUDGETS if name in found]
