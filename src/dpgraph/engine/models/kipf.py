"""The two-layer GCN of Kipf and Welling (2017) on parts of a graph, and norms of single nodes' gradients.

logits = A^ relu(A^ X W1 + b1) W2 + b2 with A^ = D^-1/2 (A + I) D^-1/2 (Igamberdiev and Habernal, Eq. 4). X and A^ are
constant, so gradients are written down instead of recorded, and a step touches the rows that its loss depends on only.

With a_v = W2 e_v, e_v the error of node v's logits and s_u the slope of the hidden layer at u, dropout included, the
gradient of v's loss is, with (x, 1) for a bias,

    W2, b2: (m_v, 1) e_v',  m_v = sum_u A^_vu h_u            W1, b1: sum_u A^_vu (p_u, 1) (s_u a_v)',  p = A^ X

(products of vectors of one length are entrywise). The squared norm of the second is sum_uw G_uw <r_u, r_w> with r_u =
A^_vu s_u a_v and G_uw = <p_u, p_w> + 1, which depend on the data alone. So the gradient of a single node is not formed:
time and memory grow with the pairs (u, w) of neighbours of each node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.graph import Graph
from dpgraph.engine.models.products import inner_products
from dpgraph.engine.models.sparse import Bags, Csr, Features, Matrix, SparseMatrix

MOST_PAIRS = 1 << 25  # of one block, padding included: 128 MB of inner products, twice as much while they are made
PIECE = 1 << 22  # numbers that are gathered at once
COLUMNS = 256  # features at once
GROWTH = 1.2  # from one length of padded neighbourhoods to the next
PADDED_TO = 64
# Beyond this share of nodes, or these bytes, gathering rows of X costs more than it saves: time, or space in a cache.
MOST_OF_THE_GRAPH, MOST_BYTES = 0.5, 1 << 21


@dataclass(frozen=True)
class Neighbourhoods:
    """The neighbourhoods of b nodes with up to d neighbours each, the nodes themselves included."""

    nodes: Tensor  # (b,) int64 places among the block's nodes
    members: Tensor  # (b, d) int64 rows of the hidden layer; 0 where padded
    weights: Tensor  # (b, d) A^_vu; 0 where padded
    gram: Tensor  # (b, d, d) G, made in float64; 0 where padded
    # (b,) float64 sum_u A^_vu (sum_w A^_uw |x_w| + 1): lengths of all that is added up, which rounding is relative to
    reach: Tensor

    def squares(self, backs: Tensor, slopes: Tensor) -> Tensor:
        """Return the (b,) squared norms of the gradients for W1 and b1.

        `backs` (n, width) are the a_v, `slopes` (k, width) the s_u.
        """
        rows = slopes[self.members].mul_(self.weights.unsqueeze(2) * backs[self.nodes].unsqueeze(1))
        return inner_products(rows).mul_(self.gram).sum((1, 2)).clamp_min_(0).to(rows.dtype)


def neighbourhoods(features: Matrix, inner: SparseMatrix, outer: SparseMatrix) -> tuple[Neighbourhoods, ...]:
    """Return the neighbourhoods of all nodes of a block, grouped by size.

    Args:
        features: (m, F) of the block.
        inner: (k, m) A^ from features to the hidden layer.
        outer: (n, k) A^ from the hidden layer to the nodes.

    Raises:
        UserError: The nodes have more than `MOST_PAIRS` pairs of neighbours.
    """
    rows = outer.rows
    sizes = np.diff(rows.ptr.cpu().numpy())
    ladder = _ladder(int(sizes.max(initial=1)))
    padded = ladder[np.searchsorted(ladder, sizes)]
    pairs = int((padded.astype(np.int64) ** 2).sum())
    if pairs > MOST_PAIRS:
        raise UserError(
            f"the gradient of each node: expected at most {MOST_PAIRS} pairs of neighbours of the same node: take more "
            "splits, a smaller train_share, or a graph of smaller degrees"
        )
    pieces = []
    for size in np.unique(padded).tolist():
        nodes = np.flatnonzero(padded == size)
        per_piece = max(1, PIECE // (size * max(size, COLUMNS)))
        for start in range(0, len(nodes), per_piece):
            pieces.append(_gathered(rows, nodes[start : start + per_piece], size))
    return _with_products(features, inner, pieces)


def _ladder(most: int) -> np.ndarray:
    """Return the lengths to which neighbourhoods are padded: 1, 2, 3, 4, 5, 6, 8, 10, ..."""
    steps = [1]
    while steps[-1] < most:
        steps.append(max(steps[-1] + 1, int(GROWTH * steps[-1])))
    return np.array(steps)


def _gathered(rows: Bags, nodes: np.ndarray, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return nodes, members and weights of one piece."""
    chosen = torch.from_numpy(nodes).to(rows.ptr.device)
    first, end = rows.ptr[chosen].long(), rows.ptr[chosen + 1].long()
    places = first.unsqueeze(1) + torch.arange(size, device=first.device)
    held = places < end.unsqueeze(1)
    places = torch.where(held, places, first.unsqueeze(1))
    members = torch.where(held, rows.columns[places].long(), 0)
    return chosen, members, torch.where(held, rows.values[places].double(), 0.0)


