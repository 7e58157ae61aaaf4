"""Logits of a root as a weighted sum of the logits of single records (Zhang 2021, Eq. 5.3).

`RowNetwork` is a perceptron of one hidden layer whose gradients have a closed form:
a root's logits are sum_u pi_u (W2 act(W1 x_u + b1) + b2) over the places u of its row. Biases are weights of a constant
1, so that a layer is one matrix: E = [W1' ; b1] (F + 1, H) and D = [W2, b2] (C, H + 1). Then the logits are D m with m
= sum_u pi_u (h_u, 1), h = act([X, 1] E), and gradients are written down instead of recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgraph.engine.models.kipf import PADDED_TO, VectorNetwork
from dpgraph.engine.models.network import Network
from dpgraph.engine.models.sparse import Features, Matrix
from dpgraph.engine.sampling.ego import upload

# of the activations of models.dense, as functions of their outputs
SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda hidden: (hidden > 0).to(hidden.dtype),
    "tanh": lambda hidden: 1 - hidden.square(),
}
GRAM_BYTES = 1 << 26  # of gathered records
WHOLE_FROM = 0.4  # share of the roots in a batch, from which taking apart what it reads costs more than it saves


@dataclass(frozen=True)
class PaddedRows:
    """Rows of weights as arrays of L places: first the root, with weight 0 where its row does not name it, then others.

    Places that are left over name the root again, with weight 0, so that no more roots depend on a node.
    """

    roots: np.ndarray  # (M,) int64 node ids
    nodes: np.ndarray  # (M, L) int64 node ids
    weights: np.ndarray  # (M, L) float64

    @classmethod
    def from_weights(cls, weights: sp.csr_matrix, roots: np.ndarray, length: int) -> PaddedRows:
        """Return `weights` (M, n) of the `roots` with `length` = L places each.

        Raises ValueError for a row that names more than L - 1 other nodes.
        """
        roots = np.asarray(roots, dtype=np.int64)
        entries = weights.tocoo()
        nodes, padded = np.repeat(roots[:, None], length, axis=1), np.zeros((len(roots), length))
        own = entries.col == roots[entries.row]
        padded[entries.row[own], 0] = entries.data[own]
        order = np.lexsort((entries.col[~own], entries.row[~own]))
        owner = entries.row[~own][order]
        counts = np.bincount(owner, minlength=len(roots))
        if counts.max(initial=0) >= length:
            raise ValueError(f"a row names {counts.max()} other nodes: expected at most {length - 1}")
        place = 1 + np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes[owner, place], padded[owner, place] = entries.col[~own][order], entries.data[~own][order]
        return cls(roots, nodes, padded)


class RowNetwork(VectorNetwork):
    """A perceptron of one hidden layer; its layers are E (F + 1, H) and D (C, H + 1)."""

    def __init__(self, network: Network, activation: str) -> None:
        """Start from the parameters of an MLP with one encoder and one decoder layer."""
        encoder, decoder = _single_layers(network)
        super().__init__(
            (encoder.in_features + 1, encoder.out_features), (decoder.out_features, decoder.in_features + 1)
        )
        self.activation, self.slope = network.encoder.activation, SLOPES[activation]
        self.theta = nn.Parameter(encoder.weight.new_zeros(-(-self.size // PADDED_TO) * PADDED_TO))
        for mine, theirs in zip(self.parts(self.theta.data), _parameters(network), strict=True):
            mine.copy_(theirs)

    def parts(self, vector: Tensor) -> list[Tensor]:
        """Return views in the order and the shapes of a network's parameters: W1 (H, F), b1, W2 (C, H), b2."""
        encoder, decoder = self.layers(vector)
        return [encoder[:-1].T, encoder[-1], decoder[:, :-1], decoder[:, -1]]

    @torch.no_grad()
    def write(self, network: Network) -> Network:
        """Return `network` with these parameters."""
        for mine, theirs in zip(self.parts(self.theta.data), _parameters(network), strict=True):
            theirs.copy_(mine)
        return network


