"""Steps over rows of PageRank: which rows are released how, whose losses read them, clipped and noised how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import CountedGenerator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.weighted_rows import PaddedRows, RowNetwork, RowTable
from dpgraph.engine.preparation.base import Order, PreparedStep, procedure
from dpgraph.engine.sampling.batches import Draws, FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.engine.training.closed_rows import RowPrivatizer, RowStep
from dpgraph.families.pagerank.mechanism import FixedBatchPagerank, PoissonPagerank
from dpgraph.families.pagerank.release import (
    cap_columns,
    exponential_release,
    gaussian_release,
    largest_entries,
    matrix_sensitivity,
)
from dpgraph.families.pagerank.rows import approximate_pagerank, induced_adjacency
from dpgraph.families.pagerank.variants import kept_and_roots
from dpgraph.privacy.procedure import Clipped, ClippedSum, Lists, NotAsAccounted, Procedure, Release
from dpgraph.privacy.public_numbers import expected_batch, noise_std

ROUNDING = 1e-9  # of a column's norm


@dataclass(frozen=True)
class Rows:
    """(M, N) weights of what the losses of the (M,) `roots` read, and how their columns are bounded."""

    weights: sp.csr_matrix
    roots: np.ndarray
    kind: Lists
    column_cap: int | None = None  # K_col
    column_norm: float | None = None  # tau

    def checked(self) -> Rows:
        """Return these rows. Raise NotAsAccounted if they break the bounds that they state."""
        entries = self.weights.tocoo()
        others = entries.col != self.roots[entries.row]
        most = int(np.bincount(entries.col[others], minlength=1).max(initial=0))
        limit = 0 if self.kind is Lists.NONE else self.column_cap
        if limit is not None and most > limit:
            raise NotAsAccounted(f"rows: a node is in {most} rows of others: expected at most {limit}")
        if self.column_norm is not None:
            largest = float(np.asarray(abs(self.weights).sum(axis=0)).max(initial=0.0))
            if largest > self.column_norm * (1 + ROUNDING):
                raise NotAsAccounted(f"rows: a column has norm {largest:.6g}: expected at most {self.column_norm:.6g}")
        return self


class PreparedRows(PreparedStep):
    """Rows, batches, clip norm, noise and divisor of one seed; the training of rows adds the network."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        mechanism = order.mechanism
        if not isinstance(mechanism, PoissonPagerank | FixedBatchPagerank):
            raise TypeError(f"mechanism={mechanism.kind}: expected one over rows of PageRank")
        pagerank: Any = order.cell.pagerank
        self.release: Release | None = None
        graph = order.data.graph
        chosen, roots = kept_nodes(graph, pagerank, order.generator("kept nodes"))
        random: Any = order.generator("release" if pagerank.released else "random rows")
        weights = self._released(graph, pagerank, chosen, roots, random)
        self.released = weights  # before columns are bounded
        every = pagerank.losses == "kept"
        others = np.setdiff1d(chosen, roots) if every else roots[:0]
        sampler: Sampler
        own = pagerank.release == "identity"
        if isinstance(mechanism, PoissonPagerank):
            weights = cap_columns(weights, mechanism.column_cap, order.generator("column priorities"))
            weights, roots = with_others(weights, roots, others)
            weights = scaled_columns(weights, 1.0) if every else weights
            self.rows = Rows(weights, roots, Lists.CAPPED_ROWS, column_cap=mechanism.column_cap)
            sampler = PoissonSampler(len(roots), mechanism.sampling_rate)
            # as they were made public
            self.divisor = expected_batch(rate=mechanism.sampling_rate, num_roots=mechanism.num_roots)
        else:
            weights, roots = with_others(weights, roots, others)
            weights = (scaled_columns if every else clip_columns)(weights, mechanism.column_norm)
            self.rows = Rows(weights, roots, Lists.SCALED_ROWS, column_norm=mechanism.column_norm)
            sampler = FixedSizeSampler(len(roots), mechanism.batch_size)
            self.divisor = float(mechanism.batch_size)
        self.rows = (Rows(weights, roots, Lists.NONE) if own else self.rows).checked()
        self.weights = with_own(weights, roots, pagerank.own_weight)
        self.length = longest(pagerank, len(graph.train_nodes))
        self.draws = Draws(sampler, order.generator("batches"))
        self.clip_norm = order.privacy.clip_norm
        self.device_key = lambda: order.secret_key("batches of the device")  # a stream that a captured step opens
        self.noise = order.noise(noise_std(noise_over_clip=order.noise_over_clip, clip_norm=self.clip_norm))
        self._step: RowStep | None = None

    def _released(
        self, graph: Graph, pagerank: Any, chosen: np.ndarray, roots: np.ndarray, random: CountedGenerator
    ) -> sp.csr_matrix:
        """Return the (M, N) rows of K entries that the mechanism releases, or that need no release."""
        mechanism = self.mechanism
        public = public_rows(graph, pagerank, chosen, roots, random)
        if public is not None:
            return public
        if not isinstance(mechanism, PoissonPagerank | FixedBatchPagerank) or mechanism.release_noise is None:
            raise invalid("release", pagerank.release, "a mechanism whose release is calibrated")
        rows, clip = exact_rows(graph, pagerank, chosen, roots), pagerank.clip or 0.0
        top_k, noise, values = min(mechanism.top_k, len(chosen)), mechanism.release_noise, mechanism.values_epsilon
        gaussian = mechanism.release == "gaussian"
        if gaussian:
            released = gaussian_release(rows, clip, noise, top_k, random)
        else:
            released = exponential_release(rows, clip, noise, top_k, random, values)
        scales = random.least_scales  # as they were drawn
        noise = scales["normal"] / clip if gaussian else clip / scales["gumbel"]
        values = None if values is None else top_k * clip / scales["laplace"]
        self.release = Release(
            kind=f"rows, {mechanism.release}",
            noise=noise,
            values_noise=values,
            sensitivity=matrix_sensitivity(rows.shape[0], clip) / clip if gaussian else 1.0,
            count=rows.shape[0],
        )
        return spread(released, chosen, graph)

    def closed(self, network: RowNetwork, optimizer: torch.optim.Optimizer) -> RowStep:
        """Return the step of a perceptron of one hidden layer, by closed forms."""
        self.trains(network)
        graph, device = self.data.graph, self.data.features.device
        privatizer = RowPrivatizer(network, self.clip_norm, self.noise, self.divisor)
        rows = row_table(graph, self.weights, self.rows.roots, self.length, device)
        self._step = RowStep(network, optimizer, rows, self.draws, privatizer)
        return self._step

    def ran(self, resumed_at: int = 0) -> Procedure:
        """Return what ran, read from the objects that drew, clipped and released."""
        step = self._step
        releases = () if self.release is None else (self.release,)
        if step is None or step.privatizer is None:
            return procedure(self.mechanism, (), None, 0.0, 0, releases)
        privatizer, draws = step.privatizer, step.draws
        sampler = draws.sampler
        clipped = ClippedSum(
            lists=self.rows.kind,
            max_degree=self.rows.column_cap,
            column_norm=self.rows.column_norm,
            batches=sampler.name,
            num_roots=sampler.num_roots,
            rate=getattr(sampler, "rate", None),
            batch_size=getattr(sampler, "size", None),
            clipped=Clipped.ROOT,
            clip_norms=(privatizer.clip_norm,),
            draws=draws.count + resumed_at,
        )
        return procedure(self.mechanism, (clipped,), privatizer.noise, privatizer.divisor, resumed_at, releases)


