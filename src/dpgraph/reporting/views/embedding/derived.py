"""t-SNE of the embeddings of training roots as metrics of the first seed: places and classes, without node ids."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.core.randomness import entropy
from dpgraph.planning.plan import Plan
from dpgraph.reporting.stored import exposures_of, stored_graph
from dpgraph.reporting.views.registry import Derived, DerivedMetric

EMBEDDING, PARTS = "embedding", ("x", "y", "class")
PERPLEXITY = 30.0  # of many roots; a third of them at most
FEWEST = 10  # roots
NOWHERE = np.zeros((0, 2))


def metrics(plan: Plan) -> Derived:
    found: Derived = {}
    for name, artefact in plan.artefacts.items():
        graphs = {task: stored_graph(plan, task) for task in plan.tasks_of(name)} if artefact.view == EMBEDDING else {}
        for entry in plan.entries_of(name) if graphs else ():
            if (graph := graphs[entry.task_id]) is None:
                continue
            for seed, exposure in exposures_of(plan, entry, first=True).items():
                place = entry.paper, entry.cell.slug, seed
                if place not in found:
                    found[place] = _metrics(exposure.embeddings, graph.labels[exposure.roots], entry.cell.slug, seed)
    return found


def _metrics(embeddings: np.ndarray, classes: np.ndarray, slug: str, seed: int) -> list[DerivedMetric]:
    places, reason = tsne(embeddings, slug, seed)
    if reason:
        return [DerivedMetric(EMBEDDING, math.nan, reason=reason)]
    order = np.lexsort((places[:, 1], places[:, 0], classes))  # not that of node ids
    columns = (places[order, 0], places[order, 1], classes[order])
    return [
        DerivedMetric(f"{EMBEDDING}/{name}", float(value), number)
        for name, values in zip(PARTS, columns, strict=True)
        for number, value in enumerate(values)
    ]


def tsne(embeddings: np.ndarray, *names: str | int) -> tuple[np.ndarray, str]:
    """((M, 2) places, "") or (empty, why not); started at the principal components, random numbers keyed by `names`."""
    count = len(embeddings)
    if count < FEWEST:
        return NOWHERE, f"{count} roots, fewer than {FEWEST}"
    if not np.isfinite(embeddings).all():
        return NOWHERE, "embeddings are not finite"
    scale = np.abs(embeddings - embeddings.mean(axis=0, dtype=float)).max()
    if not scale > 0:
        return NOWHERE, "all embeddings are equal"
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
