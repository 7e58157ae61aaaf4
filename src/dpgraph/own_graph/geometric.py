"""Graphs of this project as those of PyTorch Geometric; the other way is `objects.own_graph`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpgraph.data.adjacency import owners
from dpgraph.data.graph import Graph
from dpgraph.data.records import SPLIT_NAMES
from dpgraph.data.store import load_graph


def to_pyg(graph: Graph | str | Path, split: int = 0) -> Any:
    """Return a copy of a graph, or of the stored graph in a folder, as `torch_geometric.data.Data`.

    Column i of `edge_index` is an entry of a list: its owner, then the node in it. Both directions of an undirected
    edge are there. A label of -1 is none; a node of no part is in no mask. All labels are in it, those of tested nodes
    too: no epsilon covers what is made of it.

    Args:
        graph: Graph, or folder of a stored one, such as data/graphs/cora/transductive.public.
        split: Number of the random split to load, where the task of the stored graph has several.

    Returns:
        `Data` with `x`, `y`, `edge_index`, `train_mask`, `val_mask` and `test_mask`.

    Raises:
        dpgraph.core.errors.UserError: For a folder without a graph, or with a damaged one.

    Example:
        >>> graph = Graph(
        ...     name="path", features=np.eye(3, 2, dtype=np.float32), labels=np.array([0, 1, 1]), num_classes=2,
        ...     split=np.array([0, 1, 2], dtype=np.uint8), out_ptr=(ptr := np.array([0, 1, 3, 4])),
        ...     out_idx=(idx := np.array([1, 0, 2, 1], dtype=np.int32)), in_ptr=ptr, in_idx=idx,
        ... )
        >>> to_pyg(graph)
        Data(x=[3, 2], edge_index=[2, 4], y=[3], train_mask=[3], val_mask=[3], test_mask=[3])
        >>> to_pyg(graph).edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    import torch
    from torch_geometric.data import Data

    if not isinstance(graph, Graph):
        graph = load_graph(Path(graph), split=split)
    masks = {f"{name}_mask": torch.tensor(graph.split == value) for name, value in SPLIT_NAMES.items()}
    ends = np.stack([owners(graph.out_ptr), graph.out_idx]).astype(np.int64)
    return Data(torch.tensor(graph.features), torch.from_numpy(ends), y=torch.tensor(graph.labels), **masks)
