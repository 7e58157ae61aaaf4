"""Readers of faces, on made-up pictures; the real files, where a mirror has them."""

import hashlib
import os
import zipfile
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.fetch import mirrors_from
from dpgraph.data.pictures import variants, varied
from dpgraph.data.raw_graph import RawImages
from dpgraph.data.readers import faces94, orl, read
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.registry import entry, parse
from tests.data.offline import fetch_offline


def picture(size, number=0, kind="PPM", mode="L"):
    """Bytes of a picture of (width, height) random pixels."""
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
    pixels = numpy_generator("test", "faces", number).integers(0, 256, shape, dtype=np.uint8)
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, kind, **({"quality": 95} if kind == "JPEG" else {}))
        return file.getvalue()


@pytest.fixture
def persons(tmp_path):
    """All 400 files of ORL; only the first persons' differ from each other."""
    same = picture((92, 112))
    for person in range(1, 41):
        (tmp_path / f"s{person}").mkdir()
        for number in range(1, 11):
            content = picture((92, 112), 10 * person + number) if person <= 2 else same
            (tmp_path / f"s{person}/{number}.pgm").write_bytes(content)
    return tmp_path


def test_orl_reads_persons_and_file_numbers(persons):
    raw = orl.read(persons)
    assert raw.images.shape == (400, 112, 92, 1)
    assert np.bincount(raw.labels).tolist() == [10] * 40
    assert raw.split[:10].tolist() == [TRAIN] * 7 + [TEST] * 3
    with Image.open(persons / "s2/3.pgm") as picture_:
        assert raw.images[12, ..., 0] == pytest.approx(np.asarray(picture_) / 255)
    small = orl.read(persons, size=(46, 56)).images  # a mean over 2 x 2 boxes
    boxes = raw.images.reshape(400, 56, 2, 46, 2).mean(axis=(2, 4))
    assert np.abs(small[..., 0] - boxes).max() <= 1 / 255 + 1e-6  # Pillow rounds to bytes, one axis after the other


def test_orl_compares_the_hash_of_all_files(persons):
    names = sorted(f"s{person}/{number}.pgm" for person in range(1, 41) for number in range(1, 11))
    lines = (f"{hashlib.sha256((persons / name).read_bytes()).hexdigest()}  orl_faces/{name}\n" for name in names)
    right = hashlib.sha256("".join(lines).encode()).hexdigest()
    orl.read(persons, sha256=right)
    (persons / "s7/7.pgm").write_bytes(picture((92, 112), 5))
    with pytest.raises(UserError, match=r"sha256=\w+ of all files: expected "):
        orl.read(persons, sha256=right)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "no PGM or JPEG picture"),
        (b"P5\n92 112\n255\nshort", "damage"),
        (b"P5\n92 x\n255\n", "damage"),
        (b"P5\n99999999 99999999\n255\n", "damage"),
        (picture((112, 92)), "112 x 92 pixels instead of 92 x 112"),
    ],
)
def test_a_damaged_picture_is_one_line(persons, content, message):
    path = persons / "s40/10.pgm"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"s40/10\.pgm") as error:
        orl.read(persons)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def archive(path, files):
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)


def jpeg(number, size=(180, 200)):
    return picture(size, number, "JPEG", "RGB")


TWO = {f"Training/{person}/{person}.{number}.jpg": 10 * place + number
       for place, person in enumerate(("ann", "bob")) for number in range(1, 6)}  # fmt: skip


def test_faces94_reads_folders_and_tested_pictures(tmp_path):
    archive(tmp_path / "train.zip", {name: jpeg(number) for name, number in TWO.items()} | {"Training/notes.txt": b""})
    archive(tmp_path / "test.zip", {"bob (1).jpg": jpeg(90), "eve (1).jpg": jpeg(91), "m.jpg": jpeg(92)})
    raw = faces94.read(tmp_path, "train.zip", "test.zip")
    assert raw.images.shape == (11, 70, 60, 1)
    assert raw.labels.tolist() == [0] * 5 + [1] * 6
    assert raw.split.tolist() == [TRAIN] * 10 + [TEST]
    with Image.open(BytesIO(jpeg(1))) as one:
        expected = np.asarray(one.convert("L").resize((60, 70), Image.Resampling.BOX)) / 255
    assert raw.images[0, ..., 0] == pytest.approx(expected, abs=1e-6)


