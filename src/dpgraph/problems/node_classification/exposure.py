"""Attacks that use the released parameters and each node's own record, and their metrics (Zhang, section 5.4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from dpgraph.config.record import Metric
from dpgraph.core.errors import UserError
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.graph import Graph
from dpgraph.problems.base import SavedArrays

FOLDS = 5
FEWEST = 2 * FOLDS  # roots below which degrees are not predicted
LARGEST = 5_000  # nodes of a silhouette, whose work is quadratic
ALPHAS = np.logspace(-3, 6, 19)  # of the ridge, on standardised embeddings


@dataclass(frozen=True)
class Exposure(SavedArrays):
    """One seed's hidden states and losses; each depends on the parameters and the node's own record alone."""

    roots: np.ndarray  # (M,) int64 node ids with a loss in training: the members
    embeddings: np.ndarray  # (M, width) float32 hidden states of the roots
    candidates: np.ndarray  # (n,) int64 node ids of all training nodes, members among them
    losses: np.ndarray  # (n,) float32 cross-entropy of the candidates' labels

    @classmethod
    def load(cls, path: Path) -> Exposure:
        """Return the saved arrays. Raise UserError for a damaged file."""
        exposure = super().load(path)
        if len(exposure.roots) != len(exposure.embeddings) or len(exposure.candidates) != len(exposure.losses):
            raise UserError(
                f"{path}: found arrays of different lengths; delete result.json next to it and train the cell again"
            )
        return exposure


def degrees(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Return the number of distinct neighbours of each of `nodes`, in either of the two lists."""
    shape = (graph.num_nodes, graph.num_nodes)
    lists = [
        csr_matrix((np.ones(graph.num_edges, np.int8), indices, pointers), shape=shape)[nodes]
        for indices, pointers in ((graph.out_idx, graph.out_ptr), (graph.in_idx, graph.in_ptr))
    ]
    return np.asarray((lists[0] + lists[1]).getnnz(axis=1))


def degree_attack(
    embeddings: np.ndarray, degree: np.ndarray, generator: np.random.Generator
) -> tuple[float, float]:  # fmt: skip
    """Return root-mean-square errors of degrees predicted from embeddings, and from their mean alone, by 5 random
    folds.

    The thesis names no regression; here a ridge on standardised embeddings, its penalty chosen within the training
    folds (leave-one-out), predictions kept within the degrees of these. Both errors are over all held-out nodes. The
    lower the first error is below the second, the more the attack learns about degrees: "lower RMSE [...] harder to
    predict" (section 5.4.2) is printed the wrong way round. An embedding that is not finite counts as unknown: zeros.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    target = np.asarray(degree, dtype=float)
    known = np.isfinite(embeddings).all(axis=1)
    values = np.where(known[:, None], embeddings, 0.0).astype(float)
    folds = generator.permutation(len(target)) % FOLDS
    predicted, constant = np.empty_like(target), np.empty_like(target)
    with threadpool_limits(1):  # the last bits would depend on the number of threads
        for fold in range(FOLDS):
            held, rest = folds == fold, folds != fold
            model = make_pipeline(StandardScaler(), RidgeCV(ALPHAS)).fit(values[rest], target[rest])
            predicted[held] = model.predict(values[held]).clip(target[rest].min(), target[rest].max())
            constant[held] = target[rest].mean()
    return _rmse(predicted - target), _rmse(constant - target)


def _rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def silhouette(embeddings: np.ndarray, labels: np.ndarray, generator: np.random.Generator) -> float | None:
    """Return the mean silhouette of embeddings by class (Rousseeuw 1987), from -1 to 1.

    It measures how sharp the clusters of Figure 5.6 are, on at most 5,000 nodes, drawn at random. Embeddings that are
    all equal give 0. None where it is not defined: fewer than two classes, as many classes as nodes, or an embedding
    that is not finite.
    """
    from sklearn.metrics import silhouette_score
    from threadpoolctl import threadpool_limits

    chosen = np.sort(generator.permutation(len(labels))[:LARGEST])
    values, classes = embeddings[chosen].astype(float), labels[chosen]
    if not np.isfinite(values).all() or not 2 <= len(np.unique(classes)) < len(classes):
        return None
    with threadpool_limits(1):
        return float(silhouette_score(values, classes))


def exposure_metrics(
    graph: Graph, exposure: Exposure, step: int, *names: str | int
) -> tuple[tuple[Metric, ...], dict[str, str]]:
    """Return the metrics of the roots' embeddings, and notes for the record.

    `degree_rmse/train` with its reference `degree_rmse_constant/train`, in edges, and `silhouette/train`. Degrees are
    those of the graph in its setting. With fewer than 10 roots there are no metrics and a note says so. `names` key the
    random generators.
    """
    count, embeddings = len(exposure.roots), exposure.embeddings
    if count < FEWEST:
        return (), {"embeddings": f"{count} roots, fewer than {FEWEST}: no attack"}
    unknown = int((~np.isfinite(embeddings).all(axis=1)).sum())
    notes = {"embeddings": f"{unknown} of {count} are not finite"} if unknown else {}
    attacked = degree_attack(embeddings, degrees(graph, exposure.roots), numpy_generator(*names, "degree folds"))
    values = dict(zip(("degree_rmse/train", "degree_rmse_constant/train"), attacked))
    separation = silhouette(embeddings, np.asarray(graph.labels)[exposure.roots], numpy_generator(*names, "silhouette"))
    if separation is not None:
        values["silhouette/train"] = separation
    metrics = (Metric(step=step, final=True, metric=name, value=value) for name, value in values.items())
    return tuple(metrics), notes
