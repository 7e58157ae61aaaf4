"""Approximate personalised PageRank of many roots: sparse rows, by l1-regularised optimisation.

For one root with indicator s the row is the minimiser p over n nodes of (Fountoulakis et al., 2019; Algorithm 6 of
Zhang's thesis, 2021)

    F(p) = 1/2 p' D^-1/2 Q D^-1/2 p - alpha s' D^-1 p + rho alpha |p|_1,
    Q = alpha I + (1 - alpha)/2 (I - D^-1/2 A D^-1/2),

found from below until the gradient g of the smooth part has |g|_inf <= (1 + gamma) rho alpha, as in the thesis.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from dpgraph.core.errors import invalid
from dpgraph.data.adjacency import owners, undirected_csr
from dpgraph.data.graph import Graph

BLOCK_ENTRIES = 1 << 22  # neighbours of the supports of a block's rows: about 200 MiB
BLOCK_ROWS = 512
LEAST_EXCESS = 1e-14  # smaller ones drown in rounding


def approximate_pagerank(
    adjacency: sp.csr_matrix, roots: np.ndarray, teleport: float = 0.25, sparsity: float = 1e-4, tolerance: float = 1e-4
) -> sp.csr_matrix:
    """Return the rows (M, n) of approximate personalised PageRank of the roots, in float64.

    Method: the thesis takes gradient steps of size 1 in p, whose error shrinks by 1 - alpha / d a step, slowly at hubs.
    Steps in D^-1/2 p, as in the original paper, shrink it by 1 - alpha for any degrees. Here they have size 2 / (1 +
    alpha), the inverse of Q's diagonal: with r = -D g,

        p <- max(0, p + 2 / (1 + alpha) (r - rho alpha d)),

    after which the largest excess of |g_i| over rho alpha is at most (1 - alpha) / (1 + alpha) times as large. Between
    two steps on the whole graph there are some on the support alone. The iterates are >= 0 and only grow, and so do
    their supports; the optimum and the stopping rule are the same for all three.

    Guarantees: 0 <= p <= the minimiser; |p|_1 <= 1 and rho * (sum of the degrees of the support) <= 1 - |p|_1, so that
    a row costs O(1 / rho) a step in a graph of any size; a row depends on no other row, to the last bit.

    Args:
        adjacency: (n, n) symmetric ones, see `undirected_adjacency`.
        roots: (M,) node ids. A root without neighbours has its own row, 1 at itself; one with 1 / rho or more has
            an empty row.
        teleport: alpha.
        sparsity: rho.
        tolerance: gamma.

    Raises:
        UserError: For parameters so small that excesses drown in rounding.
    """
    least = teleport * sparsity * tolerance
    if least < LEAST_EXCESS:
        raise invalid("teleport * sparsity * tolerance", f"{least:.3g}", f"at least {LEAST_EXCESS:g} (rounding)")
    problem = _Problem(adjacency, teleport, sparsity, tolerance)
    step = max(1, min(BLOCK_ROWS, BLOCK_ENTRIES // max(1, min(math.ceil(1 / sparsity), adjacency.nnz))))
    blocks = [problem.solve(roots[first : first + step]) for first in range(0, len(roots), step)]
    rows = sp.csr_matrix(sp.vstack(blocks)) if blocks else sp.csr_matrix((0, adjacency.shape[0]))
    rows.data[problem.degrees[rows.indices] == 0] = 1.0
    return rows


def induced_adjacency(graph: Graph, nodes: np.ndarray) -> sp.csr_matrix:
    """Return the undirected adjacency (n, n) of the edges among `nodes`. Others have no neighbours."""
    inside = np.zeros(graph.num_nodes, dtype=bool)
    inside[nodes] = True
    source, target = owners(graph.out_ptr), np.asarray(graph.out_idx)
    kept = inside[source] & inside[target]
    return undirected_csr(source[kept], target[kept], graph.num_nodes)


class _Problem:
    """The l1 problem of one graph. Arrays over nodes; h = (1 + alpha) / 2 and c = (1 - alpha) / 2."""

    def __init__(self, adjacency: sp.csr_matrix, teleport: float, sparsity: float, tolerance: float) -> None:
        self.adjacency = adjacency
        self.degrees = np.diff(adjacency.indptr).astype(np.int64)
        self.teleport, self.tolerance = teleport, tolerance
        self.diagonal = (1 + teleport) / 2
        self.threshold = teleport * sparsity * self.degrees  # rho alpha d, of the residual r = -D g
        self.weights = (1 - teleport) / 2 / np.maximum(self.degrees, 1)  # c / d, of a message to each neighbour
        self.walk = adjacency.copy()
        self.walk.data = np.repeat(self.weights, self.degrees)
        self.inner_steps = math.ceil(4 / teleport)  # residuals on the support shrink by more than exp(-8)

    def solve(self, roots: np.ndarray) -> sp.csr_matrix:
        """Return the rows (m, n) of `roots`; rows leave the work as they meet the stopping rule."""
        shape = (len(roots), len(self.degrees))
        source = sp.csr_matrix((np.full(len(roots), self.teleport), roots, np.arange(len(roots) + 1)), shape)
        rows, waiting = sp.csr_matrix(shape), np.arange(len(roots))
        finished, places = [], []
        while len(waiting):
            stepped = self._step(rows, source)
            change = stepped - rows
            excess = self.diagonal * change.data > self.tolerance * self.threshold[change.indices]
            going = _count(excess, change.indptr) > 0
            finished.append(stepped[~going])
            places.append(waiting[~going])
            waiting, rows, source = waiting[going], stepped[going], source[going]
            rows.data = self._settled(rows, source)
        return sp.vstack(finished, format="csr")[np.argsort(np.concatenate(places))]

    def _step(self, rows: sp.csr_matrix, source: sp.csr_matrix) -> sp.csr_matrix:
        """Return max(0, p + (r - rho alpha d) / h): the whole neighbourhood of the support may enter it."""
        inflow = rows @ self.walk + source  # h p + r
        inflow.data -= self.threshold[inflow.indices]
        kept = inflow.data > 0
        ptr = np.concatenate(([0], np.cumsum(kept)))[inflow.indptr]
        stepped = sp.csr_matrix((inflow.data[kept] / self.diagonal, inflow.indices[kept], ptr), rows.shape)
        stepped.sort_indices()
        return stepped

    def _settled(self, rows: sp.csr_matrix, source: sp.csr_matrix) -> np.ndarray:
        """Return the values (nnz,) after `inner_steps` steps on the support of each row."""
        owner, among = self._among(rows)
        inflow = np.where(rows.indices == source.indices[owner], self.teleport, 0.0) - self.threshold[rows.indices]
        weights, values = self.weights[rows.indices], rows.data
        for _ in range(self.inner_steps):
            values = (inflow + among @ (values * weights)) / self.diagonal
        return values

    def _among(self, rows: sp.csr_matrix) -> tuple[np.ndarray, sp.csr_matrix]:
        """Return the row (nnz,) of each entry, and ones (nnz, nnz) between neighbours within a row."""
        owner = np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(rows.indptr))
        first = owner * rows.shape[1]
        keys = first + rows.indices
        lengths = self.degrees[rows.indices]
        ends = np.cumsum(lengths)
        lists = np.arange(lengths.sum()) + np.repeat(self.adjacency.indptr[rows.indices] - (ends - lengths), lengths)
        wanted = np.repeat(first, lengths) + self.adjacency.indices[lists]
        places = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        hit = keys[places] == wanted
        ptr = np.concatenate(([0], np.cumsum(hit)))[np.concatenate(([0], ends))]
        return owner, sp.csr_matrix((np.ones(ptr[-1]), places[hit], ptr), (len(keys), len(keys)))


def _count(mask: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Count the true entries of `mask` in each range of `ptr`."""
    return np.diff(np.concatenate(([0], np.cumsum(mask)))[ptr])