def test_faces94_without_an_archive_of_its_own_tests_every_fifth(tmp_path):
    archive(tmp_path / "all.zip", {name: jpeg(number) for name, number in TWO.items()})
    raw = faces94.read(tmp_path, "all.zip")
    assert raw.split.tolist() == ([TRAIN] * 4 + [TEST]) * 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "pictures of 0 persons: expected at least 2"),
        ({"a/1.jpg": jpeg(1)}, "pictures of 1 persons"),
        ({"1.jpg": jpeg(1), "b/1.jpg": jpeg(2)}, "1.jpg is in no person's folder"),
        ({"a/1.jpg": jpeg(1), "b/1.jpg": jpeg(2, (20, 20))}, "20 x 20 pixels instead of 180 x 200"),
        ({"a/1.jpg": jpeg(1), "b/1.jpg": jpeg(2)[:400]}, "b/1.jpg"),
        ({"a/1.jpg": jpeg(1), "b/1.jpg": b"\0" * (2**20 + 1)}, "larger than"),
        (b"PK no archive", "train.zip"),
    ],
)
def test_a_damaged_archive_is_one_line(tmp_path, files, message):
    if isinstance(files, bytes):
        (tmp_path / "train.zip").write_bytes(files)
    else:
        archive(tmp_path / "train.zip", files)
    with pytest.raises(UserError) as error:
        faces94.read(tmp_path, "train.zip")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_tested_pictures_of_nobody_who_is_trained_on(tmp_path):
    archive(tmp_path / "train.zip", {name: jpeg(number) for name, number in TWO.items()})
    archive(tmp_path / "test.zip", {"eve (1).jpg": jpeg(91)})
    with pytest.raises(UserError, match="no picture of a person who is trained on"):
        faces94.read(tmp_path, "train.zip", "test.zip")


@pytest.mark.parametrize("size", [(0, 5), (93, 112), (46,)])
def test_sizes_are_named(tmp_path, size):
    with pytest.raises(UserError, match=r"^size="):
        orl.read(tmp_path, size=size)


def test_numbered_files_of_the_registry():
    files = entry("orl-faces").files
    assert len({file.path for file in files}) == 400
    assert files[-1].path == "s40/10.pgm"
    assert files[-1].sources[0].mirror == "orl_faces/s40/10.pgm"


@pytest.mark.parametrize("numbers", ["0", "[0]", "[]", "[101, 100]", "[a]"])
def test_numbers_are_checked(numbers):
    text = "toy: {title: T, home: h, licence: {name: n}, citation: c, reader: orl, files: [{path: a, numbers: %s}]}"
    with pytest.raises(UserError, match=r"numbers=.*expected positive integers, 10000 files at most") as error:
        parse(text % numbers)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "trained"),
    [("orl-faces", 280), ("faces94-sample", 292), ("orl-faces-220", 7600), ("faces94-sample-220", 3420)],
)
def test_the_real_files(name, trained, tmp_path):
    if not os.environ.get("DPGRAPH_MIRROR"):
        pytest.skip("DPGRAPH_MIRROR names no mirror of the real data")
    if fetch_offline(name, tmp_path, mirrors_from([], os.environ)).status != "ok":
        pytest.skip(f"the mirror has no {name}")
    known = entry(name)
    raw = read(known, tmp_path)
    assert len(raw.images) == known.expected.nodes
    assert (raw.split == TRAIN).sum() == trained
    assert len(np.unique(raw.labels)) == known.expected.classes


def test_pictures_are_made_of_a_persons_own(persons):
    """220 of each person of which 30 are tested; the originals are first; one person moves no other one's."""
    raw = orl.read(persons, size=(46, 56), made=(220, 30))
    plain = orl.read(persons, size=(46, 56))
    assert raw.images.shape == (8800, 56, 46, 1)
    assert np.bincount(raw.labels).tolist() == [220] * 40
    own, splits = raw.images.reshape(40, 220, 56, 46, 1), raw.split.reshape(40, 220)
    assert ((splits == TEST).sum(axis=1) == 30).all()
    assert ((splits == TRAIN).sum(axis=1) == 190).all()
    assert np.array_equal(own[:, :10].reshape(plain.images.shape), plain.images)
    assert raw.data_dependent
    other = varied(RawImages(plain.images[10:], plain.labels[10:]), 220, 30, "dpgraph", "orl", "made pictures")
    assert np.array_equal(other.images, raw.images[220:])
    assert np.array_equal(other.split, raw.split[220:])


def test_a_made_picture_is_near_its_original_and_another_one():
    """A bright square near the middle stays one, moved by a few pixels; each variant differs."""
    square = np.zeros((60, 40, 30, 1), dtype=np.float32)
    square[:, 14:26, 9:21] = 0.8
    found = variants(square, numpy_generator("test", "variants"))
    assert found.shape == square.shape
    assert found.dtype == np.float32
    assert found.min() >= 0
    assert found.max() <= 1
    rows = np.arange(40)[None, :, None, None]
    centre = (found * rows).sum(axis=(1, 2, 3)) / found.sum(axis=(1, 2, 3))
    assert np.abs(centre - 19.5).max() < 3.5
    sizes = (found > 0.3).sum(axis=(1, 2, 3)) / 144
    assert 0.75 < sizes.min() < sizes.max() < 1.3
    assert len({one.tobytes() for one in found}) == 60


def test_making_pictures_needs_room(persons):
    with pytest.raises(UserError, match="pictures=9: expected at least 10"):
        orl.read(persons, made=(9, 3))
    with pytest.raises(UserError, match="tested=220: expected a number from 1 to 219"):
        orl.read(persons, made=(220, 220))
