"""The private step's clipped sum by other libraries: time, memory, and whether they compute the same.

Every peer gets the same roots, parameters and clip norm. Only what gives our sums is timed: a peer first has to agree
with them in float64 on a small batch, then in float32 on the whole one.

`python -m bench.peers --out peers.csv`; needs `pip install -c constraints.txt -e '.[dev,peers]'`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import cyclopts
import numpy as np
import torch
from torch import Tensor

from bench import peers_jax, peers_torch
from bench.measuring import peak_bytes, settle, write_rows
from bench.peers_problem import UNCLIPPED, Gradients, PeersProblem, Problems
from bench.steps import StepSetting
from dpgraph.core.files import write_text
from dpgraph.core.progress import tracked
from dpgraph.engine.training.loop import keep_freed_memory
from dpgraph.pipeline.provenance import processor

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
REPEATS = 5
CHECKED = 100  # roots of the check in float64
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}  # of the largest entry of each parameter's sum
OURS = "dpgraph"
COLUMNS = (
    *("architecture", "hops", "max_degree", "batch_size", "peer", "version"),
    *("seconds", "seconds_q25", "seconds_q75", "repeats", "peak_mib"),
    *("difference_float64", "difference", "ratio", "ratio_q25", "ratio_q75", "device", "threads", "processor", "note"),
)


@dataclass(frozen=True)
class Peer:
    """`make` prepares a step of a problem, whose call gives the sums."""

    name: str
    package: str  # distribution that it needs
    make: Callable[[PeersProblem], Gradients]
    clips: bool = True

    @property
    def version(self) -> str | None:
        """The package's version; None where it is not installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None


PEERS = (
    Peer(OURS, OURS, lambda problem: problem.sums),
    Peer(f"{OURS}, compiled", OURS, PeersProblem.compiled),
    Peer("opacus ghost", "opacus", peers_torch.opacus_ghost),
    Peer("opacus hooks", "opacus", peers_torch.opacus_hooks),
    Peer("torch vmap", "torch", peers_torch.torch_vmap),
    Peer("jax vmap", "jax", peers_jax.jax_vmap),
    Peer("jax, our algorithm", "jax", peers_jax.jax_ours),
    Peer("plain, not private", "torch", peers_torch.plain, clips=False),
)
Row = dict[str, Any]


def bench(
    out: Path,
    cases: Sequence[StepSetting] = CASES,
    repeats: int = REPEATS,
    peers: Sequence[Peer] = PEERS,
    problems: Problems | None = None,
) -> list[Row]:
    """Write one row for each case and peer as CSV after each case; a peer that is not installed is one row.

    `seconds` are medians of interleaved repeats with quartiles, of the CPU on one thread or on the clock of a GPU, and
    `ratio` is the median of each repeat's ratio to dpgraph. What does not change from one batch to the next is prepared
    untimed, for peers also the padded trees of the batch. `peak_mib` is the most memory of one call beyond what it
    starts with, resident, or PyTorch's on a GPU. `difference` is the largest one from our sum, over the largest entry
    of that parameter's sum. `note` says why a row has no time.
    """
    problems, threads = problems or Problems(), torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory()
    absent = [
        _row(None, peer, problems.device) | {"note": f"not installed: {peer.package} (pip install '.[peers]')"}
        for peer in peers
        if peer.version is None
    ]
    present = [peer for peer in peers if peer.version is not None]
    rows = list[Row]()
    checked: dict[StepSetting, dict[str, Row]] = {}
    try:
        for case in tracked(cases, "bench peers", len(cases), "case"):
            kind = replace(case, batch_size=min(CHECKED, case.batch_size))
            if kind not in checked:
                small = problems.problem(kind, torch.float64)
                checked[kind] = {peer.name: _compared(small, peer)[1] for peer in present}
            rows += _measure(problems.problem(case), present, checked[kind], repeats)
            write_rows(out, COLUMNS, [*rows, *absent])
    finally:
        torch.set_num_threads(threads)
    return [*rows, *absent]


