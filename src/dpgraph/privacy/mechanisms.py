"""Mechanisms: one frozen object per way to touch the data.

It states sampling, sensitivity and adjacency once; the trainer reads its noise from it, calibration solves it and the
accountants evaluate it. `kind` tells the classes apart. Proofs: docs/privacy.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from dpgraph.errors import UserError, invalid
from dpgraph.experiments.frozen import Frozen
from dpgraph.privacy.guarantee import NODE_NULL, Guarantee, PrivacyStatement
from dpgraph.privacy.trees import tree_size

if TYPE_CHECKING:
    from dpgraph.privacy.double_mixture import MixturePair

PUBLIC_SETTINGS = (
    "the number of roots, the clip norm and all hyper-parameters are public and not tuned on the private data"
)
RELEASED_ONLY = "covers the released parameters, not predictions that read private neighbours"


class _Steps(Frozen):
    """What every noisy, iterative mechanism shares. An open quantity is None; guarantees need both closed."""

    num_roots: int = Field(description="N, public: nodes with a loss term; a node set to null keeps its place")
    steps: int | None = Field(description="T; None: open")
    delta: float
    noise_multiplier: float | None = Field(description="Its unit is the class's; None: open")

    def _check(self) -> None:
        if self.num_roots < 1:
            raise invalid("num_roots", self.num_roots, "an integer >= 1")
        if self.steps is not None and self.steps < 1:
            raise invalid("steps", self.steps, "an integer >= 1")
        if not 0 < self.delta < 1:
            raise invalid("delta", self.delta, "a number in (0, 1)")
        if self.noise_multiplier is not None and not 0 < self.noise_multiplier < math.inf:
            raise invalid("noise_multiplier", self.noise_multiplier, "a finite number > 0")

    @property
    def noise_std_over_clip(self) -> float | None:
        """Noise std per coordinate divided by the clip norm; None while the noise is open."""
        raise NotImplementedError

    def published(self) -> Guarantee:
        raise NotImplementedError

    def rigorous(self) -> Guarantee:
        raise NotImplementedError

    def with_noise(self, noise_multiplier: float) -> Self:
        return type(self)(**{**dict(self), "noise_multiplier": noise_multiplier})

    def with_steps(self, steps: int) -> Self:
        return type(self)(**{**dict(self), "steps": steps})

    def at_step(self, step: int) -> PrivacyStatement:
        """The guarantee of the first `step` steps; before the first, nothing has been released."""
        if step == 0:
            statement = self.with_steps(1).statement()
            nothing = {"steps": 0}
            for mode in ("published", "rigorous"):
                guarantee = getattr(statement, mode)
                epsilon = None if guarantee.epsilon is None else 0.0
                nothing[mode] = guarantee.model_copy(update={"epsilon": epsilon})
            return statement.model_copy(update=nothing)
        return self.with_steps(step).statement()

    def _closed(self) -> tuple[int, float]:
        if self.noise_multiplier is None or self.steps is None:
            name = "noise_multiplier" if self.noise_multiplier is None else "steps"
            raise invalid(name, None, "a number: calibrate the mechanism first")
        return self.steps, self.noise_multiplier

    def _statement(self, sampler: str, batches: str, clipping: str) -> PrivacyStatement:
        steps, _ = self._closed()
        return PrivacyStatement(
            mechanism=self.model_dump(mode="json"),
            sampler=sampler,
            batches=batches,
            clipping=clipping,
            noise_std_over_clip=self.noise_std_over_clip,
            steps=steps,
            published=self.published(),
            rigorous=self.rigorous(),
        )

    def statement(self) -> PrivacyStatement:
        raise NotImplementedError


class PoissonTrees(_Steps):
    """Poisson batches of bounded trees, one joint clip norm: the rigorous DP-GNN, and with hops=0 DP-MLP.

    Each step takes every root with probability `sampling_rate`, clips each root's whole gradient to the public norm C,
    sums, adds N(0, (noise_multiplier * C)^2) and divides by sampling_rate * num_roots. With the stable sampler one node
    changes at most `affected_roots` roots, its own included: docs/privacy.md, Lemma 1 (sampler) and Theorem 2.

    A node that is no root changes one term fewer and has no term of its own: on both sides at most R - 1 affected
    roots, norms at most those of the pair (R, R - 1), which therefore dominates. Fewer than R affected roots likewise.

    Guarantee: node-null (epsilon, delta)-DP of all parameters ever released. Raises UserError where the theorem does
    not hold.
    """

    kind: Literal["poisson-trees"] = "poisson-trees"
    sampling_rate: float = Field(description="q, public")
    hops: int = Field(description="r; 0: a root's own record only")
    max_degree: int | None = Field(default=None, description="K: lists in which a node may occur; None without hops")
    list_cap: int | None = Field(default=None, description="D: longest list; None without hops")

    @model_validator(mode="after")
    def _valid(self) -> PoissonTrees:
        self._check()
        if not 0 < self.sampling_rate <= 1:
            raise invalid("sampling_rate", self.sampling_rate, "a number in (0, 1]")
        if self.delta >= 1 / self.num_roots:
            raise invalid("delta", self.delta, f"a number < 1 / num_roots = {1 / self.num_roots:.3g}")
        _check_tree(self.hops, self.max_degree)
        if (self.list_cap is None) != (self.hops == 0) or (self.list_cap is not None and self.list_cap < 1):
            raise invalid("list_cap", self.list_cap, "an integer >= 1 with hops, None without")
        return self

    @property
    def affected_roots(self) -> int:
        """R = N(K, r) + D N(K, r - 1); 1 without hops. There are no more than num_roots, plus one for a non-root."""
        if self.hops == 0:
            return 1
        degree, cap = self.max_degree or 0, self.list_cap or 0
        return min(tree_size(degree, self.hops) + cap * tree_size(degree, self.hops - 1), self.num_roots + 1)

    @property
    def noise_std_over_clip(self) -> float | None:
        return self.noise_multiplier

    @property
    def dominating_pair(self) -> MixturePair:
        """Of one step, in units of the clip norm."""
        from dpgraph.privacy.double_mixture import affected_roots_pair

        _, noise = self._closed()
        return affected_roots_pair(self.affected_roots, self.sampling_rate, noise)

    def rigorous(self) -> Guarantee:
        from dpgraph.privacy.composition import composed_epsilon

        steps, _ = self._closed()
        assumptions: tuple[str, ...] = (PUBLIC_SETTINGS, RELEASED_ONLY)
        if self.hops:
            assumptions = (
                f"stable sampler: at most {self.affected_roots} roots change",
                "messages and normalisers depend on accepted nodes only",
                *assumptions,
            )
        return Guarantee(
            mode="rigorous",
            accountant="double mixture, privacy loss distribution",
            adjacency=NODE_NULL,
            sampling=f"Poisson, rate {self.sampling_rate:.6g}",
            assumptions=assumptions,
            epsilon=composed_epsilon(self.dominating_pair, steps, self.delta),
            delta=self.delta,
        )

    def published(self) -> Guarantee:
        """Theorem 1 read at this noise: std = 2 C N(K, r) lambda; DP-MLP: the released code's own accountant."""
        from dpgraph.privacy.renyi import theorem1_epsilon

        steps, noise = self._closed()
        if self.hops == 0:
            return _published_mlp(self.sampling_rate, noise, steps, self.delta)
        batch_size = max(1, round(self.sampling_rate * self.num_roots))
        reach = tree_size(self.max_degree or 0, self.hops)
        return Guarantee(
            mode="published",
            accountant="Theorem 1 evaluated at this noise",
            adjacency="node-level (Daigavane et al., Definition 2)",
            sampling=f"batches of {batch_size} without replacement",
            assumptions=(
                "its sampling assumption, fixed-size batches, does not hold here",
                f"at most N(K, r) = {reach} roots change",
                "orders 1.1 to 9.9, improved conversion, as in the released code",
            ),
            epsilon=theorem1_epsilon(self.num_roots, batch_size, reach, noise / (2 * reach), steps, self.delta),
            delta=self.delta,
        )

    def statement(self) -> PrivacyStatement:
        return self._statement("stable" if self.hops else "none", "poisson", "joint, public clip norm")


