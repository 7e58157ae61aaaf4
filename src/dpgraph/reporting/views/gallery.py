"""Galleries: training images in the first row, reconstructions from each network with their distances below.

Only those of data sets that show no person are shipped (`shipping.galleries`): images may be faces.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dpgraph.config.experiment import ACCURACY
from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.planning.plan import Entry, Plan
from dpgraph.problems.images.exposure import BY_CLASS, Inversion
from dpgraph.problems.images.value import Images, load_images
from dpgraph.reporting import protection
from dpgraph.reporting.artefacts import EntryRun, described, described_rows, of_entry, prepend_columns
from dpgraph.reporting.drawing import canvas, words
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.formats import epsilon
from dpgraph.reporting.quantities import quantity
from dpgraph.reporting.results import EntryResult, Results

MOST_CLASSES = 10  # in a row
NO_RECONSTRUCTION = "the reconstructions are not there: train the cell again"


@dataclass(frozen=True)
class Attacked(EntryRun):
    """One attacked run of the first seed: reconstructions (classes, F), or None, and distances by class."""

    accuracy: float  # of the seed, in percent
    images: np.ndarray | None
    distances: dict[int, float]


def shown_images(plan: Plan, task_id: str) -> Images | None:
    """Return the images of a task; None where they are missing."""
    try:
        return load_images(plan.paths.graph(plan.task(task_id)))
    except (DataUnavailable, UserError):
        return None


def samples(value: Images) -> dict[int, np.ndarray]:
    """Return the first training image (F,) of each of the first `MOST_CLASSES` classes that have one."""
    train, labels = value.train_nodes, np.asarray(value.labels)
    numbers, first = np.unique(labels[train], return_index=True)
    kept = [(int(number), train[at]) for number, at in zip(numbers, first, strict=True) if number >= 0]
    return {number: np.asarray(value.features[node]) for number, node in kept[:MOST_CLASSES]}


def attacked(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Attacked]:
    """Return the runs in the artefact's order of methods: without a target first, then by falling target epsilon."""
    known, metric = Results.of(results), plan.artefacts[artefact_id].metric
    order = list(plan.artefacts[artefact_id].methods)
    entries = sorted(
        plan.entries_of(artefact_id), key=lambda one: (order.index(one.method_id), -(one.target_epsilon or math.inf))
    )
    return [_attacked(plan, entry, known, metric) for entry in entries]


def _attacked(plan: Plan, entry: Entry, known: Results, metric: str) -> Attacked:
    outcome = known.outcome(entry, metric)
    if not outcome.ok:
        return Attacked(entry, outcome, math.nan, None, {})
    seed = int(outcome.values.index[0])
    path = plan.paths.exposure(entry.cell, seed)
    if not path.is_file():
        return Attacked(entry, EntryResult.not_run(NO_RECONSTRUCTION), math.nan, None, {})
    by_class = known.by_class(entry, BY_CLASS + metric)
    distances = {int(number): float(by_class.loc[seed, number]) for number in by_class}
    accuracy = known.outcome(entry, ACCURACY).shown_by_seed.get(seed, math.nan)
    return Attacked(entry, outcome, float(accuracy), Inversion.load(path).images, distances)


def gallery_points(made: list[Attacked]) -> pd.DataFrame:
    """Return a row per run and class with its distance, without pixels."""
    parts = []
    for one in made:
        rows = pd.DataFrame(
            [{"class_id": number, "distance": value} for number, value in one.distances.items()]
            or [{"class_id": -1, "distance": math.nan}]
        )
        head = described(one.entry, one.outcome) | {"value": of_entry(one.entry, "value")["value"]}
        parts.append(prepend_columns(head | {"accuracy": one.accuracy}, rows))
    return pd.concat(parts, ignore_index=True)


TILE, LABEL, HEAD = 0.62, 1.9, 0.3  # inches: of an image, of the text at its left, of a title
MARGIN = 0.06  # inches, at the right
NUMBER = 0.16  # inches: a distance below an image
GAP = 0.03  # of an image's side, white around it
TEXT_WIDTH = 34  # characters of a label


