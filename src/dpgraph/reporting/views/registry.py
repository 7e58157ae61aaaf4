"""Kinds of display, by the names that `experiment.View` lists.

A view is a module of this package, or a folder of modules. `VIEWS` names its functions, which are loaded when needed:
- `table`: `make(plan, artefact_id, rows) -> MadeTable`;
- `wide`: `make(plan, artefact_id, frame) -> Table` turns the long form into the paper's own layout;
- `figure`: `draw(plan, artefact_id, rows) -> Drawn` (figure, points, caption);
- `derived`: `metrics(plan) -> Derived`, metrics that aggregation computes from predictions and other files of cells.

`rows` are those of results.parquet, or None without results: every place of the artefact then says "not run".
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, get_args

from dpgraph.config.experiment import View
from dpgraph.core.errors import invalid
from dpgraph.core.loading import load
from dpgraph.planning.plan import Plan


class SuiteFiles(StrEnum):
    """Files of a suite."""

    RESULTS = "results"
    GRAPHS = "graphs"
    CELLS = "cells"  # records, predictions and exposures of the artefact's own cells
    CALIBRATIONS = "calibrations"


@dataclass(frozen=True)
class Inputs:
    """The files that a view depends on.

    `reads`: its files when it is made in a run. A view that does not read the results needs no training, or that of its
    own cells alone. `aggregated`: files from which the aggregation makes rows for the view.
    """

    reads: tuple[SuiteFiles, ...] = (SuiteFiles.RESULTS,)
    aggregated: tuple[SuiteFiles, ...] = ()
    pictures: bool = False  # whether it shows records themselves, such as faces, which are in no rows


RESULTS_ALONE = Inputs()
PLAN_ALONE = Inputs(reads=())
GRAPH_ROWS = Inputs(aggregated=(SuiteFiles.GRAPHS,))


@dataclass(frozen=True)
class ViewFunctions:
    """The functions of a view, each as `module:function` below this package, and its inputs."""

    table: str = ""
    figure: str = ""
    wide: str = ""
    derived: str = ""
    inputs: Inputs = RESULTS_ALONE


VIEWS: dict[str, ViewFunctions] = {
    "accounting": ViewFunctions(
        table="accounting:make", inputs=Inputs((SuiteFiles.CALIBRATIONS,), (SuiteFiles.CALIBRATIONS,))
    ),
    "accuracy": ViewFunctions(table="accuracy.table:make", wide="accuracy.wide:make"),
    "bounds": ViewFunctions(figure="bounds:draw", inputs=PLAN_ALONE),
    "class-wise": ViewFunctions(table="class_wise.display:make", figure="class_wise.display:draw", inputs=GRAPH_ROWS),
    "confusion": ViewFunctions(
        table="confusion:make", figure="confusion:draw", derived="derived:confusion_metrics", inputs=GRAPH_ROWS
    ),
    "embedding": ViewFunctions(figure="embedding:draw", derived="derived:embedding_metrics", inputs=GRAPH_ROWS),
    "gains": ViewFunctions(figure="gains:draw", inputs=GRAPH_ROWS),
    "gallery": ViewFunctions(
        figure="gallery:draw", inputs=Inputs((SuiteFiles.RESULTS, SuiteFiles.GRAPHS, SuiteFiles.CELLS), pictures=True)
    ),
    "hard-cases": ViewFunctions(figure="hard_cases:draw", derived="derived:hard_case_metrics", inputs=GRAPH_ROWS),
    "hyperparameters": ViewFunctions(table="hyperparameters:make", inputs=PLAN_ALONE),
    "inversion": ViewFunctions(table="inversion:make", figure="inversion:draw"),
    "matched": ViewFunctions(figure="training:draw_matched"),
    "membership": ViewFunctions(
        table="membership.display:make", figure="membership.display:draw", derived="derived:membership_metrics"
    ),
    "presence": ViewFunctions(
        table="accuracy.table:make_presence", derived="derived:presence_metrics", inputs=GRAPH_ROWS
    ),
    "privacy-utility": ViewFunctions(figure="privacy_utility:draw"),
    "search": ViewFunctions(table="search.table:make", inputs=Inputs((SuiteFiles.CELLS,))),
    "shares": ViewFunctions(table="shares:make", inputs=PLAN_ALONE),
    "statistics": ViewFunctions(table="statistics:make", inputs=Inputs((SuiteFiles.GRAPHS,), (SuiteFiles.GRAPHS,))),
    "subclasses": ViewFunctions(figure="subclasses:draw", inputs=Inputs((SuiteFiles.GRAPHS,), pictures=True)),
    "sweep": ViewFunctions(table="sweep.table:make", figure="sweep.figure:draw"),
    "training": ViewFunctions(figure="training:draw"),
    "variance": ViewFunctions(table="variance.display:make", figure="variance.display:draw"),
}


class DerivedMetric(NamedTuple):
    """A metric of a cell's seed that aggregation adds; a reason where it has no value."""

    metric: str
    value: float
    class_id: int = -1
    reason: str = ""


Derived = dict[tuple[str, str, int], list[DerivedMetric]]  # by paper, cell and seed


def inputs_of(view: str) -> Inputs:
    """Return the files that a view depends on."""
    return VIEWS[view].inputs


def function_of(artefact_id: str, view: str, kind: str) -> Callable[..., Any]:
    """Load the function of a kind (`table`, `wide` or `figure`). Raise UserError where the view has none."""
    if view not in (able := views_with(kind)):
        what = "wide table" if kind == "wide" else kind
        raise invalid(f"{artefact_id}: view", view, f"one of {', '.join(able)} for a {what}")
    return _load(getattr(VIEWS[view], kind))


def derived_metrics(plan: Plan) -> Derived:
    """Return the metrics that views of the plan add to results.parquet."""
    views = {artefact.view for artefact in plan.artefacts.values()}
    found: Derived = {}
    for view in views_with("derived"):
        if view in views:
            for place, own in _load(VIEWS[view].derived)(plan).items():
                known = found.setdefault(place, [])
                known += [one for one in own if one not in known]
    return found


def views_with(kind: str) -> list[str]:
    """Return the views that have a function of the kind (`table`, `wide`, `figure` or `derived`)."""
    return [view for view in get_args(View) if getattr(VIEWS[view], kind)]


def _load(name: str) -> Callable[..., Any]:
    return load(f"{__package__}.{name}")  # type: ignore[no-any-return]
