"""The value that methods on images take, and its files."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from dpgraph.core.errors import UserError
from dpgraph.data.records import NO_SPLIT, SPLIT_NAMES, Records
from dpgraph.data.splits import drawn_split, is_drawn
from dpgraph.data.stored import REMEDY, ArraysHeader, read_arrays, read_header, write_stored

DTYPES = {"features": "float32", "labels": "int64", "split": "uint8"}


@dataclass(frozen=True, kw_only=True)
class Images(Records):
    """Images with classes; `features` are their pixels in [0, 1], row by row, channels last."""

    shape: tuple[int, int, int]  # height, width, channels

    def __post_init__(self) -> None:
        if self.num_features not in (0, math.prod(self.shape)):
            raise ValueError(f"{self.num_features} pixels: expected {' x '.join(map(str, self.shape))}")


class ImagesHeader(ArraysHeader):
    """The header graph.json of a set of images."""

    num_classes: int = Field(default=0, ge=0)
    shape: tuple[int, int, int] = (0, 0, 0)

    @property
    def expected(self) -> Iterable[str]:
        return DTYPES


def save_images(images: Images, folder: Path) -> None:
    """Write the images to a folder."""
    arrays = {name: getattr(images, name) for name in DTYPES}
    sizes = {name: len(images.nodes_of(name)) for name in SPLIT_NAMES}
    counted: dict[str, Any] = {"nodes": images.num_nodes, "features": images.num_features}
    counted |= {"classes": images.num_classes, "split_sizes": sizes}
    own: dict[str, Any] = {"problem": "images", "num_classes": images.num_classes, "shape": images.shape}
    write_stored(folder, images.name, arrays, DTYPES, counted, images.meta, **own)


def load_images(folder: Path, verify: bool = False, split: int = 0) -> Images:
    """Return the images with random split number `split`; pixels stay on disk until they are read.

    Raises DataUnavailable with the recorded reason if the data could not be had, UserError for a damaged array.
    """
    folder = Path(folder)
    header = read_header(folder, ImagesHeader)
    arrays = read_arrays(folder, header, DTYPES, verify)
    count = len(arrays["labels"])
    rows, pixels = header.shapes["features"] if len(header.shapes["features"]) == 2 else (-1, -1)
    if (rows, pixels) != (count, math.prod(header.shape)) or arrays["split"].shape != (count,):
        raise UserError(f"{folder / 'features.npy'}: does not fit the other arrays of these images ({REMEDY})")
    labels = arrays["labels"]
    if count and not -1 <= labels.min() <= labels.max() < header.num_classes:
        raise UserError(f"{folder / 'labels.npy'}: expected -1 (none)..{header.num_classes - 1} ({REMEDY})")
    if not np.isin(arrays["split"], [*SPLIT_NAMES.values(), NO_SPLIT]).all():
        raise UserError(f"{folder / 'split.npy'}: expected {[*SPLIT_NAMES.values(), NO_SPLIT]} ({REMEDY})")
    images = Images(name=header.name, num_classes=header.num_classes, meta=header.meta, shape=header.shape, **arrays)
    task = images.meta.get("task")
    named = str(task.get("split")) if isinstance(task, dict) else ""
    if split == 0 or not is_drawn(named):
        return images
    return replace(images, split=drawn_split(images.labels, named, images.name, split))
