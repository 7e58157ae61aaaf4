"""Privacy-utility figures: accuracy against the rigorous epsilon and, next to it, against the published one."""

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
from dpgraph.reporting import protection, splits
from dpgraph.reporting.artefacts import of_entry, own_point
from dpgraph.reporting.chance import chance_columns, shown_as
from dpgraph.reporting.drawing import canvas, marks, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.drawing.epsilon_axis import epsilon_axis
from dpgraph.reporting.drawing.palette import dashed, looks_of_methods, looks_of_values
from dpgraph.reporting.formats import printed_place, significant
from dpgraph.reporting.paper_values import epsilon_limit, paper_values
from dpgraph.reporting.quantities import Quantity
from dpgraph.reporting.results import PRIVACY, Results

RELEASE = "epsilon_release"  # column: epsilon_pr, where the artefact has an axis of it
ENTRY_COLUMNS = ("paper", "artefact", "task", "task_label", "method", "label", "value", "variant", "epsilon_target")
POINT_COLUMNS = [
    *ENTRY_COLUMNS[:-1], "source", "epsilon_target", "step", "mean", "std", "ci_low", "ci_high", "n", *PRIVACY,
    "status", "reason",
]  # fmt: skip


def privacy_utility_points(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> pd.DataFrame:
    """What the figure shows: one row per entry (source ours) and one per printed number next to it (source paper).

    An artefact along training has a row per evaluation of a private entry, at the epsilons of the steps so far; `step`
    is missing where there is one row per entry. Both epsilons are inf without privacy and missing where nothing is
    guaranteed. Shares are in percent. A number that the paper prints several times appears once, at the first
    method of the artefact that it belongs to. With a release axis there is a column `epsilon_release`, with chance the
    columns of `reporting.chance`.
    """
    known, artefact, entries = Results.of(results), plan.artefacts[artefact_id], plan.entries_of(artefact_id)
    tested = chance_columns(entries, known, artefact.metric) if artefact.chance else [{}] * len(entries)
    rows = []
    for entry, chance in zip(entries, tested):
        own = [row | chance for row in _own_points(plan, entry, known)]
        rows += [*own, *_paper_points(plan, entry, own[0])]
    more = [name for name in ("reference", "p_chance", "above_chance") if any(name in row for row in rows)]
    points = pd.DataFrame(rows, columns=[*POINT_COLUMNS, *more])
    if artefact.release_axis is not None:
        points[RELEASE] = released(points, artefact.release_axis)
    repeated = points[points["source"] != "ours"].duplicated(["task", "value", "eps_published", "mean", "std"])
    return points.drop(index=repeated[repeated].index).reset_index(drop=True)


def released(points: pd.DataFrame, axis: ReleaseAxis) -> pd.Series:
    """epsilon_pr of each point, in units of the axis: of ours from its target; nan for printed numbers."""
    epsilon = points["epsilon_target"].where(points["source"] == "ours")
    return (axis.factor * epsilon - axis.training_epsilon).where(points["variant"] != "none", math.inf)


def _own_points(plan: Plan, entry: Entry, results: Results) -> list[dict[str, Any]]:
    artefact = plan.artefacts[entry.artefact]
    reference = results.reference(entry, artefact.metric)
    if artefact.along_training and entry.cell.privacy is not None:
        reached = results.along_training(entry, artefact.metric)
        if reached:
            return [own_point(entry, step, outcome) | reference for step, outcome in reached]
    return [own_point(entry, math.nan, results.outcome(entry, artefact.metric)) | reference]


def _paper_points(plan: Plan, entry: Entry, own: dict[str, Any]) -> list[dict[str, Any]]:
    """Printed epsilons have the relation and scope that the paper claims, as ours by its formula (`own`)."""
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
            **dict.fromkeys(("published_unmet", "uncovered"), ""),
            "status": "printed",
            "reason": "",
        }
        for value in printed
    ]


def _printed_epsilon(text: str, entry: Entry) -> float:
    """A number that the paper prints for all epsilons is repeated at each of ours."""
    if text == "all":
        return math.nan if entry.target_epsilon is None else entry.target_epsilon
    return epsilon_limit(text) if text else math.nan


MODES = ("rigorous", "published")  # left, right
SMALL = 3.2  # size of marks along training, where they are many
EDGE = 0.55  # inches of a place beside its axes
MOST = 6  # lines of a legend: more are not told apart at a glance
PUBLIC_LINES = 2  # of these, for methods without privacy
RIGHT = 0.96  # of the width of an axis: printed numbers without privacy, which have no epsilon


@dataclass
class Style:
    """What a series is called and how it looks: by method, or in a sweep by value, with a panel for each method."""

    looks: dict[str, Look]  # by method or value
    labels: dict[str, str]  # by method
    values: list[str]  # of a sweep, where there are several
    label: str  # of the sweep, with its value where there is one
    public: frozenset[str]  # methods without privacy

    @classmethod
    def of(cls, plan: Plan, artefact_id: str, points: pd.DataFrame) -> Style:
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
        labels = method_labels(points, modes=modes_of(plan, artefact_id))
        return cls(looks, labels, values, label, public)

    def look(self, method: str, value: str) -> Look:
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
    """What shares a place of the figure: a task, of one method where values are told apart; an axis for each mode."""

    title: str
    points: pd.DataFrame
    modes: list[str]