class FixedBatchTrees(_Steps):
    """DP-GNN and DP-MLP as published (Daigavane et al. 2022, Algorithms 1, 4 and 5): for comparison only.

    `noise_multiplier` is the paper's lambda: the noise std of group l is 2 C_l N(K, r) lambda; without hops it is
    C_l lambda, as in the released code. No proof covers it, so `rigorous` gives the reasons instead of a number.
    """

    kind: Literal["fixed-batch-trees"] = "fixed-batch-trees"
    batch_size: int = Field(description="m, drawn without replacement")
    hops: int
    max_degree: int | None = Field(default=None, description="K of Algorithm 1; None without hops")
    groups: int = Field(description="Parameter groups that are clipped and noised separately")

    @model_validator(mode="after")
    def _valid(self) -> FixedBatchTrees:
        self._check()
        if not 1 <= self.batch_size <= self.num_roots:
            raise invalid("batch_size", self.batch_size, f"an integer from 1 to num_roots = {self.num_roots}")
        if self.groups < 1:
            raise invalid("groups", self.groups, "an integer >= 1")
        _check_tree(self.hops, self.max_degree)
        return self

    @property
    def affected_roots(self) -> int:
        """N(K, r) of Lemma 1, which Algorithm 1 does not keep; 1 without hops."""
        return tree_size(self.max_degree or 0, self.hops) if self.hops else 1

    @property
    def noise_std_over_clip(self) -> float | None:
        """Of each group: noise std of group l divided by C_l."""
        if self.noise_multiplier is None:
            return None
        return 2 * self.affected_roots * self.noise_multiplier if self.hops else self.noise_multiplier

    def published(self) -> Guarantee:
        from dpgraph.privacy.renyi import theorem1_epsilon

        steps, noise = self._closed()
        if self.hops == 0:
            return _published_mlp(self.batch_size / self.num_roots, noise, steps, self.delta)
        return Guarantee(
            mode="published",
            accountant="Theorem 1",
            adjacency="node-level (Daigavane et al., Definition 2)",
            sampling=f"batches of {self.batch_size} without replacement",
            assumptions=(
                f"at most N(K, r) = {self.affected_roots} roots change (Lemma 1)",
                "one noise multiplier for all groups",
                "orders 1.1 to 9.9, improved conversion, as in the released code",
            ),
            epsilon=theorem1_epsilon(self.num_roots, self.batch_size, self.affected_roots, noise, steps, self.delta),
            delta=self.delta,
        )

    def rigorous(self) -> Guarantee:
        reasons = []
        if self.hops:
            reasons.append(
                "Algorithm 1 keeps edges at a rate that depends on the data, so one node changes an unbounded number "
                "of roots (Lemma 2 is false)"
            )
        reasons.append("the clip norms are percentiles of private gradient norms that nobody paid for")
        if self.groups > 1:
            reasons.append(
                f"{self.groups} groups with one noise multiplier each: the joint multiplier is smaller by "
                f"sqrt({self.groups})"
            )
        if self.hops == 0:
            reasons.append("batches have a fixed size while the formula assumes Poisson sampling")
        return Guarantee(
            mode="rigorous",
            accountant="none",
            adjacency=NODE_NULL,
            sampling=f"batches of {self.batch_size} without replacement",
            epsilon=None,
            reason="; ".join(reasons),
            delta=self.delta,
        )

    def statement(self) -> PrivacyStatement:
        return self._statement(
            "algorithm-1" if self.hops else "none",
            "fixed-size without replacement",
            "per group, 75th percentile of private gradient norms",
        )


