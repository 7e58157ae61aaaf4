"""The page docs/which-method.md and its data, which-method.csv, from the proved rows of all suites in docs/results."""

import math
from collections import Counter
from collections.abc import Iterator
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
from dpgraph.reporting.leaderboard.standings import COLUMNS, PLAIN_SETTING, read_values, standings_of
from dpgraph.reporting.ranking import PROMISE, PROVED, PUBLIC, contenders, with_floors

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
PUBLISHED = ["data", "metric", "relation", "scope", "delta", "budget", "label", "mean", "low", "high", "n"]


def guide(folder: Path, workflow: Path = WORKFLOW) -> str:
    """Return the page's text.

    `folder` has a folder for each suite; those of demonstrations are left out. `workflow` says what labels leave out.
    """
    data = best_rows(folder)
    usual = data[~data["made"] & (data["metric"] == ACCURACY) & (data["setting"] == PLAIN_SETTING)]
    sizes = usual.groupby(["relation", "scope"])["dataset"].nunique().sort_values(ascending=False, kind="stable")
    promises = sizes[sizes >= COMMON_PROMISE].index.tolist()
    lines = [_line(a, b, usual[(usual["relation"] == a) & (usual["scope"] == b)]) for a, b in promises]
    relations, scopes = ([name for one in promises for name in one[part].split(" / ")] for part in (0, 1))
    return template("which-method.md").render(
        relations={name: REPLACED.get(name, Relation(name).short) for name in relations},
        scopes={name: PUBLISHABLE.get(Scope(name), Scope(name).short) for name in scopes},
        head=["relation; scope", "data sets", *(name for _, name in BUDGETS), "price of privacy at ε ≤ 1"], lines=lines,
        abouts=[markdown(text) for text in described_labels(_abouts(usual, lines, workflow))], common=COMMON_PROMISE,
        few=int((data["n"].astype(float) < 3).sum()), of=len(data),
    )  # fmt: skip


def guide_data(folder: Path) -> str:
    """Return the best proved row of every data set, promise and budget as CSV, with what is best without privacy."""
    data = best_rows(folder).assign(not_told_apart=lambda rows: rows["tied"])
    columns = [*PUBLISHED, "not_told_apart", "no_privacy", "uncovered", "suite", "cell", "commit"]
    return data[columns].to_csv(index=False, float_format="%.6g", lineterminator="\n")


def best_rows(folder: Path) -> pd.DataFrame:
    """Return the best proved row for each data set, metric, relation, scope, delta and budget.

    Column `tied` counts the other methods that are not significantly different, `no_privacy` is the best mean without
    privacy on the same data, and `made` tells graphs that were generated or constructed.
    """
    rows = _rows(folder)
    public = rows[rows["kind"] == PUBLIC].groupby(["data", "metric"])["mean"].max()
    best = pd.DataFrame(_best(rows[rows["kind"] == PROVED]), columns=list(rows.columns))
    without = [public.get((data, metric), math.nan) for data, metric in zip(best["data"], best["metric"], strict=True)]
    return best.assign(no_privacy=without, made=best["made"].astype(bool))


def _rows(folder: Path) -> pd.DataFrame:
    """Return the rows of all suites but demonstrations, with their suite and whether the data were made."""
    frames = []
    for path in sorted(folder.glob(f"*/{VALUES}")):
        if not (values := read_values(path))["demonstration"]:
            frames.append(standings_of(values).assign(suite=path.parent.name))
    if not frames:
        return pd.DataFrame(columns=[*COLUMNS, "suite", "made"])
    rows = with_floors(pd.concat(frames, ignore_index=True))
    known = registry()
    constructed = set(rows.loc[rows["data"].str.contains(CONSTRUCTED), "dataset"])  # whatever another suite calls it
    made = [name in constructed or (name in known and not known[name].files) for name in rows["dataset"]]
    return rows.assign(made=made)


def _best(proved: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the best row of every promise, data set, metric and budget; of several suites the one of the larger mean.

    A row with a stronger promise competes, too. `tied` counts the other methods of this promise that are not
    significantly different.
    Of suites whose best is the same cell only the one of most seeds counts: the larger of its means would be chance.
    """
    rankings = contenders(proved, "data", "metric", "budget")
    for place, rows in sorted(rankings, key=lambda one: (one[0][3:5], one[0][:2], one[0][5], one[0][2])):
        own = (rows[["data", "metric", "budget", *PROMISE]] == list(place)).all(axis=1)
        found = []
        for _, of_suite in rows.groupby("suite", sort=True):
            top = of_suite.loc[of_suite["mean"].astype(float).idxmax()].to_dict()
            tied = own[of_suite.index] & (of_suite["tied"].astype(str) == "True") & (of_suite["label"] != top["label"])
            found.append(top | {"tied": of_suite.loc[tied, "label"].nunique()})
        found.sort(key=lambda row: -float(row["n"]))
        longest = {(row["cell"], row["label"]): row for row in reversed(found)}
        yield max(longest.values(), key=lambda row: float(row["mean"])) | dict(zip(PROMISE, place[-3:], strict=True))


def _line(relation: str, scope: str, own: pd.DataFrame) -> list[str]:
    """Return a promise's line: who is best on most data sets in each range of epsilon, and what privacy costs."""
    cells, prices, low = [], [], 0.0
    for high, _ in BUDGETS:
        here = own[(own["budget"] > low) & (own["budget"] <= high)].astype({"budget": float, "mean": float})
        here = here.sort_values(["budget", "mean"]).groupby("dataset").tail(1)  # its largest budget
        cells.append(_winner(here["label"].tolist()))
        prices.append(_price((here["no_privacy"] - here["mean"]).dropna()))
        low = high
    return [f"`{relation}`; {scope}{NOT_COVERED.get(scope, '')}", str(own["dataset"].nunique()), *cells, prices[0]]


def _abouts(rows: pd.DataFrame, lines: list[list[str]], workflow: Path) -> dict[str, str]:
    """Return what the labels in the lines leave out, by label."""
    named = {cell.rpartition(" (")[0] for line in lines for cell in line[2:-1]}
    shown = rows[rows["label"].map(markdown).isin(named)]
    paths = {str(paper): workflow / "experiments" / f"{paper}.yaml" for paper in shown["paper"].unique()}
    experiments = {paper: load(Experiment, path) for paper, path in sorted(paths.items()) if path.is_file()}
    return abouts_of_papers(experiments, shown)


def _winner(labels: list[str]) -> str:
    """Return the label that occurs most often, with its count.

    >>> _winner(["A", "B", "A"]), _winner([])
    ('A (2 of 3)', '–')
    """
    if not labels:
        return NO_VALUE
    label, count = Counter(sorted(labels)).most_common(1)[0]
    return f"{markdown(label)} ({count} of {len(labels)})"


def _price(lost: pd.Series) -> str:
    """Return the least and the most that is lost, in points.

    >>> _price(pd.Series([2.04, 11.0])), _price(pd.Series(dtype=float))
    ('2.0 to 11.0 points', '–')
    """
    return f"{lost.min():.1f} to {lost.max():.1f} points".replace("-", "−") if len(lost) else NO_VALUE
