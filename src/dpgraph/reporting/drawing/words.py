"""Sentences of captions: intervals, printed numbers, missing results, and epsilons; and texts of legends."""

import math
from collections.abc import Iterable
from textwrap import fill, shorten

import pandas as pd

from dpgraph.privacy.guarantee import MODE_NAMES
from dpgraph.reporting import protection
from dpgraph.reporting.formats import deltas, epsilon, significant

MISSING_WIDTH = 240  # characters of a reason
LABEL_WIDTH = 46


def label(text: str) -> str:
    """Return a text of a legend in lines that fit a column; no-break spaces keep an epsilon and its value together.

    >>> label("short")
    'short'
    """
    return fill(text, LABEL_WIDTH)


def missing_lines(points: pd.DataFrame) -> list[str]:
    """Return a text for each reason why points of ours are missing (columns source, status, reason, task_label)."""
    missing = points[(points["source"] == "ours") & (points["status"] != "ok")]
    lines = []
    for (status, reason), rows in missing.groupby(["status", "reason"], sort=False):
        where = ", ".join(dict.fromkeys(rows["task_label"]))
        text = f"Missing: {len(rows)} of ours on {where} ({status}{': ' if reason else ''}{reason})"
        lines.append(shorten(text, MISSING_WIDTH, placeholder=" …)") + ".")
    return lines


def described(points: pd.DataFrame, *remarks: str, budgets: bool = True) -> list[str]:
    """Return the caption of points of ours and printed ones (columns of `uncertainty` and `missing_lines`).

    `budgets` adds both epsilons of every private method, for figures whose axes do not show them.
    """
    return [*uncertainty(points), *filter(None, remarks), *guarantees(points, budgets)]


def guarantees(points: pd.DataFrame, budgets: bool = True) -> list[str]:
    """Return what a caption says of epsilons, delta, missing results, relations and scopes."""
    ours = points[points["source"] == "ours"]
    return [
        *(methods_budgets(ours) if budgets else []),
        *delta(ours),
        *missing_lines(points),
        *protection.caption(points),
    ]


def delta(points: pd.DataFrame) -> list[str]:
    """Return a sentence with the values of delta, by data set where they differ; empty without privacy."""
    rows = points.groupby("task_label", sort=False)["delta"] if "delta" in points else ()
    known = {str(label): ", ".join(found) for label, values in rows if (found := deltas(values))}
    if len(set(known.values())) > 1:
        return [f"δ: {'; '.join(f'{label} {found}' for label, found in known.items())}."]
    return [f"δ = {found}." for found in list(known.values())[:1]]


def methods_budgets(points: pd.DataFrame) -> list[str]:
    """Return a sentence with both epsilons of every private method with results, at each target."""
    good = points[(points["variant"] != "none") & (points["status"] == "ok")]
    texts = []
    for text, rows in good.groupby("label", sort=False):
        parts = [budget(part) for _, part in rows.groupby("epsilon_target", sort=True, dropna=False)]
        texts.append(f"{text}: {' | '.join(dict.fromkeys(parts))}")
    return [f"{'; '.join(texts)}."] if texts else []


def not_drawn(labels: Iterable[str]) -> list[str]:
    """Return a sentence that names panels that were left out as empty."""
    names = list(dict.fromkeys(labels))
    return [f"No panel, since there are no results: {', '.join(names)}."] if names else []


def run_label(name: str, target: float | None) -> str:
    """Return a method with its target epsilon as a text of a legend."""
    return label(name + ("" if target is None else f", target ε\xa0=\xa0{significant(target)}"))


def uncertainty(points: pd.DataFrame) -> list[str]:
    """Return sentences on intervals and on hollow marks (columns source, n, variant)."""
    ours = points[points["source"] == "ours"]
    seeds = sorted(ours.loc[ours["n"] > 0, "n"].astype(int).unique())
    lines = []
    if seeds == [1]:
        lines = ["One seed each, so no interval."]
    elif seeds:
        more = [count for count in seeds if count > 1]
        over = f"{more[0]}" + (f" to {more[-1]}" if len(more) > 1 else "") + " seeds"
        lines = [
            f"Bars and shades: 95 % confidence interval of the mean over {over}{'; one seed: none' * (1 in seeds)}."
        ]
    printed = points[points["source"] != "ours"]
    if not printed.empty:
        places = ", ".join(sorted({source.removeprefix("paper's ") for source in printed["source"]}))
        std = ", ± its std" if printed["std"].notna().any() else ""
        proved = "; proved ε: none." if (printed["variant"] != "none").any() else "."
        lines.append(f"Hollow: printed in the paper, {places}{std}{proved}")
    return lines


def budget(rows: pd.DataFrame) -> str:
    """Return both epsilons of some runs as text: the published one never stands without the proved one.

    `protection.caption` gives their relation and scope, and the meaning of the mark.

    >>> budget(pd.DataFrame({"eps_published": [37.2, 30.0], "eps_rigorous": [float("nan")] * 2, "uncovered": ""}))
    'claimed ε\\xa030.0\\xa0to\\xa037.2, proved ε\\xa0none'
    """
    spans = {mode: _span(rows[f"eps_{mode}"]) for mode in protection.MODES}
    spans["rigorous"] += max(map(protection.mark, rows.to_dict("records")), default="")
    return ", ".join(
        f"{MODE_NAMES[mode]} ε {span}".replace(" ", "\xa0").replace("\xa0", " ", 1) for mode, span in spans.items()
    )


def _span(values: Iterable[float]) -> str:
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return "none"
    low, high = epsilon(known[0]), epsilon(known[-1])
    return low if low == high else f"{low} to {high}"
