"""Networks over several blocks of columns: a node's own record and what it received, hop by hop."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dpgraph.engine.models.dense import Dense, Mlp, apply_layer
from dpgraph.engine.models.network import LayeredModule, owners
from dpgraph.engine.sampling.ego import EgoBatch


class HopsNetwork(LayeredModule):
    """One MLP for each block of columns, and a head over their concatenated states.

    This is the classification module of GAP, and a stage of ProGAP, which scales the states to norm 1 before the head.
    It reads single rows, so every parameter is applied once for each root.
    """

    hops = 0

    def __init__(self, bases: Sequence[Mlp], head: Mlp, normalised: bool) -> None:
        super().__init__()
        self.bases, self.head, self.normalised = nn.ModuleList(bases), head, normalised
        self.blocks = [base.layers[0].in_features for base in bases]

    @property
    def groups(self) -> dict[str, list[nn.Module]]:
        """Layers by parameter group."""
        return {"bases": owners(self.bases), "head": owners(self.head)}

    def forward(self, batch: EgoBatch, features: Tensor, dense: Dense = apply_layer) -> Tensor:
        """Return (B, classes) logits of the roots from `features` (N, sum of the blocks) of all nodes."""
        return self.classify(features[batch.nodes], dense)

    def classify(self, rows: Tensor, dense: Dense = apply_layer) -> Tensor:
        """Return (n, classes) logits of rows (n, sum of the blocks)."""
        states = [base(part, 0, dense) for base, part in zip(self.bases, rows.split(self.blocks, dim=1), strict=True)]
        joined = torch.cat(states, dim=1)
        if self.normalised:
            joined = nn.functional.normalize(joined, dim=1)
        return self.head(joined, 0, dense)  # type: ignore[no-any-return]


class SkipNetwork(LayeredModule):
    """LINKX (Lim et al. 2021) over own records x and received sums z.

    own = MLP(x); h = MLP([own, z]) + own + z; logits = head(h), each after an activation. It reads single rows, so
    every parameter is applied once for each root.
    """

    hops = 0

    def __init__(self, own: Mlp, mixing: Mlp, head: Mlp) -> None:
        super().__init__()
        self.own, self.mixing, self.head = own, mixing, head
        features, width = own.layers[0].in_features, own.layers[-1].out_features
        self.blocks = [features, width]

    @property
    def groups(self) -> dict[str, list[nn.Module]]:
        """Layers by parameter group."""
        return {"own": owners(self.own), "mixing": owners(self.mixing), "head": owners(self.head)}

    def forward(self, batch: EgoBatch, features: Tensor, dense: Dense = apply_layer) -> Tensor:
        """Return (B, classes) logits of the roots from `features` (N, sum of the blocks) of all nodes."""
        return self.classify(features[batch.nodes], dense)

    def classify(self, rows: Tensor, dense: Dense = apply_layer) -> Tensor:
        """Return (n, classes) logits of rows (n, sum of the blocks)."""
        records, received = rows.split(self.blocks, dim=1)
        own, activation = self.own(records, 0, dense), self.own.activation
        joined = activation(torch.cat([own, received], dim=1))
        states = self.mixing(joined, 0, dense) + own + received
        return self.head(activation(states), 0, dense)  # type: ignore[no-any-return]
