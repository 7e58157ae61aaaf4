"""Accountants of private PageRank vectors by name (Zhang 2021, chapter 5)."""

from __future__ import annotations

import math
from typing import Annotated

from dpgraph.families.trees.accountant import check_batch, double_mixture
from dpgraph.privacy.accountants import parameters as par
from dpgraph.privacy.accountants.declaration import accountant, reference
from dpgraph.privacy.accountants.steps import MOST_MOMENTS, moments
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import PUBLIC, Statement

Rows = Annotated[int, par.count("M")]
RowDelta = Annotated[float, par.Parameter("delta of one row", above=0, most=1)]
ColumnSupport = Annotated[int, par.count("rows of the released matrix that may name one node", most=par.MOST_TERMS)]
TopK = Annotated[int, par.count("K: entries per row")]
Gumbel = Annotated[float, par.price("Gumbel scale is C2 / eps_gumbel")]
Laplace = Annotated[float, par.price("option 2 adds Laplace(K C2 / eps_laplace)")]
BOUNDED_RANGE = "{M K} draws of bounded range"
GAUSSIAN_ROWS = "all rows are one Gaussian mechanism of sensitivity sqrt(2 M) C1, {mu}"
READERS = "at most {R} roots read a node's record"
TRAINING = Statement(
    method=double_mixture.statement.method, relation=Relation.NODE_NULL, sampling="Poisson, rate {q}, of {M} roots",
    not_covered=(PUBLIC,),
    assumptions=(GAUSSIAN_ROWS, READERS, "roots are chosen by public ids"),
)  # fmt: skip
THEOREMS_6_TO_8 = Statement(
    method="Theorems 6 to 8, moments accountant with lambda 1 to {lambda_max}", relation=Relation.NODE_REMOVE,
    sampling="rate {B / N}",
    assumptions=("constants of Theorem 8 are not given: moments accountant at sigma / tau",),
)  # fmt: skip


@accountant(
    "published",
    Statement(method="Theorem 6", relation=THEOREMS_6_TO_8.relation, sampling="none",
              assumptions=("row sensitivity C1, although two clipped rows differ by up to sqrt(2) C1",)),
    noise="sigma_over_clip",
    unproved="rows differ by up to sqrt(2) C1: see gaussian with sensitivity sqrt(2 M)",
    references=(reference(3.999861, 2e-3, "root of Theorem 6 by bisection", rows=70, sigma_over_clip=55.0256,
                          row_delta=1.429e-5),),
)  # fmt: skip
def appr_gaussian_theorem6(*, rows: Rows, sigma_over_clip: par.OverClip, row_delta: RowDelta) -> float:
    """Return epsilon by Theorem 6: M rows, each (eps_row, delta_row), by advanced composition.

    The total delta is 2 M delta_row.
    """
    from dpgraph.families.pagerank.epsilon import theorem6_epsilon

    return theorem6_epsilon(rows=rows, noise=sigma_over_clip, row_delta=row_delta)


@accountant(
    "published",
    Statement(method="Theorem 7", relation=THEOREMS_6_TO_8.relation, sampling="none"),
    name="appr_exponential",
    references=(reference(8.914314, 1.4e-3, "root of Theorem 7 by bisection", rows=70, top_k=4, eps_gumbel=0.02,
                          eps_laplace=0.02),),
)  # fmt: skip
def appr_exponential_theorem7(
    *, rows: Rows, top_k: TopK, eps_gumbel: Gumbel, delta: float, row_delta: RowDelta | None = None,
    eps_laplace: Laplace | None = None,
) -> float:  # fmt: skip
    """Return epsilon by Theorem 7, with e^(2 eps) where the thesis prints eps^(2 eps); delta_row is delta / (2 M)."""
    from dpgraph.families.pagerank.epsilon import theorem7_epsilon

    each = delta / (2 * rows) if row_delta is None else row_delta
    return theorem7_epsilon(rows=rows, top_k=top_k, eps_gumbel=eps_gumbel, row_delta=each, eps_laplace=eps_laplace)


