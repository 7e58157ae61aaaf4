"""The command line: whatever its arguments, no traceback, an exit status that shows the failure, no partial file."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from dpgraph.cli import main
from tests.fuzz.harness import Hang, files_in, fuzzed, told

ROOT = Path(__file__).resolve().parents[2]
WORDS = """seeds=1 seeds=0 seeds=[ seeds=1e9 seeds=.nan suite=demo suite=../x = mirrors='~nobody/x' data="a\\0b"
device=gpu
papers=[x] artefacts=[daigavane/table1] cora cora/disjoint.public demo-sbm/transductive.public.raw.x {} { {"task":1}
~nobody/mirror ../.."""
words = st.sampled_from([*WORDS.split(), "", "mirrors=[a, b]", "x" * 300, "[" * 5000, "\x00", "\n"])
texts = words | st.text(st.characters(exclude_characters="\x00"), max_size=6)


def run(arguments: list[str], folder: Path) -> tuple[int, str]:
    """(status, standard error) of the command line in an empty folder."""
    before = Path.cwd()
    os.chdir(folder)
    error = io.StringIO()
    try:
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            status = main(arguments)
    finally:
        os.chdir(before)
    return status, error.getvalue()


@fuzzed(60, stage=st.integers(0, 4), words=st.lists(texts, min_size=1, max_size=3))
def test_arguments(tmp_path_factory, stage, words):
    folder = tmp_path_factory.getbasetemp() / "empty"
    folder.mkdir(exist_ok=True)
    workflow = ["--workflow", str(ROOT / "workflow")]
    first, *rest = words
    sets = [part for word in rest for part in ("--set", word)]
    commands = (
        ["list", "papers", *workflow, "--set", first, *sets],
        ["preprocess", "--", first],
        ["train", "--cell", first, "--out", str(folder / "out")],
        ["calibrate", "--cell", first, "--out", str(folder / "privacy.json")],
        ["fetch", "demo-sbm", "--mirrors", first, "--out", str(folder / "raw")],
    )
    results: list[tuple[int, str]] = []
    assert told(lambda: results.append(run(commands[stage], folder)), most_seconds=10) is None
    status, error = results[0]
    assert status in (0, 1, 2)
    assert "Traceback" not in error
    if status:
        assert error.strip()
        assert not files_in(folder) - {"raw"}
    else:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "cells", "--set", "seeds=["], "--set seeds: not a YAML file"),
        (["train", "--cell", "{" * 10_000, "--out", "x"], "cell: not valid JSON"),
        (["preprocess", "cora/disjoint"], "task=cora/disjoint: expected DATASET/SETTING.SPLIT"),
        (
            ["fetch", "demo-sbm", "--mirrors", "~nobody-of-that-name/x"],
            "mirror=~nobody-of-that-name/x: expected a folder",
        ),
        (["list", "papers", "--config", "list.yaml"], "list.yaml: expected a mapping of names to values"),
        (["list", "papers", "--config", "bytes.yaml"], "bytes.yaml: not a text in UTF-8"),
    ],
    ids=range(6),
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.yaml").write_text("[1]")
    (tmp_path / "bytes.yaml").write_bytes(b"suite: \xff")
    before = files_in(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert files_in(tmp_path) == before


def test_a_process_says_it_in_one_line(tmp_path):
    """At the largest depth of a text that a reader meets with few calls on its stack."""
    command = [sys.executable, "-m", "dpgraph", "train", "--cell", "{" * 10_000, "--out", "x"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert "cell: not valid JSON" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert files_in(tmp_path) == set()


def test_a_hang_is_found():
    with pytest.raises(Hang):
        told(lambda: all(True for _ in iter(int, 1)), most_seconds=0.2)
