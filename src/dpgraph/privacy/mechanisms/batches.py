"""The bases of mechanisms whose steps draw batches of roots: Poisson batches, and batches of a fixed size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.privacy.mechanisms.base import NoisySteps, Rate
from dpgraph.privacy.procedure import ClippedSum
from dpgraph.privacy.public_numbers import expected_batch

if TYPE_CHECKING:
    import numpy as np

    from dpgraph.privacy.accountants.double_mixture import MixturePair
    from dpgraph.privacy.accountants.renyi import Orders


class PairSteps(NoisySteps):
    """Steps each of which one pair of laws dominates, in units of the clip norm."""

    @property
    def dominating_pair(self) -> Any:
        """Return the pair of one step."""
        raise NotImplementedError

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of all steps at `orders`."""
        from dpgraph.privacy.accountants.composition import pair_rdp

        return self.closed()[0] * pair_rdp(self.dominating_pair, orders)

    def _composed(self) -> float:
        """Return the epsilon of all steps by their privacy loss distributions."""
        from dpgraph.privacy.accountants.composition import composed_epsilon

        return composed_epsilon(self.dominating_pair, steps=self.closed()[0], delta=self.delta)


class PoissonBatches(NoisySteps):
    """Steps that take every root with probability q, and divide their noisy sum by q N."""

    sampling_rate: Rate = Field(description="q, public")

    def with_rate(self, sampling_rate: float) -> Self:
        return self._with(sampling_rate=sampling_rate)

    @property
    def divisor(self) -> float:
        return expected_batch(rate=self.sampling_rate, num_roots=self.num_roots)  # N as it was made public

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        return (self._term(clip_norms, rate=self.sampling_rate),)

    def _pair(self, roots: int, noise: float, own_root_removed: bool = True) -> MixturePair:
        """Return the pair of one step in which at most `roots` terms change; `noise` is noise std / clip norm."""
        from dpgraph.privacy.accountants.double_mixture import affected_roots_pair

        return affected_roots_pair(
            affected_roots=roots, rate=self.sampling_rate, noise_std=noise, own_root_removed=own_root_removed
        )


class FixedBatches(NoisySteps):
    """Steps that draw m of the roots without replacement."""

    batch_size: int = Field(description="m, drawn without replacement")

    def _check(self) -> None:
        super()._check()
        if not 1 <= self.batch_size <= self.num_roots:
            raise invalid("batch_size", self.batch_size, f"an integer from 1 to num_roots = {self.num_roots}")

    @property
    def divisor(self) -> float:
        return self.batch_size

    def _theorem1(self, roots: int, multiplier: float) -> dict[str, Any]:
        """Return the arguments of Theorem 1 of Daigavane et al. where `roots` roots change."""
        return {
            "num_roots": self.num_roots,
            "batch_size": self.batch_size,
            "affected_roots": roots,
            "noise_multiplier": multiplier,
        }
