"""Whose Snakemake's lock is: kept while its run may live, removed once it has certainly ended."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import time

import pytest

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.pipeline import locks
from dpgraph.pipeline.locks import FOLDER, refusal, remove_ended, sign, unlock

BOTH = ["0.input.lock", "0.output.lock"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a run that has made locks."""
    monkeypatch.chdir(tmp_path)
    FOLDER.mkdir(parents=True)
    for name in BOTH:
        (FOLDER / name).write_text("a\n")
    return FOLDER


SIGN = "import sys; from dpgraph.pipeline.locks import sign; sign(sys.argv[1:]); print(flush=True); sys.stdin.read()"


@pytest.fixture
def run(folder):
    """A living process that has signed them."""
    command = [sys.executable, "-c", SIGN, *(str(folder / name) for name in BOTH)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait(60)


def signed(folder, **changes):
    """Change what the owner's file says."""
    (path,) = folder.glob("*.owner.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def names(folder):
    return sorted(path.name for path in folder.glob("*.lock"))


def test_a_lock_is_kept_while_its_run_lives_and_removed_once_it_was_killed(folder, run, capsys):
    assert list(remove_ended()) == []
    assert names(folder) == BOTH
    assert refusal().startswith(f"another run uses these files: process {run.pid} on {platform.node()}, since 20")
    assert refusal().endswith(f"kill -INT {run.pid}")
    with pytest.raises(UserError, match=f"^--unlock: process {run.pid} on .* still runs: end it first"):
        unlock()
    assert main(["run", "--unlock"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert names(folder) == BOTH

    run.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while not (lines := list(remove_ended())):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert [line.split(", since")[0] for line in lines] == [
        f"removed the lock of process {run.pid} on {platform.node()}"
    ]
    assert list(folder.iterdir()) == []


def test_a_process_number_may_be_another_s(folder, run):
    run.kill()
    run.wait(60)
    signed(folder, process=os.getpid())  # which lives
    assert len(list(remove_ended())) == 1
    assert names(folder) == []


@pytest.mark.parametrize(
    ("changes", "ended"),
    [({}, True), ({"host": "other"}, False), ({"machine": "other"}, False), ({"machine": ""}, False)],
)
def test_only_a_run_that_has_certainly_ended_loses_its_lock(folder, run, changes, ended, monkeypatch):
    """Two machines may be called localhost, and a file system may hide the locks of one from the other."""
    here = "" if changes.get("machine") == "" else "this"  # or without an id, too
    monkeypatch.setattr(locks, "_machine", lambda: here)
    run.kill()
    run.wait(60)
    signed(folder, **{"machine": "this"} | changes)
    assert len(list(remove_ended())) == ended
    assert names(folder) == ([] if ended else BOTH)
    if not ended:
        assert refusal().endswith("wait for its end; if it was killed there: dpgraph run --unlock")
        assert main(["run", "--unlock"]) == 0
        assert not folder.exists()


def test_a_run_without_locks_of_the_system_signs_nothing(folder, monkeypatch):
    def missing(file, operation):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", missing)
    sign(str(folder / name) for name in BOTH)
    assert [path.name for path in folder.iterdir() if path.suffix == ".json"] == []
    assert "a lock without an owner" in refusal()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"process": 1}', "\xff"])
def test_a_lock_whose_owner_cannot_be_read_is_kept(folder, text):
    (folder / "1@a.owner.json").write_text(text, encoding="latin-1")
    assert list(remove_ended()) == []
    assert names(folder) == BOTH
    assert "a lock without an owner" in refusal()
    assert unlock() == "removed the lock of an unknown run"
    assert unlock() == "no lock: nothing to remove"


def test_an_owner_s_file_names_no_files_but_locks(folder, run, tmp_path):
    run.kill()
    run.wait(60)
    (tmp_path / "precious").touch()
    signed(folder, locks=["../../precious", "0.input.lock"])
    assert list(remove_ended()) == []
    assert (tmp_path / "precious").exists()


def test_of_two_runs_that_find_an_ended_one_a_single_one_removes_its_locks(folder, run, monkeypatch):
    """The other would remove the lock that the first has made since, under the same name."""
    run.kill()
    run.wait(60)
    found = list(locks._signed(folder))
    assert len(list(remove_ended())) == 1
    (folder / "0.output.lock").write_text("of the first\n")
    monkeypatch.setattr(locks, "_signed", lambda folder: iter(found))
    assert list(remove_ended()) == []
    assert names(folder) == ["0.output.lock"]


def test_locks_of_others_stay_where_a_run_s_own_are_removed(folder, run):
    (folder / "1.output.lock").write_text("b\n")
    sign([str(folder / "1.output.lock")])  # this process
    run.kill()
    run.wait(60)
    assert len(list(remove_ended())) == 1
    assert names(folder) == ["1.output.lock"]
    assert f"process {os.getpid()} on" in refusal()


def test_a_folder_without_locks_has_nothing_to_remove_and_nothing_is_signed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sign([])
    assert list(remove_ended()) == []
    assert main(["run", "--unlock"]) == 0
    assert capsys.readouterr().out == "no lock: nothing to remove\n"
    assert list(tmp_path.iterdir()) == []
