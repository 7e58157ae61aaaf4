"""Audit of what training reads: whole runs of every private method, twice, on inputs that differ in unread parts.

The parameters that the optimiser holds in the end have to agree bit for bit: same cell, same seed, same noise.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from dpgraph.audits.cases import Kind, Settings, cell_of, jobs_of, mechanism_of, of_each
from dpgraph.audits.graphs import directed_graph, edges_of, random_edges, with_edges
from dpgraph.audits.result import Audit, AuditResult
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION
from dpgraph.families.registry import method
from dpgraph.privacy.procedure import Batches

TRAINING, OTHERS, FEATURES, CLASSES = 24, 16, 5, 3
SETTINGS = Settings(
    noise=2.0, rate=0.5, steps=4, max_degree=2, list_cap=3, own_weight=0.3, top_k=2, release_noise=2.0,
    learning_rate=0.1, model={"width": 4},
)  # fmt: skip
Other = Callable[[Graph, np.random.Generator], Graph]


def _graph(index: int, apart: bool) -> Graph:
    """Return an undirected graph; `apart`: no edge leads from training nodes to others, as in the setting disjoint."""
    random, size = numpy_generator("audits", "inputs", index), TRAINING + OTHERS
    split = np.full(size, TRAIN, dtype=np.uint8)
    split[TRAINING:] = np.array([VALIDATION, TEST, NO_SPLIT, TEST])[np.arange(OTHERS) % 4]
    graph = directed_graph(
        [], [], random.standard_normal((size, FEATURES)), random.integers(0, CLASSES, size), split, CLASSES
    )
    among = random_edges(random, size, 0.15)
    if apart:
        among[:TRAINING, TRAINING:] = among[TRAINING:, :TRAINING] = False
    return with_edges(graph, *np.nonzero(among))


def _others(graph: Graph) -> np.ndarray:
    return np.asarray(graph.split != TRAIN)


def _labels(graph: Graph, random: np.random.Generator) -> Graph:
    """Change the labels of the nodes outside the training set."""
    others = _others(graph)
    return replace(graph, labels=np.where(others, (graph.labels + 1) % CLASSES, graph.labels))


def _features(graph: Graph, random: np.random.Generator) -> Graph:
    """Change the features of the nodes outside the training set."""
    features = graph.features.copy()
    features[_others(graph)] = 1e3 * random.standard_normal((OTHERS, FEATURES))
    return replace(graph, features=features.astype(np.float32))


def _edges(graph: Graph, random: np.random.Generator) -> Graph:
    """Draw all edges anew."""
    return with_edges(graph, *np.nonzero(random_edges(random, graph.num_nodes, 0.3)))


def _edges_outside(graph: Graph, random: np.random.Generator) -> Graph:
    """Draw all edges anew except those among training nodes."""
    owners, members = edges_of(graph)
    kept = ~_others(graph)[owners] & ~_others(graph)[members]
    among = random_edges(random, graph.num_nodes, 0.3)
    among[:TRAINING, :TRAINING] = False
    more = np.nonzero(among)
    return with_edges(graph, np.concatenate([owners[kept], more[0]]), np.concatenate([members[kept], more[1]]))


def _beyond(graph: Graph, random: np.random.Generator) -> Graph:
    """Change all records of the nodes outside the training set: features, labels, edges among them."""
    owners, members = edges_of(graph)
    inside = ~_others(graph)[owners]
    more = np.nonzero(random_edges(random, OTHERS, 0.4))
    changed = with_edges(
        graph,
        np.concatenate([owners[inside], TRAINING + more[0]]),
        np.concatenate([members[inside], TRAINING + more[1]]),
    )
    return _labels(_features(changed, random), random)


def _everything(graph: Graph, random: np.random.Generator) -> Graph:
    """Change all features, labels and edges."""
    changed = _edges(_beyond(graph, random), random)
    return replace(changed, features=-3 * changed.features, labels=(changed.labels + 1) % CLASSES)


def unread(kind: Kind) -> dict[str, Other]:
    """Return the changes of inputs that training does not read by the guarantee of a kind."""
    changes: dict[str, Other] = {"labels of validation and test nodes": _labels}
    if kind.silent:
        return {"anything": _everything}
    reads_lists = kind.trees and kind.hops > 0 and kind.neighbours
    if reads_lists or kind.sums or kind.batches is Batches.MASKED_PARTS:
        return changes
    changes["features of all but training nodes"] = _features
    if kind.parts or kind.release in ("exact", "gaussian", "exponential", "exponential-values"):
        changes["edges that are not among training nodes"] = _edges_outside
    else:
        changes["edges"] = _edges
    return changes


def parameters_of(kind: Kind, graph: Graph, seed: int) -> list[np.ndarray]:
    """Run the method as the workflow does and return its trained parameters."""
    size = len(graph.train_nodes)
    cell, mechanism = cell_of(kind, SETTINGS, size), mechanism_of(kind, SETTINGS, size, graph.num_nodes)
    (job,) = jobs_of(graph, cell, mechanism, [seed])
    with _optimised() as held, redirect_stderr(io.StringIO()):  # no bar for each run
        method(kind.method).run(job, lambda done, logits: {})
    return [parameter.detach().numpy().copy() for parameter in held]


@contextmanager
def _optimised() -> Iterator[list[torch.nn.Parameter]]:
    """Give the parameters of every optimiser that is made inside."""
    parameters_held: list[torch.nn.Parameter] = []
    original = torch.optim.Optimizer.__init__

    def remember(self: torch.optim.Optimizer, parameters: Any, defaults: Any) -> None:
        original(self, parameters, defaults)
        parameters_held.extend(parameter for group in self.param_groups for parameter in group["params"])

    with patch.object(torch.optim.Optimizer, "__init__", remember):
        yield parameters_held


def read_by(kind: Kind, trials: int) -> tuple[list[str], int]:
    """Run one kind on `trials` graphs, each with every change of unread inputs.

    Returns:
        The changes that moved its parameters, and how many were tried.
    """
    moved: list[str] = []
    tried = 0
    for index in range(trials):
        apart = index % 2 == 1
        changes = {"records in another part of the graph": _beyond} if apart else unread(kind)
        graph = _graph(index, apart)
        before = parameters_of(kind, graph, index)
        for name, change in changes.items():
            after = parameters_of(kind, change(graph, numpy_generator("audits", name, index)), index)
            tried += 1
            moved += [] if all(map(np.array_equal, before, after)) else [name]
    return list(dict.fromkeys(moved)), tried


def self_terms(trials: int) -> AuditResult:
    """Run all methods and variants on `trials` / 2 graphs.

    In every other graph training nodes have no edge to others.
    """
    read = of_each(lambda kind: read_by(kind, max(2, trials // 2)))  # at least one graph of each sort
    moved = {name: changes for name, (changes, _) in read.items() if changes}
    shown = "; ".join(f"{name} reads {', '.join(what)}" for name, what in moved.items())
    tried = sum(count for _, count in read.values())
    return AuditResult(
        audit="self-terms", title="parameters when unread inputs change",
        passed=not moved, trials=trials,
        claim=f"bit-identical parameters of {len(read)} methods and variants",
        finding=f"{len(moved)} moved in {tried} pairs of runs" + (f": {shown[:300]}" if shown else ""),
    )  # fmt: skip


AUDITS = {"self-terms": Audit(self_terms, 4)}
