"""The first sentence of a suite's page, and its overview: the best proved row of each ranking."""

import math
from dataclasses import dataclass
from textwrap import shorten

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.claims.page import counts, held
from dpgraph.reporting.claims.parts import NOT_RUN
from dpgraph.reporting.formats import significant
from dpgraph.reporting.leaderboard.standings import data_names
from dpgraph.reporting.ranking import CLAIMED, OUTSIDE, PROVED, PUBLIC

COLUMNS = 5  # budgets of the overview that a laptop's screen and a reader can hold
# relations and scopes in the words of the first sentence
LEVELS: dict[str, str] = {
    Relation.GRAPH: "graph-level",
    Relation.SUBGRAPH: "part-level",
    Relation.EDGE: "edge-level",
    Relation.ENTITY: "entity-level",
    Relation.CLASS: "class-level",
    Relation.SUBCLASS: "subclass-level",
    Relation.VOTE: "vote-level",
    **dict.fromkeys((Relation.RECORD_REMOVE, Relation.RECORD_REPLACE), "record-level"),
}  # the others: node-level
SCOPES: dict[str, str] = {
    Scope.PARAMETERS: "model only",
    Scope.JOINT: "joint DP",
    Scope.STRANGERS: "towards strangers",
    Scope.ALL_OUTPUTS: "all outputs",
}


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
    proved = table[table["kind"] == PROVED]
    budgets = tuple(sorted(proved["budget"].unique()))
    public = {data: rows.loc[rows["mean"].idxmax()].to_dict()
              for data, rows in table[table["kind"] == PUBLIC].groupby(["data", "metric"], sort=False)}  # fmt: skip
    lines = []
    for key, rows in proved.groupby(["data", "metric", "relation", "scope", "delta"], sort=False):
        best = {row["budget"]: row for row in rows[rows["best"]].to_dict("records")}
        if (without := public.get(key[:2])) is not None:
            best[math.inf] = without
        about = dict(zip(("data", "metric", "relation", "scope", "delta"), key, strict=True))
        lines.append((about, best))
    order = {data: place for place, data in enumerate(table["data"].unique())}
    lines.sort(key=lambda line: order[line[0]["data"]])
    if len(budgets) > COLUMNS:
        uses = {budget: sum(budget in best for _, best in lines) for budget in budgets}
        kept = sorted(budgets, key=lambda budget: (-uses[budget], budget))[: COLUMNS - 1]
        budgets = tuple(sorted(kept))
    return Overview(budgets, tuple(lines))


def finding(plan: Plan, table: pd.DataFrame, claims: pd.DataFrame) -> str:
    """Return one sentence on the headline data set, else on the first one with a proved row, at its least budget.

    It is about the promise (relation and scope) with the most proved methods there, so that its best row has the most
    rivals; of equally many, about the one with the larger mean. A suite that ranks no methods says what became of the
    claims that it tests, else what it shows.
    """
    if table.empty:
        return _without_ranking(plan, claims)
    proved = table[table["kind"] == PROVED]
    if proved.empty and (table["kind"] == PUBLIC).all():
        first = table[(table["data"] == table["data"].iloc[0]) & table["best"]].iloc[0]
        return f"Without privacy only: “{first['label']}” is best on {first['data']}, with {first['mean']:.1f} %."
    if proved.empty:
        claimed = len(table[table["kind"].isin([CLAIMED, OUTSIDE])])
        return "No private result has a proved ε" + (f"; {claimed} rows have a claimed one." if claimed else ".")
    first = _headline(plan, proved)
    same = (table["data"] == first["data"]) & (table["metric"] == first["metric"])
    rows = proved[same.loc[proved.index]]
    rows = rows[rows["budget"] == rows["budget"].min()]
    best, rivals = _most_rivals(rows)
    metric = str(best["metric"]).removesuffix(" (%)").removeprefix("test ").removesuffix("accuracy")
    value = f"{best['mean']:.1f} % {metric}".rstrip()
    among = f"best of {rivals} {_promised(best)} methods" if rivals > 1 else f"only {_promised(best)} method"
    scope = " / ".join(SCOPES.get(name, name) for name in str(best["scope"]).split(" / "))
    place = f"{best['data']}, ε = {significant(float(best['budget']))}"
    public = table[same & (table["kind"] == PUBLIC)]
    without = f"; {float(public['mean'].max()):.1f} % without privacy" if len(public) else ""
    told = f"{place}: “{best['label']}”, {value}, {among} ({scope}){without}."
    return "Demonstration: " * plan.suite.demonstration + told


def _promised(row: pd.Series) -> str:
    """
    >>> _promised(pd.Series({"relation": "record-remove / edge"}))
    'record-level / edge-level private'
    """
    levels = dict.fromkeys(LEVELS.get(name, "node-level") for name in str(row["relation"]).split(" / "))
    return f"{' / '.join(levels)} private"


def _without_ranking(plan: Plan, claims: pd.DataFrame) -> str:
    tested = held(plan, claims)
    if told := counts(tested[tested["verdict"] != NOT_RUN]):
        return f"Claims tested here, without a ranking of methods: {told}."
    first = next(iter(plan.artefacts.values())).title
    return f"Tables and figures without a ranking of methods, such as “{shorten(first, 90, placeholder=' …')}”."


def headline(plan: Plan, table: pd.DataFrame) -> str:
    """Return the data set of the first sentence; empty without a proved row."""
    proved = table[table["kind"] == PROVED]
    return "" if proved.empty else str(_headline(plan, proved)["data"])


def _headline(plan: Plan, proved: pd.DataFrame) -> pd.Series:
    """Return the first row of the data set that the suite declares; of the first data set if that has no proved row."""
    declared = plan.suite.headline
    name = None if declared is None else data_names(plan).get(declared.task)
    own = proved[proved["data"] == name]
    return (proved if own.empty else own).iloc[0]


def _most_rivals(rows: pd.DataFrame) -> tuple[pd.Series, int]:
    """Return the best row of the promise with the most methods, and how many it has."""
    promises = [of_promise for _, of_promise in rows.groupby(["relation", "scope"], sort=True)]
    most = max(promises, key=lambda one: (one["label"].nunique(), one["mean"].max()))
    return most.loc[most["mean"].astype(float).idxmax()], int(most["label"].nunique())