def modes_of(plan: Plan, artefact_id: str) -> tuple[str, ...]:
    return MODES[:1] if plan.artefacts[artefact_id].proved_only else MODES


def method_labels(
    points: pd.DataFrame, width: int = words.LABEL_WIDTH, modes: tuple[str, ...] = MODES
) -> dict[str, str]:
    """By method with results or to come: a private one that lacks one of the two epsilons, or has 0, states which."""
    labels = {}
    for method, rows in points[points["source"] == "ours"].groupby("method", sort=False):
        text = str(rows["label"].iloc[0])
        good = rows[rows["status"] == "ok"]
        if rows["variant"].iloc[0] != "none" and not good.empty:
            text += max(map(protection.mark, good.to_dict("records")))
            lacking = [mode for mode in modes if good[f"eps_{mode}"].isna().all()]
            text += "".join(f"; {mode}\xa0ε:\xa0none" for mode in lacking)
            text += "".join(f"; {mode}\xa0ε:\xa00" for mode in modes if (good[f"eps_{mode}"] == 0).all())
        labels[str(method)] = words.label(text, width)
    return labels


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None, remark: str = "") -> Drawn:
    return drawn_from(plan, artefact_id, privacy_utility_points(plan, artefact_id, results), remark)


def drawn_from(plan: Plan, artefact_id: str, every: pd.DataFrame, remark: str = "") -> Drawn:
    """Draw: per task, a panel over the rigorous and one over the published epsilon.

    A run with both epsilons is in both panels. The paper's mechanism has no rigorous one and is at the right
    only, as do printed numbers (hollow). A panel without a private run is left out. Methods without
    privacy are horizontal lines; lines have 95 % intervals.
    """
    artefact = plan.artefacts[artefact_id]
    modes = modes_of(plan, artefact_id)
    families = {entry.method_id: entry.cell.method for entry in plan.entries_of(artefact_id)}
    points = every if artefact.sweep else at_most(MOST, every, families, modes)
    axis, ours = artefact.release_axis, points[points["source"] == "ours"]
    style, shown = Style.of(plan, artefact_id, points), shown_as(artefact)
    places, empty = _places(plan, artefact_id, points, style)
    along = bool(points["step"].notna().any())
    runs = points[(points["variant"] != "none") & points["mean"].notna()]
    most = runs.groupby(["task", "method", "value", "epsilon_target"][: 3 + along], dropna=False).size().max()
    handles = {
        **style.handles(drawable(points, modes), joined=bool(most >= marks.CURVE)),
        **marks.reference_handle(points, shown),
    }
    figure, grid, width = canvas.panels([max(len(one.modes), 1) for one in places] or [1], handles)
    for axes_of, one in zip(grid, places):
        for axes, mode in zip(axes_of, one.modes):
            column = f"eps_{mode}" if axis is None else RELEASE
            _panel(axes, one.points, column, style, shown, width / len(one.modes) - EDGE, mode == one.modes[-1])
            name = f"{mode} ε" if axis is None else "published ε$_{pr}$"
            kinds = list(protection.kinds(ours, mode))
            axes.set_xlabel(f"{name}\n{'relations differ' if len(kinds) > 1 else ''.join(kinds)}".rstrip(), fontsize=7)
        canvas.y_label(axes_of[0], shown.label)
        canvas.share_y(axes_of)
        canvas.panel_title(axes_of[0], one.title, plan.suite.demonstration, width)
    if not places:
        canvas.no_results(grid[0][0])
    about = [remark, *splits.fixed(plan, artefact_id), *words.not_drawn(empty), *_about(style, axis, places)]
    return Drawn(figure, every, words.beside(every, *about, *_left_out(every, points, modes), budgets=False))


def drawable(points: pd.DataFrame, modes: Sequence[str] = MODES) -> pd.DataFrame:
    """Return the points that have a place in a panel: without privacy, or with a finite epsilon of one of its modes."""
    placed = np.isfinite(points[[f"eps_{mode}" for mode in modes]].astype(float)).any(axis=1)
    return points[points["mean"].notna() & ((points["variant"] == "none") | placed)]


