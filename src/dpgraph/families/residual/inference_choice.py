"""Whether a network trained by residual clipping predicts with neighbours or from each node's own record alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from dpgraph.data.graph import Graph
from dpgraph.engine.methods.assembly import Bench
from dpgraph.engine.methods.base import Job
from dpgraph.engine.models.inference import FullGraph
from dpgraph.engine.sampling.edge_lists import EdgeLists, empty_edge_lists
from dpgraph.families.trees.prepared import PreparedChoice
from dpgraph.problems.classification import predictions


@dataclass(frozen=True)
class InferenceChoice:
    """Made once, on validation nodes, after the last step (docs/privacy.md, Theorem 4); its noise is prepared."""

    job: Job
    bench: Bench
    choice: PreparedChoice

    def inference(self, whole: FullGraph) -> FullGraph:
        """`whole`, or the same nodes without any list."""
        return whole if self.reads_neighbours else self._alone

    def notes(self) -> dict[str, str]:
        return {"inference": "with neighbours" if self.reads_neighbours else "each node alone"}

    @cached_property
    def reads_neighbours(self) -> bool:
        return self.choice.reads_neighbours(self._predict)

    def _predict(self, lists: EdgeLists | None) -> np.ndarray:
        """(N,) classes."""
        inference = self._alone
        if lists is not None:
            weight = self.job.cell.model.inference_own_weight
            inference = over_lists(self.job.graph, lists, self.job.device, weight)
        return predictions(inference.logits(self.bench.network, self.bench.features).cpu().numpy())

    @cached_property
    def _alone(self) -> FullGraph:
        return over_lists(self.job.graph, empty_edge_lists(self.job.graph), self.job.device)


def over_lists(
    graph: Graph, lists: EdgeLists, device: str | torch.device = "cpu", own_weight: float = 0.0
) -> FullGraph:
    """Inference in which node v receives from `lists.members(v)` only."""
    return FullGraph(replace(graph, out_ptr=lists.ptr, out_idx=lists.idx), device, own_weight=own_weight)
