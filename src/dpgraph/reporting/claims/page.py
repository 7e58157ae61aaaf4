"""The claims as an HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from textwrap import shorten

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.coverage import DEMONSTRATION, ELSEWHERE, elsewhere, held
from dpgraph.reporting.claims.elsewhere import HAS_IT
from dpgraph.reporting.claims.verdicts import CONTRADICTED, DATA_HERE, ENOUGH, NOT_RUN, REPRODUCED
from dpgraph.reporting.formats import html_text
from dpgraph.reporting.page import html_table, page

WHY = 120  # characters of a reason next to the verdict; the evidence has it whole
SHOWN = 2  # sentences of the evidence, the weakest comparisons; the others unfold
LONG = 300  # characters of a single sentence that unfolds, too
HEAD = ("Claim", "Statement", "Source", "The paper’s own numbers", "Verdict", "Evidence", "Seeds", "Size", "Power")


def claims_page(plan: Plan, table: pd.DataFrame) -> str:
    more, table = elsewhere(plan, table), held(plan, table)
    counts = table["verdict"].value_counts()
    where = f"suite {plan.suite.name}" + (", whose short trainings decide nothing" if plan.suite.demonstration else "")
    lead = f"{len(table)} claims on {where}: " + ", ".join(f"{n} {word}" for word, n in counts.items())
    lead = ". ".join(filter(None, [lead, strong_enough(table), more.removesuffix(".")]))
    body = []
    for paper, rows in table.groupby("paper", sort=False):
        title = html_text(plan.experiments[str(paper)].title)
        body.append(f'<tr class="block"><th scope="rowgroup" colspan="{len(HEAD)}">{title}</th></tr>')
        body += [_html_row(row) for row in rows.to_dict("records")]
    note = (
        "One-sided t tests at 5 % of differences of the same seed. Reproduced: every comparison holds. Contradicted: "
        "one is refuted after Bonferroni’s correction. Underpowered: at this number of seeds a true "
        "effect (the paper’s printed difference, else what the statement names, else 1 point) would be seen less than "
        "half of the time, so that the claim has no verdict, whatever was seen. "
        "Inconclusive: neither, though it would; also where a mean of data sets holds that one of them refutes. "
        "Size and power are simulated with the measured spread over seeds: how "
        "often a claim that is false in the least favourable way, or true by the effect named, is called reproduced. "
        "Computed claims have neither. What a paper says of each of its data sets is tested on each, and on the "
        "mean of those others that have one setting; a statement that names none on a mean. Data that were constructed "
        "so that one side must win count for no claim that does not name them. Similar: surely within the margin, "
        "from both sides. The weakest comparison comes first. Where a best or an extreme value is picked, the test is "
        "corrected for it. A control learns nothing (pure noise): if a private method is not better, the verdict "
        "lists it."
    )
    return page(
        plan.suite,
        "Claims of the papers",
        html_table(HEAD, body) + f'<div class="notes"><p>{note}</p></div>',
        lead,
    )


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


def _rate(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _how(row: dict) -> str:
    """What would decide the claim, unfolded by a click."""
    lines = [
        f"{name}: {row[column]}"
        for name, column in (("Reproduced if", "would_reproduce"), ("Contradicted if", "would_contradict"))
        if row[column]
    ]
    if row["effect"]:
        unit = f" points ({row['effect_source']})" if row["effect_source"] else ""
        lines.append(f"Effect for the power: {row['effect']}{unit}")
    if not lines:
        return ""
    shown = "".join(f"<div>{html_text(line)}</div>" for line in lines)
    return f'<details class="why"><summary>how it is decided</summary>{shown}</details>'


def _html_row(row: dict) -> str:
    word = row["verdict"]
    why = "" if word in (REPRODUCED, CONTRADICTED) else row["reason"]  # of these it is in the evidence
    first, cost, more = why.partition(f"; {HAS_IT}")
    shown = (shorten(first, WHY, placeholder=" …") if row["evidence"] else first) + cost + more
    below = ("mechanism", "control", "scope")
    scope = f'<span class="why">{html_text(shown)}</span>' if why else ""
    scope += "".join(f'<span class="{name}">{html_text(row[name])}</span>' for name in below if row[name])
    kind = word.replace(" ", "-") + (" elsewhere" if row["scope"].startswith((ELSEWHERE, DEMONSTRATION)) else "")
    texts = [f"<td>{html_text(str(row[name]))}</td>" for name in ("claim", "statement", "source", "own_numbers")]
    texts[1] = texts[1].replace("</td>", f"{_how(row)}</td>")
    parts = [f"<div>{html_text(part)}</div>" for part in row["evidence"].split(". ") if part]
    evidence = "".join(parts)
    if len(parts) > SHOWN + 1 or len("".join(parts[SHOWN:])) > LONG:
        more = f"<details><summary>{len(parts) - SHOWN} more</summary>{''.join(parts[SHOWN:])}</details>"
        evidence = "".join(parts[:SHOWN]) + more
    return (
        f'<tr>{"".join(texts)}<td><span class="verdict {kind}">{html_text(word)}</span>{scope}</td>'
        f'<td class="evidence">{evidence}</td><td>{row["n"] or ""}</td>'
        f"<td>{_rate(row['size'])}</td><td>{_rate(row['power'])}</td></tr>"
    )
