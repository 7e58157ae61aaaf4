"""The page docs/which-method.md and its data, which-method.csv, from the proved rows of all suites in docs/results."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.config.config import load
from dpgraph.config.experiment import Experiment
from dpgraph.data.registry import registry
from dpgraph.planning.plan import WORKFLOW
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.artefacts import abouts_of_papers, described_labels
from dpgraph.reporting.formats import markdown
from dpgraph.reporting.leaderboard.page import template
from dpgraph.reporting.leaderboard.standings import COLUMNS, FALLS_BACK, PLAIN_SETTING, read_values, standings_of
from dpgraph.reporting.ranking import PROMISE, PROVED, PUBLIC, contenders, implies

VALUES = "values.js"  # of a suite: what its page shows
BUDGETS = ((1.0, "ε ≤ 1"), (4.0, "1 < ε ≤ 4"), (15.0, "4 < ε ≤ 15"))  # larger ones are in the data alone
NO_VALUE = "–"
ACCURACY = "test accuracy (%)"
COMMON_PROMISE = 3  # data sets from which a promise has a row in the table
REPLACED: dict[str, str] = {Relation.GRAPH: "the whole graph, which any other may replace"}
PUBLISHABLE = {
    Scope.PARAMETERS: "the model only. Predictions read the raw graph, and no ε covers them",
    Scope.JOINT: "the model and all predictions, seen by everyone except the protected node (for an edge: except both "
    "ends)",
    Scope.STRANGERS: "the model and all predictions, seen by everyone except the protected node and its neighbours",
}
NOT_COVERED: dict[str, str] = {Scope.PARAMETERS: " (predictions are not covered)"}
CONSTRUCTED = "constructed"  # in the label of a task that was made so that a graph must help
DATA = ["dataset", "setting", "split", "features"]  # what two suites must share to have the same data
MOST_NAMES = 3  # that a cell of the table holds
NO_WINNER = "none above its floor"
PUBLISHED = ["data", *DATA, "metric", "relation", "scope", "delta", "budget", "label", "mean", "low", "high", "n"]


@dataclass(frozen=True)
class Winners:
    """The best method of each data set, for one promise and one range of epsilon."""

    best: pd.DataFrame  # a row for each data set where a method is above its floor
    without: int = 0  # data sets where none is

    @property
    def names(self) -> list[str]:
        """Return the methods that are best on the most data sets."""
        counts = Counter(sorted(self.best["label"]))
        return [name for name, count in counts.items() if count == max(counts.values())]

    @property
    def named(self) -> pd.DataFrame:
        """Return the rows of the methods that the text names."""
        return self.best[self.best["label"].isin(self.names)].iloc[: None if len(self.names) <= MOST_NAMES else 0]

    @property
    def text(self) -> str:
        """Return the names, with the number of data sets: all, those with a fallback, and those without a winner."""
        names, of = self.names, len(self.best) + self.without
        if not names:
            return f"{NO_WINNER} ({of} of {of})" if of else NO_VALUE
        count = int((self.best["label"] == names[0]).sum())
        fell = Counter(self.named.loc[self.named["fallback"] != "", "label"])
        marks = {name: f"{FALLS_BACK} on {times}" for name, times in fell.items()}
        told = [f"{NO_WINNER} on {self.without}"] * (self.without > 0)
        if len(names) == 1:
            return f"{markdown(names[0])} ({', '.join([f'{count} of {of}', *marks.values(), *told])})"
        shown = [markdown(name) + (f" ({marks[name]})" if name in marks else "") for name in names]
        listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(names) <= MOST_NAMES else f"{len(names)} methods"
        return f"{listed} ({', '.join([f'{count} of {of} each', *told])})"


def guide(folder: Path, workflow: Path = WORKFLOW) -> str:
    """Return the page's text.

    `folder` has a folder for each suite; those of demonstrations are left out. `workflow` says what labels leave out.
    """
    data, rows = best_rows(folder), _rows(folder)
    usual = (rows["kind"] == PROVED) & ~rows["made"] & (rows["metric"] == ACCURACY) & (rows["setting"] == PLAIN_SETTING)
    usual = _longest(rows[usual])
    sizes = usual.drop_duplicates(["relation", "scope", *DATA]).groupby(["relation", "scope"]).size()
    sizes = sizes[sizes >= COMMON_PROMISE].sort_values(ascending=False, kind="stable")
    won = {promise: _winners(usual, *promise) for promise in sizes.index}
    lines = [_line(relation, scope, sizes[relation, scope], ranges) for (relation, scope), ranges in won.items()]
    named = pd.concat([usual.iloc[:0], *(one.named for ranges in won.values() for one in ranges)])
    relations, scopes = ([name for one in won for name in one[part].split(" / ")] for part in (0, 1))
    return template("which-method.md").render(
        relations={name: REPLACED.get(name, Relation(name).short) for name in relations},
        scopes={name: PUBLISHABLE.get(Scope(name), Scope(name).short) for name in scopes},
        head=["relation; scope", "data sets", *(name for _, name in BUDGETS), "price of privacy at ε ≤ 1"], lines=lines,
        weaker=any("−" in line[-1] for line in lines), fallbacks=sorted(set(named["fallback"]) - {""}),
        abouts=[markdown(text) for text in described_labels(_abouts(named, workflow))], common=COMMON_PROMISE,
        few=int((data["n"].astype(float) < 3).sum()), of=len(data),
    )  # fmt: skip


def guide_data(folder: Path) -> str:
    """Return the best proved row of every data set, promise and budget as CSV, with what is best without privacy."""
    data = best_rows(folder).assign(not_told_apart=lambda rows: rows["tied"])
    marks = ["below", "fallback", "not_told_apart"]
    columns = [*PUBLISHED, *marks, "no_privacy", "uncovered", "suite", "cell", "commit"]
    return data[columns].to_csv(index=False, float_format="%.6g", lineterminator="\n")


def best_rows(folder: Path) -> pd.DataFrame:
    """Return the best proved row for each data set, metric, relation, scope, delta and budget.

    Column `tied` counts the other methods that are not significantly different, `no_privacy` is the best mean without
    privacy on the same data, and `made` tells graphs that were generated or constructed.
    """
    rows = _rows(folder)
    best = pd.DataFrame(_best(rows[rows["kind"] == PROVED]), columns=list(rows.columns))
    return best.assign(made=best["made"].astype(bool))


def _rows(folder: Path) -> pd.DataFrame:
    """Return the rows of all suites but demonstrations, with their suite, whether the data were made, and no_privacy.

    What a row is not above was found within its suite, on common seeds: a floor of another suite has other seeds.
    """
    frames = []
    for path in sorted(folder.glob(f"*/{VALUES}")):
        if not (values := read_values(path))["demonstration"]:
            frames.append(standings_of(values).assign(suite=path.parent.name))
    if not frames:
        return pd.DataFrame(columns=[*COLUMNS, "suite", "made", "no_privacy"]).astype({"made": bool})
    rows = pd.concat(frames, ignore_index=True)
    known = registry()
    constructed = set(rows.loc[rows["data"].str.contains(CONSTRUCTED), "dataset"])  # whatever another suite calls it
    made = [name in constructed or (name in known and not known[name].files) for name in rows["dataset"]]
    public = _longest(rows[rows["kind"] == PUBLIC]).groupby([*DATA, "metric"])["mean"].max()
    return rows.assign(made=made).join(public.rename("no_privacy"), on=[*DATA, "metric"])


def _longest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, of a cell that several suites ran, its row of most seeds: the larger of its means would be chance."""
    longest = rows.sort_values("n", key=lambda n: -n.astype(float), kind="stable")
    return longest.drop_duplicates([*DATA, "metric", "budget", "cell", "label"]).sort_index()


