"""docs/which-method.md: which method when, from the proved rows of all suites that are kept in docs/results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.data.registry import registry
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.formats import DASH, markdown, power_of_ten, significant
from dpgraph.reporting.leaderboard.page import template
from dpgraph.reporting.leaderboard.standings import BELOW, COLUMNS, FALLS_BACK, PLAIN_SETTING, read_values, standings_of
from dpgraph.reporting.ranking import PROVED, PUBLIC, with_floors

VALUES = "values.js"  # of a suite: the rows and texts of its page
PICTURE = "votes/figures/votes/front.png"  # of a suite: accuracy by ε, under several promises
ACCURACY = "test accuracy (%)"
SHORT = 1.0  # epsilon of the guide and of README's table
COMMON_PROMISE = 3  # data sets from which a promise has a column
CONSTRUCTED = "constructed"  # in the label of a task that was made so that a graph must help


# relations and scopes in the words of README's table
WHOM: dict[str, str] = {
    Relation.GRAPH: "the whole graph",
    Relation.SUBGRAPH: "a part of the graph",
    Relation.NODE_NULL: "a node's features, label and own edge list",
    Relation.NODE_REMOVE: "a node and all its edges",
    Relation.NODE_REPLACE: "a node's record and all its edges",
    Relation.TRAINING_NODE: "a training node and all its edges",
    Relation.EDGE: "an edge",
    Relation.RECORD_REMOVE: "a record",
    Relation.RECORD_REPLACE: "a record",
    Relation.ENTITY: "an entity's text and own relations",
    Relation.CLASS: "all records of a class",
    Relation.SUBCLASS: "all records of a subclass",
    Relation.VOTE: "a teacher's votes",
}
WHERE: dict[str, str] = {
    Scope.PARAMETERS: "in the model, but not in predictions, which read the raw graph",
    Scope.JOINT: "in the model and in everybody else's predictions",
    Scope.STRANGERS: "in the model and in predictions of all but its neighbours",
    Scope.ALL_OUTPUTS: "in everything that is published",
}


@dataclass(frozen=True)
class Best:
    """The best row of a ranking: one data set, one relation and scope, one delta and budget, in one suite."""

    row: dict[str, Any]
    tied: int  # other methods that are not significantly different from it

    def text(self) -> str:
        more = f" +{self.tied}" if self.tied else ""
        return f"[{self.row['mean']:.1f}](results/{self.row['suite']}/README.md) {_named(self.row)}{more}"


def guide(folder: Path) -> str:
    """Return the page's text. `folder` has a folder for each suite; those of demonstrations are left out."""
    rows = _rows(folder)
    proved, public = rows[(rows["kind"] == PROVED) & ~rows["made"].astype(bool)], rows[rows["kind"] == PUBLIC]
    relations, scopes = (
        {one: kind(one).short for text in sorted(set(proved[column])) for one in text.split(" / ") if one in set(kind)}
        for column, kind in (("relation", Relation), ("scope", Scope))
    )
    return template("which-method.md").render(
        short=_in_short(proved, public),
        budget=significant(SHORT),
        relations=relations,
        scopes=scopes,
        picture=PICTURE if (folder / PICTURE).is_file() else "",
    )


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
    constructed = set(rows.loc[rows["data"].str.contains(CONSTRUCTED), "dataset"])  # whatever another suite calls it
    generated = {name for name in rows["dataset"].unique() if name in known and not known[name].files}
    return rows.assign(made=rows["dataset"].isin(constructed | generated))


def _data_sets(rows: pd.DataFrame) -> int:
    return int(rows["dataset"].nunique())


