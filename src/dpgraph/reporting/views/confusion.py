"""Confusions: heat maps of true and predicted classes, and tables of the largest confusions of a reference."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from scipy.stats import entropy

from dpgraph.planning.plan import Entry, Plan
from dpgraph.reporting import formats, protection, splits
from dpgraph.reporting.artefacts import EntryRun, described, heading, prepend_columns
from dpgraph.reporting.display import DASH, EPSILON_REMARK, Footnotes, MadeTable, RowGroup, Table, Text
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.formats import significant
from dpgraph.reporting.paper_values import paper_confusions
from dpgraph.reporting.results import EntryResult, Results
from dpgraph.reporting.views.derived import TAKEN_FOR

LARGEST = 10  # confusions that a table lists for each task
NO_PREDICTIONS = "no predictions: the graph or the files of the seeds are not there"


@dataclass(frozen=True)
class Confusion(EntryRun):
    """The confusions of one entry.

    `shares[seed, true, predicted]` are shares of the test nodes of each class; the last column is "no class". Rows of
    classes without test nodes are nan. `support` holds the number of test nodes of each class, averaged over seeds.
    Both are empty where `outcome`, the overall accuracy, is not ok.
    """

    shares: np.ndarray
    support: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Return the mean over seeds, (classes, classes + 1), in percent."""
        return 100 * self.shares.mean(axis=0)


EMPTY = np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64)


def confusions(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Confusion]:
    """Return the confusions of each entry of the artefact, in its order."""
    known = Results.of(results)
    return [_confusion(entry, known, outcome) for entry, outcome in known.outcomes(plan, artefact_id)]


def _confusion(entry: Entry, known: Results, outcome: EntryResult) -> Confusion:
    if not outcome.ok:
        return Confusion(entry, outcome, *EMPTY)
    parts = [rows.assign(other=int(name)) for name, rows in known.parts(entry, TAKEN_FOR).items()]
    rows = pd.concat(parts) if parts else pd.DataFrame({"seed": [], "class_id": [], "other": []})
    if not set(outcome.values.index) <= set(rows["seed"]):
        return Confusion(entry, EntryResult.not_run(NO_PREDICTIONS), *EMPTY)
    classes = int(max(rows["class_id"].max(), rows["other"].max())) + 1
    counts = np.zeros((len(outcome.values), classes, classes + 1), dtype=np.int64)
    seeds = outcome.values.index.get_indexer(rows["seed"])
    counts[seeds, rows["class_id"], rows["other"]] = rows["value"]  # -1, no class, is the last column
    support = counts.sum(axis=2)
    with np.errstate(invalid="ignore"):
        shares = counts / support[:, :, None]
    return Confusion(entry, outcome, shares, np.rint(support.mean(axis=0)).astype(np.int64))


def confusion_points(made: list[Confusion]) -> pd.DataFrame:
    """Return a row per entry and pair of classes with a share above 0, in percent; an empty entry has class -1."""
    parts = []
    for one in made:
        if not one.shares.size:
            rows = pd.DataFrame({"true_class": [-1], "predicted_class": -1, "test_nodes": 0, "share": math.nan})
        else:
            mean = one.mean
            std = 100 * one.shares.std(axis=0, ddof=1) if len(one.shares) > 1 else np.full(mean.shape, math.nan)
            true, predicted = np.nonzero(np.nan_to_num(mean) > 0)
            rows = pd.DataFrame(
                {
                    "true_class": true,
                    "predicted_class": np.where(predicted == len(one.support), -1, predicted),
                    "test_nodes": one.support[true],
                    "share": mean[true, predicted],
                    "share_std": std[true, predicted],
                }
            )
        parts.append(prepend_columns(described(one.entry, one.outcome), rows))
    return pd.concat(parts, ignore_index=True)


def largest(one: Confusion, count: int = LARGEST) -> list[tuple[int, int]]:
    """Return the pairs (true, predicted) of the largest shares off the diagonal, largest first."""
    mean = np.nan_to_num(one.mean)[:, :-1].copy()
    np.fill_diagonal(mean, 0.0)
    order = np.argsort(-mean, axis=None, kind="stable")[:count]
    pairs = [divmod(int(place), mean.shape[1]) for place in order]
    return [(true, predicted) for true, predicted in pairs if mean[true, predicted] > 0]


