"""The pipeline at the sizes of ogbn-products and ogbn-mag: time and memory of each stage, each killed once on request.

Files in OGB's own layout (Hu et al., 2020) are generated at a data set's full size, no number in them is OGB's, and go
through the workflow's own rules: download from a local mirror, preprocessing, calibration, training of a few steps,
tables. Accuracies are meaningless. Needs 25 GB of disk and an hour of one core, in the folder of the project.

`python -m bench.size --out size.csv --work FOLDER [--kill-after SECONDS]`, or only the files of one data set, which may
be smaller: `python -m bench.size --files ogbn-mag [--nodes 1000] --work mirror`
"""

from __future__ import annotations

import csv
import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cyclopts
import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.measuring import write_rows
from dpgraph.config.config import Config
from dpgraph.core.errors import UserError, invalid
from dpgraph.core.files import atomic_path
from dpgraph.core.progress import tracked
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.registry import entry
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.pipeline.bundles import calibration_bundles, training_bundles
from dpgraph.planning.plan import Plan, load_plan

SUITE = "size"
COLUMNS = ("stage", "what", "seconds", "cpu_seconds", "peak_mib", "killed_after")
# undirected edges, citations: https://ogb.stanford.edu/docs/nodeprop/
EDGES = {"ogbn-products": 61_859_140, "ogbn-mag": 5_416_271}
PIECE = 1 << 16  # rows at a time
COMPRESSION = 1  # of gzip: a third of the time of its default, files a tenth larger


def bench(out: Path, work: Path, kill_after: float | None = None, suite: str = SUITE) -> list[dict[str, Any]]:
    """Write one row for each job of `suite` as CSV; in the folder of the Snakefile, with all files in `work`.

    `seconds`, `cpu_seconds` and `peak_mib` (resident, of the largest process) are those of one run of Snakemake on one
    core, its own plan of jobs included. With `kill_after` a job that is not done after so many seconds is killed
    (SIGKILL, its whole process group) and run again; its row is the second run. Rows that are in `out` are kept, and
    files in `work` are not made again.
    """
    work = work.resolve()
    mirrors = (str(work / "mirror"),)
    plan = load_plan(Config(suite=suite, data=str(work / "data"), results=str(work / "results"), mirrors=mirrors))
    known: dict[tuple[str, str], dict[str, Any]] = {}
    if out.is_file():
        with out.open(newline="", encoding="utf-8") as file:
            known = {(row["stage"], row["what"]): row for row in csv.DictReader(file)}
    jobs = list(_jobs(plan))
    for stage, what, command in tracked(jobs, "bench", len(jobs), "job"):
        if (stage, what) not in known:
            try:
                spent = measured(command, kill_after) | {"killed_after": ""}
            except subprocess.TimeoutExpired:
                spent = measured(command) | {"killed_after": kill_after}
            known[stage, what] = {"stage": stage, "what": what} | spent
            write_rows(out, COLUMNS, [known[job[:2]] for job in jobs if job[:2] in known])
    return [known[stage, what] for stage, what, _ in jobs]


