"""Mechanisms on bounded trees with a proof: Poisson batches, residual clipping, batches of fixed size, records alone.

All of them take their trees from the stable sampler (docs/privacy/trees.md, Theorem 3) and clip at public norms. The
proofs are Theorems 4, 5 and 7 and, for batches of fixed size, Theorem 1 of Daigavane et al. at the R that holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees import accountant
from dpgraph.families.trees.accountant import double_mixture
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms import base
from dpgraph.privacy.mechanisms.batches import FixedBatches, PairSteps, PoissonBatches
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Loss
from dpgraph.privacy.public_numbers import tree_size, whole_batch
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.double_mixture import MixturePair
    from dpgraph.privacy.accountants.renyi import Orders
from pydantic import model_validator

from dpgraph.privacy.relation import PredictionInput

THEOREM_1_PROVED = replace(
    double_mixture.statement,
    method="Theorem 1 of Daigavane et al. at the number of roots that do change, all real orders",
    sampling=accountant.HYPERGEOMETRIC.sampling,
)


class StableTrees(base.NoisySteps):
    """Ego trees of depth r over the stable sampler's lists."""

    relation: ClassVar[Relation] = double_mixture.statement.relation
    prepared: ClassVar[str] = "dpgraph.families.trees.prepared:PreparedTrees"
    drawn: ClassVar[Batches] = Batches.POISSON
    hops: int = Field(description="r; 0: a root's own record only")
    max_degree: int | None = Field(default=None, description="K: lists in which a node may occur; None without hops")
    list_cap: int | None = Field(default=None, description="D: longest list; None without hops")

    def _check(self) -> None:
        super()._check()
        base.check_tree(hops=self.hops, max_degree=self.max_degree)
        if (self.list_cap is None) != (self.hops == 0) or (self.list_cap is not None and self.list_cap < 1):
            raise invalid("list_cap", self.list_cap, "an integer >= 1 with hops, left out without hops")

    @property
    def changed_trees(self) -> int:
        """N(K, r) + D N(K, r - 1): trees that one record changes, whichever nodes are roots; 1 without hops."""
        if self.hops == 0:
            return 1
        degree, cap = self.max_degree or 0, self.list_cap or 0
        return tree_size(max_degree=degree, hops=self.hops) + cap * tree_size(max_degree=degree, hops=self.hops - 1)

    @property
    def affected_roots(self) -> int:
        """R: changed trees of the num_roots training nodes, plus one for a record that is no root."""
        return min(self.changed_trees, self.num_roots + 1)

    @property
    def reach(self) -> int:
        """N(K, r): the number of roots that the paper counts."""
        return tree_size(max_degree=self.max_degree or 0, hops=self.hops)

    def _published(self, rate: float, batch_size: int, noise: float) -> Guarantee:
        """Return Theorem 1 of the paper at this noise; without hops, the released code's own accountant of DP-MLP.

        Args:
            rate: q.
            batch_size: m.
            noise: Noise std over the clip norm: 2 N(K, r) lambda.
        """
        run: dict[str, Any] = {"steps": self.closed()[0], "delta": self.delta}
        if self.hops == 0:
            return base.published_mlp(rate=rate, noise=noise, unmet=self._unmet(base.RELEASED_MLP), **run)
        return accountant.published_theorem1(
            num_roots=self.num_roots,
            batch_size=batch_size,
            reach=self.reach,
            noise_multiplier=noise / (2 * self.reach),
            remark="evaluated at this noise",
            unmet=self._unmet(base.THEOREM_1),
            **run,
        )

    def _stated(self, statement: Statement, **numbers: object) -> Statement:
        """Return the statement with R; without hops it has no assumptions on lists."""
        if self.hops == 0:
            kept = tuple(text for text in statement.assumptions if text not in double_mixture.statement.assumptions)
            statement = replace(statement, assumptions=kept)
        return statement.filled({"R": self.affected_roots, **numbers})

    @property
    def lists(self) -> Lists:
        """Kind of the lists."""
        return Lists.STABLE if self.hops else Lists.NONE

    @property
    def shape(self) -> base.Shape:
        """The shape of a step, which is compared with the one that ran."""
        return base.Shape(lists=self.lists, batches=self.drawn, clipped=Clipped.ROOT)

    def _trees(self) -> dict[str, Any]:
        """Return the fields of a term over the sampler's trees."""
        return {"lists": self.lists, "hops": self.hops, "max_degree": self.max_degree, "list_cap": self.list_cap}


