"""Which training nodes have a loss, where a share of them has."""

from __future__ import annotations

import numpy as np

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.methods.base import Job
from dpgraph.engine.sampling.batches import nodes_in_use
from dpgraph.privacy.public_numbers import nodes_with_loss


def used_nodes(job: Job) -> np.ndarray:
    """Training nodes that have a loss, ascending."""
    graph = job.graph
    count = nodes_with_loss(num_train=len(graph.train_nodes), train_share=job.cell.training.train_share)
    return nodes_in_use(graph.train_nodes, graph.num_nodes, count, numpy_generator(*job.names("training share")))
