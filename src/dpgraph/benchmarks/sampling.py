"""Seconds and peak memory of sampling at the sizes of ogbn-arxiv and ogbn-products, and of PageRank rows.

The large graph is synthetic: stubs with power-law counts are joined at random (configuration model), so that only
degrees resemble the real one. The smaller is too, unless a stored one is named. A run takes minutes and gigabytes; only
its miniature is tested.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from dpgraph.benchmarks.memory import peak_bytes, reset_peak
from dpgraph.data.adjacency import Csr, symmetric_csr
from dpgraph.data.graph import Graph
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.store import load_graph
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.errors import invalid
from dpgraph.files import write_json
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import fixed_size_batch
from dpgraph.sampling.edge_lists import EdgeLists, sample_edge_lists, stable_edge_lists
from dpgraph.sampling.ego import EgoBatch, EgoTrees, pack_ego_trees
from dpgraph.sampling.pagerank import approximate_pagerank

NODES, MEAN_DEGREE, MAX_DEGREE, TRAIN_SHARE = 2_449_029, 50.5, 17_481, 0.0803  # ogbn-products
EXPONENT = 2.3  # of the power law of degrees
SMALL_NODES, SMALL_MEAN_DEGREE, SMALL_TRAIN_SHARE = 169_343, 13.7, 0.537  # ogbn-arxiv
GENERATED_CLASSES = 47
DEGREES = (7, 10)  # K, and D of the stable sampler
BATCHES = (100, 10_000)  # roots
REPEATS = 7
GIB = 2**30
T = TypeVar("T")


def bench(
    out: Path,
    nodes: int | None = None,
    mean_degree: float = MEAN_DEGREE,
    folder: Path | None = None,
    repeats: int = REPEATS,
) -> dict[str, Any]:
    """Medians of CPU time on a graph of ogbn-arxiv's size, then each stage once on a large one; written as JSON.

    `folder`: a stored graph instead of a synthetic one for the former. `nodes` of the large graph; None: as many as
    ogbn-products. `peak_gib` is the highest resident memory during a stage, all that was held before it included.
    """
    nodes = NODES if nodes is None else nodes
    if nodes < 100:
        raise invalid("nodes", nodes, "an integer >= 100")
    if repeats < 1:
        raise invalid("repeats", repeats, "an integer >= 1")
    small = _small_graph(min(nodes, SMALL_NODES)) if folder is None else load_graph(folder)
    record = {
        "nodes": nodes,
        "mean_degree": mean_degree,
        "small": {**_about(small), "repeats": repeats, "stages": _repeated(small, repeats)},
        "stages": _large(nodes, mean_degree),
    }
    write_json(out, record)
    return record


def _large(nodes: int, mean_degree: float) -> dict[str, dict[str, Any]]:
    stages: dict[str, dict[str, Any]] = {}
    model = BlockModel(name="bench", nodes=nodes, classes=GENERATED_CLASSES, features=1)
    _timed(stages, "block model", partial(generate, model), _raw_size)
    edges = random_edges(nodes, mean_degree)
    ptr, idx = _timed(stages, "csr", partial(symmetric_csr, *edges, nodes), _csr_size)
    del edges
    graph = _graph(ptr, idx)
    roots = graph.train_nodes
    stages["graph"] = _about(graph)
    for degree in DEGREES:
        generator = numpy_generator("bench", "sampling")
        for name, work in (
            (f"algorithm 1, K={degree}", partial(sample_edge_lists, graph, roots, degree, generator)),
            (f"stable, D=K={degree}", partial(stable_edge_lists, graph, roots, degree, degree, key=0)),
        ):
            lists = _timed(stages, name, work, _list_size)
            for hops in (1, 2):
                _timed(stages, f"{name}, pack r={hops}", partial(pack_ego_trees, lists, roots, hops), _tree_size)
    half = np.arange(0, nodes, 2)
    work = partial(stable_edge_lists, graph, half, DEGREES[-1], DEGREES[-1], key=0)
    _timed(stages, f"stable, D=K={DEGREES[-1]}, every second node", work, _list_size)
    return stages


def _repeated(graph: Graph, repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds of CPU time, medians of runs that take turns, after one that loads compiled loops."""
    roots, degree = graph.train_nodes, DEGREES[0]
    stages: dict[str, Callable[[], object]] = {}
    for name, ids in (("training roots", roots), ("all nodes", np.arange(graph.num_nodes))):
        stages[f"stable, {name}"] = partial(stable_edge_lists, graph, ids, degree, degree, key=0)
        stages[f"algorithm 1, {name}"] = partial(_algorithm_1, graph, ids, degree)
    lists = stable_edge_lists(graph, roots, degree, degree, key=0)
    generator = numpy_generator("bench", "batches")
    for hops in (1, 2):
        stages[f"pack r={hops}"] = partial(pack_ego_trees, lists, roots, hops)
        trees = pack_ego_trees(lists, roots, hops)
        for size in BATCHES:
            if size <= len(roots):
                batch = fixed_size_batch(len(roots), size, generator)
                stages[f"batch of {size}, r={hops}"] = partial(_last_piece, trees, batch)
    spent: dict[str, list[float]] = {name: [] for name in stages}
    for work in stages.values():
        work()
    for _ in range(repeats):
        for name, work in stages.items():
            start = time.process_time()
            work()
            spent[name].append(1000 * (time.process_time() - start))
    return {name: {"cpu_ms": float(np.median(times)), "least": min(times)} for name, times in spent.items()}


def _algorithm_1(graph: Graph, roots: np.ndarray, degree: int) -> EdgeLists:
    return sample_edge_lists(graph, roots, degree, numpy_generator("bench", "sampling"))


def _last_piece(trees: EgoTrees, positions: np.ndarray) -> EgoBatch:
    """Slices a batch as a step does, piece by piece."""
    for piece in trees.chunks(positions):
        last = piece
    return last


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


def _small_graph(nodes: int) -> Graph:
    return _graph(*symmetric_csr(*random_edges(nodes, SMALL_MEAN_DEGREE), nodes), SMALL_TRAIN_SHARE)


def _about(graph: Graph) -> dict[str, int]:
    degrees, roots = np.diff(graph.out_ptr), graph.train_nodes
    return {
        "nodes": graph.num_nodes,
        "entries": graph.num_edges,
        "roots": len(roots),
        "entries_of_roots": int(degrees[roots].sum()),
        "max_degree": int(degrees.max()),
    }


def _graph(ptr: np.ndarray, idx: np.ndarray, train_share: float = TRAIN_SHARE) -> Graph:
    nodes = len(ptr) - 1
    train = numpy_generator("bench", "split", nodes).random(nodes) < train_share
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
    reset_peak()
    start, busy = time.monotonic(), time.process_time()
    result = work()
    spent = {"seconds": time.monotonic() - start, "cpu_seconds": time.process_time() - busy}
    stages[name] = {**spent, "peak_gib": peak_bytes() / GIB, **size(result)}
    return result


def _raw_size(raw: RawGraph) -> dict[str, int]:
    return {"entries": 2 * len(raw.source)}


def _csr_size(csr: Csr) -> dict[str, int]:
    return {"entries": len(csr[1])}


def _list_size(lists: EdgeLists) -> dict[str, int]:
    return {"entries": len(lists.idx)}


def _tree_size(trees: EgoTrees) -> dict[str, int]:
    return {"rows": int(trees.row_ptr[-1][-1])}


def _row_size(rows: sp.csr_matrix) -> dict[str, int]:
    return {"rows": rows.shape[0], "entries": rows.nnz, "largest_row": int(np.diff(rows.indptr).max(initial=0))}
