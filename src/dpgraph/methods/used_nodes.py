"""Which training nodes have a loss, where a share of them has."""

from __future__ import annotations

import numpy as np

from dpgraph.methods.base import Job
from dpgraph.privacy.public_numbers import nodes_with_loss
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import nodes_in_use


def used_nodes(job: Job) -> np.ndarray:
    """Training nodes that have a loss, ascending."""
    graph = job.graph
    count = nodes_with_loss(num_train=len(graph.train_nodes), train_share=job.cell.training.train_share)
    return nodes_in_use(graph.train_nodes, graph.num_nodes, count, numpy_generator(*job.names("training share")))
