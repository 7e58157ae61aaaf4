"""Poisson batches from a counter: whether a root is in the batch of a step is a function of key, step and root alone.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011) in integer
operations on tensors: a CPU and a GPU give the same words, there is no state that a stop, a replay or an overflow could
put out of step, and the batches of many steps are drawn at once. Generators of PyTorch have neither property: on a CPU
they are another algorithm, and a captured program draws from a state on the host.

What privacy asks of batches is what it asks of `sampling.batches`: every root of every step is in with probability q,
independently. As there, a generator that passes the statistical tests of BigCrush stands in for independent numbers,
seeded by the run's own names.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpgraph.core.errors import invalid

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF
BITS = 62  # of the number that decides about a root: an int64 that is not negative

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox(counter: Words, key: int) -> Words:
    """Four words of 32 bits for each counter of four, all int64 in [0, 2^32); `key` has 64 bits.

    A product of two words wraps in int64; its upper and lower halves are still those of the unsigned product.
    """
    a, b, c, d = counter
    low, high = key & WORD, (key >> 32) & WORD
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = _upper(second) ^ b ^ low, second & WORD, _upper(first) ^ d ^ high, first & WORD
        low, high = (low + WEYL[0]) & WORD, (high + WEYL[1]) & WORD
    return a, b, c, d


def poisson_masks(num_roots: int, rate: float, key: int, first: int, steps: int, stream: int, like: Tensor) -> Tensor:
    """(steps, num_roots) bool: which roots are in the batches of the steps `first`, `first` + 1, ...

    `stream` tells apart the terms of a step, which draw independently; the result is on the device of `like`. A root is
    in where a number of 62 bits is below floor(q 2^62): with probability at most q, and less than 2^-62 below it.
    """
    if not 0 <= first < 2**32 - steps:
        raise invalid("step", first, "an integer from 0 to 2^32")
    pairs = torch.arange((num_roots + 1) // 2, device=like.device).expand(steps, -1)
    step = torch.arange(first, first + steps, device=like.device).unsqueeze(1).expand_as(pairs)
    words = philox((pairs, step, torch.full_like(pairs, stream), torch.zeros_like(pairs)), key)
    left, right = (words[i].bitwise_left_shift(BITS - 32) | (words[i + 1] >> (64 - BITS)) for i in (0, 2))
    return torch.stack([left, right], 2).flatten(1)[:, :num_roots] < threshold(rate)


def threshold(rate: float) -> int:
    """floor(q 2^62), exactly: a power of two does not round."""
    return int(rate * 2.0**BITS)


def _upper(product: Tensor) -> Tensor:
    return (product >> 32) & WORD