def wrong_classes(one: Confusion, true: int) -> float:
    """Return the effective number of wrong classes of a true class: exp of the entropy of its errors.

    It is 1 where all errors go to one class, and nan without errors.
    """
    errors = np.delete(one.mean[true], true)
    return float(np.exp(entropy(errors))) if errors.sum() > 0 else math.nan


def make(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> MadeTable:
    """Make a block per task: the largest confusions of the reference, and the printed ones, by run."""
    made = confusions(plan, artefact_id, results)
    table = confusion_points(made)
    artefact = plan.artefacts[artefact_id]
    reference = artefact.reference if isinstance(artefact.reference, str) else artefact.methods[0]
    notes = Footnotes()
    runs = {_run(one): one for one in made}
    blocks = []
    for task_id, (task, _) in plan.tasks_of(artefact_id).items():
        own = {name: one for name, one in ((_run(one), one) for one in made) if one.entry.task_id == task_id}
        base = next((one for one in own.values() if one.entry.method_id == reference), None)
        line = [own.get(name) for name in runs]
        rows = [] if base is None else _rows(plan, base, line)
        blocks.append(RowGroup(task.label, [*_heads(line, notes), *rows]))
    label = plan.experiments[artefact_id.split("/")[0]].methods[reference].label
    remarks = [
        f"Share of a class’s test nodes that a run predicts as another class (%), mean over seeds: the {LARGEST} "
        f"largest of {label}, and the printed ones. Wrong classes: exp of the entropy of a class’s errors, mean over "
        "the classes listed; 1 means that all errors of a class go to one other class. In brackets behind the paper’s: "
        f"{label} minus it, in points.",
        EPSILON_REMARK,
        *protection.remarks(table),
    ]
    columns = ["True class", "Predicted", "Test nodes", "Paper (%)", *runs]
    title = heading(plan, artefact_id)
    return MadeTable(table, Table(title, columns, blocks, notes.texts, remarks, text_columns=2))


def _run(one: Confusion) -> str:
    target = one.entry.target_epsilon
    return one.entry.method.label + ("" if target is None else f", target ε = {formats.significant(target)}")


def _heads(line: list[Confusion | None], notes: Footnotes) -> list[list[Text]]:
    """Return rows with both epsilons, relation and scope of each run; its reason where it has no predictions."""
    cells = []
    for one in line:
        if one is None:
            cells.append(Text(DASH))
        elif not one.shares.size:
            cells.append(Text(one.outcome.status, (notes.number(one.outcome.reason),) if one.outcome.reason else ()))
        else:
            both = (one.outcome.guarantee.published.epsilon, one.outcome.guarantee.rigorous.epsilon)
            cells.append(Text(" / ".join(map(formats.epsilon, both)) + protection.mark(one.outcome.privacy)))
    rows = [[Text("ε claimed / proved"), *cells]]
    for name in ("relation", "scope"):
        shown = (DASH if one is None else protection.both(one.outcome.privacy, name) for one in line)
        rows.append([Text(name), *map(Text, shown)])
    return [[head, *[Text("")] * 3, *rest] for head, *rest in rows]


def _rows(plan: Plan, base: Confusion, line: list[Confusion | None]) -> list[list[Text]]:
    if not base.shares.size:
        return []
    printed: Mapping[tuple[int, int], str] = paper_confusions(plan.experiments[base.entry.paper], base.entry)
    pairs = dict.fromkeys([*largest(base), *(pair for pair in printed if max(pair) < len(base.support))])
    rows = [
        [
            Text(str(true)),
            Text(str(predicted)),
            Text(formats.count(base.support[true])),
            Text(_printed(printed.get((true, predicted)), base.mean[true, predicted])),
            *(_share(one, true, predicted) for one in line),
        ]
        for true, predicted in pairs
    ]
    listed = list(dict.fromkeys(true for true, _ in pairs))
    rows.append([Text("wrong classes"), *[Text("")] * 3, *(_spread(one, listed) for one in line)])
    return rows


def _printed(text: str | None, ours: float) -> str:
    """
    >>> _printed("93", 94.5), _printed(None, 94.5)
    ('93 (+1.50)', '–')
    """
    return DASH if text is None else text + formats.bracket(ours - float(text))


def _share(one: Confusion | None, true: int, predicted: int) -> Text:
    if one is None or not one.shares.size or true >= len(one.support):
        return Text(DASH)
    share = one.mean[true, predicted] if predicted < len(one.support) else 0.0
    return Text(DASH if math.isnan(share) else f"{share:.1f}")


def _spread(one: Confusion | None, listed: list[int]) -> Text:
    if one is None or not one.shares.size:
        return Text(DASH)
    numbers = [value for true in listed if not math.isnan(value := wrong_classes(one, true))]
    return Text(f"{np.mean(numbers):.1f}" if numbers else DASH)


HEIGHTS = {1: 3.2, 2: 3.3, 3: 2.5}  # inches of a panel, by panels next to each other
WRITTEN = 10  # classes up to which shares are written into the cells
COLOURS = LinearSegmentedColormap.from_list("confusion", ["#FFFFFF", "#9CC7E3", "#0072B2", "#08294A"])
BAR = 0.45  # inches
LINE = 0.16  # inches of a title's line beyond the first


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a panel per entry; rows add up to 100 % of a class's test nodes."""
    points = confusion_points(confusions(plan, artefact_id, results))
    runs = [rows for _, rows in points.groupby(["task", "method", "epsilon_target"], sort=False, dropna=False)]
    shown = [rows for rows in runs if rows["share"].notna().any()]
    across = min(max(len(shown), 1), max(HEIGHTS))
    figure, grid, _ = canvas.panelled(
        list(map(_title, shown)), {}, plan.suite.demonstration, "predicted class", "true class", across, HEIGHTS[across]
    )
    for axes, rows in zip(grid, shown):
        _panel(axes, _shares(rows))
    if shown:
        lines = max(axes.get_title(loc="left").count("\n") for axes in grid)
        figure.set_figheight(figure.get_figheight() + BAR + LINE * lines * math.ceil(len(shown) / across))
        scale = ScalarMappable(Normalize(0, 100), COLOURS)
        bar = figure.colorbar(scale, ax=grid, location="bottom", fraction=0.05, aspect=45, pad=0.02)
        bar.set_label("share of the true class’s test nodes (%)")
        bar.outline.set_visible(False)  # type: ignore[operator]
    return Drawn(figure, points, _caption(plan, artefact_id, pd.DataFrame([rows.iloc[0] for rows in runs])))


def _title(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    target = "" if math.isnan(first["epsilon_target"]) else f", target ε\xa0=\xa0{significant(first['epsilon_target'])}"
    return f"{first['task_label']}: {first['label']}{target}"


def _shares(rows: pd.DataFrame) -> np.ndarray:
    """Return (true, predicted) shares of a run in percent, 0 where its points leave them out."""
    classes = int(rows[["true_class", "predicted_class"]].to_numpy().max()) + 1
    mean = np.zeros((classes, classes))
    own = rows[rows["predicted_class"] >= 0]  # the others predict no class
    mean[own["true_class"].to_numpy(int), own["predicted_class"].to_numpy(int)] = own["share"].to_numpy(float)
    return mean


def _caption(plan: Plan, artefact_id: str, runs: pd.DataFrame) -> list[str]:
    """Return the caption; `runs` has a row for each run."""
    good = runs[runs["share"].notna()]
    seeds = sorted({int(count) for count in good["n"]})
    empty = [f"{row.task_label}, {row.label}" for row in runs[runs["share"].isna()].itertuples()]
    return [
        *([f"Mean over {' or '.join(map(str, seeds))} seeds. Class ids as in the data."] if seeds else []),
        *words.not_drawn(empty),
        *splits.fixed(plan, artefact_id),
        *words.guarantees(runs.assign(source="ours")),
    ]


def _panel(axes: Axes, mean: np.ndarray) -> None:
    classes = len(mean)
    axes.imshow(mean, cmap=COLOURS, vmin=0, vmax=100, interpolation="nearest", aspect="equal")
    axes.grid(False)
    axes.tick_params(length=0)
    step = max(1, math.ceil(classes / 9)) if classes > WRITTEN else 1
    axes.set_xticks(range(0, classes, step))
    axes.set_yticks(range(0, classes, step))
    if classes <= WRITTEN:
        for true, predicted in zip(*np.nonzero(mean >= 0.5)):
            share = mean[true, predicted]
            axes.text(
                predicted, true, f"{share:.0f}", ha="center", va="center", fontsize=6,
                color="white" if share > 45 else "#222222",
            )  # fmt: skip
