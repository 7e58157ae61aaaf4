import gzip
import hashlib

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.readers import idx
from dpgraph.data.records import TEST, TRAIN

TRAIN_IMAGES = np.arange(24, dtype=np.uint8).reshape(3, 2, 4) * 10
FILES = {
    "train-images-idx3": TRAIN_IMAGES,
    "train-labels-idx1": np.array([7, 0, 7], dtype=np.uint8),
    "t10k-images-idx3": np.full((2, 2, 4), 255, dtype=np.uint8),
    "t10k-labels-idx1": np.array([1, 2], dtype=np.uint8),
}


def encoded(array):
    return bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


def write(folder, zipped=True, **changed):
    for name, array in FILES.items():
        content = changed.get(name.replace("-", "_"), encoded(array))
        path = folder / f"{name}-ubyte.gz"
        path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)


@pytest.mark.parametrize("zipped", [True, False])
def test_images_are_nodes_without_edges(tmp_path, zipped):
    write(tmp_path, zipped)
    raw = idx.read(tmp_path)
    assert raw.features.dtype == np.float32
    assert np.allclose(raw.features, np.concatenate([TRAIN_IMAGES.reshape(3, 8) / 255, np.ones((2, 8))]))
    assert raw.labels.tolist() == [7, 0, 7, 1, 2]
    assert raw.split.tolist() == [TRAIN] * 3 + [TEST] * 2
    ptr, entries = raw.symmetric
    assert ptr.tolist() == [0] * 6
    assert len(entries) == 0


def test_hashes_are_of_the_uncompressed_files(tmp_path):
    write(tmp_path)
    hashes = [hashlib.sha256(encoded(array)).hexdigest() for array in FILES.values()]
    idx.read(tmp_path, tuple(hashes))
    with pytest.raises(UserError, match=r"t10k-labels-idx1-ubyte\.gz: .*sha256=\w+ uncompressed instead of 0"):
        idx.read(tmp_path, (*hashes[:3], "0"))
    with pytest.raises(UserError, match="sha256=1: expected 4 hashes or none"):
        idx.read(tmp_path, ("0",))


LABELS = encoded(FILES["train-labels-idx1"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LABELS[:-1], r"train-labels.*2 bytes instead of 3 = 3"),
        (LABELS + b"x", r"train-labels.*4 bytes instead of 3 = 3"),
        (LABELS[:6], r"train-labels.*6 bytes, a header has 8"),
        (b"", r"train-labels.*0 bytes, a header has 8"),
        (encoded(TRAIN_IMAGES), r"train-labels.*magic number 00000803 instead of 00000801"),
        (encoded(np.array([1, 2], dtype=np.uint8)), "2 labels for 3 images"),
        (gzip.compress(LABELS, mtime=0)[:-9], "train-labels.*expected a readable file"),
        (gzip.compress(LABELS, mtime=0)[:12] + b"\xff" * 30, "train-labels.*expected a readable file"),
        (None, "train-labels-idx1-ubyte.gz: no such file"),
    ],
)
def test_damage_is_one_line(tmp_path, content, message):
    write(tmp_path, zipped=False)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        idx.read(tmp_path)
    assert "\n" not in str(error.value)


def test_images_of_two_sizes(tmp_path):
    write(tmp_path, t10k_images_idx3=encoded(np.zeros((2, 3, 3), dtype=np.uint8)))
    with pytest.raises(UserError, match=r"t10k-images.*9 pixels, training images have 8"):
        idx.read(tmp_path)
