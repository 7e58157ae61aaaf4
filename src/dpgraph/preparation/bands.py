"""Banded noise and cyclic batches for steps over single records, and what of them ran (docs/privacy.md, Theorem M)."""

from __future__ import annotations

from typing import Any

from dpgraph.preparation.base import Order
from dpgraph.privacy.banded import FIRST_MOMENT, best_matrix
from dpgraph.privacy.procedure import Procedure
from dpgraph.privacy.relation import Relation
from dpgraph.sampling.batches import Draws
from dpgraph.sampling.cyclic import CyclicDraws, CyclicSampler, public_groups
from dpgraph.training.banded import BandedNoise
from dpgraph.training.noise import GaussianNoise


def cyclic_draws(order: Order, generator: Any, *, num_roots: int, rate: float, bands: int) -> CyclicDraws:
    """Of steps 0, 1, ...; `rate` is that of a group, b q."""
    groups = public_groups(num_roots, bands, order.key("groups of bands"))
    return CyclicDraws(CyclicSampler(groups, bands, rate), generator)


def correlated(order: Order, noise: GaussianNoise, *, steps: int, bands: int) -> BandedNoise:
    """`noise` through the matrix that is best for the cell's optimiser."""
    training = order.cell.training
    momentum = training.momentum if training.optimizer == "sgd" else FIRST_MOMENT
    matrix = best_matrix(
        steps=steps, bands=bands, momentum=momentum, averaged_share=getattr(training, "averaged_share", 0.0)
    )
    return BandedNoise.over(noise, matrix)


def as_it_ran(ran: Procedure, noise: GaussianNoise, draws: Draws) -> Procedure:
    """`ran` with bands and groups; nothing is proved where a root may be drawn again before its noise has ended."""
    bands = noise.matrix.bands if isinstance(noise, BandedNoise) and noise.matrix is not None else 1
    if not isinstance(draws, CyclicDraws) or not isinstance(draws.sampler, CyclicSampler):
        return ran.model_copy(update={"bands": bands, "relation": Relation.NONE if bands > 1 else ran.relation})
    apart = draws.sampler.num_parts if draws.apart is None else draws.apart
    terms = tuple(term.model_copy(update={"num_parts": apart}) for term in ran.terms)
    relation = Relation.NONE if bands > apart else ran.relation
    return ran.model_copy(update={"terms": terms, "bands": bands, "relation": relation})
