"""Files whole or not there, folders locked, causes named."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dpgraph.core.files import LOCK, atomic_path, cause, locked, read_json, sweep, write_array, write_json


def test_a_file_appears_whole_with_the_usual_rights(tmp_path):
    path = tmp_path / "sub/a.json"
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert os.listdir(tmp_path / "sub") == ["a.json"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(TypeError), atomic_path(path) as temporary:
        json.dump([1, object()], temporary.open("w"))
    assert read_json(path) == 1
    assert os.listdir(tmp_path) == ["a.json"]


class Full:
    """A disk that takes no more: any write fails with the error of the system."""

    def __init__(self, monkeypatch, number=errno.ENOSPC):
        real = Path.open

        def opened(path, mode="r", *arguments, **named):
            file = real(path, mode, *arguments, **named)
            if "w" not in mode:
                return file
            file.close()
            return real(Path("/dev/full"), mode, *arguments, **named)

        monkeypatch.setattr(Path, "open", opened)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_names_the_file_that_was_wanted(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="No space left") as error, atomic_path(tmp_path / "a.txt"):
        Path("/dev/full").write_text("a")
    assert cause(error.value) == f"{tmp_path}/a.txt: no space left on device"
    Full(monkeypatch)
    with pytest.raises(OSError, match="No space left") as error:
        write_array(tmp_path / "a.npy", np.zeros(10**5))
    assert cause(error.value) == f"{tmp_path}/a.npy: no space left on device"
    assert os.listdir(tmp_path) == []


def test_other_files_keep_their_names_in_errors(tmp_path):
    with pytest.raises(FileNotFoundError) as error, atomic_path(tmp_path / "a.txt"):
        (tmp_path / "missing").read_text()
    assert cause(error.value) == f"{tmp_path}/missing: no such file or directory"
    assert cause(OSError("no number\nof an error")) == "no number of an error"
    (tmp_path / "file").write_text("in place of a folder")
    with pytest.raises(OSError, match="ot a directory") as error:
        write_json(tmp_path / "file/a/b.json", 1)
    assert cause(error.value).startswith(f"{tmp_path}/file")


@pytest.mark.parametrize("array", [np.arange(12.0).reshape(3, 4).T, np.zeros((0, 3)), np.ones(3 << 20)])
def test_arrays_are_written_as_numpy_does_and_hashed(tmp_path, array):
    found = write_array(tmp_path / "a.npy", array)
    np.save(tmp_path / "b.npy", array)
    assert np.array_equal(np.load(tmp_path / "a.npy", mmap_mode="r" if array.size else None), array)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert found == hashlib.sha256((tmp_path / "a.npy").read_bytes()).hexdigest()


def test_one_at_a_time_works_in_a_folder(tmp_path, caplog):
    """Many threads, each with a lock of its own: a counter that nobody guards otherwise comes out right."""
    counter = tmp_path / "counter"
    counter.write_text("0")

    def work():
        for _ in range(20):
            with locked(tmp_path / "folder"):
                value = int(counter.read_text())
                counter.write_text(str(value + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counter.read_text() == "80"
    assert os.listdir(tmp_path / "folder") == [LOCK]


HOLD = (
    "import sys, time; from dpgraph.core.files import locked\n"
    "with locked(sys.argv[1]): print(flush=True); time.sleep(600)"
)


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path`."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path, caplog, holder):
    """Killed, it can remove nothing: what stays of it holds nobody up, and does not count as a holder later."""

    def kill_once_it_is_waited_for():
        while "waiting" not in caplog.text:
            time.sleep(0.01)
        holder.kill()

    threading.Thread(target=kill_once_it_is_waited_for, daemon=True).start()
    with locked(tmp_path):
        assert holder.wait(60) < 0
        assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on ")
    assert f"{tmp_path}: waiting for process {holder.pid} on " in caplog.text
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [(LOCK, 0)]
    with locked(tmp_path):
        assert caplog.text.count("waiting") == 1


def test_the_file_of_a_lock_stays_the_same(tmp_path, holder):
    """Between a process that waits and one that comes later, there is one file: removed, it could be two."""
    file = (tmp_path / LOCK).stat().st_ino
    inside, latest = [], []

    def work():
        with locked(tmp_path):
            inside.append(1)
            latest.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert not latest
    holder.kill()
    for thread in threads:
        thread.join(60)
    assert latest == [1, 1, 1]
    assert (tmp_path / LOCK).stat().st_ino == file


def test_a_block_that_fails_ends_its_lock(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path):
        pass


def test_children_do_not_keep_a_lock(tmp_path, caplog):
    """A process that was started in the block and outlives it holds nobody up."""
    with locked(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with locked(tmp_path):
        assert child.poll() is None
        assert "waiting" not in caplog.text
    child.communicate(b"\n")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_nobody_waits(tmp_path, monkeypatch, caplog, number):
    def none(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", none)
    with locked(tmp_path), locked(tmp_path):
        assert caplog.text.count("has no locks") == 2


def test_any_other_failure_of_a_lock_is_an_error(tmp_path, monkeypatch):
    def broken(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", broken)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="Input/output") as error, locked(Path("sub")):
        pass
    assert cause(error.value) == "sub/.lock: input/output error"


def test_sweeping_takes_what_was_left_unfinished_only(tmp_path):
    write_json(tmp_path / "a.json", 1)
    for name in (LOCK, ".hidden"):
        (tmp_path / name).touch()
    with atomic_path(tmp_path / "b.json") as temporary:
        os.link(temporary, f"{temporary}.killed")
    (tmp_path / "b.json").unlink()
    assert len(os.listdir(tmp_path)) == 4
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", LOCK, ".hidden"])