@accountant(
    "rigorous",
    Statement(method="zCDP of the draws", relation=Relation.NODE_NULL, sampling="none", assumptions=(BOUNDED_RANGE,)),
    references=(reference(1.572948, 1e-5, "least over real orders by Brent's method", tolerance=1e-3, rows=70, top_k=4,
                          eps_gumbel=0.02, eps_laplace=0.02),),
)  # fmt: skip
def appr_exponential(
    *, rows: Rows, top_k: TopK, eps_gumbel: Gumbel, delta: float, eps_laplace: Laplace | None = None
) -> float:
    """Return the proved epsilon of M K draws of bounded range: rho = M (K eps^2 / 2 + eps_2^2 / 2) zCDP."""
    from dpgraph.families.pagerank.epsilon import exponential_epsilon

    return exponential_epsilon(rows=rows, top_k=top_k, eps_gumbel=eps_gumbel, delta=delta, eps_laplace=eps_laplace)


@accountant(
    "published",
    THEOREMS_6_TO_8.also("a capped column norm bounds a node's effect on training",
                         "sampling a share q' once multiplies epsilon by q'"),
    noise="noise_multiplier",
    unproved="after softmax and clipping a column's norm bounds nothing, and batches come from the M rows: see "
             "appr_training",
    references=(reference(0.9675, 1e-5, "0.09 (1 + 9.75), Igamberdiev & Habernal 2022, Table 3", tolerance=6e-4,
                          num_train=100, batch_size=100, noise_multiplier=52, column_norm=2, steps=2000,
                          eps_pagerank=1, sampled_share=0.09),),
)  # fmt: skip
def appr_training_theorem8(
    *, num_train: par.NumTrain, batch_size: par.BatchSize, noise_multiplier: par.NoiseMultiplier,
    column_norm: Annotated[float, par.noise("tau, cap on the norm of each column of the released matrix")],
    steps: par.Steps, eps_pagerank: Annotated[float, par.price("epsilon of the released matrix", least=0)],
    delta: float,
    sampled_share: Annotated[float, par.rate("q', share of the nodes drawn once before training (default: 1)")] = 1.0,
    lambda_max: par.Moments = MOST_MOMENTS,
) -> float:  # fmt: skip
    """Return epsilon by Theorem 8: (eps_pr + the moments accountant at rate B / N and multiplier sigma / tau) q'.

    Sampling a share once gives ln(1 + q'(e^eps - 1)) instead.
    """
    check_batch(batch_size, num_train)
    rate, noise = batch_size / num_train, noise_multiplier / column_norm
    training = moments(q=rate, noise_multiplier=noise, steps=steps, delta=delta, lambda_max=lambda_max)
    return sampled_share * (eps_pagerank + training)


@accountant(
    "rigorous",
    TRAINING.also("column support capped on the released matrix", "rows non-negative and clipped"),
    premises=par.SGD, noise="noise_multiplier", rate="q",
    references=(reference(2.491291, 1e-5, "closed form of Gaussian DP in full batches", tolerance=2e-3, rows=20,
                          sigma_over_clip=40, column_support=2, q=1, noise_multiplier=60, steps=50),),
)  # fmt: skip
def appr_training(
    *, rows: Rows, sigma_over_clip: par.OverClip,
    column_support: ColumnSupport, q: par.Rate, noise_multiplier: par.NoiseMultiplier, steps: par.Steps, delta: float,
) -> float:  # fmt: skip
    """Return the epsilon of M non-negative rows as one Gaussian release, then Theorem 4 with R = column support + 1.

    Capping the columns of the released rows is post-processing: docs/privacy/accountants.md.
    """
    from dpgraph.privacy.accountants.composition import composed_epsilon, gaussian_pair
    from dpgraph.privacy.accountants.double_mixture import affected_roots_pair

    pair = affected_roots_pair(affected_roots=column_support + 1, rate=q, noise_std=noise_multiplier)
    return composed_epsilon(pair, steps=steps, delta=delta, once=gaussian_pair(math.sqrt(2 * rows) / sigma_over_clip))