def row_table(graph: Graph, weights: sp.csr_matrix, roots: np.ndarray, length: int, device: torch.device) -> RowTable:
    """Return rows of at most `length` nodes, with the records that they name."""
    padded = PaddedRows.from_weights(weights, roots, length)
    return RowTable(padded, np.asarray(graph.features, dtype=np.float32), np.asarray(graph.labels), device)


def kept_nodes(graph: Graph, pagerank: Any, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Choose training nodes and roots by their ids alone.

    Returns:
        Ids of the kept nodes, ascending, and of the roots in the order of their rows.
    """
    nodes = graph.train_nodes
    kept, num_roots = kept_and_roots(pagerank, len(nodes))
    order = nodes[random.permutation(len(nodes))]
    return np.sort(order[:kept]), order[:num_roots]


def longest(pagerank: Any, num_train: int) -> int:
    """Return the most nodes that a row can name, its root included."""
    if pagerank.release == "identity":
        return 1
    return 1 + min(pagerank.top_k, kept_and_roots(pagerank, num_train)[0])


def public_rows(
    graph: Graph, pagerank: Any, chosen: np.ndarray, roots: np.ndarray, random: np.random.Generator
) -> sp.csr_matrix | None:
    """Return the (M, N) rows that need no release: own records, random columns, exact rows; None for all others."""
    shape = (len(roots), graph.num_nodes)
    top_k = min(pagerank.top_k, len(chosen))
    if pagerank.release == "identity":
        return sp.csr_matrix((np.ones(len(roots)), (np.arange(len(roots)), roots)), shape)
    if pagerank.release == "random":
        scores = sp.csr_matrix(random.random((len(roots), len(chosen))))
        return spread(largest_entries(scores, top_k, value=1 / top_k), chosen, graph)
    if pagerank.release == "exact":
        return spread(largest_entries(exact_rows(graph, pagerank, chosen, roots), top_k), chosen, graph)
    return None


def exact_rows(graph: Graph, pagerank: Any, chosen: np.ndarray, roots: np.ndarray) -> sp.csr_matrix:
    """Return the (M, kept) rows of PageRank over the kept nodes and the edges among them; all others are 0."""
    adjacency = induced_adjacency(graph, chosen)
    rows = approximate_pagerank(adjacency, roots, pagerank.teleport, pagerank.sparsity, pagerank.tolerance)
    return sp.csr_matrix(rows[:, chosen])


def spread(rows: sp.csr_matrix, chosen: np.ndarray, graph: Graph) -> sp.csr_matrix:
    """Widen rows over the kept nodes to rows over all nodes."""
    entries = rows.tocoo()
    return sp.csr_matrix((entries.data, (entries.row, chosen[entries.col])), (rows.shape[0], graph.num_nodes))


def clip_columns(rows: sp.csr_matrix, column_norm: float) -> sp.csr_matrix:
    """Scale every column to L1 norm at most tau (Algorithm 9, line 3)."""
    norms = np.asarray(abs(rows).sum(axis=0)).ravel()
    factors = 1 / np.maximum(1.0, norms / column_norm)
    return sp.csr_matrix((rows.data * factors[rows.indices], rows.indices, rows.indptr), rows.shape)


def scaled_columns(rows: sp.csr_matrix, column_norm: float) -> sp.csr_matrix:
    """Scale every column that is not 0 to L1 norm tau, as the authors' later code does."""
    norms = np.asarray(abs(rows).sum(axis=0)).ravel()
    factors = np.divide(column_norm, norms, out=np.zeros_like(norms), where=norms > 0)
    return sp.csr_matrix((rows.data * factors[rows.indices], rows.indices, rows.indptr), rows.shape)


def with_others(rows: sp.csr_matrix, roots: np.ndarray, others: np.ndarray) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the rows with one more for each of `others`, which names its own record alone, and all roots."""
    own = sp.csr_matrix((np.ones(len(others)), (np.arange(len(others)), others)), (len(others), rows.shape[1]))
    return sp.csr_matrix(sp.vstack([rows, own], format="csr")), np.concatenate([roots, others])


def with_own(rows: sp.csr_matrix, roots: np.ndarray, own_weight: float) -> sp.csr_matrix:
    """Return rows with weight `own_weight` on the root's own record and the rest, at L1 norm 1, on its row.

    All of the weight is on the own record where the row is 0. A root reads its own record anyway, so no more roots
    depend on a node.
    """
    if own_weight == 0:
        return rows
    norms = np.asarray(abs(rows).sum(axis=1)).ravel()
    scale = np.divide(1 - own_weight, norms, out=np.zeros_like(norms), where=norms > 0)
    own = np.where(norms > 0, own_weight, 1.0)
    eye = sp.csr_matrix((own, (np.arange(len(roots)), roots)), rows.shape)
    return sp.csr_matrix(sp.diags(scale) @ rows + eye)
