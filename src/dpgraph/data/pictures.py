"""Pictures of faces: files as grey pixels, and variants of photographs (Zhang, section 4.5, makes 220 of 20)."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.readers import DAMAGE, malformed
from dpgraph.data.records import TEST, TRAIN

FORMATS = ("PPM", "JPEG")  # PGM is one of the first
WARNINGS = (Image.DecompressionBombWarning, Image.DecompressionBombError)


def grey(content: bytes, path: Path, expected: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Return (height, width) float32 in [0, 1] of a picture, scaled to `size`, (width, height), by means over boxes.

    Raises UserError in one line that names `path` for a picture that cannot be read, or that is not `expected`, (width,
    height), pixels large: a file of another size is no file of the data set.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(BytesIO(content), formats=FORMATS) as picture:
                if picture.size != expected:
                    raise ValueError("{} x {} pixels instead of {} x {}".format(*picture.size, *expected))
                pixels = np.asarray(picture.convert("L").resize(size, Image.Resampling.BOX), dtype=np.float32)
    except UnidentifiedImageError:
        raise malformed(path, ValueError("no PGM or JPEG picture")) from None
    except (*DAMAGE, *WARNINGS, Warning, SyntaxError) as error:  # Pillow raises SyntaxError at damaged headers
        raise malformed(path, error) from None
    return pixels / 255


TURN, SHIFT, SCALE, LIGHT = 10.0, 0.05, 0.1, 0.2  # degrees; shares of a side, of the size, of the brightness
STATED = (
    "the pictures: others were made of each photograph before the split, so a record is one of them, and tests hold "
    "variants of photographs that train"
)


def varied(raw: RawImages, pictures: int, tested: int, *names: Name) -> RawImages:
    """Return `pictures` of each class, made of its own in turn, of which `tested` drawn ones are tested.

    The first ones are the originals. Each other one is turned by up to 10 degrees, shifted by up to 5 % of a side,
    scaled by up to 10 %, made up to 20 % brighter or darker, and mirrored by a coin; beyond the edge the edge goes on.
    The thesis names a library for this step, and neither what it did nor how much. `names` key the draws of a class,
    which depend on its own pictures alone.
    """
    most = int(np.bincount(raw.labels).max())
    if pictures < most:
        raise invalid("pictures", pictures, f"at least {most}, of the person with the most photographs")
    if not 1 <= tested < pictures:
        raise invalid("tested", tested, f"a number from 1 to {pictures - 1}")
    classes = np.unique(raw.labels)
    images, split = [], np.full((len(classes), pictures), TRAIN, dtype=np.uint8)
    for row, number in enumerate(classes):
        own, generator = raw.images[raw.labels == number], numpy_generator(*names, int(number))
        images += [own, variants(own[np.arange(len(own), pictures) % len(own)], generator)]
        split[row, generator.permutation(pictures)[:tested]] = TEST
    return RawImages(np.concatenate(images), np.repeat(classes, pictures), split.ravel(), (STATED,))


def variants(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return (n, height, width, channels) each image turned, shifted, scaled, lit and mirrored by draws of its own."""
    from scipy.ndimage import map_coordinates

    count, height, width, channels = images.shape
    drawn = generator.uniform(-1, 1, (5, count, 1, 1))
    turn, scale = np.deg2rad(TURN * drawn[0]), 1 + SCALE * drawn[1]
    mirror = np.where(generator.random((count, 1, 1)) < 0.5, -1.0, 1.0)
    down, across = np.meshgrid(np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij")
    rows = (np.cos(turn) * down - np.sin(turn) * across * mirror) / scale + (height - 1) / 2 + SHIFT * height * drawn[2]
    columns = (
        (np.sin(turn) * down + np.cos(turn) * across * mirror) / scale + (width - 1) / 2 + SHIFT * width * drawn[3]
    )
    which = np.broadcast_to(np.arange(count)[:, None, None], rows.shape)
    moved = [
        map_coordinates(images[..., channel], (which, rows, columns), order=1, mode="nearest")
        for channel in range(channels)
    ]
    return np.clip(np.stack(moved, axis=-1) * (1 + LIGHT * drawn[4][..., None]), 0, 1).astype(np.float32)
