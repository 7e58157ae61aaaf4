"""The first sentence of the page, and its overview: the best proved row of each ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.formats import significant
from dpgraph.reporting.ranking import CLAIMED, OUTSIDE, PROVED, PUBLIC

COLUMNS = 5  # budgets of the overview that a laptop's screen and a reader can hold
NOTHING_RANKED = "This suite ranks no methods: its tables and figures are about something else."
CAUTION = (
    "A private row is above the best one without privacy, which either has a paper's own training, not a tuned one "
    "(baselines.csv has stronger references), or is equal within the spread"
)
NOTHING_PROVED = "No private result of this suite has a proved ε"


@dataclass(frozen=True)
class Overview:
    """Best rows: a line for each data set, relation, scope and delta, a column for each budget, and no privacy.

    Where there are many budgets, those of few lines have no column. Such a row is in the next larger column, which
    holds for it, too, if its line has nothing there; else it is in `others` of its line.
    """

    budgets: tuple[float, ...]
    lines: tuple[tuple[dict, dict[float, dict]], ...]  # (what the line is about, best row by budget; inf: no privacy)

    @property
    def more(self) -> bool:
        return any(self.others(best) for _, best in self.lines)

    @property
    def caution(self) -> str:
        """On data where a private row is above the best one without privacy; empty where there are none."""
        names = dict.fromkeys(
            str(about["data"])
            for about, best in self.lines
            if math.inf in best and any(row["mean"] > best[math.inf]["mean"] for row in best.values())
        )
        return f"{CAUTION}: {'; '.join(names)}." if names else ""

    def shown(self, best: dict[float, dict]) -> dict[float, dict]:
        """Best row by column, and without privacy (inf)."""
        found = {at: row for at, row in best.items() if at in self.budgets or at == math.inf}
        for at, row in sorted(best.items(), key=lambda one: -one[0]):
            column = min((budget for budget in self.budgets if budget >= at), default=None)
            if column is not None:
                found.setdefault(column, row)
        return found

    def others(self, best: dict[float, dict]) -> list[tuple[float, dict]]:
        """(budget, best row) of a line's budgets that no column shows."""
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


def finding(plan: Plan, table: pd.DataFrame) -> str:
    """Of the first data set with a proved row, at its smallest budget: the best of each relation and scope."""
    if table.empty:
        return NOTHING_RANKED
    proved = table[table["kind"] == PROVED]
    if proved.empty and (table["kind"] == PUBLIC).all():
        first = table[(table["data"] == table["data"].iloc[0]) & table["best"]].iloc[0]
        return f"Without privacy only. {first['data']}: {first['label']} is best, {first['mean']:.1f} %."
    if proved.empty:
        claimed = len(table[table["kind"].isin([CLAIMED, OUTSIDE])])
        more = f": {claimed} rows have an ε that a paper or an author outside claims" if claimed else ""
        return f"{NOTHING_PROVED}{more}."
    first = proved.iloc[0]
    rows = proved[(proved["data"] == first["data"]) & (proved["metric"] == first["metric"])]
    budget = rows["budget"].min()
    best = rows[(rows["budget"] == budget) & rows["best"]].drop_duplicates("cell")
    best = best.sort_values("mean", ascending=False, kind="stable")
    parts = [
        f"{row['label']} reaches {row['mean']:.1f} % ({row['relation']}; {row['scope']})"
        for row in best.to_dict("records")
    ]
    same = (table["data"] == first["data"]) & (table["metric"] == first["metric"])
    public = table[same & (table["kind"] == PUBLIC)]
    without = f", against {public['mean'].max():.1f} % without privacy" if len(public) else ""
    sentence = f"{first['data']} at ε = {significant(float(budget))}, {first['metric'].removesuffix(' (%)')}: "
    sentence += "; ".join(parts) + without + "."
    return sentence + (" Trainings of a demonstration are short: this decides nothing." * plan.suite.demonstration)
