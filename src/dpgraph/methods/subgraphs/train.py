"""DP-SGD and DP-Adam on clipped gradients of (sub)graphs (Igamberdiev and Habernal, sections 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.subgraphs.stack import run_stack
from dpgraph.methods.together import only
from dpgraph.training.loop import Diverged


class DpSubgraph:
    """DP-SGD or DP-Adam on subgraphs; the variant states which subgraph a step reads and what is clipped.

    `rigorous`: a fresh Poisson sample of training nodes and the edges among them. `cut`: fixed parts of the training
    nodes by id, without the edges between parts. Both train on training nodes with a loss only. `published`: fixed
    parts mask the loss, messages cross the whole graph, nodes outside of training included. `released`: the same
    without clipping, as the authors' code runs. In these the clipped vector is the gradient of the mean loss; its
    divisor, how many nodes the step reads, is inside of it.

    `per-node`: Eq. 5 with a node for x_i. Parts as in `published`; the gradient of the loss of each of their nodes is
    clipped, the noisy sum divided by L = N / s.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return run_stack(jobs, observes)


class DpPureNoise(DpSubgraph):
    """A control: the updates of dp-subgraph with the gradient set to zero, so that nothing but noise is learnt.

    Of the variant `published`, or of `per-node`, whose noise is divided by L.
    """
