"""What every noisy, iterative mechanism shares."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field

from dpgraph.errors import invalid
from dpgraph.experiments.frozen import Frozen
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement, remark_on_zero

PUBLIC_SETTINGS = (
    "the split, the number of roots, the clip norm and all hyper-parameters are public: neither made from the private "
    "data nor tuned on them"
)
RELEASED_ONLY = "covers the released parameters, not predictions that read private neighbours"


class NoisySteps(Frozen):
    """T noisy steps over N roots. An open quantity is None; guarantees need both closed."""

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

    def fixed_epsilon(self, mode: Mode) -> float:
        """What the run costs however large the noise of its steps is: 0 but for releases of another kind."""
        return 0.0

    def published(self) -> Guarantee:
        raise NotImplementedError

    def rigorous(self) -> Guarantee:
        raise NotImplementedError

    def statement(self) -> PrivacyStatement:
        raise NotImplementedError

    def with_noise(self, noise_multiplier: float) -> Self:
        return type(self)(**{**dict(self), "noise_multiplier": noise_multiplier})

    def with_steps(self, steps: int) -> Self:
        return type(self)(**{**dict(self), "steps": steps})

    def with_rate(self, sampling_rate: float) -> Self:
        """Mechanisms with Poisson batches only."""
        raise invalid("sampling_rate", sampling_rate, "None for batches of fixed size")

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

    def closed(self) -> tuple[int, float]:
        """Steps and noise multiplier; raises UserError while one of them is open."""
        if self.noise_multiplier is None or self.steps is None:
            name = "noise_multiplier" if self.noise_multiplier is None else "steps"
            raise invalid(name, None, "a number: calibrate the mechanism first")
        return self.steps, self.noise_multiplier

    def _statement(self, sampler: str, batches: str, clipping: str) -> PrivacyStatement:
        steps, _ = self.closed()
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


def check_tree(hops: int, max_degree: int | None) -> None:
    if hops < 0:
        raise invalid("hops", hops, "an integer >= 0")
    if (max_degree is None) != (hops == 0) or (max_degree is not None and max_degree < 1):
        raise invalid("max_degree", max_degree, "an integer >= 1 with hops, None without")


def published_mlp(rate: float, noise: float, steps: int, delta: float) -> Guarantee:
    """DP-MLP under the released code's own accountant; `noise` is noise std / clip norm."""
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


def published_theorem1(
    num_roots: int, batch_size: int, reach: int, noise: float, steps: int, delta: float, remarks: tuple[str, ...]
) -> Guarantee:
    """Theorem 1 of Daigavane et al. at N(K, r) = `reach` and their lambda = `noise`, as in the released code."""
    from dpgraph.privacy.renyi import theorem1_epsilon

    epsilon = theorem1_epsilon(num_roots, batch_size, reach, noise, steps, delta)
    return Guarantee(
        mode="published",
        accountant="Theorem 1",
        adjacency="node-level (Daigavane et al., Definition 2)",
        sampling=f"batches of {batch_size} without replacement",
        assumptions=(
            f"at most N(K, r) = {reach} roots change (Lemma 1)",
            *remarks,
            "orders 1.1 to 9.9, improved conversion, as in the released code",
            *remark_on_zero(epsilon),
        ),
        epsilon=epsilon,
        delta=delta,
    )
