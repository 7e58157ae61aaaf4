"""Pages of claims: those of a suite as HTML, and the papers' claims over all suites with kept rows as Markdown.

Over all suites a part has the result of the suite that tests all of it with the most seeds; a claim is then decided
anew over its parts. A premise must hold in each suite that a part is taken from. Suites without rows decide no claim.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Any

import pandas as pd

from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import uses
from dpgraph.config.config import load
from dpgraph.config.experiment import Experiment
from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims import parts as claim_parts
from dpgraph.reporting.claims.data_sets import DEMONSTRATION
from dpgraph.reporting.claims.parts import FEWEST, INCONCLUSIVE, NOT_RUN, PREMISE_FAILS, REPRODUCED, PartResult
from dpgraph.reporting.formats import markdown, page, template

WHY = 120  # characters of a reason next to the verdict; the evidence has it whole
SHOWN = 2  # sentences of the evidence, the weakest comparisons; the others unfold
LONG = 300  # characters of a single sentence that unfolds, too


def claims_page(plan: Plan, table: pd.DataFrame) -> str:
    more, table = elsewhere(plan, table), held(plan, table)
    where = f"suite {plan.suite.name}" + (", whose short trainings decide no claim" if plan.suite.demonstration else "")
    lead = f"{len(table)} claims on {where}: {counts(table)}"
    lead = ". ".join(filter(None, [lead, strong_enough([table]), more.removesuffix(".")]))
    papers = [
        (plan.experiments[str(paper)].title, [_shown(row) for row in rows.to_dict("records")])
        for paper, rows in table.groupby("paper", sort=False)
    ]
    return page(plan.suite, "Claims of the papers", template("claims.html").render(papers=papers).rstrip("\n"), lead)


def strong_enough(tables: Iterable[pd.DataFrame]) -> str:
    """Say how many of the papers' claims whose data are in the suites have power and seeds enough, and name the others.

    tables: claims.csv of suites; a claim counts once, in its strongest suite, if it has power and
    seeds enough in each of its parts. Those that have them only without the readings whose premise fails are named:
    such a reading has its verdict by that. Claims of this project do not count, nor do computed ones, which have no
    sample, nor those that need a data set which the suite has not.
    """
    here = [
        table[(table["data"] == claim_parts.DATA_HERE) & table["sentence"].notna() & (table["sentence"] != "")]
        for table in tables
    ]
    claims = {claim for table in here for claim in table["claim"]}
    rows = [row for table in here for row in table.to_dict("records")]
    strong = {row["claim"] for row in rows if _is_strong(row, False)}
    more = sorted({row["claim"] for row in rows if _is_strong(row, True)} - strong)
    if not claims:
        return ""
    others = ", ".join(sorted(claims - strong - set(more)))
    has = "have" if len(strong) > 1 else "has"
    return (
        f"All data are here of {len(claims)} of the papers' claims. {len(strong) or 'None'} of these {has} power "
        f"{claim_parts.ENOUGH:g} and {FEWEST} seeds in each part"
        + (f", {len(more)} more ({', '.join(more)}) in each part of the readings whose premise holds" if more else "")
        + (f": {len(strong) + len(more)} of {len(claims)}" if more else "")
        + " (goal: two thirds)"
        + (f"; not {others}" if others and (strong or more) else "")
    )


def _is_strong(row: Mapping[str, Any], settled: bool) -> bool:
    """Return whether all parts are strong; with `settled` not those of readings whose premise fails."""
    parts = claim_parts.read_parts(row["parts"])
    failed = {one.reading for one in parts if one.premise and one.verdict == PREMISE_FAILS} if settled else set()
    asked = [one for one in parts if not one.premise and one.reading not in failed]
    return row["verdict"] != NOT_RUN and bool(asked or failed) and all(one.strong for one in asked)


def _shown(row: dict) -> dict:
    """Return the row with the page's remarks on its verdict, and its evidence in sentences."""
    word = row["verdict"]
    why = "" if word in (REPRODUCED, claim_parts.CONTRADICTED) else row["reason"]  # of these it is in the evidence
    parts = [part for part in row["evidence"].split(". ") if part]
    return row | {
        "why": shorten(why, WHY, placeholder=" …") if row["evidence"] else why,
        "parts": [one for one in claim_parts.read_parts(row["parts"]) if one.part or one.reading],
        "kind": word.replace(" ", "-") + " elsewhere" * row["scope"].startswith(DEMONSTRATION),
        "first": parts[:SHOWN],
        "more": parts[SHOWN:],
        "folded": len(parts) > SHOWN + 1 or sum(len(f"<div>{escape(part)}</div>") for part in parts[SHOWN:]) > LONG,
    }


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
    return f"{count} not tested here, other suites have their tables and figures: {', '.join(names)}."


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


NOWHERE = "no shipped suite has rows on the paper's own data with its own mechanism"
COLUMNS = ("paper", "claim", "verdict", "sentence", "parts", "power", "data", "mechanism", "premise", "substitutes",
           "reason", "run", "source", "own_numbers")  # fmt: skip
