"""Kipf and Welling's GCN without privacy."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.subgraphs.stack import run_stack
from dpgraph.methods.together import only
from dpgraph.training.loop import Diverged


class KipfGcn:
    """Kipf and Welling's two-layer GCN without privacy, on the whole graph or on parts of its loss."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return run_stack(jobs, observes)
