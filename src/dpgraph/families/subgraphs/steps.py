"""Steps of Kipf's GCN on parts of a graph: which nodes they read, what they clip, and the noise.

A schedule draws parts of the training nodes: one per step (Igamberdiev and Habernal, section 4.4), or a fresh sample.

Where each node's gradient is clipped (Eq. 5 of the paper, with one x_i for each node) the guarantees are those of
`training.clipping`, for messages over any edges that a block holds: a node's contribution to the sum is no longer than
the clip norm, as norms are enlarged by more than their rounding, and a node whose gradient is not finite contributes
exactly 0, but that a number of its record that is not finite makes those entries 0 for all nodes of the block. The
number of nodes' gradients on which one record acts has no bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dpgraph.core.randomness import Name, numpy_generator
from dpgraph.engine.models.kipf import KipfBlock, KipfNetwork, NodeErrors, Read, dropout_factors
from dpgraph.engine.sampling.batches import PoissonSampler
from dpgraph.engine.training.captured.replay import Replay
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.precision import UNDERFLOW, enlarged_norms
from dpgraph.privacy.procedure import Batches


def equal_parts(nodes: np.ndarray, num_splits: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Return a random partition into s parts whose sizes differ by at most 1, ids ascending within each."""
    return [np.sort(part) for part in np.array_split(generator.permutation(nodes), num_splits)]


