"""Mechanism of DPDGC: learnt vectors of nodes, summed over neighbours with noise (Theorem 20,
docs/privacy/aggregates.md).

Chien et al. (2023). T1 noisy steps learn a vector for each node, from the labels of the nodes that it is summed at. The
sums of the learnt vectors are released once. T2 noisy steps train a classifier of own records and these sums.
`noise_multiplier` is the noise std over the clip norm of the classifier's steps; the other two are public multiples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.aggregates.mechanism import CAPPED_SUMS, PRINTED_SUMS, SWAPPED_EDGE, CappedAggregates
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms.base import Count, Noise
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Procedure
from dpgraph.privacy.public_numbers import noise_std
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.renyi import Orders

EDGE_ROOTS = 4  # roots whose rows an edge changes: both ends, and the node each sends to instead
EMBEDDED_SUMS = replace(
    CAPPED_SUMS,
    assumptions=(
        "a gradient of the classifier reads one record and what was released; one of the embedding reads a label and "
        "the ids of those who send to its root, so that {R} of them change with a record",
        "a node's learnt vector of norm 1 is added to at most {D} nodes of its own list, chosen by public priorities",
        *CAPPED_SUMS.assumptions[2:],
    ),
)
PRINTED_EMBEDDING = replace(
    PRINTED_SUMS, relation=Relation.NODE_REPLACE,
    assumptions=(
        "every node is in at most {D} rows of the adjacency matrix; replacing it moves a step of the embedding by "
        "2 sqrt({D} + 1) clip norms and the released rows by sqrt(2 * {D})",
        "as the released code counts, with Poisson batches in the place of batches of fixed size",
    ),
)  # fmt: skip


class EmbeddedAggregates(CappedAggregates):
    """T1 steps on senders' ids and labels, one noisy sum of sensitivity sqrt(D), T2 steps on single records.

    Under node-null at most R = D + 1 roots of a step of the embedding change: the record's own, whose term vanishes,
    and the D that it sends to. Theorem 20 applies Theorem 4 with this R.

    Guarantee: node-null (epsilon, delta)-DP, scope joint.
    """

    prepared: ClassVar[str] = "dpgraph.families.aggregates.embedding:PreparedEmbedding"

    kind: Literal["embedded-aggregates"] = "embedded-aggregates"  # type: ignore[assignment]
    embedding_steps: Count = Field(description="T1, the first of the T steps")
    embedding_ratio: Noise = Field(description="Noise std of a step of the embedding / that of one of the classifier")

    def _check(self) -> None:
        super()._check()
        if self.aggregations != 1:
            raise invalid("aggregations", self.aggregations, "1: the learnt vectors are summed once")

    @property
    def parts(self) -> tuple[int, int]:
        """T1 and T2: steps of the embedding and of the classifier."""
        steps, _ = self.closed()
        first = min(steps, self.embedding_steps)
        return first, steps - first

    @property
    def embedding_noise(self) -> float:
        """Noise std of a step of the embedding, in units of the clip norm."""
        return self.embedding_ratio * self.closed()[1]

    @property
    def affected_roots(self) -> int:
        """R: roots whose gradient a record changes, its own included.

        It is one more than there are roots if the record is no root.
        """
        return min(self.receivers, self.num_roots) + 1

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of both kinds of steps and the sum at `orders`."""
        from dpgraph.privacy.accountants.composition import pair_rdp

        (first, second), noise = self.parts, self.closed()[1]
        one, many = self._pair(1, noise), self._pair(self.affected_roots, self.embedding_noise)
        steps = first * pair_rdp(many, orders) + second * pair_rdp(one, orders)
        return np.asarray(steps + np.asarray(orders) * self.release_mu**2 / 2)

    def _epsilon(self) -> float:
        """Return the epsilon of Theorem 20 under node-null."""
        from dpgraph.privacy.accountants.composition import ComposedPair, RepeatedPair, composed_epsilon, gaussian_pair
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        (first, second), noise, roots = self.parts, self.closed()[1], self.affected_roots
        if self.sampling_rate == 1:
            embedding = math.sqrt(first) * (2 * roots - 1) / self.embedding_noise
            mu = math.hypot(embedding, math.sqrt(second) / noise, self.release_mu)
            return gaussian_epsilon(mu=mu, delta=self.delta)
        many, released = self._pair(roots, self.embedding_noise), gaussian_pair(self.release_mu)
        if not second:
            return composed_epsilon(many, steps=first, delta=self.delta, once=released)
        return composed_epsilon(
            self._pair(1, noise),
            steps=second,
            delta=self.delta,
            once=ComposedPair((RepeatedPair(many, first), released)),
        )

    def published(self) -> Guarantee:
        """Return the guarantee by the count of the released code.

        It adds up the Renyi DP of two subsampled Gaussian mechanisms and one Gaussian release under replacement, and
        charges D + 1 changed rows as sqrt(D + 1) clip norms.
        """
        from dpgraph.families.aggregates.epsilon import embedded_epsilon

        first, second = self.parts
        epsilon = embedded_epsilon(
            rate=self.sampling_rate,
            embedding_steps=first,
            embedding_noise=self.embedding_noise / (2 * math.sqrt(self.receivers + 1)),
            sums_noise=self.sums_noise / math.sqrt(2),
            steps=second,
            noise_multiplier=self.closed()[1] / 2,
            delta=self.delta,
        )
        stated = PRINTED_EMBEDDING.filled({"q": f"{self.sampling_rate:.6g}", "D": self.receivers})
        most = self.receivers + 1
        aligned = (
            f"{most} clipped gradients that change move a sum by up to 2 * {most} clip norms, not 2 sqrt({most}), and "
            "are not drawn together"
        )
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=(*self.unmet, aligned))

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the guarantee of the same run for an edge in both ends' lists.

        Two rows lose an id, and two others may get one.
        """
        from dpgraph.privacy.accountants.composition import composed_epsilon, gaussian_pair
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon

        first, mu = self.parts[0], SWAPPED_EDGE / math.sqrt(self.receivers) * self.release_mu
        roots = min(EDGE_ROOTS, self.num_roots)
        if self.sampling_rate == 1:
            embedding = math.sqrt(first) * 2 * roots / self.embedding_noise
            epsilon = gaussian_epsilon(mu=math.hypot(embedding, mu), delta=self.delta)
        else:
            pair = self._pair(roots, self.embedding_noise, own_root_removed=False)
            epsilon = composed_epsilon(pair, steps=first, delta=self.delta, once=gaussian_pair(mu))
        return (self._proved(replace(self._stated, relation=Relation.EDGE), epsilon),)

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the clipped sums of the embedding and of the classifier."""
        first, second = self.parts
        (own,) = super().terms(clip_norms)
        embedding = ClippedSum(
            lists=Lists.STABLE,
            hops=1,
            max_degree=self.receivers,
            batches=Batches.POISSON,
            num_roots=self.num_roots,
            rate=self.sampling_rate,
            clipped=Clipped.ROOT,
            clip_norms=clip_norms,
            draws=first,
        )
        return embedding, own.model_copy(update={"draws": second})

    @property
    def streams(self) -> dict[str, int | None]:
        """Draws of each stream: each of the two terms has its own batches and noise."""
        first, second = self.parts
        own = {"noise of the embedding": first, "batches of the embedding": first}
        return {**super().streams, **own, "noise": second, "batches": second}

    def procedure(self, clip_norms: tuple[float, ...]) -> Procedure:
        """Return the accounted procedure, in which each of the two terms has its own noise."""
        (clip_norm,) = clip_norms
        first = noise_std(noise_over_clip=self.embedding_noise, clip_norm=clip_norm)
        stated = super().procedure(clip_norms)
        return stated.model_copy(update={"noise_std": (first, *stated.noise_std)})

    @property
    def _stated(self) -> Statement:
        return EMBEDDED_SUMS.filled({"q": f"{self.sampling_rate:.6g}", "D": self.receivers, "R": self.affected_roots})


