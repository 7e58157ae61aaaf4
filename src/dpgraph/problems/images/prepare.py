"""The step from raw images to the stored images of a task."""

from pathlib import Path

import numpy as np

from dpgraph.config.cell import Task
from dpgraph.core.errors import UserError
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.records import DATA_DEPENDENT
from dpgraph.data.registry import DatasetEntry
from dpgraph.data.splits import make_split
from dpgraph.problems.base import check_expected, class_count, described
from dpgraph.problems.images.value import Images, save_images


def store(task: Task, known: DatasetEntry, raw: RawImages, folder: Path) -> None:
    """Store the images of `task`. Raise UserError for statistics that differ from the registry's."""
    if not isinstance(raw, RawImages):
        raise UserError(f"{task.dataset}: reader {known.reader}: expected one that reads images")
    classes = len(np.unique(raw.labels[raw.labels >= 0]))
    check_expected(task.dataset, known, {"nodes": len(raw.images), "classes": classes})
    split, declared = make_split(raw, task.dataset, task.split)
    height, width, channels = raw.images.shape[1:]
    num_classes, counted = class_count(known, raw.labels)
    dependent = [*raw.data_dependent, *declared.get(DATA_DEPENDENT, ()), *counted]
    images = Images(
        name=task.dataset,
        features=raw.images.reshape(len(raw.images), -1),
        labels=raw.labels,
        split=split,
        num_classes=num_classes,
        shape=(height, width, channels),
        meta=described(task, known) | declared | {DATA_DEPENDENT: dependent},
    )
    save_images(images, folder)
