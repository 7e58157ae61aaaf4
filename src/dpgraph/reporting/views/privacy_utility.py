"""Privacy-utility figures: accuracy against the rigorous and the claimed epsilon, next to each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from dpgraph.config.experiment import ReleaseAxis
from dpgraph.engine.methods.looks import Look
from dpgraph.planning.plan import Entry, Plan
from dpgraph.privacy.guarantee import MODE_NAMES
from dpgraph.reporting import protection, splits
from dpgraph.reporting.artefacts import of_entry, own_point
from dpgraph.reporting.chance import chance_columns, shown_as
from dpgraph.reporting.drawing import canvas, lines, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.epsilon_axis import epsilon_axis, is_wide
from dpgraph.reporting.drawing.palette import dashed, looks_of_methods, looks_of_values
from dpgraph.reporting.formats import printed_place, significant
from dpgraph.reporting.paper_values import epsilon_limit, paper_values
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.results import PRIVACY, Results

ENTRY_COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "value", "variant", "epsilon_target")
POINT_COLUMNS = [
    *ENTRY_COLUMNS[:-1], "source", "epsilon_target", "step", "mean", "std", "ci_low", "ci_high", "n", *PRIVACY,
    "status", "reason",
]  # fmt: skip


def privacy_utility_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """Return the points of the figure: one row per entry (source ours) and one per printed number (source paper).

    An artefact along training has a row per evaluation of a private entry, at the epsilons of the steps so far; `step`
    is missing where there is one row per entry. Both epsilons are inf without privacy and missing without a guarantee.
    Shares are in percent. A number that the paper prints several times appears once, at the first method of the
    artefact that it belongs to. Chance adds the columns of `reporting.chance`.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    tested = chance_columns(entries, known, artefact.metric) if artefact.chance else [{}] * len(entries)
    rows = []
    for entry, chance in zip(entries, tested):
        own = [row | chance for row in _own_points(plan, entry, known)]
        rows += [*own, *_paper_points(plan, entry, own[0])]
    more = [name for name in ("reference", "p_chance", "above_chance") if any(name in row for row in rows)]
    points = pd.DataFrame(rows, columns=[*POINT_COLUMNS, *more])
    repeated = points[points["source"] != "ours"].duplicated(["task", "value", "eps_published", "mean", "std"])
    return points.drop(index=repeated[repeated].index).reset_index(drop=True)


def _own_points(plan: Plan, entry: Entry, results: Results) -> list[dict[str, Any]]:
    artefact = plan.artefacts[entry.artefact]
    reference = results.reference(entry, artefact.metric)
    along = artefact.along_training and entry.cell.privacy is not None
    if along and (reached := results.along_training(entry, artefact.metric)):
        return [own_point(entry, step, outcome) | reference for step, outcome in reached]
    return [own_point(entry, math.nan, results.outcome(entry, artefact.metric)) | reference]


def _paper_points(plan: Plan, entry: Entry, own: dict[str, Any]) -> list[dict[str, Any]]:
    """Return points that the paper prints; their relation and scope are those of ours by its formula (`own`)."""
    printed = paper_values(plan.experiments[entry.paper], entry, plan.artefacts[entry.artefact].metric)
    private = entry.cell.privacy is not None
    return [
        {
            **of_entry(entry, *ENTRY_COLUMNS),
            "variant": "published" if private else "none",
            "source": f"paper's {printed_place(value.table)}",
            "epsilon_target": math.nan,
            "mean": value.value,
            "std": value.std if value.std is not None else math.nan,
            "eps_published": _printed_epsilon(value.epsilon, entry),
            "eps_rigorous": math.nan if private else math.inf,
            **{name: own[name] for name in ("relation_published", "scope_published")},
            **dict.fromkeys(("relation_rigorous", "scope_rigorous"), "none"),
            **dict.fromkeys(("published_unmet", "uncovered", "reason"), ""),
            "status": "printed",
        }
        for value in printed
    ]


def _printed_epsilon(text: str, entry: Entry) -> float:
    """Return the printed epsilon; a number that the paper prints for all epsilons has each of ours."""
    if text == "all":
        return math.nan if entry.target_epsilon is None else entry.target_epsilon
    return epsilon_limit(text) if text else math.nan


