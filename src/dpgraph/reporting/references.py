"""Linear reference methods, computed by scikit-learn on the same splits as the methods that they are compared with.

Logistic regression on a node's own features, and on features averaged once or twice over the closed neighbourhoods of
the task's graph: (D + I)^-1 (A + I), or its square, times X (Wu et al., Simplifying Graph Convolutional Networks, 2019,
with the mean in place of the symmetric normalisation). The penalty is the one that is best on the validation nodes of
the first split; where there are none, it is scikit-learn's own.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgraph.config.cell import Task
from dpgraph.core.errors import DataUnavailable
from dpgraph.core.files import write_json
from dpgraph.data.graph import Graph
from dpgraph.data.records import TEST, TRAIN, VALIDATION
from dpgraph.data.store import load_graph

LOGISTIC = "logistic regression"
MEAN_LOGISTIC = {steps: f"{word}-step mean features + logistic regression" for steps, word in ((1, "one"), (2, "two"))}
PENALTIES = (1.0, 10.0, 100.0)  # C, the inverse of the penalty
USUAL = 1.0
MOST_ENTRIES = 50_000_000  # of training features that are not zero: beyond, a fit takes minutes


def write_references(task: Task, folder: Path, splits: Sequence[int], out: Path) -> None:
    """Write test accuracies of both references, fractions by split, on the task's stored graph, as JSON at `out`.

    A graph that is not there, or too large, is a recorded result with its reason.
    """
    from sklearn import __version__ as version

    record: dict[str, Any] = {"task": task.folder, "source": f"scikit-learn {version}, computed here"}
    try:
        accuracies, penalties = references(lambda number: load_graph(folder, split=number), splits)
        write_json(out, {**record, "splits": list(splits), "accuracy": accuracies, "C": penalties, "reason": ""})
    except DataUnavailable as error:
        write_json(out, {**record, "splits": [], "accuracy": {}, "C": {}, "reason": f"data not available: {error}"})
    except TooLarge as error:
        write_json(out, {**record, "splits": [], "accuracy": {}, "C": {}, "reason": str(error)})


def reference_of(hops: int) -> str:
    """Return the reference of a network that reads so many hops: with two steps for more than two.

    >>> reference_of(0), reference_of(1)
    ('logistic regression', 'one-step mean features + logistic regression')
    """
    return MEAN_LOGISTIC[min(hops, max(MEAN_LOGISTIC))] if hops else LOGISTIC


class TooLarge(Exception):
    """Not fitted: it would take minutes."""


def references(load: Callable[[int], Graph], splits: Sequence[int]) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return (test accuracies in the order of the splits, C), by reference; `load` gives the graph of a split.

    A fit is deterministic. Raises TooLarge.
    """
    accuracies: dict[str, list[float]] = {}
    penalties: dict[str, float] = {}
    for number in splits:
        graph = load(number)
        own = features_of(graph)
        kinds = {LOGISTIC: own}
        if graph.num_edges:
            kinds.update({kind: mean_features(graph, own, steps) for steps, kind in MEAN_LOGISTIC.items()})
        largest = max(int(np.diff(one.indptr)[graph.train_nodes].sum()) for one in kinds.values())
        if largest > MOST_ENTRIES:
            raise TooLarge(f"not computed: {largest:,} entries of training features, more than {MOST_ENTRIES:,}")
        for kind, features in kinds.items():
            if kind not in penalties:
                penalties[kind] = best_penalty(graph, features)
            accuracies.setdefault(kind, []).append(accuracy(graph, features, penalties[kind], TEST))
    return accuracies, penalties


def features_of(graph: Graph) -> sp.csr_matrix:
    """Return the features as a sparse (N, F) matrix."""
    return sp.csr_matrix(np.asarray(graph.features, dtype=np.float64))


def mean_features(graph: Graph, features: sp.csr_matrix, steps: int) -> sp.csr_matrix:
    """Return (N, F) means over each node and those that it lists, `steps` times."""
    ones = np.ones(graph.num_edges)
    shape = (graph.num_nodes, graph.num_nodes)
    closed = sp.csr_matrix((ones, np.asarray(graph.out_idx), np.asarray(graph.out_ptr)), shape=shape)
    closed = (closed + sp.identity(graph.num_nodes)).tocsr()
    mean = sp.diags(1 / np.asarray(closed.sum(axis=1)).ravel()) @ closed
    for _ in range(steps):
        features = mean @ features
    return features.tocsr()


def best_penalty(graph: Graph, features: sp.csr_matrix) -> float:
    """Return C of the highest validation accuracy, the first of equal ones."""
    if not (labelled(graph, VALIDATION)).any():
        return USUAL
    scores = [accuracy(graph, features, penalty, VALIDATION) for penalty in PENALTIES]
    return PENALTIES[int(np.argmax(scores))]


def accuracy(graph: Graph, features: sp.csr_matrix, penalty: float, part: int) -> float:
    """Return the accuracy on the part's labelled nodes of a logistic regression fitted on the training nodes."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    labels = np.asarray(graph.labels)
    train, tested = labelled(graph, TRAIN), labelled(graph, part)
    with threadpool_limits(1), warnings.catch_warnings():  # the last bits would depend on the number of threads
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3).fit(features[train], labels[train])
        return float((model.predict(features[tested]) == labels[tested]).mean())


def labelled(graph: Graph, part: int) -> np.ndarray:
    """Return a mask (N,) of the part's labelled nodes."""
    return (np.asarray(graph.split) == part) & (np.asarray(graph.labels) >= 0)
