"""Prints the words with which pip is asked for PyTorch: its CPU build, or with `cuda` the CUDA build.

The public package index has one build of PyTorch for each platform: for macOS without CUDA, for Linux with CUDA. CPU
builds for Linux are in an index of PyTorch's own. It is used where it answers within seconds and has the wanted version
for this Python, unless pip is told to use another index in place of the public one.

    pip install $(python envs/torch_build.py cpu --version 2.13.0)

What was chosen, and why, is said on standard error.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import ssl
import subprocess
import sys
from contextlib import suppress
from http.client import HTTPException
from threading import Thread
from urllib.request import urlopen

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PUBLIC = "https://pypi.org/simple"
SECONDS = 5.0
SIZE = "the public index's build for Linux is the one with CUDA: about 3 GB to download, 6.4 GB on disk"


def page(index: str, seconds: float = SECONDS) -> str:
    """Return the index's list of PyTorch's wheels, empty if it does not answer in time.

    It is asked in a thread, because the look-up of a host's name has no time limit of its own.
    """
    found: list[str] = []

    def ask() -> None:
        with suppress(OSError, ValueError, HTTPException):
            context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
            with urlopen(f"{index.rstrip('/')}/torch/", timeout=seconds, context=context) as answer:
                found.append(answer.read().decode())

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else ""


def own_index(lines: str) -> str:
    """Return the index that pip is told to use in place of the public one (`pip config list`); empty for none."""
    for name, value in re.findall(r"^(\S+?)=(.*)$", lines, re.M):
        value = value.strip("'\"")
        option = name.rpartition(".")[2]
        if option == "index-url" and value.rstrip("/") != PUBLIC:
            return value
        if option == "no-index" and value.lower() not in ("", "0", "false", "no", "off"):
            return "no index (no-index)"
    return ""


def choose(device: str, version: str, index: str, wheels: str | None, mirror: str = "") -> tuple[list[str], str]:
    """Return pip's words and what to tell the user.

    Args:
        device: `cpu` or `cuda`.
        version: Of PyTorch; empty for any.
        index: Index of CPU builds.
        wheels: The page of that index, empty if it cannot be reached; None if it was not asked.
        mirror: Index that pip uses in place of the public one; empty for none.
    """
    system, machine = platform.system(), platform.machine()
    plain = f"torch=={version}" if version else "torch"
    if system != "Linux":
        if device == "cuda":
            raise SystemExit(f"error: DEVICE=cuda: expected Linux, found {system}: leave DEVICE out for the CPU build")
        return [plain], f"PyTorch without CUDA, from pip's own index: it has no other build for {system}"
    if device == "cuda":  # === is not met by 2.13.0+cpu
        return [f"torch==={version}" if version else "torch"], f"PyTorch with CUDA, from pip's own index: {SIZE}"
    if wheels is None:
        return [plain], f"PyTorch from {mirror}, as pip is configured ({SIZE}; TORCH_INDEX=URL names another index)"
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = rf"torch-{re.escape(version) or '[0-9.]+'}(?:\+|%2B)cpu-{python}-[^\"'<>#]*_{machine}\.whl"
    if re.search(wheel, wheels):
        pinned = f"torch=={version}+cpu" if version else "torch"
        return ["--extra-index-url", index, pinned], f"PyTorch without CUDA, from {index}"
    lacks = f"has no {plain} for {python} on {machine}" if wheels else "cannot be reached"
    return [plain], f"PyTorch from pip's own index, because {index} {lacks} ({SIZE})"


def main() -> None:
    """Print pip's words, one line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("--version", default="", help="of PyTorch (default: any)")
    parser.add_argument("--index", default="", help=f"of CPU builds (default: {CPU_INDEX})")
    given = parser.parse_args()
    index, wheels, mirror = given.index or CPU_INDEX, None, ""
    if given.device == "cpu" and platform.system() == "Linux":
        if not given.index:
            listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
            mirror = own_index(listed.stdout)
        if not mirror:
            wheels = page(index)
    words, said = choose(given.device, given.version, index, wheels, mirror)
    print(said, file=sys.stderr)
    print(*words)


if __name__ == "__main__":
    main()
