"""Seconds and peak memory of edge lists and ego trees, on a graph of ogbn-products' size or a stored one.

The graph is synthetic: stubs with power-law counts are joined at random (configuration model), so that only degrees
resemble the real one.

`python -m bench.sampling --out sampling.csv [--graph FOLDER | --nodes N] [--repeats N] [--pagerank]`
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cyclopts
import numpy as np

from bench.measuring import peak_bytes, reset_peak, write_rows
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.adjacency import symmetric_csr, undirected_adjacency
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.store import load_graph
from dpgraph.engine.sampling.batches import fixed_size_batch
from dpgraph.engine.sampling.edge_lists import EdgeLists, sample_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees, pack_ego_trees
from dpgraph.families.pagerank.rows import approximate_pagerank

NODES, MEAN_DEGREE, MAX_DEGREE, TRAIN_SHARE = 2_449_029, 50.5, 17_481, 0.0803  # ogbn-products
EXPONENT = 2.3  # of the power law of degrees
DEGREES = (7, 10)  # K, and D of the stable sampler
BATCH = 10_000  # roots
COLUMNS = ("stage", "cpu_seconds", "seconds", "repeats", "peak_gib", "entries", "nodes", "training_nodes")


def bench(out: Path, graph: Graph, repeats: int = 1, pagerank: bool = False) -> list[dict[str, Any]]:
    """Write a row for each stage as CSV; medians of CPU and wall seconds.

    `peak_gib` is the highest resident memory during a stage, all that was held before it included. `entries` counts
    those of lists, and rows of packed trees and of batches.
    """
    roots = graph.train_nodes
    about = {"nodes": graph.num_nodes, "training_nodes": len(roots), "repeats": repeats}
    rows: list[dict[str, Any]] = []

    def timed(name: str, work: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        reset_peak()
        walls, busy = [], []
        for _ in range(repeats):
            wall, cpu = time.monotonic(), time.process_time()
            result = work()
            walls.append(time.monotonic() - wall)
            busy.append(time.process_time() - cpu)
        spent = {"seconds": statistics.median(walls), "cpu_seconds": statistics.median(busy)}
        rows.append({"stage": name, **about, **spent, "peak_gib": peak_bytes() / 2**30, "entries": size(result)})
        return result

    for degree in DEGREES:
        samplers: dict[str, Callable[[np.ndarray], EdgeLists]] = {
            f"Algorithm 1, K={degree}": partial(_algorithm_1, graph, degree),
            f"stable, D=K={degree}": partial(stable_edge_lists, graph, max_degree=degree, list_cap=degree, key=0),
        }
        for name, sample in samplers.items():
            timed(f"{name}, all nodes", partial(sample, np.arange(graph.num_nodes)), lambda lists: len(lists.idx))
            lists = timed(name, partial(sample, roots), lambda lists: len(lists.idx))
            for hops in (1, 2):
                packing = partial(pack_ego_trees, lists, roots, hops)
                trees = timed(f"{name}, pack r={hops}", packing, lambda trees: int(trees.row_ptr[-1][-1]))
                size = min(BATCH, len(roots))
                chosen = fixed_size_batch(len(roots), size, numpy_generator("bench", "batches"))
                batch = partial(_last_piece, trees, chosen)
                timed(f"{name}, batch of {size}, r={hops}", batch, lambda piece: len(piece.nodes))
    if pagerank:
        solve = partial(approximate_pagerank, undirected_adjacency(graph), roots)
        timed("PageRank rows", solve, lambda matrix: matrix.nnz)
    write_rows(out, COLUMNS, rows)
    return rows


def _algorithm_1(graph: Graph, degree: int, ids: np.ndarray) -> EdgeLists:
    return sample_edge_lists(graph, ids, degree, numpy_generator("bench", "sampling"))


def _last_piece(trees: EgoTrees, positions: np.ndarray) -> EgoBatch:
    """Slice a batch as a step does, piece by piece."""
    return deque(trees.chunks(positions), maxlen=1)[0]


def random_graph(nodes: int = NODES, mean_degree: float = MEAN_DEGREE, train_share: float = TRAIN_SHARE) -> Graph:
    """Return a graph with about nodes * mean_degree / 2 edges, few of them self-loops or repeated."""
    generator = numpy_generator("bench", "edges", nodes)
    weights = generator.pareto(EXPONENT - 1, size=nodes) + 1
    degrees = np.minimum(weights * mean_degree / weights.mean(), min(MAX_DEGREE, np.sqrt(nodes * mean_degree)))
    degrees = np.rint(degrees * mean_degree / degrees.mean()).astype(np.int64)
    stubs = np.repeat(np.arange(nodes, dtype=np.int32), degrees)
    generator.shuffle(stubs)
    half = len(stubs) // 2
    ptr, idx = symmetric_csr(stubs[:half], stubs[half : 2 * half], nodes)
    return Graph(
        name="bench",
        out_ptr=ptr,
        out_idx=idx,
        in_ptr=ptr,
        in_idx=idx,
        features=np.zeros((nodes, 0), dtype=np.float32),
        labels=np.zeros(nodes, dtype=np.int64),
        split=np.where(generator.random(nodes) < train_share, TRAIN, TEST).astype(np.uint8),
        num_classes=1,
    )


def main(*, out: Path, graph: Path | None = None, nodes: int = NODES, repeats: int = 1, pagerank: bool = False) -> None:
    """Measure seconds and peak memory of edge lists and ego trees.

    Args:
        out: CSV file.
        graph: Folder of a stored graph.
        nodes: Of a synthetic one (default: as ogbn-products).
        repeats: Of each stage.
        pagerank: Rows of all training nodes, too.
    """
    bench(out, random_graph(nodes) if graph is None else load_graph(graph), repeats, pagerank)


if __name__ == "__main__":
    cyclopts.run(main)
