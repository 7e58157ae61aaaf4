"""Whether a network trained by residual clipping predicts with neighbours or from each node's own record alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from dpgraph.data.graph import Graph
from dpgraph.errors import invalid
from dpgraph.methods.assembly import Bench
from dpgraph.methods.base import Job
from dpgraph.methods.evaluator import predictions
from dpgraph.models.inference import FullGraph
from dpgraph.models.network import Network
from dpgraph.privacy.choice import noisily_positive
from dpgraph.privacy.mechanisms import ResidualTrees
from dpgraph.randomness import entropy, numpy_generator
from dpgraph.sampling.edge_lists import EdgeLists, empty_edge_lists, stable_edge_lists


@dataclass(frozen=True)
class InferenceChoice:
    """Made once, on validation nodes, after the last step (docs/privacy.md, Theorem 4).

    The count is how many more validation nodes are right with the stable sampler's lists than with none. Only its noisy
    sign leaves this object. Raises UserError for a graph without validation nodes.
    """

    job: Job
    bench: Bench
    mechanism: ResidualTrees

    def __post_init__(self) -> None:
        if not len(self._nodes):
            raise invalid("choice_epsilon", self.mechanism.choice_epsilon, "null where there are no validation nodes")

    def inference(self, whole: FullGraph) -> FullGraph:
        """`whole`, or the same nodes without any list."""
        return whole if self.reads_neighbours else self._alone

    def notes(self) -> dict[str, str]:
        return {"inference": "with neighbours" if self.reads_neighbours else "each node alone"}

    @cached_property
    def reads_neighbours(self) -> bool:
        graph, mechanism = self.job.graph, self.mechanism
        key = entropy(*self.job.names("edge lists of the choice")) % 2**63
        lists = stable_edge_lists(graph, self._nodes, mechanism.max_degree or 0, mechanism.list_cap or 0, key)
        bounded = over_lists(graph, lists, self.job.device, self.job.cell.model.inference_own_weight)
        gain = gained(graph, self._nodes, self.bench.network, self.bench.features, bounded, self._alone)
        sensitivity = min(mechanism.changed_trees, len(self._nodes))
        noise = numpy_generator(*self.job.names("choice of inference"))
        return noisily_positive(gain, sensitivity, mechanism.choice_epsilon, noise)

    @cached_property
    def _nodes(self) -> np.ndarray:
        return self.job.graph.nodes_of("val")

    @cached_property
    def _alone(self) -> FullGraph:
        return over_lists(self.job.graph, empty_edge_lists(self.job.graph), self.job.device)


def over_lists(
    graph: Graph, lists: EdgeLists, device: str | torch.device = "cpu", own_weight: float = 0.0
) -> FullGraph:
    """Inference in which node v receives from `lists.of(v)` only."""
    return FullGraph(replace(graph, out_ptr=lists.ptr, out_idx=lists.idx), device, own_weight=own_weight)


def gained(
    graph: Graph, nodes: np.ndarray, network: Network, features: torch.Tensor, other: FullGraph, base: FullGraph
) -> int:
    """How many more of `nodes` are classified right by `other` than by `base`; a node without label counts 0."""
    labels = np.asarray(graph.labels)[nodes]
    right = [
        (predictions(inference.logits(network, features).cpu().numpy())[nodes] == labels) & (labels >= 0)
        for inference in (other, base)
    ]
    return int(right[0].sum()) - int(right[1].sum())