def _with_products(
    features: Matrix, inner: SparseMatrix, pieces: list[tuple[Tensor, Tensor, Tensor]]
) -> tuple[Neighbourhoods, ...]:
    """Return the neighbourhoods with inner products of rows (p_u, 1): a few features at once, in float64."""
    grams = [weights.new_ones(*weights.shape, weights.shape[1]) for _, _, weights in pieces]
    squares = torch.zeros(features.shape[0], dtype=torch.float64, device=inner.rows.values.device)
    for start in range(0, features.shape[1], COLUMNS):
        columns = features.dense_columns(start, min(start + COLUMNS, features.shape[1])).double()
        squares += columns.square().sum(1)
        mixed = inner.times(columns)
        for (_, members, _), gram in zip(pieces, grams, strict=True):
            gathered = mixed[members]
            gram += torch.bmm(gathered, gathered.mT)
    reach = inner.times(squares.sqrt_().unsqueeze(1)).squeeze(1) + 1  # A^ has no negative entry
    found = []
    for (nodes, members, weights), gram in zip(pieces, grams, strict=True):
        held = weights > 0  # padding stands for row 0, which must not reach the node
        gram.masked_fill_(~(held.unsqueeze(1) & held.unsqueeze(2)), 0)
        total = torch.where(held, weights * reach[members], 0).sum(1)
        dtype = inner.rows.values.dtype
        found.append(Neighbourhoods(nodes, members, weights.to(dtype), gram.to(dtype), total))
    return tuple(found)


@dataclass(frozen=True)
class KipfBlock:
    """The inputs of the loss on n nodes: X (m, F), inner A^ (k, m), outer A^ (n, k)."""

    features: Matrix
    inner: SparseMatrix
    outer: SparseMatrix
    labels: Tensor  # (n,) int64
    num_hidden: int  # k
    places: Tensor  # 0, 1, ..., n - 1
    nbytes: int  # of its own: features of the whole graph belong to all blocks

    @property
    def num_nodes(self) -> int:
        return len(self.labels)

    @cached_property
    def neighbourhoods(self) -> tuple[Neighbourhoods, ...]:
        """The neighbourhoods for norms of single nodes' gradients, made at first use."""
        return neighbourhoods(self.features, self.inner, self.outer)


@dataclass(frozen=True)
class NodeErrors:
    """The parts of which each of n nodes' gradients is made; see the module's formulas."""

    block: KipfBlock
    errors: Tensor  # (classes, n) e
    mixed: Tensor  # (n, width) m
    slopes: Tensor  # (k, width) s
    w2: Tensor  # (width, classes)


NodeFactors = Callable[[NodeErrors], Tensor]  # -> (n,) what each node's gradient is multiplied with; 0: it is left out


@dataclass(frozen=True)
class Read:
    """The input of one step; dropout multiplies the hidden layer with `kept` (k, width)."""

    block: KipfBlock
    kept: Tensor | None = None


