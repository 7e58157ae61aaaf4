"""A8: released PageRank rows move by sqrt(2) C1 each, and a node reaches no more gradients than its column has rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.experiments.cell import Model
from dpgraph.models.closed_rows import RowNetwork, RowTable, with_constant
from dpgraph.models.network import Network
from dpgraph.models.weighted_rows import PaddedRows
from dpgraph.privacy.accountants.gaussian import gaussian_delta
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.pagerank_release import cap_columns, matrix_sensitivity, noisy_rows
from dpgraph.training.closed_rows import write_gradient

ROWS, CLIP_NORM, MU = 3, 0.3, 1.0
ROOTS, COLUMN_CAP = 12, 3
DELTA = 1e-3
CPU = torch.device("cpu")
APPR = "released PageRank rows"


def appr(trials: int) -> AuditResult:
    """A8: M = 3 rows, each on one node with the record and on another without; noise for mu = 1.

    And a node of weight 1e-3 in the rows of all of 12 roots, whose huge features and label change: clipped gradients
    that differ, after columns are capped at K_col = 3, are at most R = K_col + 1.
    """
    sensitivity = matrix_sensitivity(ROWS, CLIP_NORM)
    generator = numpy_generator("audits", "appr", "")
    scores = []
    for node in (0, 1):
        rows = sp.csr_matrix((np.full(trials * ROWS, 5.0), np.full(trials * ROWS, node), np.arange(trials * ROWS + 1)),
                             (trials * ROWS, 2))  # fmt: skip
        noisy = noisy_rows(rows, CLIP_NORM, sensitivity / MU / CLIP_NORM, generator)
        scores.append((noisy[:, 0] - noisy[:, 1]).reshape(trials, ROWS).sum(axis=1))
    errors = measured_errors(scores[0], scores[1])
    test = profile_test(errors, lambda epsilons: np.asarray(gaussian_delta(mu=MU, epsilon=epsilons)))
    claim = f"mu = {MU:.3f} for {ROWS} rows; at most {COLUMN_CAP + 1} gradients change"
    result = statistical_result("appr", APPR, claim, trials, errors, test, DELTA)
    changed = changed_gradients()
    return result.model_copy(
        update={
            "passed": result.passed and changed <= COLUMN_CAP + 1,
            "finding": f"{result.finding}; {changed} of {ROOTS + 1} gradients change",
        }
    )


def changed_gradients() -> int:
    """Roots whose clipped gradient differs when node 0's record does; node 0 is a root, too."""
    size = ROOTS + 1
    generator = numpy_generator("audits", "appr", "rows")
    released = generator.random((size, size))
    released[:, 0] = 1e-3
    matrix = sp.csr_matrix(released)
    matrix = cap_columns(matrix, COLUMN_CAP, numpy_generator("audits", "appr", "columns"))
    features = torch.from_numpy(generator.standard_normal((size, 4)))
    labels = torch.from_numpy(generator.integers(0, 3, size))
    sides = []
    for value in (1e9, -1e9):
        x, y = features.clone(), labels.clone()
        x[0] = value
        y[0] = int(value > 0)
        sides.append(_gradients(matrix, x, y))
    return int((sides[0] != sides[1]).any(axis=1).sum())


def _gradients(matrix: sp.csr_matrix, features: Tensor, labels: Tensor) -> np.ndarray:
    """(roots, parameters) clipped gradients of every root of `matrix`, from the engine that trains on such rows."""
    model = Model(architecture="mlp", hops=0, width=3)
    network = Network(model, features.shape[1], 3, torch_generator("audits", "appr"), torch.float64)
    trained = RowNetwork(network, model.activation)
    roots, records = np.arange(matrix.shape[0]), features.numpy()
    padded = PaddedRows.of(matrix, roots, matrix.shape[1] + 1)
    rows = RowTable(padded, with_constant(records, CPU), records, labels.numpy(), CPU, torch.float64)
    batch, gradients = rows.batch(roots), np.zeros((len(roots), trained.size))
    for root in roots:
        into, alone = torch.zeros_like(trained.theta.data), torch.zeros(len(roots), dtype=torch.float64)
        alone[root] = 1.0
        write_gradient(trained, batch, alone, CLIP_NORM, into)
        gradients[root] = into[: trained.size].numpy()
    return gradients
