"""DP-APPR and its baselines: training on rows of approximate personalised PageRank (Zhang 2021, chapter 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell, Pagerank
from dpgraph.methods.assembly import fixed_size_sampler, noise_over_clip
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.methods.pagerank_release import cap_columns, exponential_release, gaussian_release, largest_entries
from dpgraph.methods.row_training import NoisySum, Reading, train_rows
from dpgraph.methods.together import only
from dpgraph.privacy.for_cell import kept_and_roots
from dpgraph.privacy.mechanisms import FixedBatchPagerank, PoissonPagerank
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.sampling.pagerank import approximate_pagerank, induced_adjacency
from dpgraph.training.loop import Diverged


class Appr:
    """A two-layer perceptron over exact rows of PageRank, without privacy: Vanilla of the thesis."""

    private = False

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return train_rows(jobs, observes, settings(jobs[0]), self.reading, None)

    def reading(self, job: Job) -> Reading:
        rows, roots = rows_of(job, settings(job))
        return Reading(rows, roots, longest(job), fixed_size_sampler(job.cell, len(roots)))


class DpAppr:
    """Rows of PageRank released privately, then DP-SGD or DP-Adam on them (Algorithms 6 to 9).

    `rigorous`: columns of the released rows keep K_col entries, Poisson batches of roots. `published`: columns of L1
    norm tau, batches of fixed size; with release=exact the noise std is sigma B C (Eq. 5.5, baseline DPSGD). Baselines
    by release: identity is Features, random is Random. Roots and kept nodes are chosen by public ids, anew for each
    seed; inference is power iteration.
    """

    private = True

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return train_rows(jobs, observes, settings(jobs[0]), self.reading, self.noisy_sum(jobs[0]))

    def noisy_sum(self, job: Job) -> NoisySum:
        """The divisor is the batch size, or its expectation at the number of roots that was made public."""
        privacy, mechanism = job.cell.privacy, _mechanism(job)
        if privacy is None:
            raise invalid("privacy", None, f"a budget for the method {job.cell.method}")
        if isinstance(mechanism, PoissonPagerank):
            divisor = mechanism.sampling_rate * mechanism.num_roots
        else:
            divisor = float(mechanism.batch_size)
        return NoisySum(privacy.clip_norm, noise_over_clip(mechanism) * privacy.clip_norm, divisor)

    def reading(self, job: Job) -> Reading:
        pagerank, mechanism = settings(job), _mechanism(job)
        rows, roots = rows_of(job, pagerank)
        sampler: Sampler
        if isinstance(mechanism, PoissonPagerank):
            rows = cap_columns(rows, mechanism.column_cap, numpy_generator(*job.names("column priorities")))
            sampler = PoissonSampler(len(roots), mechanism.sampling_rate)
        else:
            rows = clip_columns(rows, mechanism.column_norm)
            sampler = FixedSizeSampler(len(roots), mechanism.batch_size)
        return Reading(with_own(rows, roots, pagerank.own_weight), roots, longest(job), sampler)


def _mechanism(job: Job) -> PoissonPagerank | FixedBatchPagerank:
    if not isinstance(job.mechanism, PoissonPagerank | FixedBatchPagerank):
        raise invalid("mechanism", job.mechanism.kind, "poisson-pagerank or fixed-batch-pagerank")
    return job.mechanism


def settings(job: Job) -> Pagerank:
    if job.cell.pagerank is None:
        raise invalid("pagerank", "null", f"rows of PageRank for the method {job.cell.method}")
    return job.cell.pagerank


def longest(job: Job) -> int:
    """Most nodes that a row can name, its root included."""
    pagerank = settings(job)
    if pagerank.release == "identity":
        return 1
    return 1 + min(pagerank.top_k, kept_and_roots(pagerank, len(job.graph.train_nodes))[0])


def rows_of(job: Job, pagerank: Pagerank) -> tuple[sp.csr_matrix, np.ndarray]:
    """(M, N) K entries a row, released or public, and the (M,) node ids of the roots, in the order of the rows.

    Kept nodes and roots depend on ids and the seed only. Noise is drawn for the columns of kept nodes: others are
    publicly zero.
    """
    nodes = job.graph.train_nodes
    kept, num_roots = kept_and_roots(pagerank, len(nodes))
    order = nodes[numpy_generator(*job.names("kept nodes")).permutation(len(nodes))]
    chosen, roots = np.sort(order[:kept]), order[:num_roots]
    random = numpy_generator(*job.names("rows"))
    if pagerank.release == "identity":
        return sp.csr_matrix((np.ones(len(roots)), (np.arange(len(roots)), roots)), _shape(job, roots)), roots
    top_k = min(pagerank.top_k, kept)
    if pagerank.release == "random":
        return _spread(_random_rows(len(roots), kept, top_k, random), chosen, job, roots), roots
    adjacency = induced_adjacency(job.graph, chosen)
    rows = approximate_pagerank(adjacency, roots, pagerank.teleport, pagerank.sparsity, pagerank.tolerance)
    return _spread(_released(rows[:, chosen], pagerank, top_k, job, random), chosen, job, roots), roots


def _released(
    rows: sp.csr_matrix, pagerank: Pagerank, top_k: int, job: Job, random: np.random.Generator
) -> sp.csr_matrix:
    """(M, kept) rows of PageRank -> what training may read of them."""
    mechanism = job.mechanism
    if pagerank.release == "exact":
        return largest_entries(rows, top_k)
    if not isinstance(mechanism, PoissonPagerank | FixedBatchPagerank) or mechanism.release_noise is None:
        raise invalid("release", pagerank.release, "a mechanism whose release is calibrated")
    clip = pagerank.clip or 0.0
    if pagerank.release == "gaussian":
        return gaussian_release(rows, clip, mechanism.release_noise, top_k, random)
    return exponential_release(rows, clip, mechanism.release_noise, top_k, random, mechanism.values_epsilon)


def _shape(job: Job, roots: np.ndarray) -> tuple[int, int]:
    return len(roots), job.graph.num_nodes


def _random_rows(num_rows: int, columns: int, top_k: int, random: np.random.Generator) -> sp.csr_matrix:
    """K distinct columns a row, of weight 1 / K: baseline Random."""
    return largest_entries(sp.csr_matrix(random.random((num_rows, columns))), top_k, value=1 / top_k)


def _spread(rows: sp.csr_matrix, chosen: np.ndarray, job: Job, roots: np.ndarray) -> sp.csr_matrix:
    """Columns of kept nodes -> columns of all nodes."""
    entries = rows.tocoo()
    return sp.csr_matrix((entries.data, (entries.row, chosen[entries.col])), _shape(job, roots))


def clip_columns(rows: sp.csr_matrix, column_norm: float) -> sp.csr_matrix:
    """Line 3 of Algorithm 9: columns of L1 norm at most tau."""
    norms = np.asarray(abs(rows).sum(axis=0)).ravel()
    factors = 1 / np.maximum(1.0, norms / column_norm)
    return sp.csr_matrix((rows.data * factors[rows.indices], rows.indices, rows.indptr), rows.shape)


def with_own(rows: sp.csr_matrix, roots: np.ndarray, own_weight: float) -> sp.csr_matrix:
    """own_weight on the root's own record, the rest of weight 1 on its row at L1 norm 1; all on it where the row is 0.

    A root reads its own record anyway, so nobody is added to whom a node matters.
    """
    if own_weight == 0:
        return rows
    norms = np.asarray(abs(rows).sum(axis=1)).ravel()
    scale = np.divide(1 - own_weight, norms, out=np.zeros_like(norms), where=norms > 0)
    own = np.where(norms > 0, own_weight, 1.0)
    eye = sp.csr_matrix((own, (np.arange(len(roots)), roots)), rows.shape)
    return sp.csr_matrix(sp.diags(scale) @ rows + eye)


METHODS: dict[str, Method] = {"appr": Appr(), "dp-appr": DpAppr()}
