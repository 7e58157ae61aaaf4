"""What the audits are given about each variant of a private method, stated by the method's specification. Raw data, no
torch.

An audit compares what runs with what the theorem of the variant requires. What it requires is written here by hand,
from the paper or from docs/privacy.md, and is not read off the mechanism that runs: an audit would else share its
mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import Relation

Reads = Literal["trees", "records", "parts", "rows", "tuples", "teachers", "node teachers", "sums", "lists", "units"]
Terms = Literal["joint", "own and neighbours", "own"]
NoiseUnit = Literal["C", "2 C", "2 C R", "2 C N(K, r)", "m C"]


@dataclass(frozen=True, kw_only=True)
class CanarySettings:
    """The settings of a run with canaries in which the audit `one-run` has enough power: mu near 1.5."""

    noise: float  # noise std / C of a step
    rate: float = 1.0  # q of Poisson batches
    steps: int = 4


@dataclass(frozen=True, kw_only=True)
class AttackCase:
    """One cell of a variant that every audit of all methods attacks, and what its theorem says.

    `reads`: ego trees, records alone, parts of the graph, released rows, tuples, teachers of images or of nodes, noisy
    sums alone, ids of lists, or units of images.
    `terms`: one gradient for each root, or the root's own and what neighbours add to it, clipped apart ("own": C_n =
    0). `noise_unit`: what the noise multiplier is multiplied with. `canaries`: the run in which the audit `one-run`
    attacks the variant; None if it does not.
    """

    variant: str = "rigorous"
    reads: Reads
    hops: int = 0
    release: str | None = None  # of rows
    components: bool = False  # whether records are projected to noisy principal components first
    votes: bool = False  # whether nodes vote after the steps, which read records of one norm
    sums: bool = False  # whether noisy sums over neighbours are released between the steps
    terms: Terms = "joint"
    batches: Batches
    clipping: Clipped  # what is clipped at C; ROOT_GROUPS: at percentiles
    noise_unit: NoiseUnit = "C"
    relation: Relation  # NONE: nothing is proved
    canaries: CanarySettings | None = None
