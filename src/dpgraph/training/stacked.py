"""Training of all seeds of a cell in one process: independent runs that share data, noise calls and optimiser calls.

A seed draws from generators of its own and its products read its own parameters only, so it ends with the same bits as
when it is trained alone (on one device and number of threads).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.models.kipf import KipfBlock, KipfStack, Read, dropout_factors
from dpgraph.sampling.graph_splits import Schedule
from dpgraph.training.kipf_nodes import NodeClipping
from dpgraph.training.loop import note_diverged
from dpgraph.training.noise import GaussianNoise

CACHE_BYTES = 1 << 28  # of blocks; beyond, parts are built again whenever they are visited


class BlockCache:
    """Blocks by their nodes: fixed parts are built once, and seeds with the same part share it."""

    def __init__(self, build: Callable[[np.ndarray], KipfBlock], limit: int = CACHE_BYTES) -> None:
        self.build, self.limit = build, limit
        self.held = 0
        self._blocks: dict[bytes, KipfBlock] = {}

    def of(self, nodes: np.ndarray) -> KipfBlock:
        key = nodes.tobytes()
        if (block := self._blocks.get(key)) is None:
            block = self.build(nodes)
            if self.held + block.nbytes <= self.limit:
                self.held += block.nbytes
                self._blocks[key] = block
        return block


@dataclass(frozen=True)
class GraphSource:
    """What a step's gradient reads: each seed's schedule of nodes, and how nodes become a block.

    A node that is not `present` (N,), a null record, keeps its place in the schedule and is read by no step, so that it
    moves neither messages nor the mean's divisor: what Theorem 5 calls an absent node. None: all are.
    """

    schedules: Sequence[Schedule]
    block: Callable[[np.ndarray], KipfBlock]
    present: np.ndarray | None = None

    def of(self, seed: int, step: int) -> KipfBlock | None:
        """None: no nodes, so the gradient is zero."""
        nodes = self.schedules[seed].nodes(step)
        if self.present is not None:
            nodes = nodes[self.present[nodes]]
        return self.block(nodes) if len(nodes) else None


class NoSource:
    """Reads nothing: every gradient is zero."""

    def of(self, seed: int, step: int) -> KipfBlock | None:
        return None


Source = GraphSource | NoSource


class SeedStates(nn.Module):
    """The state of each seed's run: steps done, and where it stopped early or diverged (0: it did not)."""

    done: Tensor
    stopped_at: Tensor
    diverged_at: Tensor
    least_loss: Tensor
    waited: Tensor

    def __init__(self, network: KipfStack) -> None:
        super().__init__()
        self.network = network
        seeds, device = network.num_seeds, network.theta.device
        self.register_buffer("done", torch.zeros((), dtype=torch.int64))  # on the host
        for name in ("stopped_at", "diverged_at", "waited"):
            self.register_buffer(name, torch.zeros(seeds, dtype=torch.int64, device=device))
        self.register_buffer("least_loss", torch.full((seeds,), torch.inf, device=device))
        self.register_buffer("kept", torch.zeros_like(network.theta.data))

    def released(self) -> Tensor:
        """(S, P) parameters: those of its last step for a seed that stopped early."""
        return torch.where(self.stopped_at[:, None] > 0, self.kept, self.network.theta.data)  # type: ignore[arg-type]


@dataclass(frozen=True)
class EarlyStopping:
    """A seed ends after `patience` epochs without a better validation loss. Nothing waits for the device."""

    states: SeedStates
    validation: KipfBlock
    patience: int
    steps_per_epoch: int

    def after(self, done: int) -> None:
        if done % self.steps_per_epoch:
            return
        states, network = self.states, self.states.network
        loss = network.losses(list(network.theta.data), self.validation)
        better = loss < states.least_loss
        states.least_loss.copy_(torch.where(better, loss, states.least_loss))
        states.waited.copy_(torch.where(better, 0, states.waited + 1))
        ends = (states.waited >= self.patience) & (states.stopped_at == 0)
        states.kept.copy_(torch.where(ends[:, None], network.theta.data, states.kept))  # type: ignore[operator, arg-type]
        states.stopped_at.copy_(torch.where(ends, done, states.stopped_at))


