"""The problem of all peers of the private step: clipped gradients of the same roots by the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bench.steps import FEATURES, StepSetting, synthetic_graph
from dpgraph.config.cell import Model
from dpgraph.core.randomness import Key, numpy_generator, torch_generator
from dpgraph.data.graph import Graph
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.batches import Draws, FixedSizeSampler
from dpgraph.engine.sampling.edge_lists import empty_edge_lists, stable_edge_lists
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees, pack_ego_trees
from dpgraph.engine.training.captured.step import CapturedStep
from dpgraph.engine.training.clipping import clipped_gradient_sum
from dpgraph.engine.training.fused.inputs import TreeInputs
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.steps import ClippedTerm, PrivateStep

NODES = 40_000
UNCLIPPED = 1e15  # a clip norm that no gradient reaches
PIECE_ON_GPU = 20  # times as many roots as on a CPU: of 500 and 2,000, or 2,500 and 10,000, the fastest on an H200

Gradients = Callable[[], list[Tensor]]  # a step of a peer: its sums, by parameter


@dataclass(frozen=True)
class PeersProblem:
    """The batch at `positions` of `trees`; `limit` is the clip norm C, at which about half of the roots are clipped."""

    setting: StepSetting
    network: Network
    trees: EgoTrees
    positions: np.ndarray  # (m,) without repetition
    features: Tensor  # (N, F)
    labels: Tensor  # (N,)
    limit: float

    @property
    def dtype(self) -> torch.dtype:
        return self.features.dtype

    @property
    def device(self) -> torch.device:
        return self.features.device

    def sums(self, limit: float | None = None) -> list[Tensor]:
        """Return this package's sum_v min(1, C / n_v) grad_v for each parameter, in the network's order."""
        arguments = (self.network, self.trees, self.positions, self.features, self.labels)
        return clipped_gradient_sum(*arguments, limit or self.limit, inputs=self._inputs).sums

    def compiled(self) -> Gradients:
        """Return the sums of a compiled program. Raises RuntimeError for a batch that does not fit in its slots."""
        sampler = FixedSizeSampler(self.trees.num_roots, len(self.positions))
        term = ClippedTerm(self.trees, Draws(sampler, numpy_generator("bench peers", "unused")), self.limit)
        optimizer = torch.optim.SGD(self.network.parameters(), lr=1.0)
        noise = GaussianNoise(1.0, torch_generator("bench peers", "unused"))
        step = PrivateStep(self.network, optimizer, self.features, self.labels, (term,), noise, 1.0)
        program = CapturedStep(step, Key(0))
        program.compiles = True
        masks = torch.zeros(1, sampler.num_roots, dtype=torch.bool, device=self.device)
        masks[0, torch.from_numpy(self.positions).to(self.device)] = True
        (source,) = program.slots
        drawn = source.filled(masks)
        if drawn.overflow.item():
            raise RuntimeError("the batch does not fit in the slots")
        source.row.copy_(drawn.ranks[0])

        def sums() -> list[Tensor]:
            program.summed()
            return list(program.sums.values())

        return sums

    @cached_property
    def _inputs(self) -> TreeInputs:
        return TreeInputs(self.trees, self.features)

    @cached_property
    def ascending(self) -> np.ndarray:
        """The positions by ascending size of their trees, so that padding adds least."""
        return self.positions[np.argsort(self.trees.tree_sizes[self.positions], kind="stable")]

    def largest_piece(self, most: int) -> int:
        """Return the most roots of a piece on this device, from those on a CPU."""
        return most * PIECE_ON_GPU if self.device.type == "cuda" else most

    def pieces(self, most: int) -> Iterator[np.ndarray]:
        """Return `ascending` in pieces of about equal numbers of roots, `most` on a CPU."""
        yield from np.array_split(self.ascending, -(-len(self.ascending) // self.largest_piece(most)))


class Problems:
    """Problems on one synthetic graph with the degrees, features and classes of ogbn-arxiv.

    Widths and depths are those of `steps.SETTINGS`.
    """

    def __init__(self, nodes: int = NODES, width: int = 256, device: str = "cpu") -> None:
        self.graph: Graph = synthetic_graph(nodes)
        self.width, self.device = width, torch.device(device)
        self._trees: dict[tuple[int, int], EgoTrees] = {}

    def trees(self, setting: StepSetting) -> EgoTrees:
        key = setting.hops, setting.max_degree
        if key not in self._trees:
            roots, degree = self.graph.train_nodes, setting.max_degree
            lists = stable_edge_lists(self.graph, roots, degree, degree, key=0) if setting.hops else None
            self._trees[key] = pack_ego_trees(lists or empty_edge_lists(self.graph), roots, setting.hops, self.device)
        return self._trees[key]

    def problem(self, setting: StepSetting, dtype: torch.dtype = torch.float32) -> PeersProblem:
        """Draw a problem, with biases and GIN's epsilon: a peer could leave out a first value of 0 unnoticed."""
        model = Model(
            architecture=setting.architecture,  # type: ignore[arg-type]
            hops=setting.hops,
            decoder_layers=setting.decoder_layers,
            width=self.width,
        )
        generator = torch_generator("bench peers", setting.architecture, setting.hops)
        network = Network(model, FEATURES, self.graph.num_classes, generator, dtype)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() < 2:
                    drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                    parameter.copy_(0.1 * drawn)
        network.to(self.device)
        trees = self.trees(setting)
        size = min(setting.batch_size, trees.num_roots)
        drawn_roots = numpy_generator("bench peers", "batch", setting.batch_size)
        positions = drawn_roots.choice(trees.num_roots, size, replace=False)
        features = torch.from_numpy(np.array(self.graph.features)).to(self.device, dtype)
        labels = torch.from_numpy(np.array(self.graph.labels)).to(self.device)
        some = positions[:1000]
        limit = float(clipped_gradient_sum(network, trees, some, features, labels, 1.0).norms.median())
        return PeersProblem(setting, network, trees, positions, features, labels, limit)


