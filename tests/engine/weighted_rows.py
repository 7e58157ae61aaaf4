"""Logits over rows by the engine for any network: the oracle of the closed forms."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgraph.engine.models.dense import Dense, apply_layer
from dpgraph.engine.models.network import Network
from dpgraph.engine.sampling.edge_lists import EdgeLists
from dpgraph.engine.sampling.ego import EgoBatch, EgoTrees, pack_ego_trees


class WeightedRows:
    """Rows of weights over nodes, and the trees that hold the records which they name.

    `weights` (M, n) belongs to the `roots` ((M,) node ids), all distinct. A tree always holds its root, with weight 0
    where the row does not name it. The network has no message passing.
    """

    def __init__(self, weights: sp.csr_matrix, roots: np.ndarray, device: str | torch.device = "cpu") -> None:
        entries = weights.tocoo()
        owners = np.asarray(roots, dtype=np.int64)[entries.row]
        keys = owners * weights.shape[1] + entries.col
        order = np.argsort(keys)
        self.num_nodes = int(weights.shape[1])
        self.trees: EgoTrees = pack_ego_trees(_lists(owners, entries.col, self.num_nodes), roots, 1, device)
        # one more key than any, so that a search never leaves the array
        self._keys = torch.from_numpy(np.append(keys[order], self.num_nodes**2)).to(device)
        self._weights = torch.from_numpy(np.append(entries.data[order], 0.0)).to(device)

    def logits(self, network: Network, batch: EgoBatch, features: Tensor, dense: Dense = apply_layer) -> Tensor:
        """(B, classes): sum over the row's nodes u of weight times the logits of u's own record."""
        rows = network.decoder(network.encoder(features[batch.nodes], 1, dense), 1, dense)
        sizes = torch.from_numpy(batch.sizes[1]).to(rows.device, non_blocking=True)
        owner = torch.repeat_interleave(torch.arange(len(sizes), device=rows.device), sizes, output_size=len(rows))
        keys = batch.roots[owner] * self.num_nodes + batch.nodes
        place = torch.searchsorted(self._keys, keys)
        weight = torch.where(self._keys[place] == keys, self._weights[place], 0.0).to(rows.dtype)
        return rows.new_zeros(len(sizes), rows.shape[1]).index_add(0, owner, weight.unsqueeze(1) * rows)


def _lists(owners: np.ndarray, members: np.ndarray, num_nodes: int) -> EdgeLists:
    """Lists without the owner itself, which comes first in its tree anyway."""
    other = owners != members
    owners, members = owners[other], members[other]
    order = np.lexsort((members, owners))
    ptr = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=num_nodes), out=ptr[1:])
    return EdgeLists(ptr, members[order].astype(np.int32))
