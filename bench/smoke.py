"""Whether a GPU does what the CPU does, and how fast: tests, steps, peers and suite demo, in one table.

`python -m bench.smoke --out smoke.md`, in the folder of a checkout; about five minutes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import cyclopts
import torch
from tabulate import tabulate

from bench import peers, peers_jax, steps
from bench.peers_problem import NODES, Problems
from dpgraph.core.files import write_text
from dpgraph.pipeline.provenance import processor

Line = tuple[str, str]  # what was looked at, and what was found
# tests that need a device; the others of these files run without one
TESTS = (
    "tests/contract/test_methods.py::test_cpu_and_gpu_agree",
    "tests/engine/training/test_clipping.py",
    "tests/families/tuples/test_steps.py",
)
SELECTED = "gpu or cuda or device"
SETTINGS = (*steps.SETTINGS[:3], steps.SETTINGS[5])  # MLP, GCN of one and of two hops, GAT
PEERS = [peer for peer in peers.PEERS if "vmap" not in peer.name and "hooks" not in peer.name]  # those take long
LONGEST = 240  # seconds of a part


def test_lines(device: str, folder: Path) -> Iterator[Line]:
    """Yield pytest's last line on the tests that need a device."""
    side_by_side = ("-n", str(min(os.cpu_count() or 1, 8)), "-p", "no:cacheprovider")
    yield "compared with the CPU", _last_line("-m", "pytest", "-q", *side_by_side, "-k", SELECTED, *TESTS)


def step_lines(device: str, folder: Path, nodes: int = NODES) -> Iterator[Line]:
    """Yield the milliseconds of steps of each setting, and their ratio to the step without privacy."""
    for row in steps.bench(folder / "steps.csv", device, nodes=nodes, settings=SETTINGS):
        where = f"{row['architecture']}, r = {row['hops']}, m = {row['batch_size']:,}: {row['step']}"
        yield where, f"{row['wall_ms']} ms, {row['ratio']} of plain {row['note']}".rstrip()


def peer_lines(device: str, folder: Path, problems: Problems | None = None) -> Iterator[Line]:
    """Yield the milliseconds of clipped sums by each peer, and their ratio to dpgraph's."""
    peers_jax.use(device)
    cases = [replace(setting, batch_size=min(setting.batch_size, 10_000)) for setting in SETTINGS]
    for row in peers.bench(folder / "peers.csv", cases, peers=PEERS, problems=problems or Problems(device=device)):
        found = f"{1e3 * float(row['seconds']):.3g} ms, {row['ratio']} of dpgraph" if row["seconds"] else row["note"]
        yield f"{row['architecture'] or 'any'}, r = {row['hops']}: {row['peer']}", found


def suite_lines(device: str, folder: Path) -> Iterator[Line]:
    """Yield what became of the cells of suite demo."""
    given = ("--suite", "demo", "--set", f"device={device}", "--set", f"results={folder / 'results'}")
    yield "dpgraph run cells", _last_line("-m", "dpgraph", "run", "cells", "-k", *given)
    yield "dpgraph status", _last_line("-m", "dpgraph", "status", *given)


PARTS = {"tests": test_lines, "steps": step_lines, "peers": peer_lines, "suite demo": suite_lines}


def _last_line(*command: str) -> str:
    """Return the last line that a Python command prints. Raises RuntimeError with it where the command fails."""
    given, both = [sys.executable, *command], subprocess.STDOUT
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=both, text=True, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # Snakemake's jobs, too
            raise
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip("= ") for line in said.splitlines()]
    last = next((line for line in reversed(lines) if line), "no output")
    if process.returncode:
        raise RuntimeError(last)
    return last


def smoke(device: str, parts: Mapping[str, Callable[[str, Path], Iterable[Line]]], out: Path) -> bool:
    """Write a table in Markdown after each part, and return whether all end well; one that fails stops no other."""
    rows, well = list[tuple[str, ...]](), True
    chip = torch.cuda.get_device_name() if device == "cuda" else processor()
    for name, part in parts.items():
        begun = time.monotonic()
        with TemporaryDirectory() as folder:
            try:
                rows += [(name, *line) for line in part(device, Path(folder))]
            except Exception as error:
                rows.append(
                    (name, "failed", f"{type(error).__name__}: {error}".replace("|", "/").replace("\n", " ")[:200])
                )
                well = False
        rows.append((name, "seconds in all", f"{time.monotonic() - begun:.0f}"))
        table = tabulate(rows, ("part", "what", "found"), "pipe")
        write_text(out, f"{chip}, PyTorch {torch.__version__}\n\n{table}\n")
    return well


def main(*, out: Path, device: Literal["cpu", "cuda"] = "cuda") -> int:
    """Test a device in about five minutes; status 1 where a part fails.

    Args:
        out: Markdown file.
        device: cpu shows that the script runs, in more time.
    """
    well = smoke(device, PARTS, out)
    print(out.read_text())
    return int(not well)


if __name__ == "__main__":
    sys.exit(cyclopts.run(main))
