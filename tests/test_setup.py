"""`make` asks pip for the build of PyTorch that the machine and DEVICE call for.

Indexes are small servers of this machine, and the configuration is a clean one: nothing of this machine's own is read.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VERSION = next(
    line.partition("==")[2] for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("torch==")
)
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
PLATFORM = f"linux_{platform.machine()}"
BUILDS = {"public": VERSION, "cpu": f"{VERSION}+cpu"}  # by index
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
CLEAN |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "no_proxy": "127.0.0.1"}


def script():
    spec = importlib.util.spec_from_file_location("torch_build", ROOT / "envs/torch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BUILD = script()


def wheel_name(index, version=None):
    return f"torch-{version or BUILDS[index]}-{TAG}-{TAG}-{PLATFORM}.whl"


def wheel(version):
    """Return a package that has nothing but its name and version."""
    written = io.BytesIO()
    folder = f"torch-{version}.dist-info"
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        archive.writestr(f"{folder}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {TAG}-{TAG}-{PLATFORM}\n")
        archive.writestr(f"{folder}/RECORD", "")
    return written.getvalue()


class Indexes:
    """A server with the indexes `public` and `cpu`; `asked` has the paths that were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                index, rest = self.path.strip("/").split("/", 1)
                body = None
                if index in BUILDS and rest == "torch":
                    name = wheel_name(index)
                    body = f'<a href="/{index}/{name.replace("+", "%2B")}">{name}</a>'.encode()
                elif index in BUILDS and rest.replace("%2B", "+") == wheel_name(index):
                    body = wheel(BUILDS[index])
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, index):
        return f"http://127.0.0.1:{self.server.server_port}/{index}"


@pytest.fixture
def indexes():
    found = Indexes()
    yield found
    found.server.shutdown()
    found.server.server_close()


CPU = ["--extra-index-url", "INDEX", "torch==9.9.0+cpu"]
PLAIN = ["torch==9.9.0"]
OFFERED = f"torch-9.9.0%2Bcpu-{TAG}-{TAG}-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("system", "machine", "device", "wheels", "mirror", "words", "said"),
    [
        ("Linux", "x86_64", "cpu", OFFERED, "", CPU, "without CUDA, from INDEX"),
        ("Linux", "x86_64", "cpu", OFFERED.replace("%2B", "+"), "", CPU, "without CUDA"),
        ("Linux", "aarch64", "cpu", OFFERED.replace("x86_64", "aarch64"), "", CPU, "without CUDA"),
        ("Linux", "aarch64", "cpu", OFFERED, "", PLAIN, "6.4 GB"),  # no build for this machine
        ("Linux", "x86_64", "cpu", OFFERED.replace("9.9.0", "9.9.01"), "", PLAIN, "has no torch==9.9.0"),
        ("Linux", "x86_64", "cpu", OFFERED.replace(f"-{TAG}-", "-cp27-", 1), "", PLAIN, "has no torch==9.9.0"),
        ("Linux", "x86_64", "cpu", "", "", PLAIN, "cannot be reached"),
        ("Linux", "x86_64", "cpu", None, "https://mirror", PLAIN, "from https://mirror, as pip is configured"),
        ("Linux", "x86_64", "cuda", None, "", ["torch===9.9.0"], "3 GB to download, 6.4 GB on disk"),
        ("Darwin", "arm64", "cpu", None, "", PLAIN, "no other build for Darwin"),
    ],
)
def test_build_by_platform_and_device(monkeypatch, system, machine, device, wheels, mirror, words, said):
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    chosen, told = BUILD.choose(device, "9.9.0", "INDEX", wheels, mirror)
    assert chosen == words
    assert said in told


def test_no_cuda_where_there_is_none(monkeypatch):
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(SystemExit, match="DEVICE=cuda: expected Linux, found Darwin"):
        BUILD.choose("cuda", "9.9.0", "INDEX", None)


@pytest.mark.parametrize(
    ("lines", "index"),
    [
        ("global.index-url='https://mirror.example/simple'", "https://mirror.example/simple"),
        (":env:.index-url='https://mirror.example'\nglobal.timeout='9'", "https://mirror.example"),
        ("install.no-index='true'", "no index (no-index)"),
        ("global.extra-index-url='https://more.example'\nglobal.find-links='/wheels'", ""),
        ("global.index-url='https://pypi.org/simple/'", ""),
        ("global.no-index='0'", ""),
        ("", ""),
    ],
)
def test_index_in_place_of_the_public_one(lines, index):
    assert BUILD.own_index(lines) == index


