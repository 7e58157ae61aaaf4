"""The first sentence of a suite's page, and its overview: the best proved row of each ranking."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import shorten

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.claims.page import counts, held
from dpgraph.reporting.claims.parts import NOT_RUN
from dpgraph.reporting.formats import power_of_ten, significant
from dpgraph.reporting.leaderboard.standings import MARKS, data_names
from dpgraph.reporting.protection import parted
from dpgraph.reporting.ranking import CLAIMED, OUTSIDE, PROMISE, PROVED, PUBLIC, contenders, implies

LARGEST = 100.0  # ε of the overview; a larger one promises next to nothing
NAMED = 2  # methods that the first sentence names as not significantly different from the best
COLUMNS = 5  # budgets of the overview that a laptop's screen and a reader can hold
# relations and scopes in the words of the first sentence
PROTECTED: dict[str, str] = {
    Relation.GRAPH: "the whole graph", Relation.SUBGRAPH: "one part of the graph",
    Relation.NODE_NULL: "one node’s record", Relation.NODE_REMOVE: "one node with its edges",
    Relation.NODE_REPLACE: "one node with its edges, replaced",
    Relation.TRAINING_NODE: "one training node with its edges", Relation.EDGE: "one edge",
    Relation.TRAINING_RECORD: "one training record",
    Relation.RECORD_REMOVE: "one record", Relation.RECORD_REPLACE: "one record, replaced",
    Relation.ENTITY: "one entity", Relation.CLASS: "one class", Relation.SUBCLASS: "one subclass",
    Relation.VOTE: "one vote",
}  # fmt: skip
SCOPES: dict[str, str] = {
    Scope.PARAMETERS: "model only", Scope.JOINT: "joint DP", Scope.STRANGERS: "towards strangers",
    Scope.ALL_OUTPUTS: "all outputs",
}  # fmt: skip


@dataclass(frozen=True)
class Overview:
    """Best rows: a line for each data set, relation, scope and delta, a column for each budget, and no privacy.

    Where there are many budgets, those of few lines have no column. Such a row is in the next larger column, which
    holds for it, too, if its line has no row there; else it is in `others` of its line.
    """

    budgets: tuple[float, ...]
    lines: tuple[tuple[dict, dict[float, dict]], ...]  # (what the line is about, best row by budget; inf: no privacy)

    @property
    def more(self) -> bool:
        return any(self.others(best) for _, best in self.lines)

    @property
    def caution(self) -> str:
        """Return a sentence on data where a private row is above the best one without privacy, or an empty text."""
        above: dict[str, float] = {}
        for about, best in self.lines:
            gap = max(row["mean"] for row in best.values()) - best.get(math.inf, {"mean": math.inf})["mean"]
            above[str(about["data"])] = max(gap, above.get(str(about["data"]), 0.0))
        told = [f"{name} (by up to {gap:.1f} points)" for name, gap in above.items() if gap >= 0.05]
        strongest = "The methods without privacy that were tried here are not the strongest known"
        return f"{strongest}: private rows are above the best of them on {'; '.join(told)}." if told else ""

    @property
    def remarks(self) -> list[str]:
        """Return what the marks of values mean."""
        rows = [row for _, best in self.lines for row in best.values()]
        texts = {name: dict.fromkeys(text for row in rows for text in parted(row[name])) for name in MARKS}
        return [words.format(text) for name, words in MARKS.items() for text in texts[name]]

    def shown(self, best: dict[float, dict]) -> dict[float, dict]:
        """Return the best row by column, and without privacy (inf)."""
        found = {at: row for at, row in best.items() if at in self.budgets or at == math.inf}
        for at, row in sorted(best.items(), key=lambda one: -one[0]):
            column = min((budget for budget in self.budgets if budget >= at), default=None)
            if column is not None:
                found.setdefault(column, row)
        return found

    def others(self, best: dict[float, dict]) -> list[tuple[float, dict]]:
        """Return (budget, best row) of a line's budgets that no column shows."""
        cells = [row["cell"] for row in self.shown(best).values()]
        rest = [(at, row) for at, row in best.items() if at != math.inf and row["cell"] not in cells]
        return sorted(rest, key=lambda one: one[0])


