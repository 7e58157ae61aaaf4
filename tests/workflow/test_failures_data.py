"""Disks that are full or read-only, files that are damaged: one line with the cause, no half file, no false result."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dpgraph.cli import main
from dpgraph.core.files import LOCK, naming
from dpgraph.data import fetch as fetch_module
from dpgraph.data.store import save_graph
from tests.contract.cells import pagerank_cell
from tests.contract.conftest import toy_graph
from tests.data.test_fetch import BODY, toy

CELL = pagerank_cell("dp-appr", "rigorous", "gaussian").model_copy(update={"seeds": (0, 1)})  # with exposures


COMMON = ["--cell", "cell.json", "--graph", "graph"]


def calibrate(out: str) -> int:
    return main(["calibrate", *COMMON, "--out", out])


def train(out: str) -> int:
    return main(["train", *COMMON, "--out", out, "--calibration", "privacy.json", "--device", "cpu"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished cell; tests copy it."""
    folder = tmp_path_factory.mktemp("trained")
    save_graph(toy_graph(), folder / "graph")
    (folder / "cell.json").write_text(CELL.model_dump_json())
    here = os.getcwd()
    os.chdir(folder)
    try:
        assert calibrate("privacy.json") == 0
        assert train("out") == 0
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def damaged(trained, tmp_path, monkeypatch):
    """A copy of the finished cell in the working directory."""
    shutil.copytree(trained, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def home(damaged):
    """The graph with a calibration, in the working directory; nothing is trained."""
    shutil.rmtree(damaged / "out")
    return damaged


def science(out: Path) -> tuple:
    value = json.loads((out / "result.json").read_text())
    seeds = [(seed["seed"], seed["status"], seed["metrics"]) for seed in value["seeds"]]
    return seeds, value["statement"], [path.read_bytes() for path in sorted(out.glob("*.npy"))]


def line(capsys) -> str:
    """The only line of the command's messages."""
    (found,) = capsys.readouterr().err.splitlines()
    return found


def assert_whole(folder: Path) -> None:
    """Every file can be read to its end, and none is a left-over."""
    for path in folder.rglob("*"):
        assert path.name == LOCK or not path.name.startswith(".")
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix in (".npy", ".npz"):
            found = np.load(path)
            assert path.suffix == ".npy" or [found[name].sum() for name in found.files]
        elif path.suffix == ".checkpoint":
            assert path.stat().st_size > 1000


# ---- full and read-only disks ----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(home):
    """An empty file system of 256 KiB."""
    place = home / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, free: int) -> None:
    """Leave `free` bytes."""
    (disk / ".filler").unlink(missing_ok=True)
    left = os.statvfs(disk)
    with (disk / ".filler").open("wb") as file:
        file.write(bytes(left.f_bavail * left.f_bsize - free))


@pytest.mark.parametrize("seconds", ["0", "60"])
def test_a_disk_may_fill_up_at_any_point_of_a_training(home, small_disk, monkeypatch, capsys, seconds):
    """With a page more each time, every file in turn is the one that does not fit; checkpoints need most."""
    monkeypatch.setenv("DPGRAPH_CHECKPOINT_SECONDS", seconds)
    out, full = small_disk / "out", []
    for free in range(0, 1 << 18, 4096):
        fill(small_disk, free)
        capsys.readouterr()
        status = train("disk/out")
        if status == 0:
            break
        assert status == 1
        message = line(capsys)
        assert message.startswith("error: disk/out")
        assert message.endswith(": no space left on device")
        full.append(Path(message.split(": ")[1]).name)
        if out.exists():
            assert_whole(out)
            assert not (out / "result.json").exists()  # it is written last
    if seconds == "0":
        assert any(name.endswith(".checkpoint") for name in full)
    else:
        assert {"seed=0.exposure.npz", "result.json"} < set(full)
    assert train("elsewhere") == 0
    assert science(out) == science(home / "elsewhere")
    assert sorted(os.listdir(out)) == sorted(os.listdir("elsewhere"))


def test_a_full_disk_ends_every_stage_in_one_line(home, small_disk, monkeypatch, capsys):
    monkeypatch.setattr(fetch_module, "entry", lambda name: toy())
    (home / "mirror/toy").mkdir(parents=True)
    (home / "mirror/toy/a.bin").write_bytes(BODY)
    fill(small_disk, 4096)
    (small_disk / "raw").mkdir()  # a folder takes no page
    assert main(["fetch", "toy", "--out", "disk/raw", "--mirrors", "mirror"]) == 1
    assert line(capsys) == "error: disk/raw/a.bin: no space left on device"
    assert_whole(small_disk / "raw")
    fill(small_disk, 0)
    assert calibrate("disk/privacy/a.json") == 1
    assert line(capsys) == "error: disk/privacy/a.json: no space left on device"
    assert_whole(small_disk / "privacy")
    fill(small_disk, 1 << 17)
    assert main(["fetch", "toy", "--out", "disk/raw", "--mirrors", "mirror"]) == 0
    assert (small_disk / "raw/a.bin").read_bytes() == BODY


