"""Kinds of display by name: a folder next to this file for each name of `experiment.View`, hyphens as underscores.

A folder has the following modules, each loaded when it is needed:
- `inputs.py`: INPUTS, what the view reads; imports nothing heavy, because the Snakefile imports it;
- `table.py`: `make(plan, artefact_id, given) -> MadeTable`, where the view can be a table;
- `wide.py`: `forms(plan, artefact_id, frame) -> (frame, Table)` from the long form, in the paper's own layout;
- `figure.py`: `draw(plan, artefact_id, given, stem) -> Drawn` (files, points, caption), where it can be a figure; and
  where its points are all that is drawn, `points_of(plan, artefact_id, given)` and `drawn_from(plan, artefact_id,
  points, stem) -> Drawn`, so that a figure whose points are kept can be drawn again without results;
- `derived.py`: `metrics(plan)`, where aggregation adds metrics of the view to results.parquet;
- `rows.py`: the long form behind both.

`given` is what `Inputs.load` gives, or None where there are no results: then every row says not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from dpgraph.errors import invalid
from dpgraph.experiments.experiment import View
from dpgraph.loading import load
from dpgraph.planning.plan import Plan

FOLDER = Path(__file__).parent


class SuiteFiles(StrEnum):
    """Files of a suite."""

    RESULTS = "results"
    GRAPHS = "graphs"
    CELLS = "cells"  # records, predictions and exposures of the artefact's own cells
    CALIBRATIONS = "calibrations"


@dataclass(frozen=True)
class Inputs:
    """What a view is a function of."""

    reads: tuple[SuiteFiles, ...] = (SuiteFiles.RESULTS,)
    loader: str = "dpgraph.reporting.results:results_of"  # of plan and artefact; empty: the plan has all paths
    aggregation_reads_graphs: bool = False
    claims_read_graphs: bool = False

    def load(self, plan: Plan, artefact_id: str) -> Any:
        return load(self.loader)(plan, artefact_id) if self.loader else None


def inputs_of(view: str) -> Inputs:
    return _part(view, "inputs", "INPUTS")  # type: ignore[no-any-return]


def table_of(artefact_id: str, view: str) -> Callable[..., Any]:
    """Raises UserError where the view makes no table."""
    return _display(artefact_id, view, "table", "make")


def wide_of(artefact_id: str, view: str) -> Callable[..., Any]:
    """Raises UserError where the view has the long form only."""
    return _display(artefact_id, view, "wide", "forms")


def figure_of(artefact_id: str, view: str) -> Callable[..., Any]:
    """Raises UserError where the view draws no figure."""
    return _display(artefact_id, view, "figure", "draw")


def redrawn_of(view: str) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """`points_of` and `drawn_from`; None where points are not all that is drawn."""
    if view not in views_with("figure"):
        return None
    try:
        return _part(view, "figure", "points_of"), _part(view, "figure", "drawn_from")
    except AttributeError:
        return None


def derived_metrics(plan: Plan) -> dict[tuple[str, str, int], dict[str, float]]:
    """Metrics that views of the plan add to results.parquet, by paper, cell and seed."""
    views = {artefact.view for artefact in plan.artefacts.values()}
    values: dict[tuple[str, str, int], dict[str, float]] = {}
    for view in views_with("derived"):
        if view in views:
            for place, own in _part(view, "derived", "metrics")(plan).items():
                values.setdefault(place, {}).update(own)
    return values


def views_with(part: str) -> list[str]:
    return [view for view in get_args(View) if (FOLDER / _folder(view) / f"{part}.py").is_file()]


def _display(artefact_id: str, view: str, kind: str, function: str) -> Callable[..., Any]:
    if view not in (able := views_with(kind)):
        what = "wide table" if kind == "wide" else kind
        raise invalid(f"{artefact_id}: view", view, f"one of {', '.join(able)} for a {what}")
    return _part(view, kind, function)  # type: ignore[no-any-return]


def _part(view: str, module: str, name: str) -> Any:
    return load(f"{__package__}.{_folder(view)}.{module}:{name}")


def _folder(view: str) -> str:
    return view.replace("-", "_")
