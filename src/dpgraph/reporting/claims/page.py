"""The claims as an HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.coverage import DEMONSTRATION, ELSEWHERE, elsewhere, held
from dpgraph.reporting.claims.elsewhere import HAS_IT
from dpgraph.reporting.claims.verdicts import CONTRADICTED, DATA_HERE, ENOUGH, NOT_RUN, REPRODUCED
from dpgraph.reporting.formats import html_text
from dpgraph.reporting.page import page, template

WHY = 120  # characters of a reason next to the verdict; the evidence has it whole
SHOWN = 2  # sentences of the evidence, the weakest comparisons; the others unfold
LONG = 300  # characters of a single sentence that unfolds, too


def claims_page(plan: Plan, table: pd.DataFrame) -> str:
    more, table = elsewhere(plan, table), held(plan, table)
    counts = table["verdict"].value_counts()
    where = f"suite {plan.suite.name}" + (", whose short trainings decide nothing" if plan.suite.demonstration else "")
    lead = f"{len(table)} claims on {where}: " + ", ".join(f"{n} {word}" for word, n in counts.items())
    lead = ". ".join(filter(None, [lead, strong_enough(table), more.removesuffix(".")]))
    papers = [
        (plan.experiments[str(paper)].title, [_shown(row) for row in rows.to_dict("records")])
        for paper, rows in table.groupby("paper", sort=False)
    ]
    return page(plan.suite, "Claims of the papers", template("claims.html").render(papers=papers).rstrip("\n"), lead)


def strong_enough(table: pd.DataFrame) -> str:
    """How many claims whose data are in the suite have enough power, and whether these are two thirds of them.

    Computed claims have no sample, and count neither way; nor do claims that need a data set which the suite has not.
    """
    here = table[table["data"] == DATA_HERE]
    if not len(here):
        return ""
    whole = here[here["verdict"] != "not run"]
    enough = int((whole["power"] >= ENOUGH).sum())
    rule = "which is" if 3 * enough >= 2 * len(here) else "which is not"
    lacking = len(here) - len(whole)
    part = f", {lacking} of them in part only since runs are missing" if lacking else ""
    return (
        f"Of {len(here)} whose data are here{part}, {enough} are tested with a power of {ENOUGH:g} or more, "
        f"{rule} two thirds of them"
    )


def strong_enough_in_any(tables: Iterable[pd.DataFrame]) -> str:
    """The same over claims.csv of several suites, each claim once: a claim has the power of the suite that has most."""
    here = [table[table["data"] == DATA_HERE] for table in tables]
    claims = {claim for table in here for claim in table["claim"]}
    strong = {
        claim for table in here
        for claim in table.loc[(table["verdict"] != NOT_RUN) & (table["power"] >= ENOUGH), "claim"]
    }  # fmt: skip
    if not claims:
        return ""
    rule = "which is" if 3 * len(strong) >= 2 * len(claims) else "which is not"
    return (
        f"Each claim once: of {len(claims)} whose data are here, {len(strong)} are tested in one of these suites with "
        f"a power of {ENOUGH:g} or more, {rule} two thirds of them; the others are {', '.join(sorted(claims - strong))}"
    )


def _shown(row: dict) -> dict:
    """Return the row with what the page says beside its verdict, and its evidence in sentences."""
    word = row["verdict"]
    why = "" if word in (REPRODUCED, CONTRADICTED) else row["reason"]  # of these it is in the evidence
    first, cost, more = why.partition(f"; {HAS_IT}")
    parts = [part for part in row["evidence"].split(". ") if part]
    return row | {
        "why": (shorten(first, WHY, placeholder=" …") if row["evidence"] else first) + cost + more,
        "kind": word.replace(" ", "-") + " elsewhere" * row["scope"].startswith((ELSEWHERE, DEMONSTRATION)),
        "first": parts[:SHOWN],
        "more": parts[SHOWN:],
        "folded": len(parts) > SHOWN + 1 or sum(len(f"<div>{html_text(part)}</div>") for part in parts[SHOWN:]) > LONG,
    }