def clock(device: torch.device) -> float:
    """Return seconds of this process's CPU, or on the clock once a GPU has done all that it was given."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _measure(problem: PeersProblem, peers: Sequence[Peer], checked: dict[str, Row], repeats: int) -> list[Row]:
    rows = {peer.name: _row(problem.setting, peer, problem.device) | checked[peer.name] for peer in peers}
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
            start = clock(problem.device)
            step()
            times[name].append(clock(problem.device) - start)
    for name, spent in times.items():
        rows[name] |= {"repeats": repeats} | _spread("seconds", spent)
        if OURS in times:
            rows[name] |= _spread("ratio", np.divide(spent, times[OURS]).tolist())
    return list(rows.values())


def _compared(problem: PeersProblem, peer: Peer) -> tuple[Gradients | None, Row]:
    """Return a peer's step, and what one call of it gave and took, or why it cannot."""
    name = "difference" if problem.dtype == torch.float32 else "difference_float64"
    kind = str(problem.dtype).removeprefix("torch.")
    try:
        step = peer.make(problem)
        sums, peak = _peak_of(step, problem.device)
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


def _peak_of(step: Gradients, device: torch.device) -> tuple[list[Tensor], int | None]:
    """Return what a step gives, and the most bytes that it takes beyond what it starts with, if they are known."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        return step(), torch.cuda.max_memory_allocated(device) - before
    known, before = settle(), peak_bytes()
    return step(), peak_bytes() - before if known else None


def difference(sums: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest entry of theirs - ours over the largest of ours; inf for other shapes and NaN."""
    if [one.shape for one in sums] != [one.shape for one in expected]:
        return np.inf
    tiny = torch.finfo(expected[0].dtype).tiny
    apart = [float((a.to(b.device) - b).abs().max() / b.abs().max().clamp(min=tiny)) for a, b in zip(sums, expected)]
    return max(apart) if np.isfinite(apart).all() else np.inf


def _spread(name: str, values: Sequence[float]) -> Row:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return {name: f"{middle:.4g}", f"{name}_q25": f"{low:.4g}", f"{name}_q75": f"{high:.4g}"}


def _row(case: StepSetting | None, peer: Peer, device: torch.device) -> Row:
    shown = {} if case is None else {name: getattr(case, name) for name in COLUMNS[:4]}
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    own = {"peer": peer.name, "version": peer.version or "", "device": device.type, "threads": 1, "processor": chip}
    return dict.fromkeys(COLUMNS, "") | shown | own


def table(rows: Iterable[Row]) -> str:
    """Return a Markdown table for each batch size: our milliseconds, and what peers take in our time."""
    lines: list[str] = []
    timed = [row for row in rows if row["architecture"]]
    names = [name for name in dict.fromkeys(row["peer"] for row in timed) if name != OURS]
    for size in dict.fromkeys(row["batch_size"] for row in timed):
        heads = [f"`{OURS}`, ms", *(f"`{name}`" for name in names)]
        lines += ["", f"m = {size:,}:", "", f"| network | {' | '.join(heads)} |", "|:--|" + "--:|" * len(heads)]
        here = [row for row in timed if row["batch_size"] == size]
        for kind, hops in dict.fromkeys((row["architecture"], row["hops"]) for row in here):
            found = {row["peer"]: row for row in here if (row["architecture"], row["hops"]) == (kind, hops)}
            seconds = found[OURS]["seconds"]
            ratios = [
                "{ratio} ({ratio_q25} to {ratio_q75})".format(**one) if one["ratio"] else one["note"][:40]
                for one in (found[name] for name in names)
            ]
            title = kind.upper() + (f", r = {hops}" if hops else "")
            ours = f"{1e3 * float(seconds):.3g}" if seconds else "–"
            lines.append(f"| {title} | {ours} | " + " | ".join(ratios) + " |")
    return "\n".join(lines[1:]) + "\n"


def main(*, out: Path, quick: bool = False, device: Literal["cpu", "cuda"] = "cpu") -> None:
    """Measure the private step's clipped sum by other libraries.

    Args:
        out: CSV file; a table in Markdown is written next to it.
        quick: Batches of 100 roots only, two repeats.
        device: Where all of them run. On a GPU JAX multiplies in tf32, if not told otherwise.
    """
    peers_jax.use(device)
    cases = [case for case in CASES if case.batch_size == 100 or not quick]
    rows = bench(out, cases, 2 if quick else REPEATS, problems=Problems(device=device))
    write_text(out.with_suffix(".md"), table(rows))


if __name__ == "__main__":
    cyclopts.run(main)