def at_most(most: int, points: pd.DataFrame, families: Mapping[str, str], modes: Sequence[str] = MODES) -> pd.DataFrame:
    """Return the points of the `most` methods that a figure draws; of all methods where they are no more.

    Methods are taken in this order: `PUBLIC_LINES` without privacy (those of most data sets, then the best), the first
    mechanism as a paper publishes it, the best method of each family, and then the other methods. A method is better
    the nearer it is, at its largest epsilon, to the best of each data set, on average.

    Args:
        most: How many methods are drawn.
        points: Rows of `privacy_utility_points`.
        families: The name of the family (`cell.method`) by method.
        modes: The epsilons that have a panel.
    """
    last = drawable(points, modes)
    last = last[last["source"] == "ours"].sort_values("epsilon_target", kind="stable")
    last = last.groupby(["task", "method"], sort=False, as_index=False).last()
    if last["method"].nunique() <= most:
        return points
    last["below"] = last["mean"] - last.groupby("task")["mean"].transform("max")
    ranked = last.groupby("method").agg(
        variant=("variant", "first"), data_sets=("task", "size"), below=("below", "mean")
    )
    ranked = ranked.reindex(method for method in families if method in ranked.index)  # the artefact's order
    public = ranked[ranked["variant"] == "none"].sort_values(["data_sets", "below"], ascending=False, kind="stable")
    private = ranked[ranked["variant"] != "none"]
    published = list(private.index[private["variant"].str.startswith("published")][:1])
    others = private.drop(published).sort_values("below", ascending=False, kind="stable")
    second = others.index.map(families).duplicated()
    chosen = [*public.index[:PUBLIC_LINES], *published, *others.index[~second], *others.index[second]]
    return points[~points["method"].isin(set(ranked.index) - set(chosen[:most]))]


def _left_out(every: pd.DataFrame, points: pd.DataFrame, modes: Sequence[str]) -> list[str]:
    """Name the methods with results whose lines are in the numbers alone."""
    lines = []
    seen = drawable(every, modes)
    seen = seen[seen["source"] == "ours"]
    rest = dict.fromkeys(seen.loc[~seen["method"].isin(points["method"]), "label"])
    if rest:
        lines.append(f"In the CSV file, but not in the picture, which has at most {MOST} lines: {', '.join(rest)}.")
    return lines


def _about(style: Style, axis: ReleaseAxis | None, places: list[Spot]) -> list[str]:
    lines = [f"{style.label}."] if style.label and not style.values else []
    if axis is not None:
        fixed = f"ε_pr is what the release may cost, at a fixed ε_sgd = {significant(axis.training_epsilon)}"
        after = "" if axis.factor == 1 else f"; both are after the factor q′ = {significant(axis.factor)}"
        lines.append(f"{fixed}{after}.")
    one_sided = [one.title for one in places if one.modes == [MODES[0]]]
    if axis is None and one_sided and len(one_sided) < len(places):
        lines.append(f"No published ε, so no panel of it: {', '.join(one_sided)}.")
    missing = [one.title for one in places if one.modes == [MODES[1]]]
    if axis is None and missing:
        zero = any((one.points["eps_rigorous"] == 0).any() for one in places if one.title in missing)
        why = "No run has a rigorous ε above 0" if zero else "Nothing is proved of any run"
        lines.append(f"{why}, so no panel of rigorous ε: {', '.join(missing)}.")
    return [*lines, "Marks at one ε stand side by side."]


def _places(plan: Plan, artefact_id: str, points: pd.DataFrame, style: Style) -> tuple[list[Spot], list[str]]:
    """What is drawn, and titles of what has nothing to show."""
    axis = plan.artefacts[artefact_id].release_axis
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
            modes = [
                mode
                for mode in modes_of(plan, artefact_id)
                if (np.isfinite(private[f"eps_{mode}"]) & (private[f"eps_{mode}"] > 0)).any()  # 0 has no place there
            ]
            modes = modes[:1] and [MODES[1]] if axis is not None else modes
            if rows["mean"].isna().all():
                empty.append(title)
            else:
                places.append(Spot(title, rows, modes or [MODES[0] if axis is None else MODES[1]]))
    return places, empty


def _panel(
    axes: Axes, points: pd.DataFrame, column: str, style: Style, shown: Quantity, width: float, last: bool
) -> None:
    axes.margins(y=0.09)
    marks.reference_line(axes, points, shown)
    drawn = points[points["mean"].notna() & ((points["variant"] == "none") | np.isfinite(points[column]))]
    private = drawn[drawn["variant"] != "none"]
    ours = drawn[drawn["source"] == "ours"]
    flat = {  # without privacy, or with an epsilon of 0, which is within every budget
        key: rows["variant"].iloc[0] == "none" or bool((rows[column] == 0).all())
        for key, rows in ours.groupby(["method", "value"], sort=False)
    }
    curves = [key for key, is_flat in flat.items() if not is_flat]
    targets = points.loc[points["variant"] != "none", column if column == RELEASE else "epsilon_target"]
    gap = epsilon_axis(axes, targets, private[column], width, marks.margin(len(curves)))
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
            x = run[column].to_numpy(float)
            marks.curve(axes, x, run, look, shown, side, size=SMALL if along else marks.SIZE)
    for key, rows in drawn[drawn["source"] != "ours"].groupby(["method", "value"], sort=False):
        look = style.look(*map(str, key))
        std, y = rows["std"].fillna(0.0).to_numpy(float), rows["mean"].to_numpy(float)
        if rows["variant"].iloc[0] != "none":
            marks.hollow(axes, rows[column].to_numpy(float), y, std, look)
        elif last:  # without privacy there is no place on the x axis
            marks.hollow(axes, [RIGHT] * len(rows), y, std, look, transform=axes.get_yaxis_transform())