def test_index_that_does_not_answer_costs_seconds(indexes):
    """A host that takes no connection, and one that takes it and says nothing."""
    silent = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # never serves
    assert BUILD.page(f"http://127.0.0.1:{silent.server_port}", 0.3) == ""
    silent.server_close()
    assert BUILD.page(f"http://127.0.0.1:{silent.server_port}", 0.3) == ""
    assert wheel_name("cpu") in BUILD.page(indexes.url("cpu"))


def words_for(device, *options, **environment):
    run = subprocess.run(
        [sys.executable, ROOT / "envs/torch_build.py", device, "--version", VERSION, *options],
        capture_output=True, text=True, env=CLEAN | environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split(), run.stderr


@pytest.mark.skipif(platform.system() != "Linux", reason="elsewhere the public index has builds without CUDA alone")
@pytest.mark.parametrize(
    ("device", "cpu", "taken"),
    [("cpu", "cpu", "cpu"), ("cpu", "gone", "public"), ("cuda", "cpu", "public")],
)
def test_pip_takes_that_build(indexes, tmp_path, device, cpu, taken):
    """pip itself, with a clean configuration; a folder of wheels has the CPU build, as some machines do."""
    (tmp_path / wheel_name("cpu")).write_bytes(wheel(BUILDS["cpu"]))
    words, _ = words_for(device, "--index", indexes.url(cpu))
    more = ["--find-links", str(tmp_path)] if device == "cuda" else []
    run = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--report", "-",
         "--no-cache-dir", "-c", ROOT / "constraints.txt", "--index-url", indexes.url("public"), *more, *words],
        capture_output=True, text=True, env=CLEAN,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    (one,) = json.loads(run.stdout)["install"]
    assert one["metadata"]["version"] == BUILDS[taken]
    assert one["download_info"]["url"].startswith(indexes.url(taken))


def test_configured_index_is_respected(indexes):
    words, said = words_for("cpu", PIP_INDEX_URL=indexes.url("public"))
    assert words == [f"torch=={VERSION}"]
    if platform.system() == "Linux":
        assert f"PyTorch from {indexes.url('public')}, as pip is configured" in said
    assert not indexes.asked


PYTHON = """#!{python}
import os, sys
words = sys.argv[1:]
if words[:2] == ["-m", "venv"]:
    os.makedirs(".venv/bin", exist_ok=True)
    with open(__file__) as own, open(".venv/bin/python", "w") as other:
        other.write(own.read())
    os.chmod(".venv/bin/python", 0o755)
elif words[:3] == ["-m", "pip", "install"]:
    with open("pip.log", "a") as log:
        print(*[word for word in words[3:] if word[:2] not in ("--", "-c") or "index" in word], file=log)
else:
    os.execv({python!r}, ["python", *words])
"""


@pytest.fixture
def checkout(tmp_path):
    """The files that `make setup` reads, and a Python whose pip notes what it is asked for."""
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "envs", tmp_path / "envs")
    python = tmp_path / "python3"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)

    def make(*words):
        run = subprocess.run(
            ["make", "setup", f"PYTHON3={python}", *words], cwd=tmp_path, capture_output=True, text=True, env=CLEAN
        )
        assert run.returncode == 0, run.stdout + run.stderr
        log = tmp_path / "pip.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.replace("constraints.txt ", "") for line in lines], run.stdout + run.stderr

    return make


@pytest.mark.skipif(platform.system() != "Linux" or not shutil.which("make"), reason="needs make, on Linux")
def test_make_keeps_the_build_until_another_is_asked_for(checkout, indexes):
    cpu = f"--extra-index-url {indexes.url('cpu')} torch=={VERSION}+cpu"
    asked, said = checkout(f"TORCH_INDEX={indexes.url('cpu')}")
    assert asked == [cpu, "-e .[dev]"]
    assert f"pip install {cpu}" in said
    assert checkout()[0] == []
    asked, said = checkout("DEVICE=cuda")
    assert asked == [f"torch==={VERSION}", "-e .[dev]"]
    assert "6.4 GB" in said
    assert checkout()[0] == []  # make test after make DEVICE=cuda
    assert checkout("DEVICE=cpu", f"TORCH_INDEX={indexes.url('cpu')}")[0] == [cpu, "-e .[dev]"]
    asked, said = checkout("DEVICE=cuda", f"TORCH_INDEX={indexes.url('gone')}")
    assert asked == [f"torch==={VERSION}", "-e .[dev]"]
    asked, said = checkout("DEVICE=cpu", f"TORCH_INDEX={indexes.url('gone')}")
    assert asked == [f"torch=={VERSION}", "-e .[dev]"]
    assert "cannot be reached" in said
    assert "6.4 GB on disk" in said