def draw(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> Drawn:
    """Draw a block per task, a row per run of its first seed, a column per class."""
    made = attacked(plan, artefact_id, results)
    blocks = []
    for task_id, (task, _) in plan.tasks_of(artefact_id).items():
        value = shown_images(plan, task_id)
        first = {} if value is None else samples(value)
        blocks.append((task.label, value, first, [one for one in made if one.entry.task_id == task_id]))
    columns = max([len(first) for _, _, first, _ in blocks] + [4])
    shown = quantity(plan.artefacts[artefact_id].metric)
    about = [
        f"Below an image: {shown.label} of its class; the first row has examples.",
        *filter(None, [plan.artefacts[artefact_id].caption]),
        *words.guarantees(described_rows(made).assign(source="ours"), budgets=False),
    ]
    place = Gallery(columns, len(blocks) + len(made), len(blocks))
    for label, value, first, runs in blocks:
        place.title(label + (", demonstration" if plan.suite.demonstration else ""))
        if value is None:
            place.row("images are not there", [None] * columns, [""] * columns)
        else:
            texts = [f"class {number}" for number in first]
            place.row("training image", [pixels(one, value.shape) for one in first.values()], texts)
        for one in runs:
            tiles = [None if value is None or one.images is None else pixels(one.images[number], value.shape)
                     for number in first]  # fmt: skip
            place.row(_text(one), tiles, [_number(one.distances.get(number)) for number in first])
    return Drawn(place.figure, gallery_points(made), about)


class Gallery:
    """Rows of images from the top of a figure down, with titles between them."""

    def __init__(self, columns: int, rows: int, titles: int) -> None:
        self.height = self.top = rows * (TILE + NUMBER) + HEAD * titles + MARGIN
        self.width = LABEL + TILE * columns + MARGIN
        self.figure = Figure(figsize=(self.width, self.height))
        self.figure.set_layout_engine("none")
        FigureCanvasAgg(self.figure)

    def title(self, text: str) -> None:
        """Add a title."""
        self.top -= HEAD
        at = (self.top + 0.08) / self.height
        self.figure.text(0.02, at, text, fontsize=9, fontweight="bold", va="bottom", ha="left")

    def row(self, label: str, tiles: Sequence[np.ndarray | None], below: Sequence[str]) -> None:
        """Add a row of images. One picture holds all tiles, since axes for each would take most of the time."""
        self.top -= TILE + NUMBER
        middle = (self.top + NUMBER + TILE / 2) / self.height
        self.figure.text(0.02, middle, label, fontsize=6.5, va="center", ha="left")
        if (joined := side_by_side(tiles)) is not None:
            size = TILE * len(tiles) / self.width, TILE / self.height
            axes = self.figure.add_axes((LABEL / self.width, (self.top + NUMBER) / self.height, *size))
            axes.set_axis_off()
            axes.imshow(joined, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        for column, (tile, text) in enumerate(zip(tiles, below, strict=True)):
            centre = (LABEL + (column + 0.5) * TILE) / self.width
            self.figure.text(centre, (self.top + 0.02) / self.height, text, fontsize=6, ha="center", va="bottom")
            if tile is None:
                self.figure.text(centre, middle, "–", fontsize=7, color=canvas.GREY, ha="center", va="center")


def side_by_side(tiles: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return tiles in white squares of one size as one picture; None without tiles."""
    shown = [one for one in tiles if one is not None]
    if not shown:
        return None
    side = max(shown[0].shape[:2])
    side += 2 * max(1, round(GAP * side))
    squares = []
    for tile in tiles:
        square = np.ones((side, side, *shown[0].shape[2:]))
        if tile is not None:
            top, left = ((side - length) // 2 for length in tile.shape[:2])
            square[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
        squares.append(square)
    return np.concatenate(squares, axis=1)


def pixels(image: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return an image (F,) as pixels between 0 and 1, without a third axis for grey images."""
    pixels = np.clip(np.asarray(image, dtype=float), 0, 1).reshape(shape)
    return pixels[..., 0] if shape[2] == 1 else pixels


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.2f}"


def _text(one: Attacked) -> str:
    """Return the label of a row: method, accuracy of this network, both epsilons."""
    lines = [fill(one.entry.method.label + (f", {one.entry.value}" if one.entry.value else ""), TEXT_WIDTH)]
    if one.images is None:
        target = [] if one.entry.target_epsilon is None else [f"target ε {epsilon(one.entry.target_epsilon)}"]
        return "\n".join([*lines, *target, one.outcome.status])
    lines.append(f"accuracy {one.accuracy:.1f} %")
    if one.entry.cell.privacy is not None:
        own, mark = one.outcome.guarantee, protection.mark(one.outcome.privacy)
        lines.append(f"ε claimed {epsilon(own.published.epsilon)},\nε proved {epsilon(own.rigorous.epsilon)}{mark}")
    return "\n".join(lines)