@dataclass(frozen=True)
class Padded:
    """Ego trees of B roots as arrays of one size; n_l rows on level l, of which a root's own is the first on level 1.

    Segments that pad read row 0, rows that pad hold the root's record; no layer reads them. Without hops a tree is
    its root.
    """

    nodes: Tensor  # (B, n_r) node ids of the deepest rows
    reads: tuple[Tensor, ...]  # per level 0..r-1, (B, n_l, n_{l+1}): 1 where a segment holds a row
    own: tuple[Tensor, ...]  # per level 0..r-1, (B, n_l) int64: a segment's own row
    labels: Tensor  # (B,)

    def means(self) -> tuple[Tensor, ...]:
        """Return `reads` scaled so that every row sums to 1."""
        return tuple(read / read.sum(2, keepdim=True) for read in self.reads)


def padded(problem: PeersProblem, positions: np.ndarray, steps: Sequence[int] = (1, 1, 1)) -> Padded:
    """Return the trees at `positions`; the rows of level l are padded to a multiple of steps[l]."""
    batch = problem.trees.batch(positions)
    widths = [
        1 if level == 0 else -(-int(sizes.max()) // step) * step
        for level, (sizes, step) in enumerate(zip(batch.sizes, steps, strict=False))
    ]
    places = [_places(sizes) for sizes in batch.sizes]
    nodes = np.repeat(batch.roots.cpu().numpy()[:, None], widths[-1], axis=1)
    nodes[places[-1]] = batch.nodes.cpu().numpy()
    reads, own = zip(*_levels(batch, places, widths, problem.features)) if batch.hops else ((), ())
    return Padded(torch.from_numpy(nodes).to(problem.device), reads, own, problem.labels[batch.roots])


def _levels(
    batch: EgoBatch, places: list[tuple[np.ndarray, np.ndarray]], widths: list[int], like: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    for level, hop in enumerate(batch.hops):
        (owner, within), (_, below) = places[level], places[level + 1]
        ptr = hop.ptr.cpu().numpy()
        columns = np.arange(len(below)) if hop.columns is None else hop.columns.cpu().numpy()
        segment = np.repeat(np.arange(len(owner)), np.diff(ptr))
        matrix = np.zeros((batch.num_roots, widths[level], widths[level + 1]))
        padding = np.ones(matrix.shape[:2], dtype=bool)
        padding[owner, within] = False
        matrix[padding, 0] = 1
        matrix[owner[segment], within[segment], below[columns]] = 1
        own = np.zeros(matrix.shape[:2], dtype=np.int64)
        own[owner, within] = below[columns[ptr[:-1]]]
        yield torch.from_numpy(matrix).to(like), torch.from_numpy(own).to(like.device)


def _places(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the root of each packed row, and its place among the root's rows."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
