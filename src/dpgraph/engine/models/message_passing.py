"""The message-passing layers: GCN, GIN and GAT (Daigavane et al., App. E and section 6.3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgraph.engine.models.attention import attend, attend_states
from dpgraph.engine.models.dense import (
    Activation,
    Dense,
    HeadLinear,
    KeyLinear,
    SelfWeight,
    apply_layer,
    head_layer,
    linear_layer,
)
from dpgraph.engine.models.segments import Segments


class GcnLayer(nn.Module):
    """Graph convolution with inverse-degree normalisation: h'_u = m_u + act(W m_u + b).

    m_u is the mean of h over {u} and E_u: the operator (d + I)^-1 (A + I). The skip connection is in the authors'
    released code and not in the paper's text.
    """

    def __init__(self, width: int, activation: Activation, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear = linear_layer(width, width, generator, dtype)
        self.activation = activation

    def forward(self, rows: Tensor, segments: Segments, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """Return the states (n, width) from those of the deeper level (num_rows, width)."""
        mean = segments.mean(rows)
        return mean + self.activation(dense(self.linear, mean, level))


class GinLayer(nn.Module):
    """Graph isomorphism network: h'_u = act(W ((1 + eps) h_u + sum of h over E_u) + b), eps learnt and 0 at first.

    See Xu et al. (2019), eq. 4.1. Unlike `GcnLayer` it has no skip connection: that would pass the unbounded sum over a
    hub's list to the decoder, around the activation, and the GIN of the papers has none.
    """

    def __init__(self, width: int, activation: Activation, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.self_weight = SelfWeight(dtype)
        self.linear = linear_layer(width, width, generator, dtype)
        self.activation = activation

    def forward(self, rows: Tensor, segments: Segments, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """Return the states (n, width) from those of the deeper level (num_rows, width)."""
        total = segments.sum(rows) + dense(self.self_weight, segments.own(rows), level)
        return self.activation(dense(self.linear, total, level))


class GatLayer(nn.Module):
    """Attention with dot products: h'_u = act(W_o [sum_j alpha^1_uj V^1 h_j, ..., sum_j alpha^H_uj V^H h_j] + b_o).

    j runs over {u} and E_u, and alpha^k_u is the softmax over j of (Q^k h_u) . (K^k h_j) / sqrt(d); heads have width d
    = ceil(width / H). Q, V and W_o have biases; a bias of K would add the same number to every score, so that its
    gradient is zero. After Velickovic et al. (2018).
    """

    def __init__(
        self, width: int, heads: int, activation: Activation, generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.head_width = -(-width // heads)
        self.query = head_layer(HeadLinear, heads, width, self.head_width, generator, dtype)
        self.key = head_layer(KeyLinear, heads, width, self.head_width, generator, dtype)
        self.value = head_layer(HeadLinear, heads, width, self.head_width, generator, dtype)
        self.output = linear_layer(heads * self.head_width, width, generator, dtype)
        self.activation = activation

    def forward(self, rows: Tensor, segments: Segments, level: int = 0, dense: Dense = apply_layer) -> Tensor:
        """Return the states (n, width) from those of the deeper level (num_rows, width)."""
        own = segments.own(rows)
        if segments.alone:  # softmax over one row is 1, whatever the scores, which have no gradient
            return self._combine(dense(self.value, own, level), level, dense)
        if not segments.own_rows:
            keys, values = dense(self.key, rows, level + 1), dense(self.value, rows, level + 1)
            return self.receive(own, keys, values, segments, level, dense)
        # Roots read every row once: keys and values act on the roots instead of all rows, and the gradient of a root
        # has rank one per head.
        mapped = dense(self.key, dense(self.query, own, level), level)
        received = attend_states(mapped, rows, segments, self.head_width)
        return self._combine(dense(self.value, received, level), level, dense)

    def receive(
        self, own: Tensor, keys: Tensor, values: Tensor, segments: Segments, level: int = 0, dense: Dense = apply_layer
    ) -> Tensor:
        """Return the states (n, width) from the segments' own states and the keys and values of all rows.

        `own` is (n, width), `keys` and `values` are (num_rows, H, d).
        """
        return self._combine(attend(dense(self.query, own, level), keys, values, segments), level, dense)

    def _combine(self, heads: Tensor, level: int, dense: Dense) -> Tensor:
        return self.activation(dense(self.output, heads.flatten(1), level))