class PoissonTrees(PairSteps, PoissonBatches, StableTrees):
    """Poisson batches of bounded trees, one joint clip norm: the proved DP-GNN, and with hops=0 DP-MLP (Theorem 4).

    Each step takes every root with probability `sampling_rate` and clips each root's whole gradient to the public norm
    C. It adds N(0, (noise_multiplier * C)^2) to their sum and divides by sampling_rate * num_roots. By Theorem 3,
    with the stable sampler one node changes at most `affected_roots` roots, its own included.

    A node that is no root changes one term fewer and has no term of its own. So at most R - 1 roots change on both
    sides, with norms at most those of the pair (R, R - 1), which therefore dominates. The same holds for fewer than R
    roots.

    Guarantee: node-null (epsilon, delta)-DP of all parameters ever released. Raises UserError where the theorem does
    not hold.
    """

    kind: Literal["poisson-trees"] = "poisson-trees"

    @property
    def dominating_pair(self) -> MixturePair:
        """Dominating pair of one step, in units of the clip norm."""
        return self._pair(self.affected_roots, self.closed()[1])

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 4."""
        stated = self._stated(double_mixture.statement, q=f"{self.sampling_rate:.6g}")
        return self._proved(stated, self._composed())

    def published(self) -> Guarantee:
        """Return the guarantee that the paper's Theorem 1 claims at this noise."""
        batch = whole_batch(rate=self.sampling_rate, num_roots=self.num_roots)
        return self._published(self.sampling_rate, batch, self.closed()[1])

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the clipped sum of a step."""
        return (self._term(clip_norms, **self._trees(), rate=self.sampling_rate),)


class ResidualTrees(PairSteps, PoissonBatches, StableTrees):
    """Residual clipping with two independent Poisson batches per step: only what neighbours add is charged (Theorem 7).

    Each step draws S1 at rate `sampling_rate` and S2 at rate `neighbour_rate`. It releases the sum over S1 of the self
    gradients clipped at C_s, plus the sum over S2 of what neighbours add, clipped at C_n = neighbour_clip * C_s, plus
    N(0, (noise_multiplier * C_s)^2). A self gradient reads the root's own record only. One batch for both terms is
    another mechanism, for which this bound is false (accountant residual_one_batch).

    Guarantee: node-null (epsilon, delta)-DP of all parameters ever released. neighbour_clip = 0 costs what DP-MLP does.
    """

    kind: Literal["residual-trees"] = "residual-trees"
    sampling_rate: base.Rate = Field(description="q1, public: rate of the self terms")
    neighbour_rate: base.Rate = Field(description="q2, public: rate of the neighbour terms")
    neighbour_clip: base.NotNegative = Field(description="C_n / C_s, public")

    def _check(self) -> None:
        super()._check()
        if self.hops < 1:
            raise invalid("hops", self.hops, "an integer >= 1")

    @property
    def dominating_pair(self) -> MixturePair:
        """Dominating pair of one step, in units of C_s."""
        from dpgraph.privacy.accountants.double_mixture import residual_pair

        _, noise = self.closed()
        return residual_pair(
            affected_roots=self.affected_roots,
            self_rate=self.sampling_rate,
            neighbour_rate=self.neighbour_rate,
            neighbour_clip=self.neighbour_clip,
            noise_std=noise,
        )

    def with_rate(self, sampling_rate: float) -> ResidualTrees:
        """Return the mechanism with both rates scaled by the same factor, the second one at most 1."""
        neighbour_rate = min(1.0, self.neighbour_rate * sampling_rate / self.sampling_rate)
        return self._with(sampling_rate=sampling_rate, neighbour_rate=neighbour_rate)

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 7."""
        numbers = {
            "q1": f"{self.sampling_rate:.6g}",
            "q2": f"{self.neighbour_rate:.6g}",
            "C_n / C_s": f"C_n / C_s = {self.neighbour_clip:.6g}",
        }
        return self._proved(self._stated(accountant.residual_clipping.statement, **numbers), self._composed())

    def published(self) -> Guarantee:
        """Return no guarantee: no paper has published this mechanism."""
        return self._none("published", "no paper has published this mechanism", "two independent Poisson batches")

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the clipped sums of a step; `clip_norms` is C_s alone, from which C_n follows."""
        own = self._term(clip_norms, loss=Loss.SELF, lists=Lists.NONE, hops=self.hops, rate=self.sampling_rate)
        if self.neighbour_clip == 0:
            return (own,)
        clip = tuple(self.neighbour_clip * norm for norm in clip_norms)
        return own, self._term(clip, **self._trees(), loss=Loss.NEIGHBOURS, rate=self.neighbour_rate)


class FixedSizeStableTrees(FixedBatches, StableTrees):
    """Batches of fixed size over stable trees, one joint clip norm: what the paper's own theorem can prove.

    `noise_multiplier` is lambda = noise std / (2 C R), R = `affected_roots`. Theorem 1 of Daigavane et al. holds at
    this R under node-null, where N and the law of the batches are the same on both sides. It reveals how many affected
    roots are drawn, so it is loose (docs/privacy/trees.md#batches-of-fixed-size). Without hops only the own term
    changes, and null is a zero: the sum moves by C, not 2C.

    Guarantee: node-null (epsilon, delta)-DP of all parameters ever released.
    """

    drawn: ClassVar[Batches] = Batches.FIXED_SIZE
    kind: Literal["fixed-size-stable-trees"] = "fixed-size-stable-trees"

    @property
    def noise_std_over_clip(self) -> float | None:
        """Noise std over the clip norm: 2 R lambda."""
        return None if self.noise_multiplier is None else 2 * self.affected_roots * self.noise_multiplier

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of all steps at `orders`."""
        from dpgraph.privacy.accountants.renyi import theorem1_rdp

        return self.closed()[0] * theorem1_rdp(
            **self._theorem1(self.affected_roots, self.proved_multiplier), orders=orders
        )

    @property
    def proved_multiplier(self) -> float:
        """The lambda of Theorem 6: roots move the sum by 2C each; without hops the only one moves it by C."""
        _, noise = self.closed()
        return noise if self.hops else 2 * noise

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 6: the paper's Theorem 1 at the R that holds."""
        from dpgraph.privacy.accountants.renyi import theorem1_least_epsilon

        steps, _ = self.closed()
        return self._proved(
            self._stated(THEOREM_1_PROVED, m=self.batch_size),
            theorem1_least_epsilon(
                **self._theorem1(self.affected_roots, self.proved_multiplier), steps=steps, delta=self.delta
            ),
        )

    def published(self) -> Guarantee:
        """Return the guarantee that the paper claims at this noise."""
        noise = 2 * self.affected_roots * self.closed()[1]
        return self._published(self.batch_size / self.num_roots, self.batch_size, noise)

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the clipped sum of a step."""
        return (self._term(clip_norms, **self._trees(), batch_size=self.batch_size),)


REMOVED_RECORDS = replace(
    double_mixture.statement, relation=Relation.NODE_REMOVE,
    assumptions=(
        "a gradient and a prediction read one record's features, and no list: edges of a node that leaves move nothing",
        "no feature is made from edges, and which ids train is public",
    ),
)  # fmt: skip


class RemovedRecords(PoissonTrees):
    """DP-MLP under node-remove: a root's gradient and a node's prediction read own features, and no edge.

    A node that leaves takes its record and all its edges. The place of its id stays empty; it counts in `num_roots`,
    batches and divisor as a null record does. No other record is read through an edge, so both sides of a step are
    those of node-null: the Poisson-subsampled Gaussian (docs/privacy/trees.md, Theorem 5).

    Guarantee: node-remove (epsilon, delta)-DP of all parameters ever released, and of the predictions of others. Raises
    UserError with hops, or where predictions read the graph.
    """

    relation: ClassVar[Relation] = REMOVED_RECORDS.relation

    kind: Literal["removed-records"] = "removed-records"  # type: ignore[assignment]

    @model_validator(mode="after")
    def _own_records(self) -> RemovedRecords:
        if self.hops != 0:
            raise invalid("hops", self.hops, "0: with hops an edge is read, and node-remove is not stated")
        if self.inference is PredictionInput.RAW_GRAPH:
            raise invalid("inference", self.inference, "its own record or no record, under node-remove")
        return self

    def _stated(self, statement: Statement, **numbers: object) -> Statement:
        return REMOVED_RECORDS.filled(numbers)

    def beside(self) -> tuple[Guarantee, ...]:
        """Return the node-null guarantee of the same run: the same pair."""
        rigorous = self.rigorous()
        if rigorous.relation is Relation.NONE:
            return ()
        return (rigorous.model_copy(update={"relation": Relation.NODE_NULL}),)


def stable_lists(request: MechanismRequest) -> dict[str, Any]:
    """Return the fields of trees over the stable sampler's lists; K and D are None without hops."""
    hops, privacy = request.cell.model.hops, request.privacy
    cap = privacy.list_cap if privacy.list_cap is not None else privacy.max_degree
    return {"hops": hops, "max_degree": privacy.max_degree if hops else None, "list_cap": cap if hops else None}


def poisson_trees(request: MechanismRequest) -> PoissonTrees:
    """Build the mechanism of variant `rigorous`."""
    return PoissonTrees(**request.common(request.num_train), **stable_lists(request), sampling_rate=request.rate)


def fixed_size_trees(request: MechanismRequest) -> FixedSizeStableTrees:
    """Build the mechanism of variant `rigorous-fixed-size`."""
    return FixedSizeStableTrees(
        **request.common(request.num_train), **stable_lists(request), batch_size=request.batch_size
    )


def removed_records(request: MechanismRequest) -> RemovedRecords:
    """Build the mechanism of DP-MLP under node-remove."""
    return RemovedRecords(**request.common(request.num_train), hops=request.cell.model.hops, sampling_rate=request.rate)


def residual_trees(request: MechanismRequest) -> ResidualTrees:
    """Build the mechanism of residual clipping."""
    return ResidualTrees(
        **request.common(request.num_train),
        **stable_lists(request),
        sampling_rate=request.rate,
        neighbour_rate=request.rate,
        neighbour_clip=request.privacy.neighbour_clip_ratio,
    )
