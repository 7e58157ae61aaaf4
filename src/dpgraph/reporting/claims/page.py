"""The claims as an HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten

import pandas as pd

from dpgraph.config.claim_tests import uses
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.data_sets import DEMONSTRATION
from dpgraph.reporting.claims.parts import CONTRADICTED, DATA_HERE, ENOUGH, FEWEST, NOT_RUN, REPRODUCED, read_parts
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
    """Say how many of the papers' claims whose data are in the suite can have a verdict, and whether two thirds can.

    Such a claim has power and seeds enough in each of its parts. Claims of this project do not count, nor do computed
    ones, which have no sample, nor those that need a data set which the suite has not.
    """
    return _counted([table], "Of {} claims of the papers whose data are here, {} are tested")


def strong_enough_in_any(tables: Iterable[pd.DataFrame]) -> str:
    """The same over claims.csv of several suites, each claim once: where one suite is enough for it."""
    return _counted(tables, "Each claim once: of {} claims of the papers whose data are here, {} are tested")


def _counted(tables: Iterable[pd.DataFrame], text: str) -> str:
    here = [
        table[(table["data"] == DATA_HERE) & table["sentence"].notna() & (table["sentence"] != "")] for table in tables
    ]
    claims = {claim for table in here for claim in table["claim"]}
    strong = {row["claim"] for table in here for row in table.to_dict("records") if _is_strong(row)}
    if not claims:
        return ""
    rule = "which is" if 3 * len(strong) >= 2 * len(claims) else "which is not"
    others = f"; the others are {', '.join(sorted(claims - strong))}" if claims - strong else ""
    told = text.format(len(claims), len(strong))
    return (
        f"{told} with a power of {ENOUGH:g} or more and {FEWEST} seeds in each part, {rule} two thirds of them{others}"
    )


def _is_strong(row: dict) -> bool:
    parts = [one for one in read_parts(row["parts"]) if not one.premise]
    return row["verdict"] != NOT_RUN and bool(parts) and all(one.strong for one in parts)


def _shown(row: dict) -> dict:
    """Return the row with what the page says beside its verdict, and its evidence in sentences."""
    word = row["verdict"]
    why = "" if word in (REPRODUCED, CONTRADICTED) else row["reason"]  # of these it is in the evidence
    parts = [part for part in row["evidence"].split(". ") if part]
    return row | {
        "why": shorten(why, WHY, placeholder=" …") if row["evidence"] else why,
        "parts": [one for one in read_parts(row["parts"]) if one.part or one.reading],
        "kind": word.replace(" ", "-") + " elsewhere" * row["scope"].startswith(DEMONSTRATION),
        "first": parts[:SHOWN],
        "more": parts[SHOWN:],
        "folded": len(parts) > SHOWN + 1 or sum(len(f"<div>{html_text(part)}</div>") for part in parts[SHOWN:]) > LONG,
    }


NAMED = "other suites have their tables and figures"


def held(plan: Plan, claims: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of claims.csv without claims for whose tests this suite has no artefact.

    A claim that lacks data, or that says why it is not tested, stays: its reason is of use.
    """
    return claims[~claims["claim"].isin(_elsewhere(plan, claims))]


def elsewhere(plan: Plan, claims: pd.DataFrame) -> str:
    """Return a sentence on the claims that `held` leaves out; empty where there is none."""
    names = _elsewhere(plan, claims)
    if not names:
        return ""
    count = f"{len(names)} more claims are" if len(names) > 1 else "One more claim is"
    return f"{count} not tested here, {NAMED}: {', '.join(names)}."


def _elsewhere(plan: Plan, claims: pd.DataFrame) -> list[str]:
    known = plan.claims()
    absent = {
        name
        for name, (paper, claim) in known.items()
        if claim.parts
        and not any(all(f"{paper}/{artefact}" in plan.artefacts for artefact, _ in uses(part)) for part in claim.parts)
    }
    rows = claims[(claims["verdict"] == NOT_RUN) & claims["claim"].isin(absent)]
    return [str(name) for name in rows["claim"]]