MODES = ("rigorous", "published")  # left, right
SMALL = 3.2  # size of marks along training, where they are many
EDGE = 0.55  # inches of a place left of its axes
RIGHT = 0.96  # of the width of an axis: printed numbers without privacy, which have no epsilon


@dataclass
class Style:
    """Names and looks of series: by method, or in a sweep by value, with a panel for each method."""

    looks: dict[str, Look]  # by method or value
    labels: dict[str, str]  # by method
    values: list[str]  # of a sweep, where there are several
    label: str  # of the sweep, with its value where there is only one
    public: frozenset[str]  # methods without privacy

    @classmethod
    def from_points(cls, plan: Plan, artefact_id: str, points: pd.DataFrame) -> Style:
        """Choose names and looks for the points of an artefact."""
        entries = plan.entries_of(artefact_id)
        values = list(dict.fromkeys(entry.value for entry in entries if entry.value is not None))
        sweep = plan.artefacts[artefact_id].sweep
        label = sweep.label if sweep else ""
        if len(values) == 1:  # only methods to distinguish
            label, values = f"{label}: {values[0]}", []
        of_methods = looks_of_methods(entries)
        public = frozenset(entry.method_id for entry in entries if entry.cell.privacy is None)
        of_methods |= dashed({method: look for method, look in of_methods.items() if method in public})
        looks = looks_of_values(values) if values else of_methods
        labels = method_labels(points, modes_of(plan, artefact_id))
        return cls(looks, labels, values, label, public)

    def look(self, method: str, value: str) -> Look:
        """Return the look of a series."""
        return self.looks[value if self.values else method]

    def handles(self, points: pd.DataFrame, joined: bool) -> Mapping[str, Artist]:
        """Return a sample of each series that is among the points."""
        if self.values:
            values = [value for value in self.values if (points["value"] == value).any()]
            return {f"{self.label}: {value}": marks.sample(self.looks[value], line=joined) for value in values}
        return {
            text: marks.sample(self.looks[method], line=joined or method in self.public)
            for method, text in self.labels.items()
            if (points["method"] == method).any()
        }


@dataclass(frozen=True)
class Spot:
    """A place of the figure: a task, or a method on a task where values are distinguished; an axis for each mode."""

    title: str
    points: pd.DataFrame
    modes: list[str]


def modes_of(plan: Plan, artefact_id: str) -> tuple[str, ...]:
    """Return the epsilons that have a panel; what a release costs is claimed."""
    artefact = plan.artefacts[artefact_id]
    return MODES[artefact.release_axis is not None : 1 if artefact.proved_only else 2]


def method_labels(points: pd.DataFrame, modes: tuple[str, ...] = MODES) -> dict[str, str]:
    """Return labels by method; that of a private method says which epsilon it has as 0."""
    labels = {}
    for method, rows in points[points["source"] == "ours"].groupby("method", sort=False):
        text = str(rows["label"].iloc[0])
        good = rows[rows["status"] == "ok"]
        if rows["variant"].iloc[0] != "none" and not good.empty:
            text += max(map(protection.mark, good.to_dict("records")))
            text += "".join(f"; {MODE_NAMES[mode]}\xa0ε:\xa00" for mode in modes if (good[f"eps_{mode}"] == 0).all())
        labels[str(method)] = words.label(text)
    return labels


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, remark: str = "") -> Drawn:
    """Draw the artefact."""
    return drawn_from(plan, artefact_id, privacy_utility_points(plan, artefact_id, results), remark)


