"""DP-APPR and its baselines: training on rows of approximate personalised PageRank (Zhang 2021, chapter 5)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dpgraph.experiments.cell import Cell
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.pagerank.row_training import train_rows
from dpgraph.methods.together import only
from dpgraph.training.loop import Diverged


class Appr:
    """A two-layer perceptron over exact rows of PageRank, without privacy: Vanilla of the thesis."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        return train_rows(jobs, observes, jobs[0].cell.pagerank)


class DpAppr(Appr):
    """Rows of PageRank released privately, then DP-SGD or DP-Adam on them (Algorithms 6 to 9).

    `rigorous`: columns of the released rows keep K_col entries, Poisson batches of roots. `published`: columns of L1
    norm tau, batches of fixed size; with release=exact the noise std is sigma B C (Eq. 5.5, baseline DPSGD). Baselines
    by release: identity is Features, random is Random. Roots and kept nodes are chosen by public ids, separately for
    each seed; inference is power iteration.
    """
