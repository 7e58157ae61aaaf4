"""A plan of attacks, its graph and made-up exposures: members leak as much as a test plants."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpgraph.config.config import Config
from dpgraph.config.paths import Paths
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.store import save_graph
from dpgraph.planning.plan import Plan, load_plan
from dpgraph.problems.node_classification.exposure import Exposure

NODES, TRAINED, ROOTS, CLASSES = 700, 600, 120, 3


def plan_in(folder: Path, seeds: int = 4) -> Plan:
    """With folders and a graph of its own, without results."""
    for name, text in (("suites/attacks", SUITE), ("experiments/zhang", EXPERIMENT)):
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    config = Config(suite="attacks", data=str(folder), results=str(folder), seeds=seeds)
    plan = load_plan(config, folder)
    pointers, entries = np.zeros(NODES + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    labels = numpy_generator("labels").integers(CLASSES, size=NODES)
    split = np.where(np.arange(NODES) < TRAINED, TRAIN, TEST).astype(np.uint8)
    features = np.zeros((NODES, 1), dtype=np.float32)
    graph = Graph(
        name="toy",
        out_ptr=pointers,
        out_idx=entries,
        in_ptr=pointers,
        in_idx=entries,
        features=features,
        labels=labels,
        split=split,
        num_classes=CLASSES,
    )
    save_graph(graph, Paths(config).graph(plan.task("cora-ml")))
    return plan


def exposure(seed: int, leak: float, difficulty: float = 1.0, separation: float = 3.0) -> Exposure:
    """Losses: `difficulty` times the node's own, noise, minus `leak` for members; embeddings around class centres."""
    random = numpy_generator("exposure", seed)
    candidates = np.arange(TRAINED)
    roots = random.permutation(TRAINED)[:ROOTS]
    own = difficulty * numpy_generator("difficulty").exponential(size=TRAINED)
    losses = own + 0.1 * random.normal(size=TRAINED) - leak * np.isin(candidates, roots)
    labels = numpy_generator("labels").integers(CLASSES, size=NODES)
    embeddings = random.normal(size=(ROOTS, 8)) + separation * np.eye(CLASSES, 8)[labels[roots]]
    return Exposure(roots, embeddings.astype(np.float32), candidates, losses.astype(np.float32))


def expose(plan: Plan, leak: float, artefact: str = "zhang/members") -> None:
    """Files of every seed of the artefact; the leak grows with the target epsilon, without privacy it is largest."""
    for entry in plan.entries_of(artefact):
        share = 1.0 if entry.target_epsilon is None else entry.target_epsilon / 10
        for seed in entry.cell.seeds:
            path = Paths(plan.config).exposure(entry.cell, seed)
            exposure(seed, leak * share, separation=3 * share).save(path)


EXPERIMENT = """
paper: zhang
title: Attacks
citation: Zhang
published: zhang2021-dp-deep-learning-thesis
defaults:
  model: {architecture: mlp, hops: 0, width: 8}
  training: {learning_rate: 0.01, batch_size: 10, steps: 100}
methods:
  vanilla: {label: "Vanilla, no privacy", method: appr, set: {pagerank: {release: exact, num_rows: 120}}}
  gm:
    label: GM, rigorous
    method: dp-appr
    set:
      privacy: {variant: rigorous}
      pagerank: &gaussian {release: gaussian, clip: 0.01, epsilon_share: 0.5, num_rows: 120}
  gm-published:
    label: GM, thesis' mechanism
    method: dp-appr
    set: {privacy: {variant: published}, pagerank: *gaussian}
  features:
    label: Features, rigorous
    method: dp-appr
    set: {privacy: {variant: rigorous}, pagerank: {release: identity, num_rows: 120}}
artefacts:
  members: {kind: figure, view: membership, title: Members, methods: [vanilla, gm, gm-published]}
  table: {kind: table, view: membership, title: Members, methods: [vanilla, gm, gm-published]}
  features: {kind: table, view: membership, title: Members, methods: [features]}
  clusters: {kind: figure, view: embedding, title: Clusters, methods: [vanilla, gm]}
  degrees:
    kind: figure
    view: privacy-utility
    title: Degrees
    metric: degree_rmse/train
    methods: [vanilla, gm, gm-published]
  degrees-table: {kind: table, view: accuracy, title: Degrees, metric: degree_rmse/train, methods: [vanilla, gm]}
  degrees-sweep:
    kind: figure
    view: sweep
    title: Degrees
    metric: degree_rmse/train
    sweep: {label: Clip norm C}
    methods: [gm]
claims:
  more:
    statement: GM hides more
    source: here
    test: {kind: greater, artefact: degrees, better: [gm], worse: [vanilla], margin: 0.5}
"""
SUITE = """
name: attacks
title: Attacks
note: For tests.
seeds: 4
tasks:
  cora-ml: {label: Cora-ML, task: {dataset: cora-ml, split: random-80-0-20}}
papers:
  zhang:
    artefacts:
      members: &all
        - {tasks: [cora-ml], epsilons: [1, 8]}
      table: *all
      features: *all
      clusters: *all
      degrees: *all
      degrees-table: *all
      degrees-sweep:
        - tasks: [cora-ml]
          epsilons: [1, 8]
          values: {"0.5": {privacy: {clip_norm: 0.5}}, "1": {privacy: {clip_norm: 1.0}}}
"""
