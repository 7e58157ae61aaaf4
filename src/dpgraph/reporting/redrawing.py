"""Figures of a kept suite, drawn again from their points that are kept beside them: no result is needed.

Looks, words and layout are the code's of today, and the choice of runs is the plan's; all numbers are those of the kept
CSV file. A figure stays as it is kept where its view draws more than its points, or where a run that the plan asks for
is not among them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from dpgraph.planning.plan import Plan
from dpgraph.reporting.drawing import canvas
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.results import LATER
from dpgraph.reporting.views.registry import redrawn_of

WHOSE = ("settings", "task", "method", "value", "epsilon_target")  # columns that say what a point is of
POINTS = "its view draws more than the points that are kept"
OTHER_RUNS = "a run that the plan asks for was not kept"
OTHER_COLUMNS = "its kept points lack columns: {}"


@dataclass
class Redrawn:
    """By figure: the PNG file and the caption, or why it was not drawn again."""

    pictures: dict[str, Path] = field(default_factory=dict)
    captions: dict[str, list[str]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def redraw(plan: Plan, kept: dict[str, Path], folder: Path) -> Redrawn:
    """kept: by figure, the CSV file of its points. Pictures are written below `folder`."""
    made = Redrawn()
    for name, path in kept.items():
        with TemporaryDirectory() as unused:
            with canvas.only("png"):
                drawn = _drawn(plan, name, path, Path(unused) / "figure")
            if isinstance(drawn, str):
                made.left[name] = drawn
                continue
            target = folder / f"{name}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(drawn.files[0].read_bytes())
            made.pictures[name], made.captions[name] = target, [" ".join(line.split()) for line in drawn.caption]
    return made


def _drawn(plan: Plan, name: str, path: Path, stem: Path) -> Drawn | str:
    """The figure, or why it cannot be drawn."""
    known = redrawn_of(plan.artefacts[name].view)
    if known is None:
        return POINTS
    points_of, drawn_from = known
    planned = points_of(plan, name, None)  # of no results: their columns, and a point of each run at least
    points = read_points(path, planned)
    points = points.assign(**{name: text for name, text in LATER.items() if name in planned and name not in points})
    if lacking := [column for column in planned if column not in points]:
        return OTHER_COLUMNS.format(", ".join(lacking))
    names = [name for name in WHOSE if name in planned and (name != "value" or _is_text(planned[name]))]
    of, own = _runs(points, names), _own(points)
    asked = {run for run, is_own in zip(_runs(planned, names), _own(planned), strict=True) if is_own}
    if not asked <= {run for run, is_own in zip(of, own, strict=True) if is_own}:
        return OTHER_RUNS
    # a printed number is of a method, and of no target
    also = {run[:-1] for run in asked}
    kept = [run in asked if is_own else run[:-1] in also for run, is_own in zip(of, own, strict=True)]
    return drawn_from(plan, name, points[kept].reset_index(drop=True), stem)  # type: ignore[no-any-return]


def read_points(path: Path, planned: pd.DataFrame) -> pd.DataFrame:
    """As `write_csv` kept them: a text that is missing is empty. Texts are the columns that are texts in `planned`."""
    names = list(pd.read_csv(path, nrows=0))
    texts = [name for name in names if name in planned and _is_text(planned[name])]
    missing = {name: [""] for name in names if name not in texts}
    return pd.read_csv(path, dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=missing)


def _runs(points: pd.DataFrame, names: list[str]) -> list[tuple]:
    """What each point is of; None where it has no target."""
    return list(points[names].astype(object).where(points[names].notna(), None).itertuples(index=False, name=None))


def _own(points: pd.DataFrame) -> list[bool]:
    """Whether a point is ours: a printed number may belong to no run."""
    return (points["source"] == "ours").tolist() if "source" in points else [True] * len(points)


def _is_text(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column)
