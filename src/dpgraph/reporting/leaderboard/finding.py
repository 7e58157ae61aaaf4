"""The first sentence of a suite's page, and its overview: the best proved row of each ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.privacy.relation import Relation, Scope
from dpgraph.reporting.claims.page import held
from dpgraph.reporting.claims.parts import CONTRADICTED, NOT_RUN, REPRODUCED, VERDICTS
from dpgraph.reporting.formats import significant
from dpgraph.reporting.leaderboard.standings import data_names
from dpgraph.reporting.ranking import CLAIMED, OUTSIDE, PROVED, PUBLIC

COLUMNS = 5  # budgets of the overview that a laptop's screen and a reader can hold
NOTHING_RANKED = "No ranking of methods"
CAUTION = (
    "A private row is above the best one without privacy, which either has a paper's own training, not a tuned one "
    "(baselines.csv has stronger references), or is equal within the spread"
)
NOTHING_PROVED = "No private result of this suite has a proved ε"
# relations and scopes in the words of a headline; `Relation.short` and `Scope.short` stand below the table
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
        names = dict.fromkeys(
            str(about["data"])
            for about, best in self.lines
            if math.inf in best and any(row["mean"] > best[math.inf]["mean"] for row in best.values())
        )
        return f"{CAUTION}: {'; '.join(names)}." if names else ""

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

    Of a suite that ranks no methods: what became of the claims that it tests, else what its figures and tables show.

    It is about the promise (relation and scope) for which the most methods are proved there, so that its best row has
    the most rivals; of equally many, about the one with the larger mean.
    """
    if table.empty:
        return _without_ranking(plan, claims)
    proved = table[table["kind"] == PROVED]
    if proved.empty and (table["kind"] == PUBLIC).all():
        first = table[(table["data"] == table["data"].iloc[0]) & table["best"]].iloc[0]
        return f"Without privacy only. {first['data']}: {first['label']} is best, {first['mean']:.1f} %."
    if proved.empty:
        claimed = len(table[table["kind"].isin([CLAIMED, OUTSIDE])])
        more = f": {claimed} rows have an ε that a paper or an author outside claims" if claimed else ""
        return f"{NOTHING_PROVED}{more}."
    first = _headline(plan, proved)
    same = (table["data"] == first["data"]) & (table["metric"] == first["metric"])
    rows = proved[same.loc[proved.index]]
    rows = rows[rows["budget"] == rows["budget"].min()]
    best, rivals = _most_rivals(rows)
    metric = str(best["metric"]).removesuffix(" (%)")
    among = f"best of {rivals} methods and variants" if rivals > 1 else "the only method here"
    sentence = f"{best['data']} at ε = {significant(float(best['budget']))}: {best['mean']:.1f} % {metric} with "
    sentence += f"“{best['label']}”, {among} whose ε provably protects {_protected(best)}"
    public = table[same & (table["kind"] == PUBLIC)]
    if len(public):
        without = public.loc[public["mean"].idxmax()]
        label = str(without["label"]).removesuffix(", without privacy").removesuffix(", no privacy")
        sentence += f"; without privacy {without['mean']:.1f} % (“{label}”)"
    return f"{sentence}." + " Trainings of a demonstration are short: this decides nothing." * plan.suite.demonstration


def _without_ranking(plan: Plan, claims: pd.DataFrame) -> str:
    tested = held(plan, claims)
    told = [f"{len(rows)} {name} ({', '.join(rows['claim'])})" for name in VERDICTS
            if name != NOT_RUN and len(rows := tested[tested["verdict"] == name])]  # fmt: skip
    if told:
        count = int((tested["verdict"] != NOT_RUN).sum())
        return f"{_surest(tested)}{NOTHING_RANKED}. Of {count} claim{'s' * (count > 1)} tested here: {', '.join(told)}."
    shown = dict.fromkeys(artefact.title for artefact in plan.artefacts.values())
    return f"{NOTHING_RANKED}, but {'; '.join(title[:1].lower() + title[1:] for title in shown)}."


def _surest(tested: pd.DataFrame) -> str:
    """Return the statement and verdict of the decided claim with the most power; empty without one."""
    decided = tested[tested["verdict"].isin([REPRODUCED, CONTRADICTED]) & tested["power"].notna()]
    if decided.empty:
        return ""
    first = decided.loc[decided["power"].astype(float).idxmax()]
    return f"“{str(first['statement']).rstrip('.')}” is {first['verdict']}. "


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
    found = []
    for _, of_promise in rows.groupby(["relation", "scope"], sort=True):
        best = of_promise.loc[of_promise["mean"].astype(float).idxmax()]
        found.append((best, int(of_promise["label"].nunique())))
    return max(found, key=lambda one: (one[1], float(one[0]["mean"])))


def _protected(row: pd.Series) -> str:
    """
    >>> _protected(pd.Series({"relation": "edge", "scope": "joint"}))
    "an edge in the model and in everybody else's predictions (edge; joint)"
    """
    whom = " or ".join(WHOM.get(name, name) for name in str(row["relation"]).split(" / "))
    where = "; ".join(WHERE.get(name, name) for name in str(row["scope"]).split(" / "))
    return f"{whom} {where} ({row['relation']}; {row['scope']})"