class GraphBlocks:
    """The blocks of one graph, taken as undirected, on one device; nodes `left_out` of it have no edges."""

    def __init__(self, graph: Graph, device: torch.device, left_out: np.ndarray | tuple[()] = ()) -> None:
        self.num_nodes, self.device = graph.num_nodes, device
        sends = 1 - np.isin(np.arange(self.num_nodes), left_out).astype(np.float32)
        out_idx, out_ptr = np.asarray(graph.out_idx), np.asarray(graph.out_ptr)
        lists = (np.repeat(sends, np.diff(out_ptr)) * sends[out_idx], out_idx, out_ptr)
        matrix = sp.csr_matrix(lists, shape=(self.num_nodes, self.num_nodes), copy=True)
        matrix.eliminate_zeros()
        closed = matrix.maximum(matrix.T).maximum(sp.identity(self.num_nodes, dtype=np.float32)).tocsr()
        self._closed = Csr.from_scipy(closed)  # A + I
        self._normalized = normalized(self._closed)
        self._place = np.full(self.num_nodes, -1, dtype=np.int32)
        self._labels = np.asarray(graph.labels, dtype=np.int64)
        self.features = Features(np.asarray(graph.features), device)

    def whole(self) -> KipfBlock:
        """Return the block of all nodes and their edges."""
        matrix = SparseMatrix.from_csr(self._normalized, self.device, symmetric=True)
        return self._block(self.features.all, matrix, matrix, np.arange(self.num_nodes), self.num_nodes)

    def masked(self, nodes: np.ndarray) -> KipfBlock:
        """Return the block of the loss of `nodes` on the whole graph, with the rows within two hops of them."""
        outer = self._normalized.take(nodes)
        hidden = np.unique(outer.columns)
        inner = self._normalized.take(hidden)
        read = np.unique(inner.columns)
        share = len(read) / self.num_nodes
        if share > MOST_OF_THE_GRAPH or share * self.features.all.nbytes > MOST_BYTES:
            features = self.features.all
        else:
            inner, features = inner.renamed(read), self.features.take(read)
        first, second = (SparseMatrix.from_csr(matrix, self.device) for matrix in (inner, outer.renamed(hidden)))
        return self._block(features, first, second, nodes, len(hidden))

    def induced(self, nodes: np.ndarray) -> KipfBlock:
        """Return the block of the ascending `nodes` and the edges among them; degrees are counted among them."""
        self._place[nodes] = np.arange(len(nodes), dtype=np.int32)
        rows = self._closed.take(nodes)
        columns = self._place[rows.columns]
        self._place[nodes] = -1
        kept = columns >= 0
        counts = np.zeros(len(columns) + 1, dtype=np.int32)
        np.cumsum(kept, out=counts[1:])
        among = Csr(counts[rows.ptr], columns[kept], rows.values[kept], len(nodes))
        matrix = SparseMatrix.from_csr(normalized(among), self.device, symmetric=True)
        return self._block(self.features.take(nodes), matrix, matrix, nodes, len(nodes))

    def _block(
        self, features: Matrix, inner: SparseMatrix, outer: SparseMatrix, nodes: np.ndarray, hidden: int
    ) -> KipfBlock:
        labels = torch.from_numpy(self._labels[nodes]).to(self.device, non_blocking=True)
        places = torch.arange(len(nodes), device=self.device)
        own = 0 if features is self.features.all else features.nbytes
        size = own + inner.nbytes + outer.nbytes + labels.nbytes + places.nbytes
        return KipfBlock(features, inner, outer, labels, hidden, places, size)


def normalized(closed: Csr) -> Csr:
    """Return D^-1/2 (A + I) D^-1/2 from the symmetric A + I, whose entries are ones."""
    degrees = np.diff(closed.ptr)
    scale = (1 / np.sqrt(degrees)).astype(np.float32)
    return replace(closed, values=np.repeat(scale, degrees) * scale[closed.columns])


