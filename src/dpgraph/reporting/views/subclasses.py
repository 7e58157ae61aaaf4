"""Examples of subclasses (Zhang 2021, Figure 4.3): as k-means finds them, and as a public rule cuts a class."""

from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from dpgraph.families.registry import declared
from dpgraph.planning.plan import Plan
from dpgraph.problems.images.value import Images
from dpgraph.reporting.artefacts import of_entry
from dpgraph.reporting.drawing.canvas import Drawn
from dpgraph.reporting.views.gallery import TEXT_WIDTH, Gallery, pixels, shown_images

CLASS = 0  # whose subclasses are shown
SHOWN, EXAMPLES = 3, 3  # subclasses, images of each
COLUMNS = ("paper", "artefact", "task", "method", "label")
ABOUT = (
    f"The {SHOWN} largest subclasses of class {CLASS}, {EXAMPLES} training images of each. With k-means, one image can "
    "move others into another subclass; with the public rule it cannot, and images of a subclass need not look alike."
)


def draw(plan: Plan, artefact_id: str, given: Any) -> Drawn:
    """Draw a row per entry; the points are sizes of the subclasses."""
    entries = plan.entries_of(artefact_id)
    values = {task: shown_images(plan, task) for task in plan.tasks_of(artefact_id)}
    subclasses_of = declared("reported.py", "VIEWS")["subclasses"]
    points, rows = [], []
    for entry in entries:
        value = values[entry.task_id]
        tiles: list[np.ndarray | None] = [None] * (SHOWN * EXAMPLES)
        below = ["images are not there", *[""] * (SHOWN * EXAMPLES - 1)]
        if value is not None:
            units = subclasses_of(entry.cell, value)
            parts = entry.cell.privacy.subclasses  # type: ignore[union-attr]
            sizes = units.sizes[CLASS * parts : (CLASS + 1) * parts]
            points += [of_entry(entry, *COLUMNS) | {"size": int(one)} for one in sizes]
            tiles, below = _examples(units, sizes, value)
        rows.append((fill(entry.method.label, TEXT_WIDTH), tiles, below))
    gallery = Gallery(SHOWN * EXAMPLES, len(rows), 1)
    gallery.title(f"Class {CLASS}")
    for label, tiles, below in rows:
        gallery.row(label, tiles, below)
    return Drawn(gallery.figure, pd.DataFrame(points, columns=[*COLUMNS, "size"]), [ABOUT])


def _examples(units: Any, sizes: np.ndarray, value: Images) -> tuple[list[np.ndarray | None], list[str]]:
    tiles: list[np.ndarray | None] = []
    below: list[str] = []
    for number in np.argsort(-sizes, kind="stable")[:SHOWN]:
        first = units.starts[CLASS * len(sizes) + number]
        own = units.ids[first : first + min(EXAMPLES, sizes[number])]
        tiles += [pixels(np.asarray(value.features[node]), value.shape) for node in own]
        tiles += [None] * (EXAMPLES - len(own))
        below += [f"{int(sizes[number])} images"] + [""] * (EXAMPLES - 1)
    missing = SHOWN * EXAMPLES - len(tiles)
    return tiles + [None] * missing, below + [""] * missing