@dataclass(frozen=True)
class RowBatch:
    """The input of R roots: n records with a constant 1, and how the L places of a root name them."""

    records: Matrix  # (n, F + 1)
    places: Tensor  # (R L,) int32 records, root by root
    readers: Tensor  # (R L,) int32: places by ascending record
    readers_ptr: Tensor  # (n + 1,) int32
    weights: Tensor  # (R, L)
    gram: Tensor  # (R, L, L) inner products of the records of each root's places
    labels: Tensor  # (R,) int64

    @property
    def num_roots(self) -> int:
        """R."""
        return len(self.labels)

    @cached_property
    def totals(self) -> Tensor:
        """(R,) the sum of each root's weights."""
        return self.weights.sum(1)

    @cached_property
    def ptr(self) -> Tensor:
        """(R + 1,) int32: 0, L, 2 L, ..."""
        length = self.weights.shape[1]
        return torch.arange(0, len(self.places) + 1, length, dtype=torch.int32, device=self.places.device)

    @cached_property
    def count(self) -> Tensor:
        """(R,) int64: 0, 1, 2, ..."""
        return torch.arange(len(self.labels), device=self.labels.device)


class RowTable:
    """Rows on a device: M roots with L places each, and the inner products of their records.

    Records that are not finite are read as zeros, but their inner products stay not finite: where gradients are
    clipped, no root that names them contributes. Of the `records` (N, F) only those that a row names are kept.
    """

    def __init__(
        self,
        rows: PaddedRows,
        records: np.ndarray,
        labels: np.ndarray,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.device = device
        nodes, places = np.unique(rows.nodes, return_inverse=True)
        self.places = places.reshape(rows.nodes.shape).astype(np.int32)  # (M, L) of the records that are kept
        named, self.num_records = records[nodes], len(nodes)
        self.records = _with_constant(named, device)
        self.weights = torch.from_numpy(rows.weights).to(device, dtype)
        self.gram = torch.from_numpy(_gram(named, self.places)).to(device, dtype)
        self.labels = torch.from_numpy(np.asarray(labels, dtype=np.int64)[rows.roots]).to(device)

    @property
    def num_places(self) -> int:
        """M L."""
        return self.places.size

    def batch(self, positions: np.ndarray) -> RowBatch:
        """Return the roots at `positions` (b,), in that order."""
        places, records, count = self.places[positions], self.records.all, self.num_records
        if len(positions) < WHOLE_FROM * len(self.places):
            used, renumbered = np.unique(places, return_inverse=True)
            places, count = renumbered.reshape(places.shape).astype(np.int32), len(used)
            records = self.records.take(used)
        flat = places.ravel()
        ends = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(np.bincount(flat, minlength=count), out=ends[1:])
        chosen = upload(positions, self.device)
        return RowBatch(
            records=records,
            places=upload(flat, self.device),
            readers=upload(np.argsort(flat, kind="stable").astype(np.int32), self.device),
            readers_ptr=upload(ends, self.device),
            weights=self.weights[chosen],
            gram=self.gram[chosen],
            labels=self.labels[chosen],
        )


def _with_constant(features: np.ndarray, device: torch.device) -> Features:
    """Return the records (N, F) with a constant 1, (N, F + 1); records that are not finite become zeros."""
    lost = ~np.isfinite(features).all(axis=1, keepdims=True)
    return Features(np.hstack([np.where(lost, 0, features) if lost.any() else features, ~lost]), device)


def _gram(features: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return (M, L, L) float64 inner products, the constant 1 included."""
    step = max(1, GRAM_BYTES // (8 * nodes.shape[1] * features.shape[1]))
    pieces = [np.asarray(features[nodes[i : i + step]], dtype=np.float64) for i in range(0, len(nodes), step)]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.concatenate([piece @ piece.swapaxes(1, 2) + 1 for piece in pieces])


def _single_layers(network: Network) -> tuple[nn.Linear, nn.Linear]:
    parts = [list(part) for part in (network.encoder.layers, network.decoder.layers)]
    if network.hops or any(len(part) != 1 for part in parts):
        raise TypeError("expected an MLP with one encoder layer and one decoder layer")
    return parts[0][0], parts[1][0]  # type: ignore[return-value]


def _parameters(network: Network) -> list[Tensor]:
    return [parameter.data for layer in _single_layers(network) for parameter in (layer.weight, layer.bias)]