def overview(table: pd.DataFrame) -> Overview:
    """Return the best rows; `stronger`, of a row, is its promise as far as that is stronger than its line's.

    Rows with a proved ε above `LARGEST` are left out.
    """
    proved = _proved(table)
    budgets = tuple(sorted(proved["budget"].unique()))
    public = {data: _top(rows).to_dict() | {"stronger": ""}
              for data, rows in table[table["kind"] == PUBLIC].groupby(["data", "metric"], sort=False)}  # fmt: skip
    found: dict[tuple, dict[float, dict]] = {}
    for (data, metric, budget, *promise), rows in contenders(proved, "data", "metric", "budget"):
        best = _top(rows).to_dict()
        own = (best["relation"], best["scope"], f"δ = {power_of_ten(best['delta'])}")
        unlike = [one for one, name, line in zip(own, PROMISE, promise, strict=True) if best[name] != line]
        best["stronger"] = ", ".join(unlike)
        found.setdefault((data, metric, *promise), {})[budget] = best
    lines = []
    for key, by_budget in found.items():
        without = {math.inf: public[key[:2]]} if key[:2] in public else {}
        lines.append((dict(zip(("data", "metric", *PROMISE), key, strict=True)), by_budget | without))
    order = {data: place for place, data in enumerate(table["data"].unique())}
    lines.sort(key=lambda line: order[line[0]["data"]])
    if len(budgets) > COLUMNS:
        uses = {budget: sum(budget in best for _, best in lines) for budget in budgets}
        kept = sorted(budgets, key=lambda budget: (-uses[budget], budget))[: COLUMNS - 1]
        budgets = tuple(sorted(kept))
    return Overview(budgets, tuple(lines))


def _proved(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["kind"] == PROVED) & (table["epsilon"] <= LARGEST)]


def described(row: dict, column: float | None = None) -> str:
    """Return a best row's label and seeds, its budget where the column's is larger, and what is stronger of it."""
    smaller = f"ε ≤ {significant(row['budget'])}" if column not in (None, row["budget"]) else ""
    return ", ".join(filter(None, [str(row["label"]), smaller, row["stronger"], f"n = {int(row['n'])}"]))


def finding(plan: Plan, table: pd.DataFrame, claims: pd.DataFrame) -> str:
    """Return one sentence on the headline data set, else on the first one with a proved row, at its least budget.

    It is about the promise with the most proved methods there, those of a stronger promise included, so that its best
    row has the most rivals; of equally many, about the one with the larger mean. A suite that ranks no methods says
    what became of the claims that it tests, else what it shows.
    """
    if table.empty:
        return _without_ranking(plan, claims)
    proved = _proved(table)
    if proved.empty and (table["kind"] == PUBLIC).all():
        return _without_privacy(table)
    if proved.empty:
        claimed = len(table[table["kind"].isin([CLAIMED, OUTSIDE])])
        most = f" of {LARGEST:g} or less" if (table["kind"] == PROVED).any() else ""
        return f"No private result has a proved ε{most}" + (f"; {claimed} rows have a claimed one." if claimed else ".")
    first = _headline(plan, proved)
    same = (table["data"] == first["data"]) & (table["metric"] == first["metric"])
    rows = proved[same.loc[proved.index]]
    (relation, scope, _), rivals = max(
        contenders(rows[rows["budget"] == rows["budget"].min()]),
        key=lambda one: (one[1]["label"].nunique(), one[1]["mean"].max(), -len(one[1])),
    )
    best, count = _top(rivals), int(rivals["label"].nunique())
    metric = str(best["metric"]).removesuffix(" (%)").removeprefix("test ").removesuffix("accuracy")
    value = f"{best['mean']:.1f} % {metric}".rstrip()
    among = f"best of {count} private methods that protect" if count > 1 else "only private method that protects"
    own = f"{_spoken(PROTECTED, best['relation'])}, " if best["relation"] != relation else ""
    own += _spoken(SCOPES, best["scope"])
    others = f"; some of the others cover less: {_spoken(SCOPES, scope)}" if best["scope"] != scope else ""
    others += _protecting_more(best, rivals)
    floor = f", not shown to be above {best['below']} (ε = 0)" if best["below"] else ""
    place = f"{best['data']}, ε = {significant(float(best['budget']))}"
    public = table[same & (table["kind"] == PUBLIC)]
    without = f"; {float(public['mean'].max()):.1f} % without privacy in this suite" if len(public) else ""
    # what protects more than the best row is marked as tied in a ranking where that row is not
    beside = [
        implies(tuple(best[list(PROMISE)]), one) for one in rivals[list(PROMISE)].itertuples(index=False, name=None)
    ]
    protects = f"{among} {_spoken(PROTECTED, relation)} ({own}{others}){_tied_with(best, rivals[beside])}{floor}"
    return "Demonstration: " * plan.suite.demonstration + f"{place}: “{best['label']}”, {value}, {protects}{without}."