def drawn_from(plan: Plan, artefact_id: str, every: pd.DataFrame, remark: str = "") -> Drawn:
    """Draw, for each task, a panel over the proved epsilon and one over the claimed epsilon.

    A run with both epsilons is in both panels. The paper's mechanism and printed numbers (hollow) have a published
    epsilon only. A panel without a private run is left out. Methods without privacy are horizontal lines. Lines have
    95 % intervals.
    """
    artefact = plan.artefacts[artefact_id]
    modes = modes_of(plan, artefact_id)
    entries, placed = plan.entries_of(artefact_id), drawable(every, modes)
    swept = len({one.value for one in entries}) > 1  # lines are values, then, and methods have panels
    chosen = [one.method_id for one in entries] if swept else lines.chosen_methods(entries, placed, lines.MOST)
    points = every[every["method"].isin(chosen)]
    axis, ours = artefact.release_axis, points[points["source"] == "ours"]
    style, shown = Style.from_points(plan, artefact_id, points), shown_as(artefact)
    places, empty = _places(plan, artefact_id, points, style)
    along = bool(points["step"].notna().any())
    runs = points[(points["variant"] != "none") & points["mean"].notna()]
    most = runs.groupby(["task", "method", "value", "epsilon_target"][: 3 + along], dropna=False).size().max()
    seen = pd.concat([drawable(one.points, one.modes) for one in places] or [points[:0]])
    handles = {**style.handles(seen, joined=bool(most >= marks.CURVE)), **marks.reference_handle(seen, shown)}
    wide = any(is_wide(*_on_axis(one.points, mode)) for one in places for mode in one.modes)
    figure, grid, width = canvas.panels([max(len(one.modes), 1) for one in places] or [1], handles)
    for axes_of, one in zip(grid, places):
        for axes, mode in zip(axes_of, one.modes):
            _panel(axes, one.points, mode, style, shown, width / len(one.modes) - EDGE, mode == one.modes[-1], wide)
            name = f"{MODE_NAMES[mode]} ε" if axis is None else "total claimed ε, of release and training"
            kinds = list(protection.kinds(ours, mode))
            axes.set_xlabel(f"{name}\n{'relations differ' if len(kinds) > 1 else ''.join(kinds)}".rstrip(), fontsize=7)
        canvas.y_label(axes_of[0], shown.label)
        canvas.share_y(axes_of)
        canvas.panel_title(axes_of[0], one.title, plan.suite.demonstration, width)
    about = [remark, artefact.caption, *splits.fixed(plan, artefact_id), *words.not_drawn(empty)]
    about += [*_about(style, axis, places), *_lacking(seen, MODES[: 1 if artefact.proved_only else 2])]
    return Drawn(figure, every, words.described(points, *about, *lines.left_out(placed, chosen), budgets=False), chosen)


def drawable(points: pd.DataFrame, modes: Sequence[str] = MODES) -> pd.DataFrame:
    """Return the points that have a place in a panel: without privacy, or with a finite epsilon of one of its modes."""
    placed = np.isfinite(points[[f"eps_{mode}" for mode in modes]].astype(float)).any(axis=1)
    return points[points["mean"].notna() & ((points["variant"] == "none") | placed)]


def _about(style: Style, axis: ReleaseAxis | None, places: list[Spot]) -> list[str]:
    lines = [f"{style.label}."] if style.label and not style.values else []
    if axis is not None and places:
        totals = np.unique(pd.concat([one.points["epsilon_target"] for one in places]).dropna())
        stated = _listed(axis.factor * totals)
        parts = f"ε_sgd = {significant(axis.training_epsilon)}, ε_pr = "
        parts += _listed(axis.factor * totals - axis.training_epsilon)
        after = "" if axis.factor == 1 else f" ({stated} after the factor q′ = {significant(axis.factor)})"
        lines.append(f"Total claimed ε = {_listed(totals)}{after}: {parts}.")
    one_sided = [one.title for one in places if one.modes == [MODES[0]]]
    if axis is None and one_sided and len(one_sided) < len(places):
        lines.append(f"No claimed ε, so no panel of it: {', '.join(one_sided)}.")
    missing = [one.title for one in places if one.modes == [MODES[1]]]
    if axis is None and missing:
        zero = any((one.points["eps_rigorous"] == 0).any() for one in places if one.title in missing)
        why = "No run has a proved ε above 0" if zero else "No run has a proved ε"
        lines.append(f"{why}, so no panel of proved ε: {', '.join(missing)}.")
    return [*lines, *["Marks at one ε stand side by side."] * bool(places)]


