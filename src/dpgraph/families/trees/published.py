"""Mechanisms of DP-GNN and DP-MLP as their paper publishes them (Daigavane et al. 2022)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.families.trees import accountant
from dpgraph.privacy.guarantee import Guarantee
from dpgraph.privacy.mechanisms import base
from dpgraph.privacy.mechanisms.batches import FixedBatches
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists
from dpgraph.privacy.public_numbers import tree_size
from dpgraph.privacy.relation import Relation


class FixedBatchTrees(FixedBatches):
    """DP-GNN and DP-MLP as published (Daigavane et al. 2022, Algorithms 1, 4 and 5): for comparison only.

    `noise_multiplier` is the paper's lambda: the noise std of group l is 2 C_l N(K, r) lambda. Without hops it is C_l
    lambda, as in the released code (`PrintedRecords`: 2 C_l lambda, as in the text). No proof covers it: the paper's
    Theorem 1 gives the claimed epsilon, and `rigorous` gives the reasons instead of a number.
    """

    relation: ClassVar[Relation] = Relation.NONE
    refuses_delta: ClassVar[bool] = False

    prepared: ClassVar[str] = "dpgraph.families.trees.prepared:PreparedTrees"
    proves: ClassVar[bool] = False
    presumed: ClassVar[base.Shape] = base.THEOREM_1
    kind: Literal["fixed-batch-trees"] = "fixed-batch-trees"
    hops: int
    max_degree: int | None = Field(default=None, description="K of Algorithm 1; None without hops")
    groups: base.Count = Field(description="Parameter groups that are clipped and noised separately")

    def _check(self) -> None:
        super()._check()
        base.check_tree(hops=self.hops, max_degree=self.max_degree)

    @property
    def affected_roots(self) -> int:
        """N(K, r) of Lemma 1, which Algorithm 1 does not keep; 1 without hops."""
        return tree_size(max_degree=self.max_degree or 0, hops=self.hops) if self.hops else 1

    @property
    def theorem_1(self) -> bool:
        """True if noise and epsilon are those of Theorem 1; without hops the released code has another formula."""
        return self.hops > 0

    @property
    def noise_std_over_clip(self) -> float | None:
        """Noise std of group l over C_l, the same for all groups."""
        if self.noise_multiplier is None:
            return None
        return 2 * self.affected_roots * self.noise_multiplier if self.theorem_1 else self.noise_multiplier

    def published(self) -> Guarantee:
        """Return the claimed guarantee."""
        steps, noise = self.closed()
        if not self.theorem_1:
            rate = self.batch_size / self.num_roots
            return base.published_mlp(
                rate=rate, noise=noise, steps=steps, delta=self.delta, unmet=self._unmet(base.RELEASED_MLP)
            )
        return accountant.published_theorem1(
            num_roots=self.num_roots,
            batch_size=self.batch_size,
            reach=self.affected_roots,
            noise_multiplier=noise,
            steps=steps,
            delta=self.delta,
            remark=accountant.ONE_MULTIPLIER,
            unmet=self._unmet(self.presumed),
        )

    def rigorous(self) -> Guarantee:
        """Return the reasons why no epsilon is proved."""
        reasons = []
        if self.hops:
            reasons.append(accountant.UNSTABLE_LISTS)
        reasons.append(accountant.UNPAID_PERCENTILES)
        if self.groups > 1:
            reasons.append(
                f"{self.groups} groups with one noise multiplier each: the joint multiplier is smaller by "
                f"sqrt({self.groups})"
            )
        if not self.theorem_1:
            reasons.append("batches have a fixed size while the formula assumes Poisson sampling")
        return self._none(
            "rigorous", "; ".join(reasons), accountant.HYPERGEOMETRIC.filled({"m": self.batch_size}).sampling
        )

    @property
    def shape(self) -> base.Shape:
        """The shape of a step, which is compared with the one that ran."""
        lists = Lists.ALGORITHM_1 if self.hops else Lists.NONE
        return base.Shape(lists=lists, batches=Batches.FIXED_SIZE, clipped=Clipped.ROOT_GROUPS)

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        """Return the clipped sum of a step; `clip_norms` are percentiles of private gradient norms, one per group."""
        return (self._term(clip_norms, hops=self.hops, max_degree=self.max_degree, batch_size=self.batch_size),)


class PrintedRecords(FixedBatchTrees):
    """DP-MLP at the noise of the paper's text: lambda = sigma / (2 C N(K, r)), and N(K, 0) = 1.

    The noise std of group l is 2 C_l lambda, twice that of the released code, and Theorem 1 at one affected root gives
    the claimed epsilon. The clip norms are percentiles here, too, so no epsilon is proved.
    """

    presumed: ClassVar[base.Shape] = base.PRINTED_MLP
    kind: Literal["printed-records"] = "printed-records"  # type: ignore[assignment]

    def _check(self) -> None:
        super()._check()
        if self.hops:
            raise invalid("hops", self.hops, "0: records are read without their neighbours")

    @property
    def theorem_1(self) -> bool:
        """True: noise and epsilon are those of Theorem 1."""
        return True


def published_trees(request: MechanismRequest) -> FixedBatchTrees:
    """Build the mechanism of variant `published`."""
    return FixedBatchTrees(**published_fields(request))


def printed_records(request: MechanismRequest) -> PrintedRecords:
    """Build the mechanism of variant `published-text` of DP-MLP."""
    return PrintedRecords(**published_fields(request))


def published_fields(request: MechanismRequest) -> dict[str, Any]:
    """Return the fields of the paper's mechanism; K is None without hops."""
    hops = request.cell.model.hops
    return {
        **request.common(request.num_train),
        "hops": hops,
        "max_degree": request.privacy.max_degree if hops else None,
        "batch_size": request.batch_size,
        "groups": 1 + bool(hops) + bool(request.cell.model.encoder_layers),  # decoder, aggregation, encoder
    }