class NonPrivate(Frozen):
    """No noise, no clipping: epsilon is infinite in both modes."""

    kind: Literal["non-private"] = "non-private"
    steps: int = Field(ge=1)

    @property
    def noise_std_over_clip(self) -> None:
        return None

    def _guarantee(self, mode: Literal["published", "rigorous"]) -> Guarantee:
        return Guarantee(mode=mode, accountant="none", adjacency="any", sampling="any", epsilon=math.inf)

    def published(self) -> Guarantee:
        return self._guarantee("published")

    def rigorous(self) -> Guarantee:
        return self._guarantee("rigorous")

    def with_noise(self, noise_multiplier: float) -> NonPrivate:
        raise invalid("noise_multiplier", noise_multiplier, "None for a method without privacy")

    def with_steps(self, steps: int) -> NonPrivate:
        return NonPrivate(steps=steps)

    def at_step(self, step: int) -> PrivacyStatement:
        return self.statement().model_copy(update={"steps": step})

    def statement(self) -> PrivacyStatement:
        return PrivacyStatement(
            mechanism=self.model_dump(mode="json"),
            sampler="none",
            batches="any",
            clipping="none",
            noise_std_over_clip=None,
            steps=self.steps,
            published=self.published(),
            rigorous=self.rigorous(),
        )


Mechanism = Annotated[PoissonTrees | FixedBatchTrees | NonPrivate, Field(discriminator="kind")]
_MECHANISM: TypeAdapter[Any] = TypeAdapter(Mechanism)


def mechanism_from(value: dict[str, Any]) -> Mechanism:
    """The mechanism of its JSON form; raises UserError for an unknown kind or field."""
    try:
        return _MECHANISM.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "mechanism"
        raise UserError(f"{where}={first['input']}: {first['msg']}") from error


def _check_tree(hops: int, max_degree: int | None) -> None:
    if hops < 0:
        raise invalid("hops", hops, "an integer >= 0")
    if (max_degree is None) != (hops == 0) or (max_degree is not None and max_degree < 1):
        raise invalid("max_degree", max_degree, "an integer >= 1 with hops, None without")


def _published_mlp(rate: float, noise: float, steps: int, delta: float) -> Guarantee:
    from dpgraph.privacy.renyi import poisson_gaussian_epsilon

    return Guarantee(
        mode="published",
        accountant="Poisson-subsampled Gaussian, RDP orders 1.1 to 199.9, as in the released code for DP-MLP",
        adjacency="add or remove one record",
        sampling=f"Poisson, rate {rate:.6g}",
        assumptions=("one record changes one loss term",),
        epsilon=poisson_gaussian_epsilon(rate, noise, steps, delta),
        delta=delta,
    )
