"""Faces94 (Spacek, University of Essex): JPEG pictures of persons in zip archives."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.pictures import grey, varied
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.readers import DAMAGE, existing, malformed
from dpgraph.data.records import TEST, TRAIN

PIXELS = (180, 200)  # width, height
LARGEST = 2**20  # bytes of one picture
TESTED = re.compile(r"(?P<person>.+) \(\d+\)\.jpg")


def read(
    raw_dir: Path, train: str, test: str = "", size: tuple[int, ...] = (60, 70), every: int = 5,
    made: tuple[int, ...] = (),
) -> RawImages:  # fmt: skip
    """Return colour pictures made grey and scaled to `size`, (width, height); 60 x 70 as in the thesis (section 4.5).

    `train`: an archive with a folder for each person. `test`: an archive of files "person (number).jpg"; pictures of
    persons without a folder are left out. Without it every `every`-th picture of a person, by file name, is tested.
    Persons are numbered in the order of their names. `made`: (pictures of a person, how many of them are tested), see
    `varied_pictures`; empty: none is made.
    """
    if len(size) != 2 or not all(1 <= one <= most for one, most in zip(size, PIXELS)):
        raise invalid("size", list(size), "(width, height) of at most 180 x 200")
    if every < 2:
        raise invalid("every", every, "an integer >= 2")
    path = raw_dir / train
    pictures = _pictures(path)
    by_person: dict[str, list[tuple[str, bytes]]] = {}
    for name, content in sorted(pictures.items()):
        person = PurePosixPath(name).parent.name
        if not person:
            raise malformed(path, ValueError(f"{name} is in no person's folder"))
        by_person.setdefault(person, []).append((name, content))
    if len(by_person) < 2:
        raise UserError(f"{path}: pictures of {len(by_person)} persons: expected at least 2")
    rows: list[tuple[np.ndarray, int, int]] = []
    for number, (person, own) in enumerate(sorted(by_person.items())):
        tested = [not test and place % every == every - 1 for place in range(len(own))]
        if all(tested):
            raise UserError(f"{path}: no picture of {person} is left to train on")
        for (name, content), held in zip(own, tested, strict=True):
            rows.append((_pixels(content, path, name, size), number, TEST if held else TRAIN))
    if test:
        rows += _tested(raw_dir / test, {person: number for number, person in enumerate(sorted(by_person))}, size)
    images, labels, split = zip(*rows)
    raw = RawImages(
        np.stack(images)[..., None], np.array(labels, dtype=np.int64), np.array(split, dtype=np.uint8)
    )  # fmt: skip
    return varied(raw, *made, "dpgraph", "faces94", "made pictures") if made else raw


def _tested(path: Path, numbers: dict[str, int], size: tuple[int, ...]) -> list[tuple[np.ndarray, int, int]]:
    rows = []
    for name, content in sorted(_pictures(path).items()):
        match = TESTED.fullmatch(PurePosixPath(name).name)
        if match and match["person"] in numbers:
            rows.append((_pixels(content, path, name, size), numbers[match["person"]], TEST))
    if not rows:
        raise malformed(path, ValueError("no picture of a person who is trained on"))
    return rows


def _pixels(content: bytes, path: Path, name: str, size: tuple[int, ...]) -> np.ndarray:
    return grey(content, path / name, PIXELS, (size[0], size[1]))


def _pictures(path: Path) -> dict[str, bytes]:
    """Return the content of every file of the archive whose name ends in .jpg."""
    try:
        with zipfile.ZipFile(existing(path)) as archive:
            chosen = [one for one in archive.infolist() if one.filename.lower().endswith(".jpg")]
            large = [one.filename for one in chosen if one.file_size > LARGEST]
            if large:
                raise ValueError(f"{large[0]} is larger than {LARGEST} bytes")
            return {one.filename: archive.read(one) for one in chosen}
    except UserError:
        raise
    except DAMAGE as error:
        raise malformed(path, error) from None