def _jobs(plan: Plan) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (stage, what, command) in the order in which they need each other."""
    paths = plan.paths
    tasks = list({cell.task.folder: cell.task for cell in plan.cells.values()}.values())
    datasets = list(dict.fromkeys(task.dataset for task in tasks))
    for dataset in datasets:
        files = [sys.executable, "-m", "bench.size", "--files", dataset, "--work", plan.config.mirrors[0]]
        yield "files", dataset, files
    for dataset in datasets:
        yield "download", dataset, _run(plan, paths.manifest(dataset))
    for task in tasks:
        yield "preprocess", task.folder, _run(plan, paths.graph_record(task))
    for name, bundle in calibration_bundles(plan).items():
        yield "calibrate", bundle.task.folder, _run(plan, paths.calibrated(name))
    methods = {entry.cell.slug: entry.method_id for entry in reversed(plan.entries)}
    for name, bundle in training_bundles(plan).items():
        members = ", ".join(dict.fromkeys(methods[slug] for slug in bundle.runs))
        yield "train", f"{bundle.task.folder}: {members}", _run(plan, paths.trained(name))
    yield "aggregate", "tables", _run(plan, "tables")


def _run(plan: Plan, target: Path | str) -> list[str]:
    """Run Snakemake with `--nolock`: the lock of a killed one stays behind."""
    snakemake = [sys.executable, "-m", "snakemake", "--scheduler", "greedy", "--cores", "1", "--nolock"]
    return [*snakemake, "--rerun-incomplete", "--config", *plan.config.items(), "--", str(target)]


# A process takes over its parent's peak when it is started, so a small one in between starts the measured one.
_LAUNCHER = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def measured(command: Sequence[str], limit: float | None = None) -> dict[str, Any]:
    """Run the command once; return wall and CPU seconds, and the largest resident set of it or one of its children.

    After `limit` seconds it and all that it started are killed (SIGKILL). Raises subprocess.TimeoutExpired then, and
    UserError for another exit status than 0.
    """
    start = time.monotonic()
    launched = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(launched, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            numbers, said = process.communicate(timeout=limit)
        except BaseException:  # Ctrl-C, too: in a session of its own it is not told
            os.killpg(process.pid, signal.SIGKILL)
            raise
    status, cpu_seconds, peak_kib = (float(number) for number in numbers.split())
    if status:
        raise UserError(f"{' '.join(command[1:4])}: exit status {status:.0f}: {said.strip().rpartition(chr(10))[2]}")
    return {
        "seconds": round(time.monotonic() - start, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mib": round(peak_kib / 1024, 1),
    }


def write_files(dataset: str, folder: Path, nodes: int | None = None) -> list[Path]:
    """Write the files of `dataset` where a mirror at `folder` has them; those that are there are kept.

    As many nodes, edges, features, classes and split parts as the registry states, so that preprocessing takes the
    files as if they were downloaded. Edges are those of a block model, features its class means and noise with two
    decimals. `nodes`: fewer than the data set has, with as many edges for a node and parts in proportion.
    """
    if dataset not in EDGES:
        raise invalid("dataset", dataset, f"one of {', '.join(EDGES)}")
    known = entry(dataset)
    paths = [folder / str(file.sources[0].mirror) for file in known.files]
    if all(path.is_file() for path in paths):
        return paths
    expected = known.expected
    whole = expected.nodes or 0
    nodes = whole if nodes is None else nodes
    if not 1000 <= nodes <= whole:
        raise invalid("nodes", nodes, f"1000 to {whole}")
    model = BlockModel(
        name=f"files of {dataset}",
        nodes=nodes,
        classes=expected.classes or 0,
        features=expected.features or 0,
        mean_degree=2 * EDGES[dataset] / whole,
    )
    graph = generate(model)
    sizes = np.asarray(expected.split, dtype=float)
    ends = np.round(np.cumsum(sizes) / sizes.sum() * nodes).astype(np.int64)
    order = numpy_generator(f"files of {dataset}", "split").permutation(nodes)
    parts = dict(zip(("train", "valid", "test"), np.split(order, ends[:-1]), strict=True))
    counts = {"num-node-list": nodes, "num-edge-list": len(graph.source)}
    for path in paths:
        name = path.name.removesuffix(".csv.gz")
        if name in counts:
            _write(path, np.array([[counts[name]]]))
        elif name == "num-node-dict":
            _write(path, np.array([[nodes]]), [str(known.options["node_type"])])
        elif name == "edge":
            _write(path, np.column_stack([graph.source, graph.target]).astype(np.int32))
        elif name == "node-feat":
            _write(path, np.asarray(graph.features))
        else:
            ids = graph.labels if name == "node-label" else np.sort(parts[name])
            _write(path, ids[:, None].astype(np.int32))
    return paths


def _write(path: Path, rows: np.ndarray, header: Sequence[str] = ()) -> None:
    """Write CSV piece by piece."""
    names = header or [str(column) for column in range(rows.shape[1])]
    options = pa.csv.WriteOptions(include_header=bool(header))
    with atomic_path(path) as temporary, gzip.GzipFile(temporary, "wb", COMPRESSION, mtime=0) as file:
        for start in range(0, len(rows), PIECE):
            piece = rows[start : start + PIECE]
            if np.issubdtype(piece.dtype, np.floating):
                piece = piece.round(2)
            pa.csv.write_csv(pa.table(list(piece.T.copy()), names=names), file, options)


def main(
    *, out: Path = Path("size.csv"), work: Path, kill_after: float | None = None, files: str | None = None,
    nodes: int | None = None,
) -> None:  # fmt: skip
    """Measure the pipeline at the sizes of ogbn-products and ogbn-mag.

    Args:
        out: CSV file; rows that it has are kept.
        work: Folder of the files, graphs and results; kept.
        kill_after: Kill each job after so many seconds, and run it again.
        files: Data set of which only the files are written to the folder, to be used as a mirror.
        nodes: Of these files: fewer than the data set has.
    """
    if files:
        print("\n".join(map(str, write_files(files, work, nodes))))
    else:
        bench(out, work, kill_after)


if __name__ == "__main__":
    cyclopts.run(main)
