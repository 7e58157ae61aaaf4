"""Calibrations on disk: found again, never stale, never half-written, never trusted when broken."""

from __future__ import annotations

import importlib
import json
import logging
from functools import partial
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.families.trees.mechanism import PoissonTrees
from dpgraph.privacy import cache as cache_module
from dpgraph.privacy import calibration
from dpgraph.privacy.accountants.evaluate import solve_for
from dpgraph.privacy.cache import Cache, accountants_digest, default_cache
from dpgraph.privacy.calibration import calibrated

MLP = PoissonTrees(num_roots=500, sampling_rate=0.1, steps=9, hops=0, delta=1e-4, noise_multiplier=None)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "solve", lambda mechanism, *_, **__: mechanism.with_noise(2.0).with_steps(3))


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_an_answer_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path))
    monkeypatch.setattr(calibration, "solve", None)  # would fail if it were called
    assert calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path)) == answer
    assert only_file(tmp_path).suffix == ".json"


@pytest.mark.usefixtures("at_once")
def test_every_part_of_the_question_counts(tmp_path: Path) -> None:
    for mechanism, epsilon, mode, unknown in (
        (MLP, 3.0, "rigorous", "noise"),
        (MLP, 3.5, "rigorous", "noise"),
        (MLP, 3.0, "published", "noise"),
        (MLP.with_noise(2.0), 3.0, "rigorous", "steps"),
        (MLP.with_noise(2.0), 3.0, "rigorous", "rate"),
        (MLP.with_steps(8), 3.0, "rigorous", "noise"),
    ):
        calibrated(mechanism, mode, unknown, epsilon=epsilon, cache=Cache(tmp_path))  # type: ignore[arg-type]
    assert len(list(tmp_path.iterdir())) == 6


def test_another_accountant_or_library_is_another_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The key holds the bytes of this package's files, folders included, and the versions of Python and libraries."""
    room = tmp_path / "privacy"
    accountant = room / "accountants" / "renyi.py"
    accountant.parent.mkdir(parents=True)
    accountant.write_text("one")
    monkeypatch.setattr(cache_module, "__file__", str(room / "cache.py"))

    def key() -> str:
        accountants_digest.cache_clear()
        return accountants_digest()

    first = key()
    assert key() == first
    accountant.write_text("two")
    second = key()
    accountant.write_text("one")
    assert key() == first
    (room / "new.py").write_text("")
    third = key()
    accountant.rename(room / "renyi.py")
    fourth = key()
    monkeypatch.setattr(cache_module, "versions", lambda: {"scipy": "0"})
    assert len({first, second, third, fourth, key()}) == 5
    monkeypatch.undo()
    accountants_digest.cache_clear()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("broken", ["", "{", "[]", "null", '{"question": 1, "answer": {}}', "\x00", "whole"])
def test_a_broken_entry_is_computed_anew_and_mended(broken: str, tmp_path: Path) -> None:
    answer = calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path))
    path = only_file(tmp_path)
    stored = json.loads(path.read_text())
    if broken == "whole":  # the right question with an answer that is no calibration
        stored["answer"]["statement"] = {}
        broken = json.dumps(stored)
    path.write_text(broken)
    again = calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path))
    assert again.mechanism == answer.mechanism
    assert json.loads(path.read_text())["question"] == stored["question"]


@pytest.mark.usefixtures("at_once")
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "dpgraph"):
        answer = calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path / "file" / "below"))
    assert answer.statement.rigorous.epsilon is not None
    assert "not kept" in caplog.text


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPGRAPH_CACHE", raising=False)
    assert default_cache().folder == Path(".cache/dpgraph/calibrations")
    monkeypatch.setenv("DPGRAPH_CACHE", str(tmp_path))
    assert default_cache().folder == tmp_path / "calibrations"


def test_the_command_line_keeps_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPGRAPH_CACHE", str(tmp_path))
    asked = ["noise", "poisson-gaussian", "--q", ".1", "--steps", "9", "--delta", "1e-5", "--epsilon", "2"]
    assert main(asked) == 0
    first = capsys.readouterr().out
    stored = json.loads(only_file(tmp_path / "calibrations").read_text())
    assert stored["question"][:3] == ["solve", "poisson_gaussian", "rigorous"]
    monkeypatch.setattr("dpgraph.privacy.accountants.evaluate.solved", None)
    assert main(asked) == 0
    assert capsys.readouterr().out == first


OWN = """
from typing import ClassVar, Literal

from dpgraph.families.lots.mechanism import PoissonLots


class Own(PoissonLots):
    kind: Literal["own"] = "own"
{change}
"""


def test_an_answer_of_a_mechanism_of_ones_own_is_not_kept(tmp_path, monkeypatch):
    """Nobody knows which files its epsilon depends on: those that it imports may change, too."""
    monkeypatch.syspath_prepend(tmp_path)
    stored = Cache(tmp_path / "cache")
    epsilons = []
    for number, change in enumerate(("", "    @property\n    def noise_std_over_clip(self):\n        return 1.0\n")):
        (tmp_path / f"own_{number}.py").write_text(OWN.format(change=change))
        own = importlib.import_module(f"own_{number}").Own(
            num_roots=100, steps=10, delta=1e-4, noise_multiplier=2.0, sampling_rate=0.1
        )
        answer = calibration.calibrated(own, "rigorous", None, epsilon=None, cache=stored)
        epsilons.append(answer.statement.noise_std_over_clip)
        # nor is a file believed: its seal knows nothing of that code
        assert not calibration.is_answer(answer, own, "rigorous", None, epsilon=None)
    assert epsilons == [2.0, 1.0]
    assert not list((tmp_path / "cache").glob("*.json"))


def test_a_stored_number_that_does_not_meet_the_target_is_no_answer(tmp_path):
    asked = partial(solve_for, "poisson_gaussian", "rigorous", delta=1e-5, epsilon=2.0)
    for unknown in ("noise", "steps"):
        given = {"q": 0.1, "steps": 10} if unknown == "noise" else {"q": 0.1, "noise_multiplier": 2.0}
        stored = Cache(tmp_path / unknown)
        answer = asked(parameters=given, unknown=unknown, cache=stored)
        path = only_file(stored.folder)
        path.write_text(json.dumps({**json.loads(path.read_text()), "answer": 0.5 if unknown == "noise" else 10**5}))
        assert asked(parameters=given, unknown=unknown, cache=stored) == answer


def test_an_edited_calibration_is_no_answer(tmp_path: Path) -> None:
    """A quarter of the noise, and the epsilon that the whole noise has, would be sealed as this code's own answer."""
    answer = calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path))
    path = only_file(tmp_path)
    for mechanism in (answer.mechanism.with_noise(0.2), MLP.with_steps(8).with_noise(0.8)):
        stored = json.loads(path.read_text())
        stored["answer"]["mechanism"] = mechanism.model_dump(mode="json")
        path.write_text(json.dumps(stored))
        assert calibrated(MLP, "rigorous", "noise", epsilon=3.0, cache=Cache(tmp_path)).mechanism == answer.mechanism
