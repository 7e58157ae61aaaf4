"""Seconds and peak memory of sampling at the size of ogbn-products, and of PageRank rows on a stored graph.

The large graph is synthetic: stubs with power-law counts are joined at random (configuration model), so that only
degrees resemble the real one. A run takes minutes and gigabytes; only its miniature is tested.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from dpgraph.data.adjacency import Csr, symmetric_csr
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.store import load_graph
from dpgraph.errors import invalid
from dpgraph.files import write_json
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.edge_lists import EdgeLists, sample_edge_lists, stable_edge_lists
from dpgraph.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.sampling.pagerank import approximate_pagerank

NODES, MEAN_DEGREE, MAX_DEGREE, TRAIN_SHARE = 2_449_029, 50.5, 17_481, 0.0803  # ogbn-products
EXPONENT = 2.3  # of the power law of degrees
DEGREES = (7, 10)  # K, and D of the stable sampler
GIB = 2**30
T = TypeVar("T")


def bench(out: Path, nodes: int | None = None, mean_degree: float = MEAN_DEGREE) -> dict[str, Any]:
    """Times each stage once, in order; written as JSON. `nodes` None: as many as ogbn-products.

    `peak_gib` is the highest resident memory during the stage, all that was held before it included.
    """
    nodes = NODES if nodes is None else nodes
    if nodes < 100:
        raise invalid("nodes", nodes, "an integer >= 100")
    stages: dict[str, dict[str, Any]] = {}
    edges = random_edges(nodes, mean_degree)
    ptr, idx = _timed(stages, "csr", partial(symmetric_csr, *edges, nodes), _csr_size)
    del edges
    graph = _graph(ptr, idx)
    roots = graph.train_nodes
    stages["graph"] = {"nodes": nodes, "roots": len(roots), "max_degree": int(np.diff(ptr).max())}
    for degree in DEGREES:
        generator = numpy_generator("bench", "sampling")
        for name, work in (
            (f"algorithm 1, K={degree}", partial(sample_edge_lists, graph, roots, degree, generator)),
            (f"stable, D=K={degree}", partial(stable_edge_lists, graph, roots, degree, degree, key=0)),
        ):
            lists = _timed(stages, name, work, _list_size)
            for hops in (1, 2):
                _timed(stages, f"{name}, pack r={hops}", partial(pack_ego_trees, lists, roots, hops), _tree_size)
    record = {"nodes": nodes, "mean_degree": mean_degree, "stages": stages}
    write_json(out, record)
    return record


def bench_pagerank(folder: Path, out: Path) -> dict[str, Any]:
    """Times `approximate_pagerank` once, for all training nodes of the graph in `folder`; written as JSON.

    `seconds` are those on the wall; `cpu_seconds` leave out the time that other processes had the core.
    """
    graph = load_graph(folder)
    stages: dict[str, dict[str, Any]] = {}
    _timed(stages, "rows", partial(approximate_pagerank, graph, graph.train_nodes), _row_size)
    record = {"task": graph.meta.get("task"), "nodes": graph.num_nodes, "edges": graph.num_edges, **stages["rows"]}
    write_json(out, record)
    return record


def random_edges(nodes: int, mean_degree: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of about nodes * mean_degree / 2 edges; few are self-loops or repeated."""
    generator = numpy_generator("bench", "edges", nodes)
    weights = generator.pareto(EXPONENT - 1, size=nodes) + 1
    degrees = np.minimum(weights * mean_degree / weights.mean(), min(MAX_DEGREE, np.sqrt(nodes * mean_degree)))
    degrees = np.rint(degrees * mean_degree / degrees.mean()).astype(np.int64)
    stubs = np.repeat(np.arange(nodes, dtype=np.int32), degrees)
    generator.shuffle(stubs)
    half = len(stubs) // 2
    return stubs[:half], stubs[half : 2 * half]


def _graph(ptr: np.ndarray, idx: np.ndarray) -> Graph:
    nodes = len(ptr) - 1
    train = numpy_generator("bench", "split", nodes).random(nodes) < TRAIN_SHARE
    split = np.where(train, TRAIN, TEST).astype(np.uint8)
    nothing = np.zeros((nodes, 0), dtype=np.float32)
    return Graph(
        name="bench",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=nothing,
        labels=np.zeros(nodes, dtype=np.int64),
        split=split,
        num_classes=1,
    )


def _timed(
    stages: dict[str, dict[str, Any]], name: str, work: Callable[[], T], size: Callable[[T], dict[str, int]]
) -> T:
    _reset_peak()
    start, busy = time.monotonic(), time.process_time()
    result = work()
    spent = {"seconds": time.monotonic() - start, "cpu_seconds": time.process_time() - busy}
    stages[name] = {**spent, "peak_gib": _peak() / GIB, **size(result)}
    return result


def _csr_size(csr: Csr) -> dict[str, int]:
    return {"entries": len(csr[1])}


def _list_size(lists: EdgeLists) -> dict[str, int]:
    return {"entries": len(lists.idx)}


def _tree_size(trees: EgoTrees) -> dict[str, int]:
    return {"rows": int(trees.row_ptr[-1][-1])}


def _row_size(rows: sp.csr_matrix) -> dict[str, int]:
    return {"rows": rows.shape[0], "entries": rows.nnz, "largest_row": int(np.diff(rows.indptr).max(initial=0))}


def _reset_peak() -> None:
    with contextlib.suppress(OSError):  # not Linux, or not allowed: peaks are those since the start
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Bytes of resident memory at their highest since the last reset."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
