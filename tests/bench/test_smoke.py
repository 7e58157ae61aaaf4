"""The smoke test of a GPU, on the CPU: every part fills its lines, and one that fails keeps no other from running."""

from __future__ import annotations

import subprocess
import time
from functools import partial

import pytest

from bench import smoke
from bench.peers_problem import Problems
from bench.steps import StepSetting


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(smoke, "SETTINGS", (StepSetting("mlp", 0, 1, 20), StepSetting("gcn", 1, 3, 20)))


@pytest.mark.slow
def test_each_part_has_its_lines_and_a_failure_its_reason(tmp_path):
    parts = {
        "steps": partial(smoke.step_lines, nodes=400),
        "peers": partial(smoke.peer_lines, problems=Problems(nodes=600, width=20)),
        "broken": lambda device, folder: iter(
            [("it", smoke._last_line("-c", "print('x'); raise SystemExit('a | b')"))]
        ),
    }
    assert not smoke.smoke("cpu", parts, tmp_path / "smoke.md")
    text = (tmp_path / "smoke.md").read_text()
    for found in ("mlp, r = 0, m = 20: private captured", "gcn, r = 1: dpgraph", "RuntimeError: a / b", "seconds in"):
        assert found in text
    assert "call by call" in text


def test_tests_of_a_device_are_found():
    """Each file has one that is skipped where there is no GPU, so that the choice by name finds it."""
    listed = smoke._last_line("-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-k", smoke.SELECTED,
                              *smoke.TESTS)  # fmt: skip
    assert int(listed.split("/")[0]) > 140


def test_the_last_line_of_a_command_is_without_colours():
    assert smoke._last_line("-c", r"print('a'); print('\x1b[32m== 3 passed ==\x1b[0m'); print()") == "3 passed"


def test_a_command_that_takes_too_long_ends_with_its_children(monkeypatch, tmp_path):
    monkeypatch.setattr(smoke, "LONGEST", 2)
    beat = tmp_path / "beat"
    beating = f"while sleep 0.1; do date +%N > {beat}; done"
    script = f"import subprocess, time; subprocess.Popen({beating!r}, shell=True); time.sleep(60)"
    with pytest.raises(subprocess.TimeoutExpired):
        smoke._last_line("-c", script)
    last = beat.read_text()
    time.sleep(0.5)
    assert beat.read_text() == last
