"""What private votes cost on a graph that is read as a stream of records: time, memory and messages over k workers.

Measured on streams of up to 10^7 edges (10^8 if asked), extrapolated to 10^9 by a fit that the table and the figure
show. The pass that fills the buckets is measured; reading them takes as many messages in the other direction. The
stream is generated shard by shard, so that neither the whole graph nor the list of its edges is ever in memory;
generating it is not timed.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.benchmarks.memory import peak_bytes, reset_peak
from dpgraph.errors import invalid
from dpgraph.files import atomic_path
from dpgraph.methods.votes.stream import BucketRange, PartialBuckets, RecordShard, Sent, ranges
from dpgraph.progress import tracked
from dpgraph.randomness import numpy_generator

CLASSES, MEAN_LIST, FLOOR, MASS = 40, 14, 8, 1.0  # as ogbn-arxiv: 2.33 M entries of 169,343 nodes
SHARD_EDGES = 100_000
EDGES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
TARGET = 1_000_000_000
WORKERS = (1, 4, 16, 64)  # 1 first
COLUMNS = (
    *("edges", "workers", "kind", "cpu_seconds_per_worker", "gib_per_worker", "messages", "buckets_sent", "gib_sent"),
    *("peak_gib", "exponent"),
)
GIB = 2.0**30


def bench(
    out: Path, edges: Sequence[int] = EDGES, target: int = TARGET, workers: Sequence[int] = WORKERS
) -> list[dict[str, Any]]:
    """One row for each number of edges and of workers that all have a shard, as CSV, and a figure beside it.

    `kind` is `measured` or `extrapolated`. `cpu_seconds_per_worker` is what one process took, divided by the workers,
    as records are read independently; `gib_per_worker` its range of buckets and its largest shard with the sums made
    of it; `messages`, `buckets_sent` and `gib_sent` what all of them send in one pass, counted on the stream.
    `peak_gib` is the process' own peak with one worker. `exponent` is the slope of log time over log edges, by least
    squares.
    """
    if len(edges) < 2 or min(edges) < MEAN_LIST:
        raise invalid("edges", tuple(edges), f"at least two numbers >= {MEAN_LIST}")
    measured = {count: _pass(count, workers) for count in tracked(edges, "bench", len(edges), "stream")}
    rows = [row for by_workers in measured.values() for row in by_workers]
    alone = [by_workers[0]["cpu_seconds_per_worker"] for by_workers in measured.values()]
    exponent, level = np.polyfit(np.log(list(measured)), np.log(alone), 1)
    seconds = float(np.exp(level + exponent * np.log(target)))
    rows += [_extrapolated(last, target, seconds) for last in measured[max(measured)]]
    for row in rows:
        row["exponent"] = round(float(exponent), 3)
    with atomic_path(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({name: _short(row[name]) for name in COLUMNS} for row in rows)
    draw(rows, out.with_suffix(".png"))
    return rows


def stream(edges: int, shard_edges: int = SHARD_EDGES) -> Iterator[RecordShard]:
    """Records of edges / 14 nodes, in shards: lists of geometric lengths, whose members have a power law (exponent 3).

    Half of the nodes have a label, all have predictions.
    """
    total, step = edges // MEAN_LIST, max(1, shard_edges // MEAN_LIST)
    for first in range(0, total, step):
        generator = numpy_generator("bench", "votes", edges, first)
        nodes = np.arange(first, min(first + step, total))
        lengths = generator.geometric(1 / MEAN_LIST, len(nodes))
        members = (total * generator.random(int(lengths.sum())) ** 2).astype(np.int64)
        labels = np.where(generator.random(len(nodes)) < 0.5, generator.integers(0, CLASSES, len(nodes)), -1)
        probabilities = generator.random((len(nodes), CLASSES))
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        yield RecordShard(nodes, ptr, members, np.ones(len(nodes), dtype=bool), labels, probabilities)


def _pass(edges: int, workers: Sequence[int]) -> list[dict[str, Any]]:
    """One pass by one process; what k workers would send is counted beside it, untimed."""
    num_nodes, seconds, largest = edges // MEAN_LIST, 0.0, 0
    (whole,) = ranges(num_nodes, 1, CLASSES)
    sent = {count: Sent() for count in workers}
    reset_peak()
    for index, shard in enumerate(stream(edges)):
        start = time.process_time()
        part = PartialBuckets.of(shard, num_nodes=num_nodes, degree_floor=FLOOR, mass=MASS)
        whole.add(part)
        seconds += time.process_time() - start
        largest = max(largest, part.nbytes + shard.idx.nbytes + shard.probabilities.nbytes)
        for count in workers:
            sent[count] = _counted(sent[count], part, index % count, num_nodes, count)
    return [
        {
            "edges": edges,
            "workers": count,
            "kind": "measured",
            "cpu_seconds_per_worker": seconds / count,
            "gib_per_worker": (_range_bytes(whole) / count + largest) / GIB,
            "messages": sent[count].messages,
            "buckets_sent": sent[count].buckets,
            "gib_sent": sent[count].bytes / GIB,
            "peak_gib": peak_bytes() / GIB if count == 1 else None,
        }
        for count in workers
        if count <= index + 1
    ]


def _counted(sent: Sent, part: PartialBuckets, reader: int, num_nodes: int, workers: int) -> Sent:
    for keeper in range(workers):
        some = part.between(keeper * num_nodes // workers, (keeper + 1) * num_nodes // workers)
        if keeper != reader and len(some.ids):
            sent = sent.and_part(some)
    return sent


def _range_bytes(kept: BucketRange) -> int:
    return int(kept.sums.nbytes)


def _extrapolated(last: dict[str, Any], target: int, seconds: float) -> dict[str, Any]:
    """From the largest stream's row and one process' `seconds`; buckets grow with nodes and messages with shards.

    What is sent is a bound: a shard of a larger graph meets fewer nodes twice, at most all its entries are distinct.
    """
    workers = last["workers"]
    kept = target // MEAN_LIST * (CLASSES + 1) * 8 / workers / GIB
    shard = last["gib_per_worker"] - last["edges"] // MEAN_LIST * (CLASSES + 1) * 8 / workers / GIB
    sent = (target + target // MEAN_LIST) * (1 - 1 / workers)
    return {
        "edges": target,
        "workers": workers,
        "kind": "extrapolated",
        "cpu_seconds_per_worker": seconds / workers,
        "gib_per_worker": kept + shard,
        "messages": round(last["messages"] * target / last["edges"]),
        "buckets_sent": round(sent),
        "gib_sent": sent * (CLASSES + 2) * 8 / GIB,
        "peak_gib": None,
    }


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """Time and memory of one worker of k, and what all of them send; hollow marks and dashes are extrapolated."""
    from matplotlib.figure import Figure

    panels = (
        ("cpu_seconds_per_worker", "CPU seconds of one worker"),
        ("gib_per_worker", "GiB of one worker"),
        ("gib_sent", "GiB sent by all workers"),
    )
    figure = Figure(figsize=(10.2, 3.4), layout="constrained")
    for place, (name, label) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, 3, place)
        for index, count in enumerate(dict.fromkeys(row["workers"] for row in rows)):
            points = [row for row in rows if row["workers"] == count and row[name] > 0]
            if not points:
                continue
            known = [row for row in points if row["kind"] == "measured"]
            style: dict[str, Any] = {"marker": "o", "color": f"C{index}"}
            label_of = f"k = {count}" if place == 1 else None
            axes.plot([r["edges"] for r in known], [r[name] for r in known], label=label_of, **style)
            last = points[len(known) - 1 :]
            axes.plot(
                [r["edges"] for r in last], [r[name] for r in last], "--", markerfacecolor="white", **style, zorder=1
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("edges in the stream")
        axes.set_ylabel(label)
        if place == 1:
            axes.legend(fontsize=7, frameon=False, title="k workers; hollow: extrapolated", title_fontsize=7)
    with atomic_path(out) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