def _listed(values: np.ndarray) -> str:
    return " and ".join(", ".join(map(significant, values)).rsplit(", ", 1))


def _lacking(points: pd.DataFrame, modes: Sequence[str]) -> list[str]:
    """Return a sentence for each epsilon that drawn private methods lack."""
    private = points[(points["variant"] != "none") & (points["source"] == "ours")]
    known = private.groupby("label", sort=False)[[f"eps_{mode}" for mode in modes]].count()
    lacking = {mode: list(known.index[known[f"eps_{mode}"] == 0]) for mode in modes}
    return [f"No {MODE_NAMES[mode]} ε: {', '.join(labels)}." for mode, labels in lacking.items() if labels]


def _places(plan: Plan, artefact_id: str, points: pd.DataFrame, style: Style) -> tuple[list[Spot], list[str]]:
    """Return the places with results, and the titles of those without."""
    shown = modes_of(plan, artefact_id)
    places, empty = [], []
    for task_id, (task, _) in plan.tasks_of(artefact_id).items():
        of_task = points[points["task"] == task_id]
        parts = [(task.label, of_task)]
        if style.values and len(style.labels) > 1:
            parts = [
                (f"{task.label}: {text.splitlines()[0].partition(';')[0]}", of_task[of_task["method"] == method])
                for method, text in style.labels.items()
            ]
        for title, rows in parts:
            private = rows[(rows["variant"] != "none") & rows["mean"].notna()]
            # 0 has no place
            modes = [mode for mode in shown if private[f"eps_{mode}"].between(0, math.inf, "neither").any()]
            if rows["mean"].isna().all():
                empty.append(title)
            else:
                places.append(Spot(title, rows, modes or [shown[0]]))
    return places, empty


def _on_axis(points: pd.DataFrame, mode: str) -> tuple[pd.Series, pd.Series]:
    """Return the targets of a panel, and the epsilons of its points."""
    private = points[points["variant"] != "none"]
    return private["epsilon_target"], private.loc[private["mean"].notna(), f"eps_{mode}"]


def _panel(
    axes: Axes, points: pd.DataFrame, mode: str, style: Style, shown: Quantity, width: float, last: bool, wide: bool
) -> None:
    column = f"eps_{mode}"
    axes.margins(y=0.09)
    marks.reference_line(axes, points, shown)
    drawn = points[points["mean"].notna() & ((points["variant"] == "none") | np.isfinite(points[column]))]
    ours = drawn[drawn["source"] == "ours"]
    flat = {  # without privacy, or with an epsilon of 0, which is within every budget
        key: rows["variant"].iloc[0] == "none" or bool((rows[column] == 0).all())
        for key, rows in ours.groupby(["method", "value"], sort=False)
    }
    curves = [key for key, is_flat in flat.items() if not is_flat]
    gap = epsilon_axis(axes, *_on_axis(points, mode), width, marks.margin(len(curves)), wide)
    for key, rows in ours.groupby(["method", "value"], sort=False):
        look = style.look(*map(str, key))
        if flat[key]:
            marks.horizontal(axes, rows.iloc[-1], look, shown)
            continue
        # along training every target is a run of its own; else a curve joins the targets
        along = rows["step"].notna().any()
        side = marks.ALONE if along else marks.Slot(curves.index(key), len(curves), gap)
        for _, run in rows.groupby("epsilon_target", dropna=False) if along else [(None, rows)]:
            run = run.sort_values(column)
            marks.curve(axes, run[column], run, look, shown, side, size=SMALL if along else marks.SIZE)
    for key, rows in drawn[drawn["source"] != "ours"].groupby(["method", "value"], sort=False):
        look = style.look(*map(str, key))
        std, y = rows["std"].fillna(0.0).to_numpy(float), rows["mean"].to_numpy(float)
        if rows["variant"].iloc[0] != "none":
            marks.hollow(axes, rows[column].to_numpy(float), y, std, look)
        elif last:  # without privacy there is no place on the x axis
            marks.hollow(axes, [RIGHT] * len(rows), y, std, look, transform=axes.get_yaxis_transform())
