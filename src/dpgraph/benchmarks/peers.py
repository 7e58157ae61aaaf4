"""The private step's clipped sum by other libraries: time, memory, and whether they compute the same.

Every peer gets the same roots, parameters and clip norm. Only what gives our sums is timed: a peer first has to agree
with them in float64 on a small batch, then in float32 on the whole one.
"""

from __future__ import annotations

import contextlib
import csv
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import dpgraph
from dpgraph.benchmarks.memory import peak_bytes, settle
from dpgraph.benchmarks.peers_problem import UNCLIPPED, PeersProblem, Problems
from dpgraph.benchmarks.references import Gradients
from dpgraph.benchmarks.steps import StepSetting
from dpgraph.errors import invalid
from dpgraph.files import atomic_path
from dpgraph.loading import load
from dpgraph.progress import progress
from dpgraph.training.memory import keep_freed_memory

BATCH_SIZES = (100, 2_000, 10_000)
ARCHITECTURES = (
    StepSetting("mlp", 0, 1, 0),
    *(
        StepSetting(kind, hops, degree, 0, decoder_layers=layers)
        for kind in ("gcn", "gin", "gat")
        for hops, degree, layers in ((1, 7, 2), (2, 3, 1))
    ),
)
CASES = tuple(replace(one, batch_size=size) for one in ARCHITECTURES for size in BATCH_SIZES)
QUICK = tuple(replace(one, batch_size=100) for one in ARCHITECTURES)
REPEATS = 5
CHECKED = 100  # roots of the check in float64
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}  # of the largest entry of each parameter's sum
OURS = "dpgraph"
COLUMNS = (
    *("architecture", "hops", "max_degree", "batch_size", "peer", "version"),
    *("cpu_seconds", "cpu_seconds_q25", "cpu_seconds_q75", "repeats", "peak_mib"),
    *("difference_float64", "difference", "ratio", "ratio_q25", "ratio_q75", "threads", "processor", "note"),
)


@dataclass(frozen=True)
class Peer:
    """`make` names a function of a `PeersProblem` that prepares a step, whose call gives the sums."""

    name: str
    package: str  # distribution that it needs
    make: str
    clips: bool = True

    @property
    def version(self) -> str | None:
        """Of the package; None where it is not installed."""
        if self.package == OURS:
            return dpgraph.__version__
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None


PEERS = (
    Peer(OURS, OURS, "dpgraph.benchmarks.peers:ours"),
    Peer("opacus ghost", "opacus", "dpgraph.benchmarks.peers_torch:opacus_ghost"),
    Peer("opacus hooks", "opacus", "dpgraph.benchmarks.peers_torch:opacus_hooks"),
    Peer("torch vmap", "torch", "dpgraph.benchmarks.peers_torch:torch_vmap"),
    Peer("jax vmap", "jax", "dpgraph.benchmarks.peers_jax:jax_vmap"),
    Peer("jax, our algorithm", "jax", "dpgraph.benchmarks.peers_jax:jax_ours"),
    Peer("pyg", "torch-geometric", "dpgraph.benchmarks.peers_pyg:pyg"),
    Peer("plain, not private", "torch", "dpgraph.benchmarks.peers_torch:plain", clips=False),
)


def ours(problem: PeersProblem) -> Gradients:
    return problem.sums


Row = dict[str, Any]


def bench(
    out: Path,
    cases: Sequence[StepSetting] = CASES,
    repeats: int = REPEATS,
    minutes: float | None = None,
    peers: Sequence[Peer] = PEERS,
    problems: Problems | None = None,
) -> list[Row]:
    """One row for each case and peer, written as CSV after each case; a peer that is not installed is one row.

    `cpu_seconds` are medians of interleaved repeats on one thread, with quartiles, and `ratio` is the median of each
    repeat's ratio to dpgraph. What does not change from one batch to the next is prepared untimed, for peers also the
    padded trees of the batch. `peak_mib` is the most resident memory of one call beyond what it starts with.
    `difference` is the largest one from our sum, over the largest entry of that parameter's sum. `note` says why a row
    has no time; from `minutes` of CPU time on, that nothing was measured.
    """
    if repeats < 1:
        raise invalid("repeats", repeats, "an integer >= 1")
    if minutes is not None and not minutes > 0:
        raise invalid("--minutes", minutes, "a number > 0")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory()
    rows: list[Row] = [_row(None, peer) | {"note": _missing(peer)} for peer in peers if peer.version is None]
    present = [peer for peer in peers if peer.version is not None]
    try:
        problems = problems or Problems()
        end = time.process_time() + 60 * minutes if minutes else np.inf
        checked: dict[StepSetting, dict[str, Row]] = {}
        by_case: dict[StepSetting, list[Row]] = {}
        with progress("bench peers", len(cases)) as bar:
            for case in sorted(cases, key=lambda one: one.batch_size):
                if time.process_time() > end:
                    late = {"note": f"not measured: {minutes:g} minutes of CPU time were over"}
                    by_case[case] = [_row(case, peer) | late for peer in present]
                else:
                    kind = replace(case, batch_size=min(CHECKED, case.batch_size))
                    if kind not in checked:
                        checked[kind] = _check(problems.problem(kind, torch.float64), present)
                    by_case[case] = _measure(problems.problem(case), present, checked[kind], repeats)
                _write(out, [*(row for one in cases for row in by_case.get(one, [])), *rows])
                bar.update()
    finally:
        torch.set_num_threads(threads)
    return [*(row for one in cases for row in by_case[one]), *rows]


