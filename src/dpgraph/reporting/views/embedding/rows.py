"""t-SNE of the embeddings of training roots (Zhang, Figures 5.6 and 5.7): one seed, the first one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpgraph.data.graph import Graph
from dpgraph.planning.plan import Entry, Plan
from dpgraph.randomness import entropy
from dpgraph.reporting.artefacts import beside, described
from dpgraph.reporting.exposures import exposed
from dpgraph.reporting.results import EntryResult, Results
from dpgraph.reporting.stored import stored_graph

PERPLEXITY = 30.0  # of many roots; a third of them at most
FEWEST = 10  # roots
NO_CLASSES = "classes are not available: the graph is missing"


@dataclass(frozen=True)
class Embedded:
    """Of one entry. `places` (M, 2) and `classes` (M,), without node ids, are empty where `outcome` is not ok."""

    entry: Entry
    outcome: EntryResult
    seed: int
    places: np.ndarray
    classes: np.ndarray


EMPTY = -1, np.zeros((0, 2)), np.zeros(0, dtype=np.int64)


def embedded(plan: Plan, artefact_id: str, results: pd.DataFrame | None) -> list[Embedded]:
    """One per entry of the artefact, in its order."""
    known = Results.of(results)
    graphs = {task_id: stored_graph(plan, task_id) for task_id in plan.tasks_of(artefact_id)}
    return [_embedded(plan, entry, known, graphs[entry.task_id]) for entry in plan.entries_of(artefact_id)]


def _embedded(plan: Plan, entry: Entry, results: Results, graph: Graph | None) -> Embedded:
    outcome, exposures = exposed(plan, entry, results, first=True)
    if not exposures:
        return Embedded(entry, outcome, *EMPTY)
    if graph is None:
        return Embedded(entry, EntryResult.not_run(NO_CLASSES), *EMPTY)
    seed, exposure = int(outcome.values.index[0]), exposures[0]
    places, reason = tsne(exposure.embeddings, entry.cell.slug, seed)
    if reason:
        return Embedded(entry, EntryResult.not_run(reason), *EMPTY)
    classes = np.asarray(graph.labels)[exposure.roots]
    order = np.lexsort((places[:, 1], places[:, 0], classes))  # not that of node ids
    return Embedded(entry, outcome, seed, places[order], classes[order])


def tsne(embeddings: np.ndarray, *names: str | int) -> tuple[np.ndarray, str]:
    """((M, 2) places, "") or (empty, why not); started at the principal components, random numbers keyed by `names`."""
    count = len(embeddings)
    if count < FEWEST:
        return EMPTY[1], f"{count} roots, fewer than {FEWEST}"
    if not np.isfinite(embeddings).all():
        return EMPTY[1], "embeddings are not finite"
    scale = np.abs(embeddings - embeddings.mean(axis=0, dtype=float)).max()
    if not scale > 0:
        return EMPTY[1], "all embeddings are equal"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    model = TSNE(
        perplexity=min(PERPLEXITY, (count - 1) / 3),
        init="pca",
        learning_rate="auto",
        random_state=entropy("dpgraph", "t-SNE", *names) % 2**32,
    )
    with threadpool_limits(1):  # sums in another order would end in another picture
        return model.fit_transform((embeddings - embeddings.mean(axis=0, dtype=float)) / scale), ""


def embedding_points(made: list[Embedded]) -> pd.DataFrame:
    """A row per root with its place and class; one without where there are none."""
    parts = []
    for one in made:
        rows = pd.DataFrame({"x": one.places[:, 0], "y": one.places[:, 1], "class_id": one.classes})
        if rows.empty:
            rows = pd.DataFrame({"x": [math.nan], "y": math.nan, "class_id": -1})
        parts.append(beside(described(one.entry, one.outcome) | {"seed": one.seed}, rows))
    return pd.concat(parts, ignore_index=True)