def parts_by_id(nodes: np.ndarray, num_nodes: int, num_splits: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Draw every id's part independently of all other nodes; parts may be unequal, or empty."""
    part = (generator.random(num_nodes) * num_splits).astype(np.int64)[nodes]
    return [nodes[part == index] for index in range(num_splits)]


@dataclass(frozen=True)
class FixedParts:
    """Each epoch visits every part once, in an order of its own: `nodes` is a function of the step alone."""

    parts: Sequence[np.ndarray]
    names: tuple[Name, ...]  # of the generator of the orders
    name: Batches = Batches.MASKED_PARTS
    counts: Counter[str] = field(default_factory=Counter, compare=False)  # "draws" so far in this process
    _orders: dict[int, np.ndarray] = field(default_factory=dict, compare=False)

    def nodes(self, step: int) -> np.ndarray:
        """Return the ids of step 0, 1, ..., ascending; there may be none."""
        self.counts["draws"] += 1
        epoch, place = divmod(step, len(self.parts))
        if len(self.parts) == 1:
            return self.parts[0]
        if epoch not in self._orders:
            self._orders.clear()
            self._orders[epoch] = numpy_generator(*self.names, epoch).permutation(len(self.parts))
        return self.parts[self._orders[epoch][place]]


@dataclass(frozen=True)
class FreshNodes:
    """Each step draws every node independently with probability `rate`: `nodes` advances the generator."""

    candidates: np.ndarray
    rate: float
    generator: np.random.Generator
    name: Batches = Batches.POISSON
    counts: Counter[str] = field(default_factory=Counter, compare=False)  # "draws" so far in this process

    def nodes(self, step: int) -> np.ndarray:
        """Draw the ids of the next step, ascending; there may be none."""
        self.counts["draws"] += 1
        return self.candidates[PoissonSampler(len(self.candidates), self.rate).draw(self.generator)]


Schedule = FixedParts | FreshNodes


CACHE_BYTES = 1 << 28  # of blocks; beyond, parts are built again whenever they are visited


class BlockCache:
    """Blocks by their nodes: fixed parts are built once."""

    def __init__(self, build: Callable[[np.ndarray], KipfBlock], limit: int = CACHE_BYTES) -> None:
        self.build, self.limit = build, limit
        self.held = 0
        self._blocks: dict[bytes, KipfBlock] = {}

    def keeps(self, block: KipfBlock) -> bool:
        """Return whether this block is the one that later steps on its nodes read."""
        return any(block is one for one in self._blocks.values())

    def block_of(self, nodes: np.ndarray) -> KipfBlock:
        """Return the block of these nodes, built now or kept."""
        key = nodes.tobytes()
        if (block := self._blocks.get(key)) is None:
            block = self.build(nodes)
            if self.held + block.nbytes <= self.limit:
                self.held += block.nbytes
                self._blocks[key] = block
        return block


@dataclass(frozen=True)
class GraphSource:
    """The source of a step's gradient: a schedule of nodes, and a function that makes a block of them.

    A node that is not `present` (N,), a null record, keeps its place in the schedule and is read by no step. So it
    moves neither messages nor the mean's divisor: Theorem 21 calls it an absent node. None: all are present.
    """

    schedule: Schedule
    block: Callable[[np.ndarray], KipfBlock]
    present: np.ndarray | None = None

    def block_at(self, step: int) -> KipfBlock | None:
        """Return the block of a step; None: no nodes, so the gradient is zero."""
        nodes = self.schedule.nodes(step)
        if self.present is not None:
            nodes = nodes[self.present[nodes]]
        return self.block(nodes) if len(nodes) else None

    def keeps(self, block: KipfBlock | None) -> bool:
        """Return whether later steps read this very block."""
        cache = getattr(self.block, "__self__", None)
        return isinstance(cache, BlockCache) and block is not None and cache.keeps(block)


class NoSource:
    """A source without nodes: every gradient is zero."""

    def block_at(self, step: int) -> KipfBlock | None:
        """Return no block."""
        return None

    def keeps(self, block: KipfBlock | None) -> bool:
        """Return True: no block is the same at each step."""
        return True


Source = GraphSource | NoSource
SLACK = 1 - 1e-6  # of the clip norm, for the roundings of a norm and of a product


@dataclass(frozen=True)
class NodeClipping:
    """Factors min(1, C / n_v) with n_v the norm of the gradient of node v's loss, all parameters together."""

    clip_norm: float

    def __call__(self, found: NodeErrors) -> Tensor:
        """Return the (n,) factors in (0, 1]; 0 where n_v is not finite."""
        norms = node_norms(found)
        return torch.clamp_max(self.clip_norm / norms, 1).masked_fill_(~torch.isfinite(norms), 0)


def node_norms(found: NodeErrors) -> Tensor:
    """Return the (n,) norms of the nodes' gradients, enlarged by what rounding may have taken from them.

    Rounding is relative to s = sum |g_i| |a_i| (docs/privacy/shared.md, Theorem 2): here at most the largest slope
    times |W2| |e_v| times the lengths of all records that are added up.
    """
    lengths = found.mixed.square().sum(1) + 1
    last = found.errors.square().sum(0) * lengths
    squared, reach = torch.zeros_like(last), torch.zeros_like(last)
    backs, bounds = found.errors.T @ found.w2.T, found.errors.abs().T @ found.w2.abs().T
    for piece in found.block.neighbourhoods:
        squared[piece.nodes] = piece.squares(backs, found.slopes)
        reach[piece.nodes] = piece.reach.to(last.dtype)
        lengths[piece.nodes] += piece.gram.diagonal(dim1=1, dim2=2).amax(1)
    scale = bounds.square().sum(1).mul_(reach.square_()).mul_(found.slopes.max().square())
    return enlarged_norms(squared.add_(last), scale.add_(last).add_(lengths, alpha=UNDERFLOW))


@dataclass(frozen=True)
class Privatizer:
    """The clip norm, the noise on all parameters together, and the public divisor of the noisy vector.

    The gradient of a mean is clipped as one vector. With `each_node`, the network has clipped the gradients of nodes
    with `node_factors` and added them up.
    """

    clip_norm: float  # inf: no clipping
    noise: GaussianNoise
    size: int  # P, parameters of a network; what follows in its vector is padding
    buffer: Tensor  # zeros like the vector, where each step draws its noise: large new tensors cost page faults
    each_node: bool = False
    divisor: float = 1.0

    @property
    def node_factors(self) -> NodeClipping | None:
        """Return the factors for `KipfNetwork.gradient`; None: the gradient of the mean loss is clipped here."""
        return NodeClipping(self.clip_norm) if self.each_node else None

    def apply(self, gradient: Tensor) -> None:
        """Clip and noise in place. A gradient that is not finite is zero: it must stay within the clip norm, too.

        So is one that is 2^126 times as long as the clip norm: its factor would be a subnormal number, of few digits.
        """
        if self.each_node:
            gradient.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        else:
            self._clip(gradient)
        std = self.noise.fill([self.buffer[: self.size]])
        gradient.add_(self.buffer, alpha=std)
        if self.divisor != 1:
            gradient.div_(self.divisor)

    def _clip(self, gradient: Tensor) -> None:
        norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
        factor = (SLACK * self.clip_norm / norm).clamp_(max=1.0).to(gradient.dtype)
        gradient.mul_(factor.masked_fill_(factor < torch.finfo(factor.dtype).tiny, 0))
        if math.isfinite(self.clip_norm):
            gradient.nan_to_num_(nan=0.0)


@dataclass
class KipfStep:
    """One step, private with a `privatizer`; with `replay` the steps on each kept block are captured on a GPU."""

    network: KipfNetwork
    optimizer: torch.optim.Optimizer
    source: Source
    dropout: float = 0.0
    masks: torch.Generator | None = None
    privatizer: Privatizer | None = None
    replay: Replay | None = None

    def __post_init__(self) -> None:
        self.gradient = torch.zeros_like(self.network.theta.data)
        self._done = 0

    def start_at(self, step: int) -> None:
        self._done = step

    def __call__(self) -> int:
        block = self.source.block_at(self._done)
        self._done += 1
        if self.replay is None or not self.source.keeps(block):
            self._move(block)
        elif not self.replay.run(partial(self._move, block), id(block)) and self.privatizer is not None:
            self.privatizer.noise.draws += 1  # where the program ran, it counted them
            self.privatizer.noise.numbers += self.privatizer.size
        return 0 if block is None else block.num_nodes

    def _move(self, block: KipfBlock | None) -> None:
        if block is None:
            self.gradient.zero_()
        else:
            factors = None if self.privatizer is None else self.privatizer.node_factors
            self.network.gradient(Read(block, self._kept(block)), self.gradient, factors)
        if self.privatizer is not None:
            self.privatizer.apply(self.gradient)
        self.network.theta.grad = self.gradient
        self.optimizer.step()

    def _kept(self, block: KipfBlock) -> Tensor | None:
        if not self.dropout or self.masks is None:
            return None
        return dropout_factors(block.num_hidden, self.network.width, self.dropout, self.masks)
