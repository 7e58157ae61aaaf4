"""docs/which-method.md: which method when, from the proved rows of all suites that are kept in docs/results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dpgraph.data.registry import registry
from dpgraph.files import read_json
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.formats import DASH, markdown, power_of_ten, significant
from dpgraph.reporting.ranking import PROVED, PUBLIC

STANDINGS, SUMMARY = "standings.csv", "summary.json"
SIZES = ((5_000, "below 5,000 records"), (50_000, "5,000 to 50,000 records"), (math.inf, "above 50,000 records"))
UNSIZED = "a number of records that the registry does not declare"
BUDGETS = ((1.0, "ε ≤ 1"), (4.0, "1 < ε ≤ 4"), (15.0, "4 < ε ≤ 15"), (math.inf, "ε > 15"))
NO_VALUE = "no row"
TOP = """# Which method when

`dpgraph ship` writes this page from the proved rows of [docs/results](results/README.md); nothing in it is
written by hand. A value is the mean of a test metric in %, of the method that is best in its suite; *+2* says that two
more methods cannot be told apart from it (paired t test over seeds at 5 %). Each value links to its suite, where the
row, its cell and its commit stand. A method that is only *claimed* to be private is not on this page.
"""


@dataclass(frozen=True)
class Best:
    """The best row of a ranking: one data set, one relation and scope, one delta and budget, in one suite."""

    row: dict[str, Any]
    tied: int  # other methods that cannot be told apart from it

    def text(self) -> str:
        more = f" +{self.tied}" if self.tied else ""
        return f"[{self.row['mean']:.1f}](results/{self.row['suite']}/README.md) {markdown(self.row['label'])}{more}"


def guide(folder: Path) -> str:
    """The page's text. `folder` has a folder for each suite; those of demonstrations are left out."""
    rows = _rows(folder)
    proved, public = rows[rows["kind"] == PROVED], rows[rows["kind"] == PUBLIC]
    promises = sorted({(str(a), str(b)) for a, b in zip(proved["relation"], proved["scope"], strict=True)})
    parts = [TOP, *_promises(promises, proved)]
    for relation, scope in promises:
        own = proved[(proved["relation"] == relation) & (proved["scope"] == scope)]
        parts += _section(relation, scope, own, public)
    return "\n".join([*parts, *_unknown(rows, proved, promises)]) + "\n"


def _rows(folder: Path) -> pd.DataFrame:
    frames = []
    for path in sorted(folder.glob(f"*/{STANDINGS}")):
        if not read_json(path.with_name(SUMMARY)).get("demonstration", False):
            frame = pd.read_csv(
                path, keep_default_na=False, na_values={"delta": [""], "std": [""], "low": [""], "high": [""]}
            )
            frames.append(frame.assign(suite=path.parent.name))
    if not frames:
        return pd.DataFrame(columns=["kind", "relation", "scope", "data", "dataset", "metric", "budget", "suite"])
    rows = pd.concat(frames, ignore_index=True)
    known = registry()
    nodes = {name: known[name].expected.nodes if name in known else None for name in rows["dataset"].unique()}
    return rows.assign(nodes=rows["dataset"].map(nodes))


def _promises(promises: list[tuple[str, str]], proved: pd.DataFrame) -> Iterator[str]:
    yield "## First: what must ε protect?\n"
    yield "A smaller ε of another line promises something else: compare within a line only.\n"
    yield "| relation | what one person changes | scope | what may be published | proved rows on |"
    yield "|---|---|---|---|---|"
    for relation, scope in promises:
        own = proved[(proved["relation"] == relation) & (proved["scope"] == scope)]
        data = "; ".join(dict.fromkeys(own["data"]))
        yield f"| {relation} | {_words(relation, Relation)} | {scope} | {_words(scope, Scope)} | {data} |"
    yield ""


def _words(text: str, known: type[Relation] | type[Scope]) -> str:
    return "; ".join(known(name).short if name in set(known) else name for name in text.split(" / "))


def _section(relation: str, scope: str, own: pd.DataFrame, public: pd.DataFrame) -> Iterator[str]:
    yield f"## {relation}; {scope}\n"
    best = list(_best(own))
    yield from _sentences(best, public)
    budgets = sorted(own["budget"].unique())
    yield (
        "\n| data | records (nodes, images) | δ | no privacy | "
        + " | ".join(f"ε ≤ {significant(at)}" for at in budgets)
        + " |"
    )
    yield "|---|--:|--:|--:|" + "---|" * len(budgets)
    lines: dict[tuple[Any, ...], dict[float, Best]] = {}
    for one in best:
        row = one.row
        lines.setdefault((row["data"], row["metric"], row["nodes"], row["delta"]), {})[row["budget"]] = one
    for (data, metric, nodes, delta), values in sorted(
        lines.items(), key=lambda line: (_order(line[0][2]), *map(str, line[0]))
    ):
        about = data if metric == "test accuracy (%)" else f"{data}, {metric}"
        without = _without(public, data, metric)
        cells = [about, DASH if math.isnan(_number(nodes)) else f"{int(nodes):,}", power_of_ten(delta)]
        cells += [DASH if without is None else f"{without:.1f}"]
        cells += [values[at].text() if at in values else NO_VALUE for at in budgets]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _best(own: pd.DataFrame) -> Iterator[Best]:
    """Of every data set, metric, delta and budget; of several suites the one with the larger mean."""
    for _, of_data in own.groupby(["data", "metric", "delta", "budget"], sort=True):
        found = []
        for _, of_suite in of_data.groupby("suite", sort=True):
            marked = of_suite[of_suite["best"].astype(str) == "True"]
            top = marked.loc[marked["mean"].astype(float).idxmax()].to_dict()
            alike = of_suite[(of_suite["tied"].astype(str) == "True") & (of_suite["label"] != top["label"])]
            found.append(Best(top, alike["label"].nunique()))
        yield max(found, key=lambda one: float(one.row["mean"]))


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


def _unknown(rows: pd.DataFrame, proved: pd.DataFrame, promises: list[tuple[str, str]]) -> Iterator[str]:
    yield "## What is not known\n"
    for relation, scope in promises:
        own = list(_best(proved[(proved["relation"] == relation) & (proved["scope"] == scope)]))
        there = {(_size(one.row["nodes"]), _range(one.row["budget"])) for one in own}
        gaps = [
            f"{size}: {', '.join(missing)}"
            for _, size in SIZES
            if (missing := [name for _, name in BUDGETS if (size, name) not in there])
        ]
        yield f"- {relation}; {scope}: no row for {'; '.join(gaps)}." if gaps else f"- {relation}; {scope}: no gap."
    shown = {name for relation, _ in promises for name in relation.split(" / ")}
    others = [f"{one} ({one.short})" for one in Relation if one not in (Relation.NONE, *shown)]
    yield f"- No proved row at all for the relations {'; '.join(others)}." if others else "- Every relation has a row."
    few = proved[proved["n"].astype(float) < 3] if len(proved) else proved
    if len(few):
        yield f"- {len(few)} of {len(proved)} proved rows have fewer than three seeds, and tell nothing apart."
    yield f"- Only these suites are in docs/results: {', '.join(dict.fromkeys(rows['suite']))}. Others may know more."


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