def _check(problem: PeersProblem, peers: Sequence[Peer]) -> dict[str, Row]:
    """Of each peer, what its rows say of its sums in float64; with a note, it is not measured."""
    return {peer.name: _compared(problem, peer)[1] for peer in peers}


def _measure(problem: PeersProblem, peers: Sequence[Peer], checked: dict[str, Row], repeats: int) -> list[Row]:
    rows = {peer.name: _row(problem.setting, peer) | checked[peer.name] for peer in peers}
    steps: dict[str, Gradients] = {}
    for peer in peers:
        if not rows[peer.name]["note"]:
            step, found = _compared(problem, peer)
            rows[peer.name] |= found
            if step is not None and not found["note"]:
                steps[peer.name] = step
    keep_freed_memory()  # `settle` gave it back
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.process_time()
            step()
            times[name].append(time.process_time() - start)
    for name, spent in times.items():
        rows[name] |= {"repeats": repeats} | _spread("cpu_seconds", spent)
        if OURS in times:
            rows[name] |= _spread("ratio", np.divide(spent, times[OURS]).tolist())
    return list(rows.values())


def _compared(problem: PeersProblem, peer: Peer) -> tuple[Gradients | None, Row]:
    """A peer's step, and what one call of it gave and took, or why it cannot."""
    name = "difference" if problem.dtype == torch.float32 else "difference_float64"
    kind = str(problem.dtype).removeprefix("torch.")
    try:
        step = load(peer.make)(problem)
        known, before = settle(), peak_bytes()
        sums = step()
        peak = peak_bytes() - before if known else None
    except (RuntimeError, MemoryError, ImportError) as error:  # of Opacus and XLA, too; memory is one
        return None, {"note": f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    expected = problem.sums(None if peer.clips else UNCLIPPED)
    apart, most = difference(sums, expected), TOLERANCES[problem.dtype]
    found: Row = {name: f"{apart:.2g}", "note": ""}
    if not apart <= most:
        found["note"] = f"wrong: sums differ from ours by {apart:.2g} in {kind}, more than {most:g}"
    elif problem.dtype == torch.float32 and peak is not None:
        found["peak_mib"] = round(peak / 2**20, 1)
    return step, found


def difference(sums: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Largest entry of theirs - ours over the largest of ours, of all parameters; inf for other shapes and NaN."""
    if [one.shape for one in sums] != [one.shape for one in expected]:
        return np.inf
    tiny = torch.finfo(expected[0].dtype).tiny
    apart = [float((a - b).abs().max() / b.abs().max().clamp(min=tiny)) for a, b in zip(sums, expected)]
    return max(apart) if np.isfinite(apart).all() else np.inf


def _spread(name: str, values: Sequence[float]) -> Row:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return {name: f"{middle:.4g}", f"{name}_q25": f"{low:.4g}", f"{name}_q75": f"{high:.4g}"}


def _missing(peer: Peer) -> str:
    extra = "peers" if peer.package == "jax" else "dev" if peer.package == "torch-geometric" else None
    how = f" (pip install '.[{extra}]')" if extra else ""
    return f"not installed: {peer.package}{how}"


def _row(case: StepSetting | None, peer: Peer) -> Row:
    shown = {} if case is None else {name: getattr(case, name) for name in COLUMNS[:4]}
    own = {"peer": peer.name, "version": peer.version or "", "threads": 1, "processor": _processor()}
    return dict.fromkeys(COLUMNS, "") | shown | own


@cache
def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _write(out: Path, rows: Sequence[Row]) -> None:
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
