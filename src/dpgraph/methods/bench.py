"""Cost of the private step against the step without privacy, on the same batches, in one process."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgraph.data.graph import Graph
from dpgraph.data.preprocess import build
from dpgraph.data.registry import DatasetEntry, Expected, Licence
from dpgraph.data.synthetic import BlockModel, generate
from dpgraph.experiments.cell import Model, Task, Training
from dpgraph.files import write_json
from dpgraph.models.network import Network
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import FixedSizeSampler
from dpgraph.sampling.edge_lists import stable_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.steps import ClippedTerm, PlainStep, PrivateStep

NODES, FEATURES, CLASSES = 169_343, 128, 40  # ogbn-arxiv
SETTINGS = (
    {"hops": 1, "max_degree": 7, "batch_size": 10_000},
    {"hops": 2, "max_degree": 3, "batch_size": 20_000},
)


def bench(out: Path, device: str = "auto", repeats: int = 7) -> dict[str, Any]:
    """Medians of interleaved steps, wall and CPU seconds; written as JSON. CPU time is the one to compare by."""
    where = torch.device("cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu"))
    graph = _graph()
    rows = [_measure(graph, where, repeats, **setting) for setting in SETTINGS]
    record = {"device": str(where), "threads": torch.get_num_threads(), "nodes": graph.num_nodes, "settings": rows}
    write_json(out, record)
    return record


def _graph() -> Graph:
    model = BlockModel(name="bench", nodes=NODES, classes=CLASSES, features=FEATURES)
    known = DatasetEntry(
        title="bench",
        home="",
        licence=Licence(name="generated"),
        citation="",
        reader="sbm",
        expected=Expected(classes=CLASSES),
    )
    return build(Task(dataset="bench", split="random-54-18-28"), known, generate(model))


def _measure(
    graph: Graph, device: torch.device, repeats: int, hops: int, max_degree: int, batch_size: int
) -> dict[str, Any]:
    roots = graph.train_nodes
    start = time.monotonic()
    lists = stable_edge_lists(graph, roots, max_degree, max_degree, key=0)
    sampled = time.monotonic()
    trees = pack_ego_trees(lists, roots, hops, device)
    packed = time.monotonic()
    features = torch.from_numpy(np.array(graph.features)).to(device)
    labels = torch.from_numpy(np.array(graph.labels)).to(device)
    model = Model(hops=hops, decoder_layers=2 if hops == 1 else 1)
    sampler = FixedSizeSampler(len(roots), batch_size)
    training = Training(optimizer="adam", learning_rate=0.003, batch_size=batch_size, steps=1)

    def network() -> Network:
        return Network(model, graph.num_features, graph.num_classes, torch_generator("bench")).to(device)

    one, two = network(), network()
    plain = PlainStep(
        one,
        make_optimizer(one.parameters(), training),
        trees,
        features,
        labels,
        sampler,
        numpy_generator("bench", "batches"),
    )
    private = PrivateStep(
        two,
        make_optimizer(two.parameters(), training),
        features,
        labels,
        [ClippedTerm(trees, sampler, 1.0)],
        1.0,
        float(batch_size),
        numpy_generator("bench", "batches"),
        torch_generator("bench", "noise", device=device),
    )
    times: dict[str, list[tuple[float, float]]] = {"plain": [], "private": []}
    for repeat in range(repeats + 1):
        for name, step in (("plain", plain), ("private", private)):
            spent = _timed(step, device)
            if repeat:  # the first of each warms up
                times[name].append(spent)
    median = {
        name: {
            "wall_ms": 1e3 * statistics.median(wall for wall, _ in spent),
            "cpu_ms": 1e3 * statistics.median(cpu for _, cpu in spent),
        }
        for name, spent in times.items()
    }
    kind = "wall_ms" if device.type == "cuda" else "cpu_ms"
    return {
        "hops": hops,
        "max_degree": max_degree,
        "batch_size": batch_size,
        **median,
        "ratio": median["private"][kind] / median["plain"][kind],
        "edge_lists_seconds": sampled - start,
        "packing_seconds": packed - sampled,
    }


def _timed(step: PlainStep | PrivateStep, device: torch.device) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - wall, time.process_time() - cpu