def _in_short(proved: pd.DataFrame, public: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the best accuracies on whole graphs at `SHORT`: a line for each data set, a column for each promise."""
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
        none = DASH if without.empty else f"{without['mean'].astype(float).max():.1f}"
        cells = (rows[_of(rows, *one)] for one in promises)
        texts = (_top(cell).text() if len(cell) else DASH for cell in cells)
        lines.append([min(rows["data"].unique(), key=len), *texts, none])
    return {"promises": promises, "lines": lines}


def _top(rows: pd.DataFrame) -> Best:
    """Return the row of one promise with the best mean, over suites and deltas."""
    return max(_best(rows), key=lambda one: float(one.row["mean"]))


def _protects(relation: str, scope: str) -> str:
    whom = " or ".join(WHOM.get(name, name) for name in relation.split(" / "))
    return f"{whom} {'; '.join(WHERE.get(name, name) for name in scope.split(' / '))}"


def answers(folder: Path, dataset: str, split: str) -> list[str]:
    """Return README's table: for each promise, the best proved row of a data set at `SHORT`, its suite and its cell."""
    rows = _rows(folder)
    own = rows[
        (rows["dataset"] == dataset) & (rows["split"] == split) & (rows["setting"] == PLAIN_SETTING)
        & (rows["metric"] == ACCURACY)
    ]  # fmt: skip
    proved = own[(own["kind"] == PROVED) & (own["budget"] == SHORT)]
    best = [_top(proved[_of(proved, *one)]) for one in _promised(proved)]
    lines = [
        f"| what ε = {significant(SHORT)} protects | best method | test accuracy (%) | cell, commit |",
        "|:--|:--|--:|:--|",
    ]
    for one in sorted(best, key=lambda found: -float(found.row["mean"])):
        promise = f"{one.row['relation']}; {one.row['scope']}"
        protected = (
            f"{_protects(one.row['relation'], one.row['scope'])} (*{promise}*; δ = {power_of_ten(one.row['delta'])})"
        )
        more = f" (+{one.tied} not told apart)" if one.tied else ""
        lines.append(f"| {protected} | {_named(one.row)}{more} | {_traced(one.row)} |")
    public = own[own["kind"] == PUBLIC]
    top = public.loc[public["mean"].astype(float).idxmax()].to_dict()
    return [*lines, f"| nothing: no privacy | {_named(top)} | {_traced(top)} |"]


def _named(row: Mapping[str, Any]) -> str:
    """Return the label with its marks: reads that no epsilon covers, another method, a value below the floor."""
    marks = (("uncovered", "†"), ("fallback", f" {FALLS_BACK}"), ("below", f" {BELOW}"))
    return markdown(str(row["label"])) + "".join(mark for name, mark in marks if row.get(name))


def _traced(row: dict[str, Any]) -> str:
    """Return mean and half of the 95 % interval, the row's suite, its cell and its commit."""
    value = f"{float(row['mean']):.1f}\u00a0±\u00a0{(float(row['high']) - float(row['low'])) / 2:.1f}"
    return (
        f"{value} | [{row['suite']}](docs/results/{row['suite']}/README.md): `{row['cell']}`, {str(row['commit'])[:7]}"
    )


def _best(own: pd.DataFrame) -> Iterator[Best]:
    """Yield the best row of every data set, metric, delta and budget; of several suites the one with the larger mean.

    Where the best of several suites is the same cell, the suite with the most seeds counts: the larger mean of a cell
    would be chance.
    """
    for _, of_data in own.groupby(["data", "metric", "delta", "budget"], sort=True):
        found = []
        for _, of_suite in of_data.groupby("suite", sort=True):
            marked = of_suite[of_suite["best"].astype(str) == "True"]
            top = marked.loc[marked["mean"].astype(float).idxmax()].to_dict()
            alike = of_suite[(of_suite["tied"].astype(str) == "True") & (of_suite["label"] != top["label"])]
            found.append(Best(top, alike["label"].nunique()))
        found.sort(key=lambda one: -float(one.row["n"]))
        longest = {(one.row["cell"], one.row["label"]): one for one in reversed(found)}
        yield max(longest.values(), key=lambda one: float(one.row["mean"]))
