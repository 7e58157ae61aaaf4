"""Batches of fixed shape: drawn from a counter, and laid out in a fixed number of slots.

**Draws.** A number of 62 bits for each root is a function of key, step and root alone. Philox4x32-10 (Salmon, Moraes,
Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011) in integer operations on tensors gives the same
words on a CPU and a GPU. It has no state that a stop, a replay or an overflow could put out of step, and the batches of
many steps are drawn at once. Generators of PyTorch have neither property: on a CPU they are another algorithm, and a
captured program draws from a state on the host. A Poisson batch holds the roots whose numbers are below q 2^62; a batch
of fixed size m those with the m smallest numbers, so that every set of m roots is equally likely. As in
`sampling.batches`, a generator that passes the statistical tests of BigCrush, seeded by the run's own names, stands in
for independent numbers.

**Slots.** A slot of class c takes a tree of at most `widths[c]` rows. Roots beyond a class's slots go to the next wider
class; a batch that does not fit in the widest either is reported, never cut: its step runs without fixed shapes.

**How many slots.** Widths follow the sizes that trees have, whatever the lists' bounds are: K bounds how often a node
occurs, not how large a tree is. Of the n(w) roots whose trees have more than w rows, at most T(w) are in a batch, but
with probability `UNLIKELY` (a quantile of the binomial law). Slots of all classes beyond width w add up to T(w), hence
class c has T(w_(c-1)) - T(w_c) of its own: with the wider ones that smaller trees may use, that is enough. Hubs that
are hardly ever drawn have none. Of `MOST_WIDTHS` widths those with the fewest rows in all are classes, each counted as
`CLASS_ROWS` more for its own calls. So the number of slots depends on the graph, which changes memory and time of a
step, and no result: up to rounding, a batch and its sum are the same in any slots.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.special import bdtrc
from torch import Tensor

from dpgraph.core.errors import invalid

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF
BITS = 62  # of the number that decides about a root: an int64 that is not negative

Words = tuple[Tensor, Tensor, Tensor, Tensor]
CLASS_ROWS = {"cuda": 2048, "cpu": 128}  # rows that take as long as the calls of one class more
MOST_WIDTHS = 64  # that classes are chosen from
UNLIKELY = 1e-4  # probability that the roots beyond one width do not fit: then the step runs without slots


def philox(counter: Words, key: int) -> Words:
    """Return four words of 32 bits for each counter of four words, all int64 in [0, 2^32); `key` has 64 bits.

    A product of two words wraps in int64; its upper and lower halves are still those of the unsigned product.
    """
    a, b, c, d = counter
    low, high = key & WORD, (key >> 32) & WORD
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = _upper(second) ^ b ^ low, second & WORD, _upper(first) ^ d ^ high, first & WORD
        low, high = (low + WEYL[0]) & WORD, (high + WEYL[1]) & WORD
    return a, b, c, d


def random_numbers(num_roots: int, key: int, first: int, steps: int, stream: int, like: Tensor) -> Tensor:
    """Return numbers (steps, num_roots) of 62 bits for the steps `first`, `first` + 1, ... and every root.

    `stream` tells apart the terms of a step, which draw independently; the result is on the device of `like`.
    """
    if not 0 <= first < 2**32 - steps:
        raise invalid("step", first, "an integer from 0 to 2^32")
    pairs = torch.arange((num_roots + 1) // 2, device=like.device).expand(steps, -1)
    step = torch.arange(first, first + steps, device=like.device).unsqueeze(1).expand_as(pairs)
    words = philox((pairs, step, torch.full_like(pairs, stream), torch.zeros_like(pairs)), key)
    left, right = (words[i].bitwise_left_shift(BITS - 32) | (words[i + 1] >> (64 - BITS)) for i in (0, 2))
    return torch.stack([left, right], 2).flatten(1)[:, :num_roots]


def poisson_masks(numbers: Tensor, rate: float) -> Tensor:
    """Return masks (steps, N) of the roots in Poisson batches.

    A root is in where its number of 62 bits is below floor(q 2^62): with probability at most q, and less than 2^-62
    below it.
    """
    return numbers < threshold(rate)


def fixed_size_batches(numbers: Tensor, size: int) -> Tensor:
    """Return the roots (steps, m) in batches of m = `size`, ascending: those with the smallest numbers."""
    return numbers.topk(size, largest=False, sorted=False).indices.sort().values


def threshold(rate: float) -> int:
    """Return floor(q 2^62), exactly: a multiplication by a power of two does not round."""
    return int(rate * 2.0**BITS)


def _upper(product: Tensor) -> Tensor:
    return (product >> 32) & WORD


@dataclass(frozen=True)
class SlotClasses:
    """Slots of ascending widths, and how many there are of each."""

    widths: tuple[int, ...]  # ascending
    counts: tuple[int, ...]  # slots of each class

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in pairwise((0, *self.widths)))
        if not ascending or len(self.widths) != len(self.counts) or min(self.counts, default=0) < 1:
            raise invalid("slots", (self.widths, self.counts), "ascending widths, each with a number of slots")

    @property
    def slots(self) -> int:
        """Number of slots of all classes."""
        return sum(self.counts)

    @property
    def rows(self) -> int:
        """Number of rows of all slots."""
        return sum(width * count for width, count in zip(self.widths, self.counts, strict=True))


def slot_classes(sizes: np.ndarray, rate: float, most: int, device: str) -> SlotClasses:
    """Return the classes of slots for trees of these sizes (N,), ascending.

    Args:
        sizes: Rows of each tree.
        rate: q, or m / N for batches of fixed size.
        most: Largest batch: N, or m.
        device: The kind of device whose `CLASS_ROWS` count.
    """
    grid = np.geomspace(sizes[0], sizes[-1], MOST_WIDTHS).round().astype(int)
    widths = [0, *np.unique(sizes[np.searchsorted(sizes, grid, side="right") - 1]).tolist()]
    beyond = len(sizes) - np.searchsorted(sizes, widths, side="right")
    needed = [min(most, most_drawn(int(count), rate)) for count in beyond]
    needed[0] = max(1, needed[0])
    best: list[tuple[int, tuple[int, ...]]] = [(0, (0,))]  # rows of trees up to each width, and places of the classes
    for last in range(1, needed.index(0) + 1):
        best.append(
            min(
                (rows + (needed[before] - needed[last]) * widths[last] + CLASS_ROWS[device], (*places, last))
                for before, (rows, places) in enumerate(best)
            )
        )
    _, chosen = best[-1]
    counts = (needed[before] - needed[last] for before, last in pairwise(chosen))
    return SlotClasses(tuple(widths[place] for place in chosen[1:]), tuple(counts))


def most_drawn(num_roots: int, rate: float) -> int:
    """Return the smallest number that Bin(num_roots, rate) exceeds with probability at most `UNLIKELY`."""
    counts = range(num_roots + 1)
    return bisect_left(counts, True, key=lambda count: bool(bdtrc(count, num_roots, rate) <= UNLIKELY))


@dataclass(frozen=True)
class DrawnSlots:
    """The batches of k steps in slots."""

    ranks: Tensor  # (k, slots) int64: the root of each slot, by its place among the N; N in a slot without one
    overflow: Tensor  # (k,) bool: some root has no slot
    sizes: Tensor  # (k,) int64: roots of the batch


def fill_slots(masks: Tensor, ends: Tensor, classes: SlotClasses) -> DrawnSlots:
    """Assign drawn roots to slots.

    No shape depends on a value. A class holds consecutive drawn roots: its own come after those that the class before
    had no slots for.

    Args:
        masks: (k, N) bool: the batches, roots in ascending order of their trees.
        ends: (classes,) the number of roots with trees of at most each width.
        classes: The slots.
    """
    drawn = masks.cumsum(1)
    upto = torch.nn.functional.pad(drawn, (1, 0)).index_select(1, ends)  # drawn roots of at most each width
    places = torch.arange(1, classes.slots + 1, device=masks.device).expand(len(masks), -1).contiguous()
    order = torch.searchsorted(drawn, places)  # the root that is drawn as the j-th; N beyond the last
    start, parts = torch.zeros_like(upto[:, 0]), []
    for index, count in enumerate(classes.counts):
        end = torch.minimum(upto[:, index], start + count)
        own = start.unsqueeze(1) + torch.arange(count, device=masks.device)
        picked = order.gather(1, own.clamp_max(classes.slots - 1))
        parts.append(torch.where(own < end.unsqueeze(1), picked, masks.shape[1]))
        start = end
    return DrawnSlots(torch.cat(parts, 1), drawn[:, -1] > start, drawn[:, -1])