def first_half(steps: int) -> int:
    """Return the number of steps of the first half; both have at least one step if there are two."""
    return max(1, min(steps - 1, round(0.5 * steps)))


def embedded_aggregates(request: MechanismRequest) -> EmbeddedAggregates:
    """Build the mechanism of variant `rigorous`.

    Without shares, the sum, a step of the embedding and one of the classifier cost the same in full batches: a record
    moves them by sqrt(D), (2 D + 1) C and C.
    """
    receivers = request.privacy.receivers
    return _embedded(request, step=2 * receivers + 1, released=1.0)


def printed_embedded_aggregates(request: MechanismRequest) -> EmbeddedAggregates:
    """Build the mechanism of variant `published`, with the charges of the released code.

    They are 2 C for a step of the classifier, 2 sqrt(D + 1) C for one of the embedding and sqrt(2 D) for the sum.
    """
    receivers = request.privacy.receivers
    return _embedded(request, step=math.sqrt(receivers + 1), released=math.sqrt(0.5))


def _embedded(request: MechanismRequest, step: float, released: float) -> EmbeddedAggregates:
    """Build the mechanism from what each part is charged.

    Squares of mu are as the shares; T steps at rate q count q^2 T / s^2, which is exact for full batches.

    Args:
        request: The cell and its public counts.
        step: Charge of a step of the embedding over one of the classifier.
        released: Charge of the sum over sqrt(D).
    """
    if request.steps is None:
        raise invalid("steps", "max", "a number: vectors are learnt in a share of that many steps")
    privacy = request.privacy
    first = first_half(request.steps)
    embedding_ratio, sums_ratio = step, released
    if privacy.sums_share is not None:
        rest, steps = 1 - privacy.sums_share - privacy.embedding_share, max(1, request.steps - first)
        embedding_ratio *= math.sqrt(rest / privacy.embedding_share * first / steps)
        sums_ratio *= math.sqrt(rest / privacy.sums_share / steps) / request.rate
    return EmbeddedAggregates(
        **request.common(request.num_train),
        sampling_rate=request.rate,
        aggregations=1,
        receivers=privacy.receivers,
        sums_ratio=sums_ratio,
        embedding_steps=first,
        embedding_ratio=embedding_ratio,
    )