ON_THE_PAGE = ("statement", "why", "lines")
Results = Mapping[str, pd.DataFrame]  # claims.csv by suite, indexed by claim


def papers_claims(workflow: Path) -> dict[str, tuple[Experiment, Claim]]:
    """Return the claims that quote a paper, by id, in the order of the files."""
    found: dict[str, tuple[Experiment, Claim]] = {}
    for path in sorted((workflow / "experiments").glob("*.yaml")):
        experiment = load(Experiment, path)
        found |= {name: (experiment, one) for name, one in experiment.claims.items() if one.sentence is not None}
    return found


def overview(claims: Mapping[str, tuple[Experiment, Claim]], tables: Results) -> pd.DataFrame:
    """Return a row for each claim of a paper: `COLUMNS`, what is tested and the lines of its section on the page."""
    rows = [_row(name, experiment, claim, tables) for name, (experiment, claim) in claims.items()]
    return pd.DataFrame(rows, columns=[*COLUMNS, *ON_THE_PAGE])


def _row(name: str, experiment: Experiment, claim: Claim, tables: Results) -> dict[str, object]:
    by_suite = {suite: table.loc[name] for suite, table in tables.items() if name in table.index}
    of_suites = {suite: claim_parts.read_parts(row["parts"]) for suite, row in by_suite.items()}
    readings = list(claim.readings) or [""]
    decided = {reading: _decided(reading, claim, of_suites) for reading in readings}
    verdict, reason = claim_parts.over_readings({reading: (one[0], one[1]) for reading, one in decided.items()})
    used = {suite for _, _, _, suites in decided.values() for suite in suites}
    texts = {
        column: "; ".join(dict.fromkeys(str(by_suite[suite][column]) for suite in sorted(used)
                                        if isinstance(by_suite[suite][column], str)))
        for column in ("scope", "mechanism")
    }  # fmt: skip
    beside = [
        f"{suite}: {row['substitutes']}".replace("this suite", f"suite {suite}")
        for suite, row in by_suite.items()
        if row["substitutes"]
    ]
    found = [(reading, part) for reading, one in decided.items() for part in one[2]]
    needed = dict.fromkeys(f"{experiment.paper}/{name}" for part in (*claim.parts, *claim.premises)
                           for name, _ in uses(part))  # fmt: skip
    told = {reading: f"{one[0]}: {one[1]}" for reading, one in decided.items()}
    lines = [
        *([("By reading", [f"*{markdown(name)}*: {markdown(text)}" for name, text in told.items()])]
          if len(set(told.values())) > 1 else []),
        *_outcomes(found),
        *((f"{name}: {markdown(text)}", []) for name, text in
          (("Data", texts["scope"]), ("Mechanisms", texts["mechanism"]), ("The paper's own numbers", claim.own_numbers))
          if text),
        *([("On substitutes, by suite", [markdown(one) for one in beside])] if beside else []),
    ]  # fmt: skip
    return {
        "paper": experiment.paper, "claim": name, "verdict": verdict, "sentence": claim.sentence,
        "parts": "; ".join(_told(reading, part) for reading, part in found if not part.premise),
        "power": "; ".join(_power(part) for _, part in found if not part.premise),
        "data": texts["scope"], "mechanism": texts["mechanism"],
        "premise": "; ".join(_told(reading, part, reason=True) for reading, part in found if part.premise),
        "substitutes": "; ".join(beside), "reason": reason,
        "run": f"dpgraph run {' '.join(needed)} --suite paper" if verdict == NOT_RUN and needed else "",
        "source": claim.source, "own_numbers": claim.own_numbers, "statement": claim.statement,
        "why": "" if len(set(told.values())) > 1 else reason, "lines": lines,
    }  # fmt: skip


def _outcomes(found: Sequence[tuple[str, PartResult]]) -> list[tuple[str, list[str]]]:
    """Return a line for each premise and each part; under it what its readings gave, where they differ.

    Of several parts each has its weakest comparison; that of a single one is the claim's reason.
    """
    told, several = dict[str, dict[str, list[str]]](), len({one.part for _, one in found if not one.premise}) > 1
    for reading, one in sorted(found, key=lambda pair: not pair[1].premise):
        name = f"premise: {one.part}" if one.premise else one.part or "the sentence"
        power = "" if one.premise or one.verdict == NOT_RUN else _power(one).replace(" (", ", ").removesuffix(")")
        power += "; a larger effect is shown" * (not one.premise and one.larger and one.verdict == REPRODUCED)
        outcome = one.verdict + (f" ({'power ' * one.tested}{power})" if power not in ("", "–") else "")
        why = one.explained if one.premise or one.verdict == NOT_RUN else one.reason if several else ""
        outcome += f": {markdown(why)}" if why not in ("", NOWHERE, claim_parts.NOT_OWN) else ""
        told.setdefault(name, {}).setdefault(outcome, []).append(f"*{markdown(reading)}*")
    return [
        (markdown(name) + (f": {next(iter(outcomes))}" if len(outcomes) == 1 else ""),
         [f"{', '.join(some)}: {outcome}" for outcome, some in outcomes.items()] if len(outcomes) > 1 else [])
        for name, outcomes in told.items()
    ]  # fmt: skip


