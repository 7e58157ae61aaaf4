"""SVHN's MATLAB files, written by SciPy as the home page describes them."""

import numpy as np
import pytest
from scipy.io import savemat

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.readers import svhn
from dpgraph.data.records import TEST, TRAIN, VALIDATION

PIXELS = numpy_generator("test", "svhn").integers(0, 256, (4, 5, 3, 7), dtype=np.uint8)
LABELS = np.array([[1], [10], [9], [2]], dtype=np.uint8)


def write(folder, **test):
    savemat(folder / "train_32x32.mat", {"X": PIXELS[..., :4], "y": LABELS})
    savemat(folder / "test_32x32.mat", {"X": PIXELS[..., 4:], "y": LABELS[:3]} | test)


def test_images_labels_and_split(tmp_path):
    write(tmp_path)
    raw = svhn.read(tmp_path, public=2)
    assert raw.labels.tolist() == [1, 0, 9, 2, 1, 0, 9]
    assert raw.split.tolist() == [TRAIN] * 4 + [VALIDATION] * 2 + [TEST]
    assert raw.images.dtype == np.float32
    for one in range(7):
        assert raw.images[one] == pytest.approx(PIXELS[..., one] / 255)
    assert svhn.read(tmp_path).split.tolist() == [TRAIN] * 4 + [TEST] * 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": LABELS}, "test_32x32.mat.*4 labels for 3 images"),
        ({"y": LABELS[:3] - 1}, "labels outside of 1 to 10"),
        ({"X": PIXELS[..., 4:].astype(float)}, "X of float64"),
        ({"X": PIXELS[:, :, 0, 4:]}, r"X of uint8, \[4, 5, 3\]"),
        ({"X": PIXELS[:3, ..., 4:]}, r"images \[3, 5, 3\], training images have \[4, 5, 3\]"),
    ],
)
def test_wrong_content_is_one_line(tmp_path, changed, message):
    write(tmp_path, **changed)
    with pytest.raises(UserError, match=message) as error:
        svhn.read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"not a MATLAB file", "cut", "without X", None])
def test_damage_is_one_line(tmp_path, content):
    write(tmp_path)
    path = tmp_path / "train_32x32.mat"
    if content is None:
        path.unlink()
    elif content == "without X":
        savemat(path, {"y": LABELS})
    else:
        path.write_bytes(path.read_bytes()[:300] if content == "cut" else content)
    with pytest.raises(UserError, match=r"train_32x32\.mat") as error:
        svhn.read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("public", [3, -1])
def test_some_images_are_tested(tmp_path, public):
    write(tmp_path)
    with pytest.raises(UserError, match=f"^public={public}: expected a number from 1 to 2: some images"):
        svhn.read(tmp_path, public=public)
