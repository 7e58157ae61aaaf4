"""Kinds of display by name: a folder next to this file for each name of `experiment.View`, hyphens as underscores.

A folder has the following modules, each loaded when it is needed:
- `table.py`: `make(plan, artefact_id, rows) -> MadeTable`, where the view can be a table;
- `wide.py`: `forms(plan, artefact_id, frame) -> (frame, Table)` from the long form, in the paper's own layout;
- `figure.py`: `draw(plan, artefact_id, rows) -> Drawn` (figure, points, caption), where it can be a figure;
- `derived.py`: `metrics(plan)`, where aggregation adds metrics that it computes from predictions and other files of
  cells;
- `rows.py`: the long form, where several of them need it.

`rows` are those of results.parquet; None, where there are none: every place of the artefact then says not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, get_args

from dpgraph.config.experiment import View
from dpgraph.core.errors import invalid
from dpgraph.core.loading import load
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
    """What a view is a function of.

    `reads`: its files when it is made in a run. A view that does not read the results needs no training, or that of its
    own cells alone. `aggregated`: files from which the aggregation makes rows for the view.
    """

    reads: tuple[SuiteFiles, ...] = (SuiteFiles.RESULTS,)
    aggregated: tuple[SuiteFiles, ...] = ()
    pictures: bool = False  # whether it shows records themselves, such as faces, which are in no rows


RESULTS_ALONE = Inputs()
OF_GRAPHS = Inputs(aggregated=(SuiteFiles.GRAPHS,))
OF_PLAN = Inputs(reads=())
INPUTS: dict[str, Inputs] = {
    "accounting": Inputs((SuiteFiles.CALIBRATIONS,), (SuiteFiles.CALIBRATIONS,)),
    "bounds": OF_PLAN,
    "class-wise": OF_GRAPHS,
    "confusion": OF_GRAPHS,
    "embedding": OF_GRAPHS,
    "gains": OF_GRAPHS,
    "gallery": Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS, SuiteFiles.CELLS), pictures=True),
    "hard-cases": OF_GRAPHS,
    "hyperparameters": OF_PLAN,
    "presence": OF_GRAPHS,
    "search": Inputs((SuiteFiles.CELLS,)),
    "shares": OF_PLAN,
    "statistics": Inputs((SuiteFiles.GRAPHS,), (SuiteFiles.GRAPHS,)),
    "subclasses": Inputs((SuiteFiles.GRAPHS,), pictures=True),
}


class DerivedMetric(NamedTuple):
    """A metric of a cell's seed that aggregation adds; a reason where it has no value."""

    metric: str
    value: float
    class_id: int = -1
    reason: str = ""


Derived = dict[tuple[str, str, int], list[DerivedMetric]]  # by paper, cell and seed


def inputs_of(view: str) -> Inputs:
    return INPUTS.get(view, RESULTS_ALONE)


def table_of(artefact_id: str, view: str) -> Callable[..., Any]:
    """Raises UserError where the view makes no table."""
    return _display(artefact_id, view, "table", "make")


def wide_of(artefact_id: str, view: str) -> Callable[..., Any]:
    """Raises UserError where the view has the long form only."""
    return _display(artefact_id, view, "wide", "forms")


def figure_of(artefact_id: str, view: str) -> Callable[..., Any]:
    """Raises UserError where the view draws no figure."""
    return _display(artefact_id, view, "figure", "draw")


def derived_metrics(plan: Plan) -> Derived:
    """Return the metrics that views of the plan add to results.parquet."""
    views = {artefact.view for artefact in plan.artefacts.values()}
    found: Derived = {}
    for view in views_with("derived"):
        if view in views:
            for place, own in _part(view, "derived", "metrics")(plan).items():
                known = found.setdefault(place, [])
                known += [one for one in own if one not in known]
    return found


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