def _best(proved: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the best row of every promise, data set, metric and budget, of all suites; one above its floor, if any is.

    A row with a stronger promise competes, too. `tied` counts the other methods of this promise that are not
    significantly different, in the suite of the row; nan where that suite has a better one.
    """
    about = [*DATA, "metric", "budget", *PROMISE]
    order = [
        about.index(name) for name in ("relation", "scope", "dataset", "setting", "split", "metric", "delta", "budget")
    ]
    for place, rows in sorted(contenders(proved, *about[:-3]), key=lambda one: [one[0][at] for at in order]):
        top = _top(_longest(rows))
        own = (rows[about] == list(place)).all(axis=1) & (rows["suite"] == top["suite"])
        tied = own & (rows["tied"].astype(str) == "True") & (rows["label"] != top["label"])
        count = rows.loc[tied, "label"].nunique() if str(top["best"]) == "True" else math.nan
        yield top.to_dict() | {"tied": count} | dict(zip(PROMISE, place[-3:], strict=True))


def _top(rows: pd.DataFrame) -> pd.Series:
    """Return the row of the largest mean, of those above their floor where there are any."""
    above = rows[rows["below"] == ""]
    return rows.loc[(rows if above.empty else above)["mean"].astype(float).idxmax()]


def _winners(proved: pd.DataFrame, relation: str, scope: str) -> list[Winners]:
    """Return who is best by range of epsilon, on the data that have a row of this promise there.

    The best is of all rows that imply the promise at the range's largest epsilon and such rows' largest delta: those of
    a smaller epsilon, too.
    """
    found, low = [], 0.0
    for high, _ in BUDGETS:
        own = proved[(proved["relation"] == relation) & (proved["scope"] == scope)]
        tops = []
        for data, here in own[(own["budget"] > low) & (own["budget"] <= high)].groupby(DATA, sort=False):
            same = (proved[DATA] == list(data)).all(axis=1) & (proved["budget"] <= high)
            weak = (relation, scope, here["delta"].max())
            implied = [implies(key, weak) for key in proved.loc[same, list(PROMISE)].itertuples(index=False, name=None)]
            tops.append(_top(proved[same][implied]))
        best = pd.DataFrame(tops, columns=proved.columns)
        found.append(Winners(best[best["below"] == ""], int((best["below"] != "").sum())))
        low = high
    return found


def _line(relation: str, scope: str, size: int, ranges: list[Winners]) -> list[str]:
    """Return a promise's line: who is best on most data sets in each range of epsilon, and what privacy costs."""
    best = ranges[0].best
    price = _price((best["no_privacy"] - best["mean"]).astype(float).dropna())
    promise = f"`{relation}`; {scope}{NOT_COVERED.get(scope, '')}"
    return [promise, str(size), *(one.text for one in ranges), price]


def _abouts(named: pd.DataFrame, workflow: Path) -> dict[str, str]:
    """Return what the labels in the lines leave out, by label."""
    paths = {str(paper): workflow / "experiments" / f"{paper}.yaml" for paper in named["paper"].unique()}
    experiments = {paper: load(Experiment, path) for paper, path in sorted(paths.items()) if path.is_file()}
    return abouts_of_papers(experiments, named)


def _price(lost: pd.Series) -> str:
    """Return the least and the most that is lost, in points.

    >>> _price(pd.Series([2.04, 11.0])), _price(pd.Series(dtype=float))
    ('2.0 to 11.0 points', '–')
    """
    return f"{lost.min():.1f} to {lost.max():.1f} points".replace("-", "−") if len(lost) else NO_VALUE