@contextmanager
def files_up_to(size: int):
    """No file may grow beyond `size` bytes: needs no rights, and fails as a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_limits_on_files_end_every_stage_in_one_line(home, capsys):
    with files_up_to(300):
        assert calibrate("other.json") == 1
    assert line(capsys) == "error: other.json: file too large"
    assert not Path("other.json").exists()
    with files_up_to(1000):
        assert train("out") == 1
    assert line(capsys) == "error: out/seed=0.exposure.npz: file too large"
    assert_whole(home / "out")
    assert main(["fetch", "demo-sbm", "--out", "raw"]) == 0
    capsys.readouterr()
    with files_up_to(100_000):
        assert main(["preprocess", "demo-sbm/transductive.public", "--raw", "raw", "--out", "sbm"]) == 1
    assert line(capsys) == "error: sbm/out_idx.npy: file too large"
    assert_whole(home / "sbm")
    assert not (home / "sbm/graph.json").exists()
    assert train("out") == 0
    assert train("elsewhere") == 0
    assert science(home / "out") == science(home / "elsewhere")


def test_a_read_only_folder_ends_a_stage_in_one_line(home, small_disk, capsys):
    assert train("disk/out") == 0
    before = science(small_disk / "out")
    capsys.readouterr()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for run in (train, lambda out: calibrate(f"{out}/a.json"), lambda out: calibrate("disk/new/a.json")):
        assert run("disk/out") == 1
        message = line(capsys)
        assert message.startswith("error: disk/")
        assert message.endswith(": read-only file system")
    assert science(small_disk / "out") == before


def test_a_file_in_the_place_of_a_folder_is_one_line(home, capsys):
    Path("out").write_text("no folder")
    assert train("out") == 1
    assert line(capsys) == "error: out: file exists"
    assert calibrate("out/a/b.json") == 1
    assert line(capsys) == "error: out/a: not a directory"


def test_rights_that_are_missing_are_named(home, monkeypatch, capsys):
    """Root may write anywhere: the system's refusal is put in place."""

    def refuse(*arguments, **named):
        raise PermissionError(errno.EACCES, "Permission denied", "/somewhere/temporary")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert calibrate("other.json") == 1
    assert line(capsys) == "error: other.json: permission denied"
    with pytest.raises(PermissionError, match="wanted"), naming(Path("wanted")):
        refuse()


# ---- damaged files ---------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def noise(path: Path) -> None:
    path.write_bytes(b"\xff\x00{" * 50)


def seeds(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("seed=?.json")}


@pytest.mark.parametrize("damage", [cut, empty, noise, os.unlink], ids=["cut", "empty", "noise", "gone"])
def test_damaged_results_are_made_again_and_nothing_else(trained, damaged, damage):
    """A seed's own files cost that seed, the cell's record costs nothing."""
    for name, again in (
        ("result.json", set()),
        ("seed=0.json", {"seed=0.json"}),
        ("seed=1.predictions.npy", {"seed=1.json"}),
        ("seed=0.exposure.npz", {"seed=0.json"}),
    ):
        before = seeds(damaged / "out")
        damage(damaged / "out" / name)
        assert train("out") == 0
        after = seeds(damaged / "out")
        assert {seed for seed in after if after[seed] != before.get(seed)} == again, name
        assert science(damaged / "out") == science(trained / "out")


@pytest.mark.parametrize("damage", [cut, empty, noise, os.unlink], ids=["cut", "empty", "noise", "gone"])
def test_damaged_inputs_are_named_and_once_made_again_nothing_is_trained(trained, damaged, damage, capsys):
    before = seeds(damaged / "out")
    for name in ("privacy.json", "graph/graph.json", "graph/features.npy", "graph/out_idx.npy"):
        damage(damaged / name)
        assert train("out") in (1, 2)
        message = line(capsys)
        assert message.startswith("error: ")
        assert name in message
        if name == "privacy.json":
            assert calibrate(name) == 0
        else:
            save_graph(toy_graph(), Path("graph"))
        capsys.readouterr()
    assert train("out") == 0
    assert seeds(damaged / "out") == before
    assert science(damaged / "out") == science(trained / "out")


def test_a_flipped_bit_of_a_graph_is_no_training_on_another_graph(damaged, capsys):
    path = damaged / "graph/features.npy"
    content = bytearray(path.read_bytes())
    content[-5] ^= 64
    path.write_bytes(content)
    assert train("other") == 2
    assert "graph/features.npy: damaged, sha256=" in line(capsys)
    assert os.listdir("other") == [LOCK]


def test_another_graph_of_the_same_shape_is_trained_anew(damaged):
    before = seeds(damaged / "out")
    graph = toy_graph()
    graph.features[0] += 1
    save_graph(graph, Path("graph"))
    assert train("out") == 0
    assert not set(seeds(damaged / "out").items()) & set(before.items())
