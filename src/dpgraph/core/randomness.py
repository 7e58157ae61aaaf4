"""Random generators keyed by names, never a global seed.

A generator is a pure function of its names (base seed, data set, role, seed index, ...), so that any seed reruns alone
and gives the same numbers, whatever ran before it. The streams are reproducible on purpose: they serve research, not a
release of private data, for which the noise would have to come from the operating system's entropy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch

Name = str | int
COUNTED = ("random", "standard_normal", "normal", "permutation", "choice", "gumbel", "laplace", "integers")
FREE = ("bit_generator", "shuffle")  # what a checkpoint reads; what `permutation` calls


def entropy(*names: Name) -> int:
    """Return 128 bits from the names; ("ab", "c") and ("a", "bc") differ, as do 1 and "1"."""
    digest = hashlib.sha256(repr(tuple(names)).encode()).digest()
    return int.from_bytes(digest[:16], "little")


def numpy_generator(*names: Name) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy(*names))))


def torch_generator(*names: Name, device: str | torch.device = "cpu") -> torch.Generator:
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(entropy(*names) % 2**63)
    return generator


class Counter(Protocol):
    """A source of random numbers that counts its draws and the numbers in them."""

    draws: int
    numbers: int


class CountedGenerator(np.random.Generator):
    """A NumPy generator that is a `Counter`; methods that it does not count raise TypeError."""

    def __init__(self, *names: Name) -> None:
        super().__init__(np.random.PCG64(np.random.SeedSequence(entropy(*names))))
        self.draws = self.numbers = 0
        self.least_scales: dict[str, float] = {}  # of the noise, by its law


def _counted(name: str) -> Callable[..., Any]:
    plain = getattr(np.random.Generator, name)

    def draw(self: CountedGenerator, *args: Any, **kwargs: Any) -> Any:
        drawn = plain(self, *args, **kwargs)
        if "scale" in kwargs:
            self.least_scales[name] = min(kwargs["scale"], self.least_scales.get(name, np.inf))
        self.draws += 1
        self.numbers += drawn.size if isinstance(drawn, np.ndarray) else 1
        return drawn

    return draw


def _refused(name: str) -> Callable[..., Any]:
    def refuse(self: CountedGenerator, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{name}: expected one of {', '.join(COUNTED)}, whose numbers the ledger counts")

    return refuse


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in FREE:
        setattr(CountedGenerator, _name, (_counted if _name in COUNTED else _refused)(_name))


@dataclass
class Key:
    """A secret key of a counter-based generator, as a `Counter`: who draws with it counts here."""

    value: int
    draws: int = 0
    numbers: int = 0
