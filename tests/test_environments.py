"""Conda environments hold what constraints.txt pins, and the pins agree with each other and with pyproject.toml.

Solving the environments needs conda's channels and is not done here. What a solver would find of the pip section is:
every package that is installed has its pinned version, and every requirement of one is met by a pin.
"""

from __future__ import annotations

import importlib.util
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
OF_PYTHON = {"pip", "setuptools", "wheel"}  # of the interpreter's installation, not pinned


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"envs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE, MATRIX = script("generate"), script("matrix")
LINES = GENERATE.pins((ROOT / "constraints.txt").read_text())
PINNED = {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in LINES)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_environments_are_those_of_the_constraints(kind):
    text = (ROOT / f"envs/{kind}.yaml").read_text()
    assert text == GENERATE.environment(kind, (ROOT / "constraints.txt").read_text()), "run: python envs/generate.py"
    environment = yaml.safe_load(text)
    python, pip, section = environment["dependencies"]
    assert pip == "pip"
    assert f"{Version(python.partition('=')[2])}.99" in SpecifierSet(PROJECT["requires-python"])
    assert [line for line in section["pip"] if not line.startswith("--")] == LINES
    assert any("whl/cpu" in line for line in section["pip"]) == (kind == "cpu")


def test_every_package_is_pinned_once():
    assert len(PINNED) == len(LINES)


def test_what_the_project_asks_for_is_pinned():
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    for line in [*PROJECT["dependencies"], *extras]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(PINNED[canonicalize_name(wanted.name)], prereleases=True), line


def test_pins_meet_each_others_requirements():
    """Of packages that are installed; those of the extra `text` are where somebody has installed them."""
    checked = 0
    for name, version in PINNED.items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        assert Version(Version(found.version).public) == version, name
        checked += 1
        for line in found.requires or ():
            wanted = Requirement(line)
            needed = canonicalize_name(wanted.name)
            of_cuda = name == "torch" and needed.startswith(("nvidia-", "cuda-", "triton"))
            if (
                needed in OF_PYTHON
                or of_cuda
                or (wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}))
            ):
                continue
            assert needed in PINNED, f"{name} needs {needed}"
            assert wanted.specifier.contains(PINNED[needed], prereleases=True), f"{name} needs {line}"
    assert checked > 90


def test_lower_bounds_are_those_of_the_project():
    text = '[project]\ndependencies = ["one>=2.6", "two"]\noptional-dependencies.dev = ["three[cpu]>=1"]'
    assert MATRIX.lower_bounds(text) == ["one==2.6", "three==1"]
    named = {Requirement(line).name for line in MATRIX.lower_bounds((ROOT / "pyproject.toml").read_text())}
    assert named == {
        Requirement(line).name
        for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
        if Requirement(line).specifier
    }


def test_each_python_is_tried_and_the_oldest_with_the_lowest_bounds_too(monkeypatch, capsys):
    assert all(f"{version}.9" in SpecifierSet(PROJECT["requires-python"]) for version in MATRIX.PYTHONS)
    assert f"{MATRIX.PYTHONS[0]}" in PROJECT["requires-python"]
    monkeypatch.setattr(MATRIX, "pythons", lambda: {"3.11": "a", "3.12": "b", "3.13": None})
    assert MATRIX.combinations(MATRIX.BOUNDS, []) == [("a", "lowest"), ("a", "newest"), ("b", "newest")]
    assert capsys.readouterr().out == "Python 3.13: not found\n"
    assert MATRIX.combinations(("lowest",), ["b"]) == [("b", "lowest")]


def test_what_the_matrix_runs_is_there():
    assert [name for name in MATRIX.TESTS if not (ROOT / name).exists()] == []
