"""A table of a paper, regenerated: CSV for machines; Markdown, LaTeX and HTML for people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dpgraph.errors import invalid
from dpgraph.files import write_text
from dpgraph.planning.plan import Plan
from dpgraph.reporting.accounting import accounting_display, accounting_table
from dpgraph.reporting.accuracy import accuracy_table
from dpgraph.reporting.artefacts import artefact_of, heading
from dpgraph.reporting.class_wise import class_counts
from dpgraph.reporting.confusion import confusion_display, confusion_points, confusions
from dpgraph.reporting.display import Table, accuracy_display, as_html, as_latex, as_markdown, statistics_display
from dpgraph.reporting.fairness import fairness_display, fairness_table
from dpgraph.reporting.formats import quantity
from dpgraph.reporting.hard_cases import hard_case_remark
from dpgraph.reporting.membership import attacks, membership_table
from dpgraph.reporting.membership_display import membership_display
from dpgraph.reporting.page import page
from dpgraph.reporting.results import write_csv
from dpgraph.reporting.search import search_view
from dpgraph.reporting.statistics import Statistics, statistics_table
from dpgraph.reporting.sweep import sweep_table
from dpgraph.reporting.sweep_display import sweep_display

SUFFIXES = ("csv", "md", "tex", "html")


def write_table(
    plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None, stem: Path
) -> list[Path]:
    """Writes stem.csv (long form), stem.md, stem.tex and stem.html.

    `statistics`, by task id, is for view statistics; `results` for the others. Either may be None: then every row says
    not run. Raises UserError where the artefact is no table of the plan, or its view makes none.
    """
    artefact = artefact_of(plan, artefact_id, "table")
    if artefact.view not in VIEWS:
        raise invalid(f"{artefact_id}: view", artefact.view, f"one of {', '.join(VIEWS)} for a table")
    frame, display = VIEWS[artefact.view](plan, artefact_id, results, statistics)
    if artefact.caption:
        display.remarks.insert(0, artefact.caption)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in SUFFIXES]
    citation = plan.experiments[artefact_id.split("/")[0]].citation
    write_csv(frame, paths[0])
    write_text(paths[3], page(plan.suite, display.title, as_html(display), citation))
    if plan.suite.demonstration:  # the page says so on top
        display.remarks.insert(0, " ".join(plan.suite.note.split()))
    write_text(paths[1], as_markdown(display))
    write_text(paths[2], as_latex(display, artefact_id.replace("/", "-")))
    return paths


Made = tuple[pd.DataFrame, Table]


def _accuracy(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    frame = accuracy_table(plan, artefact_id, results)
    return frame, accuracy_display(heading(plan, artefact_id), frame, quantity(plan.artefacts[artefact_id].metric))


def _statistics(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    frame = statistics_table(plan, artefact_id, statistics)
    return frame, statistics_display(heading(plan, artefact_id), frame)


def _sweep(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    frame, artefact = sweep_table(plan, artefact_id, results), plan.artefacts[artefact_id]
    parameter = artefact.sweep.label if artefact.sweep is not None else ""
    return frame, sweep_display(heading(plan, artefact_id), frame, quantity(artefact.metric), parameter)


def _class_wise(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    frame = fairness_table(plan, artefact_id, results, class_counts(plan, artefact_id))
    return frame, fairness_display(heading(plan, artefact_id), frame)


def _hard_cases(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    """By the values of a sweep, or as a table of methods."""
    make = _accuracy if plan.artefacts[artefact_id].sweep is None else _sweep
    frame, display = make(plan, artefact_id, results, statistics)
    display.remarks.insert(0, hard_case_remark(plan, artefact_id))
    return frame, display


def _confusion(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    found = confusions(plan, artefact_id, results)
    frame = confusion_points(found)
    return frame, confusion_display(plan, artefact_id, heading(plan, artefact_id), found, frame)


def _membership(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    frame = membership_table(attacks(plan, artefact_id, results))
    return frame, membership_display(heading(plan, artefact_id), frame)


def _accounting(plan: Plan, artefact_id: str, results: pd.DataFrame | None, statistics: Statistics | None) -> Made:
    frame, artefact = accounting_table(plan, artefact_id), plan.artefacts[artefact_id]
    return frame, accounting_display(heading(plan, artefact_id), frame, artefact.sweep.label if artefact.sweep else "")


# how each view makes the long form and the table that people read
VIEWS: dict[str, Callable[[Plan, str, pd.DataFrame | None, Statistics | None], Made]] = {
    "accuracy": _accuracy,
    "statistics": _statistics,
    "sweep": _sweep,
    "class-wise": _class_wise,
    "search": search_view,
    "accounting": _accounting,
    "hard-cases": _hard_cases,
    "confusion": _confusion,
    "membership": _membership,
}
