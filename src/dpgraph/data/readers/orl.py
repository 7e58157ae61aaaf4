"""AT&T / ORL faces: 40 persons, 10 grey pictures each, one PGM file a picture (Samaria and Harter 1994)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.pictures import grey, varied
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.readers import existing
from dpgraph.data.records import TEST, TRAIN

PERSONS, PICTURES = 40, 10
PIXELS = (92, 112)  # width, height


def read(
    raw_dir: Path, size: tuple[int, ...] = PIXELS, train: int = 7, sha256: str = "", made: tuple[int, ...] = ()
) -> RawImages:  # fmt: skip
    """Return the pictures. File numbers make the split: 1 to `train` of each person train, the others are tested.

    `made`: (pictures of a person, how many of them are tested), see `varied_pictures`; empty: none is made.

    `size`: (width, height) to which pictures are scaled. `sha256`: of the text with a line "sha256, two spaces,
    orl_faces/path" for each file, by path; empty: not compared.
    """
    if len(size) != 2 or not all(1 <= one <= most for one, most in zip(size, PIXELS)):
        raise invalid("size", list(size), "(width, height) of at most 92 x 112")
    if not 1 <= train < PICTURES:
        raise invalid("train", train, f"a number from 1 to {PICTURES - 1}: some pictures have to be tested")
    places = [(person, number) for person in range(1, PERSONS + 1) for number in range(1, PICTURES + 1)]
    contents = {}
    for person, number in places:
        name = f"s{person}/{number}.pgm"
        contents[name] = existing(raw_dir / name).read_bytes()
    listed = (f"{hashlib.sha256(contents[name]).hexdigest()}  orl_faces/{name}\n" for name in sorted(contents))
    if sha256 and (found := hashlib.sha256("".join(listed).encode()).hexdigest()) != sha256:
        raise UserError(f"{raw_dir}: sha256={found} of all files: expected {sha256}; run the download again")
    images = np.stack([grey(content, raw_dir / name, PIXELS, (size[0], size[1])) for name, content in contents.items()])
    persons, numbers = np.array(places).T
    split = np.where(numbers <= train, TRAIN, TEST).astype(np.uint8)
    raw = RawImages(images[..., None], (persons - 1).astype(np.int64), split)
    return varied(raw, *made, "dpgraph", "orl", "made pictures") if made else raw
