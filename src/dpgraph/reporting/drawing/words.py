"""Texts of legends: what is shaded or hollow, what is missing, and what the epsilons are about."""

from __future__ import annotations

import math
from collections.abc import Iterable
from textwrap import fill, shorten, wrap

import pandas as pd

from dpgraph.reporting import protection
from dpgraph.reporting.formats import epsilon, significant
from dpgraph.reporting.missing_data import lacks_data

NOTE_LINES = 3
NOTE_WIDTH = 64  # characters of a column
LABEL_WIDTH = 48
WITH_DATA = "Runs once a folder has the files: dpgraph run --set 'mirrors=[FOLDER]' (docs/datasets.md)."


def caption(points: pd.DataFrame, wide: int) -> list[str]:
    """Lines of a legend that state what the epsilons are about (`protection.caption`)."""
    return [line for text in protection.caption(points) for line in notes(text, wide)]


def label(text: str, width: int = LABEL_WIDTH) -> str:
    """As a legend prints it: in lines that fit a column; no-break spaces hold an epsilon and its value together.

    >>> label("short")
    'short'
    """
    return fill(text, width)


def notes(text: str, wide: int) -> list[str]:
    """Lines of a legend that is `wide` columns wide; none of an empty text."""
    return wrap(text, NOTE_WIDTH * wide, break_on_hyphens=False)


def missing_lines(points: pd.DataFrame, wide: int) -> list[str]:
    """Why points of ours are missing, a line for each reason (columns source, status, reason, task_label)."""
    missing = points[(points["source"] == "ours") & (points["status"] != "ok")]
    lines = []
    for (status, reason), rows in missing.groupby(["status", "reason"], sort=False):
        where = ", ".join(dict.fromkeys(rows["task_label"]))
        text = f"Missing: {len(rows)} of ours on {where} ({status}{': ' if reason else ''}{reason})"
        width = NOTE_WIDTH * wide
        lines += wrap(shorten(text, width * NOTE_LINES - 4, placeholder=" …)"), width)
    if lacks_data(missing).any():
        lines += wrap(WITH_DATA, NOTE_WIDTH * wide, break_on_hyphens=False)
    return lines


def below(points: pd.DataFrame, wide: int, remark: str = "") -> list[str]:
    """All lines of a legend `wide` columns wide (columns of `uncertainty` and `missing_lines`)."""
    return [*uncertainty(points), *notes(remark, wide), *missing_lines(points, wide), *caption(points, wide)]


def run_label(name: str, target: float | None) -> str:
    """A method at a target epsilon, as a legend prints it."""
    return label(name + ("" if target is None else f", target ε\xa0=\xa0{significant(target)}"))


def uncertainty(points: pd.DataFrame) -> list[str]:
    """First lines of a legend: what is shaded, and what is hollow (columns source, n, variant)."""
    ours = points[points["source"] == "ours"]
    seeds = sorted(ours.loc[ours["n"] > 0, "n"].astype(int).unique())
    over = "" if not seeds else f" over {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "") + " seeds"
    lines = [f"Shaded: 95 % confidence interval of the mean{over}."]
    if seeds == [1]:
        lines = ["One seed each, so no interval."]
    printed = points[points["source"] != "ours"]
    if not printed.empty:
        places = ", ".join(sorted({source.removeprefix("paper's ") for source in printed["source"]}))
        std = ", ± its std" if printed["std"].notna().any() else ""
        proved = "; proved ε: none." if (printed["variant"] != "none").any() else "."
        lines.append(f"Hollow: printed in the paper, {places}{std}{proved}")
    return lines


def budget(rows: pd.DataFrame) -> str:
    """Both epsilons of some runs, as a legend gives them: never the published one without what is proved.

    Their relation and scope are given by `caption`, as is what the mark means.

    >>> budget(pd.DataFrame({"eps_published": [37.2, 30.0], "eps_rigorous": [float("nan")] * 2, "uncovered": ""}))
    'published ε\\xa030.0\\xa0to\\xa037.2, rigorous ε\\xa0none'
    """
    spans = {mode: _span(rows[f"eps_{mode}"]) for mode in protection.MODES}
    spans["rigorous"] += max(map(protection.mark, rows.to_dict("records")), default="")
    return ", ".join(f"{mode} ε {span}".replace(" ", "\xa0").replace("\xa0", " ", 1) for mode, span in spans.items())


def _span(values: Iterable[float]) -> str:
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return "none"
    low, high = epsilon(known[0]), epsilon(known[-1])
    return low if low == high else f"{low} to {high}"
