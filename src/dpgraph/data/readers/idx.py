"""Images in idx files, the format of MNIST (LeCun et al., 1998) and Fashion-MNIST, as a graph without edges."""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from pathlib import Path

import numpy as np

from dpgraph.core.errors import invalid
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import existing, malformed
from dpgraph.data.records import TEST, TRAIN

PARTS = {"train": TRAIN, "t10k": TEST}
FILES = ("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz")
UNSIGNED_BYTE = 8


def read(raw_dir: Path, sha256: tuple[str, ...] = ()) -> RawGraph:
    """Return the training images, then the test images, as nodes; features are pixels in [0, 1]; none validate.

    A file may be gzipped or not, whatever its name. `sha256`: of the four files uncompressed (gzip has many forms of
    one content), in the order train images, train labels, test images, test labels; none: not compared.
    """
    paths = [existing(raw_dir / f"{part}-{file}") for part in PARTS for file in FILES]
    if sha256 and len(sha256) != len(paths):
        raise invalid("sha256", len(sha256), f"{len(paths)} hashes or none")
    images, labels, split = [], [], []
    for index, value in enumerate(PARTS.values()):
        image_path, label_path = paths[2 * index : 2 * index + 2]
        hashes = sha256[2 * index : 2 * index + 2] or (None, None)
        pixels = read_idx(image_path, 3, hashes[0])
        classes = read_idx(label_path, 1, hashes[1])
        if len(pixels) != len(classes):
            raise malformed(label_path, ValueError(f"{len(classes)} labels for {len(pixels)} images"))
        images.append(pixels.reshape(len(pixels), math.prod(pixels.shape[1:])))
        labels.append(classes.astype(np.int64))
        split.append(np.full(len(classes), value, dtype=np.uint8))
    if len({part.shape[1] for part in images}) > 1:
        raise malformed(paths[2], ValueError(f"{images[1].shape[1]} pixels, training images have {images[0].shape[1]}"))
    features = np.concatenate(images).astype(np.float32)
    features /= 255
    none = np.empty(0, dtype=np.int64)
    return RawGraph(none, none, features, np.concatenate(labels), np.concatenate(split), directed=False)


def read_idx(path: Path, dimensions: int, sha256: str | None = None) -> np.ndarray:
    """Return unsigned bytes of that many dimensions. Raise UserError in one line for anything else."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise malformed(path, error) from None
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise malformed(path, ValueError(f"{len(content)} bytes, a header has {header}"))
    magic = bytes((0, 0, UNSIGNED_BYTE, dimensions))
    if content[:4] != magic:
        raise malformed(path, ValueError(f"magic number {content[:4].hex()} instead of {magic.hex()}"))
    shape = np.frombuffer(content, dtype=">u4", count=dimensions, offset=4).tolist()
    size = math.prod(shape)
    if len(content) != header + size:
        shown = " x ".join(map(str, shape))
        raise malformed(path, ValueError(f"{len(content) - header} bytes instead of {shown} = {size}"))
    if sha256 is not None and (actual := hashlib.sha256(content).hexdigest()) != sha256:
        raise malformed(path, ValueError(f"sha256={actual} uncompressed instead of {sha256}"))
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)