@dataclass(frozen=True)
class Privatizer:
    """What is clipped, noise of each seed's own on all parameters together, and the public divisor of the noisy vector.

    One clipped vector for each seed, the gradient of a mean; or, with `each_node`, the sum of gradients that the
    network has clipped node by node with `node_factors`.
    """

    clip_norm: float  # inf: nothing is clipped
    noises: Sequence[GaussianNoise]  # one for each seed
    size: int  # P, parameters of one seed; what follows in a row is padding
    buffer: Tensor  # (S, row length) zeros, where each step draws its noise: large new tensors cost page faults
    each_node: bool = False
    divisor: float = 1.0

    @property
    def node_factors(self) -> NodeClipping | None:
        """For `KipfStack.gradients`; None: the gradient of the mean loss, clipped here."""
        return NodeClipping(self.clip_norm) if self.each_node else None

    def apply(self, gradients: Tensor) -> None:
        """(S, row length), in place. A gradient that is not finite is zero: it must stay within the clip norm, too."""
        if self.each_node:
            gradients.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        else:
            self._clip(gradients)
        stds = {noise.fill([row[: self.size]]) for row, noise in zip(self.buffer, self.noises, strict=True)}
        if len(stds) != 1:
            raise TypeError("seeds of one cell have one noise std")
        gradients.add_(self.buffer, alpha=stds.pop())
        if self.divisor != 1:
            gradients.div_(self.divisor)

    def _clip(self, gradients: Tensor) -> None:
        norms = torch.stack([torch.linalg.vector_norm(row) for row in gradients])
        gradients.mul_((self.clip_norm / norms).clamp_(max=1.0).unsqueeze(1))
        if math.isfinite(self.clip_norm):
            gradients.nan_to_num_(nan=0.0)


@dataclass
class StackedStep:
    """One step of every seed that still runs."""

    states: SeedStates
    optimizer: torch.optim.Optimizer
    source: Source
    dropout: float
    dropout_generators: Sequence[torch.Generator]
    privatizer: Privatizer | None = None
    stopping: EarlyStopping | None = None

    def __post_init__(self) -> None:
        self.gradients = torch.zeros_like(self.states.network.theta.data)
        self._running: list[int] | None = None

    @property
    def running(self) -> list[int]:
        """Positions of the seeds that were running at the last check."""
        if self._running is None:
            ended = (self.states.stopped_at + self.states.diverged_at).tolist()
            self._running = [seed for seed, at in enumerate(ended) if at == 0]
        return self._running

    def __call__(self) -> int:
        network, step = self.states.network, int(self.states.done)
        self.states.done += 1
        if not self.running:
            return 0
        reads = {seed: read for seed in self.running if (read := self._read(seed, step)) is not None}
        for seed in self.running:
            if seed not in reads:
                self.gradients[seed].zero_()
        network.gradients(reads, self.gradients, None if self.privatizer is None else self.privatizer.node_factors)
        if self.privatizer is not None:
            self.privatizer.apply(self.gradients)
        network.theta.grad = self.gradients
        self.optimizer.step()
        if self.stopping is not None:
            self.stopping.after(step + 1)
        return sum(read.block.num_nodes for read in reads.values())

    def _read(self, seed: int, step: int) -> Read | None:
        block = self.source.of(seed, step)
        if block is None or not self.dropout:
            return None if block is None else Read(block)
        width, generator = self.states.network.width, self.dropout_generators[seed]
        return Read(block, dropout_factors(block.num_hidden, width, self.dropout, generator))

    def check(self, done: int) -> None:
        """Notes seeds whose parameters are not finite, which fail alone; raises Diverged when all have."""
        self._running = None
        note_diverged(self.states.diverged_at, ~torch.isfinite(self.states.released()).all(dim=1), done)