def _decided(
    reading: str, claim: Claim, of_suites: Mapping[str, list[PartResult]]
) -> tuple[str, str, tuple[PartResult, ...], set[str]]:
    """Return verdict, reason and parts of one reading, and the suites that parts are from."""
    parts, used = [], set()
    for name in claim.by_part:
        suite, best = _strongest(
            (suite, one) for suite, found in of_suites.items() for one in found
            if one.part == name and one.reading == reading and not one.premise
        )  # fmt: skip
        if best is None or (_is_idle(best) and best.missing.endswith(claim_parts.ABSENT)):
            best = PartResult(name, missing=NOWHERE)
        parts.append(replace(best, missing=best.missing.replace("this suite", f"suite {suite}")))
        if not _is_idle(best):
            used.add(suite)
    for premise in dict.fromkeys(one.part for one in claim.premises):
        found = [one for suite in (used or of_suites) for one in of_suites[suite]
                 if one.premise and one.part == premise and one.reading == reading]  # fmt: skip
        order = (PREMISE_FAILS, NOT_RUN, INCONCLUSIVE, REPRODUCED)
        order = order if used else (REPRODUCED, PREMISE_FAILS, INCONCLUSIVE, NOT_RUN)
        worst = min(found, key=lambda one: order.index(one.holds()), default=None)
        parts.append(worst or PartResult(premise, missing=NOWHERE, premise=True))
    verdict, reason, told = claim_parts.judged([replace(one, reading=reading) for one in parts])
    return verdict, reason, told, used


def _strongest(found: Iterable[tuple[str, PartResult]]) -> tuple[str, PartResult | None]:
    """Return the result of the suite that tests all of a part, or else most of it, with the most seeds.

    No result influences which one that is.
    """
    some = list(found)
    if not some:
        return "", None
    return max(some, key=lambda one: (
        not _is_idle(one[1]), not one[1].missing, one[1].n, not one[1].missing.endswith(claim_parts.ABSENT)
    ))  # fmt: skip


def _is_idle(one: PartResult) -> bool:
    return one.verdict == NOT_RUN and not one.tested


def _told(reading: str, one: PartResult, reason: bool = False) -> str:
    name = ", ".join(filter(None, [f"[{reading}]" if reading else "", one.part or "the sentence"]))
    return f"{name}: {one.verdict}" + (f" ({one.explained})" if reason and one.explained else "")


def _power(one: PartResult) -> str:
    if not one.tested:
        return "computed" if one.verdict not in (NOT_RUN, claim_parts.UNDERPOWERED) else "–"
    return f"{one.power:.2f} ({one.n} seeds)" if one.power >= 0 else f"not known ({one.n} seeds)"


def by_verdict(table: pd.DataFrame) -> dict[str, int]:
    """Return how many claims have each verdict that some of them have."""
    found = table["verdict"].value_counts()
    return {name: int(found[name]) for name in claim_parts.VERDICTS if name in found}


def counts(table: pd.DataFrame) -> str:
    """Return how many claims have which verdict, in words."""
    return ", ".join(f"{count} {name}" for name, count in by_verdict(table).items())


def summed(table: pd.DataFrame) -> dict[str, int]:
    """Return how many claims of `overview` there are, have each decided verdict, are decided at all and by computation
    alone (of these `recomputed` are reproduced), are open, not run, and cannot be tested.
    """
    verdict, power = table["verdict"], table["power"]
    verdicts = {"reproduced": REPRODUCED, "contradicted": claim_parts.CONTRADICTED, "premise_fails": PREMISE_FAILS,
                "depends": claim_parts.DEPENDS}  # fmt: skip
    decided, not_run = verdict.isin(verdicts.values()), verdict == NOT_RUN
    computed = decided & power.str.contains("computed") & ~power.str.contains("seeds")
    found = {name: verdict == one for name, one in verdicts.items()} | {
        "claims": verdict != "", "decided": decided,
        "computed": computed, "recomputed": computed & (verdict == REPRODUCED),
        "open": ~decided & ~not_run, "not_run": not_run, "untestable": not_run & (table["run"].fillna("") == ""),
    }  # fmt: skip
    return {name: int(one.sum()) for name, one in found.items()}


def overview_page(table: pd.DataFrame, titles: Mapping[str, str], suites: Iterable[str], strong: str) -> str:
    """Return the table of `overview` as Markdown, a part for each paper and a section for each claim."""
    papers = [(titles[str(paper)], rows.to_dict("records")) for paper, rows in table.groupby("paper", sort=False)]
    return template("claims.md").render(table=table, counts=counts(table), strong=strong, suites=suites, papers=papers)