def _top(rows: pd.DataFrame) -> pd.Series:
    """Return the best row: of those that are the best of a ranking, if any, the one with the largest mean."""
    best = rows[rows["best"].astype(bool)]
    return rows.loc[(rows if best.empty else best)["mean"].astype(float).idxmax()]


def _without_privacy(table: pd.DataFrame) -> str:
    """Return the sentence of a suite whose rows have no privacy."""
    rows = table[(table["data"] == table["data"].iloc[0]) & (table["metric"] == table["metric"].iloc[0])]
    best, count = _top(rows), rows["label"].nunique()
    value = f"“{best['label']}” has {best['mean']:.1f} % on {best['data']}"
    among = f"best of {count} methods{_tied_with(best, rows)}" if count > 1 else "the only method"
    return f"Without privacy only: {value}, {among}."


def _tied_with(best: pd.Series, rivals: pd.DataFrame) -> str:
    """Return the other methods that are not significantly different from the best: up to `NAMED` names, else how many.

    >>> rows = pd.DataFrame({"label": ["A", "B", "C", "D"], "tied": [False, True, True, False]})
    >>> _tied_with(rows.iloc[0], rows)
    ', not significantly different from “B” and “C”'
    """
    names = rivals.loc[rivals["tied"].astype(bool) & (rivals["label"] != best["label"]), "label"].unique().tolist()
    if not names:
        return ""
    told = " and ".join(f"“{name}”" for name in names) if len(names) <= NAMED else f"{len(names)} others"
    return f", not significantly different from {told}"


def _protecting_more(best: pd.Series, rivals: pd.DataFrame) -> str:
    """Return how many of the others protect more than the best one, and what: that its values are above is no wonder.

    >>> rows = pd.DataFrame({"label": ["A", "B", "C"], "relation": ["record-remove", "record-replace", "record-remove"],
    ...                      "scope": ["joint"] * 3, "delta": [1e-5] * 3})
    >>> _protecting_more(rows.iloc[0], rows)
    '; 1 of the others protects more: one record, replaced'
    """
    own = (best["relation"], best["scope"])
    promises: dict[str, set[tuple[str, str]]] = {}
    for label, relation, scope in rivals[["label", "relation", "scope"]].itertuples(index=False, name=None):
        promises.setdefault(label, set()).add((relation, scope))
    more = [
        one for label, one in promises.items()
        if label != best["label"] and own not in one and all(implies((*each, 0.0), (*own, 0.0)) for each in one)
    ]  # fmt: skip
    told = dict.fromkeys(
        ", ".join([_spoken(PROTECTED, relation)] * (relation != own[0]) + [_spoken(SCOPES, scope)] * (scope != own[1]))
        for one in more for relation, scope in sorted(one)
    )  # fmt: skip
    verb = "protects" if len(more) == 1 else "protect"
    return f"; {len(more)} of the others {verb} more: {' or '.join(told)}" if told else ""


def _spoken(words: Mapping[str, str], names: str) -> str:
    """
    >>> _spoken(PROTECTED, "record-remove / edge")
    'one record / one edge'
    """
    return " / ".join(words.get(name, name) for name in names.split(" / "))


def _without_ranking(plan: Plan, claims: pd.DataFrame) -> str:
    tested = held(plan, claims)
    if told := counts(tested[(tested["verdict"] != NOT_RUN) & (tested["n"] > 0)]):
        return f"Claims tested here, without a ranking of methods: {told}."
    first = next(iter(plan.artefacts.values())).title
    return f"Tables and figures without a ranking of methods, such as “{shorten(first, 90, placeholder=' …')}”."


def headline(plan: Plan, table: pd.DataFrame) -> str:
    """Return the data set of the first sentence; empty without a proved row."""
    proved = _proved(table)
    return "" if proved.empty else str(_headline(plan, proved)["data"])


def _headline(plan: Plan, proved: pd.DataFrame) -> pd.Series:
    """Return the first row of the data set that the suite declares; of the first data set if that has no proved row."""
    declared = plan.suite.headline
    name = None if declared is None else data_names(plan).get(declared.task)
    own = proved[proved["data"] == name]
    return (proved if own.empty else own).iloc[0]
