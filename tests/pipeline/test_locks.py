"""Whose Snakemake's lock is: kept while its run may live, removed once it has certainly ended."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time

import pytest

from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.pipeline import locks
from dpgraph.pipeline.locks import FOLDER, Owner, refusal, remove_ended, sign, unlock

BOTH = ["0.input.lock", "0.output.lock"]
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processes are told apart by /proc")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a run that has made locks."""
    monkeypatch.chdir(tmp_path)
    FOLDER.mkdir(parents=True)
    for name in BOTH:
        (FOLDER / name).write_text("a\n")
    return FOLDER


@pytest.fixture
def run(folder, monkeypatch):
    """A living process that has signed them."""
    process = subprocess.Popen(["sleep", "600"])
    with monkeypatch.context() as there:
        there.setattr(os, "getpid", lambda: process.pid)
        sign(str(folder / name) for name in BOTH)
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
    while not (lines := list(remove_ended())):  # as a zombie: nobody has waited for it
        assert time.monotonic() < end
        time.sleep(0.01)
    assert [line.split(", since")[0] for line in lines] == [
        f"removed the lock of process {run.pid} on {platform.node()}"
    ]
    assert list(folder.iterdir()) == []


def test_a_process_that_is_waited_for_has_ended_and_its_number_may_be_another_s(folder, run):
    run.kill()
    run.wait(60)
    signed(folder, process=os.getpid())  # which lives, and began at another time
    assert len(list(remove_ended())) == 1
    assert names(folder) == []


OTHER_BOOT = "00000000-0000-0000-0000-000000000000 pid:[4026531836]"


@pytest.mark.parametrize(
    ("changes", "ended"),
    [
        ({}, True),
        ({"system": OTHER_BOOT}, True),  # before this machine was started again
        ({"system": OTHER_BOOT, "host": "other"}, False),
        ({"system": OTHER_BOOT, "machine": "other"}, False),  # two machines may be called localhost
        ({"system": OTHER_BOOT, "machine": ""}, False),
        ({"system": ""}, False),
        ({"system": "another container"}, False),
    ],
)
def test_only_a_run_that_has_certainly_ended_loses_its_lock(folder, run, changes, ended, monkeypatch):
    here = changes.get("machine") and "this"  # or without an id, too
    monkeypatch.setattr(locks, "_machine", lambda: here if "machine" in changes else "this")
    run.kill()
    run.wait(60)
    if changes.get("system") == "another container":  # of this very boot
        changes = {"system": locks._system().split()[0] + " pid:[1]"}
    signed(folder, **{"machine": "this"} | changes)
    assert len(list(remove_ended())) == ended
    assert names(folder) == ([] if ended else BOTH)
    if not ended:
        assert refusal().endswith("wait for its end; if it was killed there: dpgraph run --unlock")
        assert main(["run", "--unlock"]) == 0
        assert not folder.exists()


def test_another_user_s_process_and_a_hidden_one_live(folder, run, monkeypatch):
    def forbidden(process, number):
        raise PermissionError

    with monkeypatch.context() as other:
        other.setattr(os, "kill", forbidden)
        assert locks.started_at(run.pid) not in (None, "")
        other.setattr(locks, "Path", lambda path: FOLDER / "none")
        assert locks.started_at(run.pid) == ""
        other.setattr(locks, "_system", lambda: "here")
        assert not Owner(platform.node(), "", "here", run.pid, "1", "now", ()).ended


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
