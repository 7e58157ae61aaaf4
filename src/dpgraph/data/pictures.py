"""Picture files as grey pixels: what readers of faces share."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from dpgraph.data.readers import DAMAGE, malformed

FORMATS = ("PPM", "JPEG")  # PGM is one of the first
WARNINGS = (Image.DecompressionBombWarning, Image.DecompressionBombError)


def grey(content: bytes, path: Path, expected: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """(height, width) float32 in [0, 1] of a picture, scaled to `size`, (width, height), by means over boxes.

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