class VectorNetwork(nn.Module):
    """A network with all P parameters in one vector `theta`, padded with zeros to a multiple of `PADDED_TO`."""

    theta: nn.Parameter

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.shapes, self.sizes = shapes, [math.prod(shape) for shape in shapes]

    @property
    def size(self) -> int:
        """P, without padding."""
        return sum(self.sizes)

    def layers(self, vector: Tensor) -> list[Tensor]:
        """Return views of `theta`, or a vector like it, in the layers' shapes."""
        parts = vector[: self.size].split(self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class KipfNetwork(VectorNetwork):
    """A two-layer GCN; its layers are W1 (F, width), b1, W2 (width, classes), b2."""

    def __init__(
        self, num_features: int, width: int, num_classes: int, generator: torch.Generator, device: torch.device
    ) -> None:
        """Draw Glorot uniform weights from a generator on the CPU; biases are zero."""
        super().__init__((num_features, width), (width,), (width, num_classes), (num_classes,))
        if width < 1:
            raise invalid("width", width, "an integer >= 1")
        parts = []
        for shape in self.shapes:
            bound = math.sqrt(6 / sum(shape)) if len(shape) == 2 else 0.0
            parts.append(torch.rand(shape, generator=generator).mul_(2 * bound).sub_(bound).flatten())
        self.theta = nn.Parameter(torch.cat([*parts, torch.zeros(-self.size % PADDED_TO)]).to(device))

    @property
    def width(self) -> int:
        return self.shapes[0][1]

    @torch.no_grad()
    def logits(self, block: KipfBlock) -> Tensor:
        """Return (n, classes) logits, without dropout."""
        w1, b1, w2, b2 = self.layers(self.theta.data)
        mixed = block.outer.times(_hidden(block, block.features.times(w1), b1))
        return torch.addmm(b2.unsqueeze(1), w2.T, mixed.T).T

    def loss(self, block: KipfBlock) -> Tensor:
        """Return the mean cross-entropy, a number on the device."""
        return nn.functional.cross_entropy(self.logits(block), block.labels, ignore_index=-1)

    @torch.no_grad()
    def gradient(self, read: Read, into: Tensor, factors: NodeFactors | None = None) -> None:
        """Write the gradient of the mean cross-entropy over the block's n nodes to `into`.

        With `factors`, write the sum of the nodes' gradients, each multiplied with its factor, instead of the mean.
        """
        features = read.block.features
        back = self._backward(read, features.times(self.layers(self.theta.data)[0]), into, factors)
        self.layers(into)[0].copy_(features.transposed_times(back))

    def _backward(self, read: Read, product: Tensor, into: Tensor, factors: NodeFactors | None) -> Tensor:
        """Write the gradients of all parameters but W1; return the (m, width) factor of X^T in that of W1.

        Classes come first in the arrays of classes: operations on long rows are several times as fast as on short ones.
        """
        block, kept = read.block, read.kept
        _, b1, w2, b2 = self.layers(self.theta.data)
        _, g_b1, g_w2, g_b2 = self.layers(into)
        hidden = _hidden(block, product, b1)
        if kept is not None:
            hidden.mul_(kept)
        mixed = block.outer.times(hidden)
        delta = torch.softmax(torch.addmm(b2.unsqueeze(1), w2.T, mixed.T), dim=0)
        delta[block.labels, block.places] -= 1
        delta.masked_fill_(block.labels < 0, 0)  # null records, whose -1 named the last class: no loss
        if factors is None:
            delta /= block.num_nodes
        else:
            slopes = (hidden > 0).to(hidden.dtype)
            slopes = slopes if kept is None else slopes.mul_(kept)
            each = factors(NodeErrors(block, delta, mixed, slopes, w2))
            left_out = each == 0  # 0 times infinity is not 0
            delta = delta.mul_(each).masked_fill_(left_out, 0)
            mixed = mixed.masked_fill(left_out.unsqueeze(1), 0)
        g_w2.copy_((delta @ mixed).T)
        torch.sum(delta, dim=1, out=g_b2)
        back = block.outer.transposed_times(delta.T @ w2.T)
        if kept is not None:
            back.mul_(kept)
        back = torch.ops.aten.threshold_backward(back, hidden, 0)  # zero where the hidden layer is
        torch.sum(back, dim=0, out=g_b1)
        return block.inner.transposed_times(back)


def _hidden(block: KipfBlock, product: Tensor, b1: Tensor) -> Tensor:
    """Return relu(A^ X W1 + b1) from X W1."""
    return torch.relu_(block.inner.times(product).add_(b1))


def dropout_factors(rows: int, width: int, rate: float, generator: torch.Generator) -> Tensor:
    """Return (rows, width) factors: 0 with probability `rate`, else 1 / (1 - rate).

    Each 64-bit word gives four entries, so rates are rounded to 1 / 65536.
    """
    words = torch.empty((rows * width + 3) // 4, dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    dropped = round(rate * 2**16)
    keep = words.view(torch.int16)[: rows * width].view(rows, width) >= dropped - 2**15
    return keep.to(torch.float32).mul_(2**16 / (2**16 - dropped))
