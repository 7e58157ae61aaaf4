"""Ways to read buckets of votes: few and public, so that choosing one of them costs little."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BucketReader:
    """How a node reads buckets; one of few public ones."""

    shrinkage: float  # kappa: a bucket of mass m counts m / (m^2 + (kappa noise std)^2)
    strength: float  # beta: of what is read, times 1 / sqrt(d + 1), beside the own prediction; 0: that alone


# of a choice; the first one also reads where nothing was chosen (`dpgraph fit`)
READERS = tuple(
    BucketReader(shrinkage, strength)
    for shrinkage, strength in ((1.0, 2.0), (1.0, 8.0), (3.0, 2.0), (3.0, 4.0), (3.0, 8.0), (3.0, 16.0), (1.0, 0.0))
)
# the same, of buckets in units of their noise, where shrinkage has no part
NOISE_READERS = tuple(BucketReader(0.0, strength) for strength in (1.0, 0.5, 1.5, 2.0, 3.0, 0.0))
