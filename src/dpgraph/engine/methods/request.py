"""The request from which a variant builds its mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpgraph.privacy.public_numbers import Counted, whole_batch
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.base import Counts


@dataclass(frozen=True)
class MechanismRequest:
    """A cell with a budget, and the public counts of its data: all that a mechanism is built from."""

    cell: Any  # of the method's own class
    privacy: Any
    counts: Counts
    inference: PredictionInput
    counted: Counted  # whom the mechanism's delta counts

    @property
    def num_train(self) -> int:
        """N: training nodes, images or tuples."""
        return self.counts.num_train

    @property
    def steps(self) -> int | None:
        """T; None where the budget decides it."""
        steps = self.cell.training.steps
        return None if steps == "max" else steps

    def common(self, num_roots: int) -> dict[str, Any]:
        """Return the fields of every noisy mechanism; delta is the cell's, or follows the mechanism's own rule."""
        delta, protected = self.privacy.delta, self.counts.num_protected
        return {
            "num_roots": num_roots,
            "num_protected": protected,
            "steps": self.steps,
            "delta": delta or self.counted.delta(roots=num_roots, training=self.num_train, protected=protected),
            "noise_multiplier": self.privacy.noise_multiplier,
            "inference": self.inference,
        }

    @property
    def batch_size(self) -> int:
        """m, drawn from the training nodes."""
        return batch_size(self.cell.training, self.num_train)

    @property
    def rate(self) -> float:
        """q: the cell's sampling rate, or m / N."""
        rate = self.cell.training.sampling_rate
        return self.batch_size / self.num_train if rate is None else rate


def batch_size(training: Any, num_roots: int) -> int:
    """Return m as the cell gives it, or q N rounded."""
    return training.batch_size or whole_batch(rate=training.sampling_rate or 0, num_roots=num_roots)
