"""Random generators keyed by names, never a global seed.

A generator is a pure function of its names (base seed, data set, role, seed index, ...), so that any seed reruns alone
and gives the same numbers, whatever ran before it. The streams are reproducible on purpose: they serve research, not a
release of private data, for which the noise would have to come from the operating system's entropy.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

Name = str | int


def entropy(*names: Name) -> int:
    """128 bits from the names; ("ab", "c") and ("a", "bc") differ, as do 1 and "1"."""
    digest = hashlib.sha256(repr(tuple(names)).encode()).digest()
    return int.from_bytes(digest[:16], "little")


def numpy_generator(*names: Name) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy(*names))))


def torch_generator(*names: Name, device: str | torch.device = "cpu") -> torch.Generator:
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(entropy(*names) % 2**63)
    return generator
