"""Steps in stages: each stage trains its own network on records and on all that was released before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.engine.methods.base import Job
from dpgraph.engine.preparation.rows import unit_rows
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.engine.training.steps import Step
from dpgraph.families.aggregates.prepared import Summing

CHUNK_ROWS = 16_384


class Stages(ABC):
    """The networks of all stages, and the step that goes through them; it also predicts.

    A stage is entered at its first step, when what it reads is computed; predictions are those of the stage of the last
    step that was made. The sums that no stage entered are never released.
    """

    networks: nn.ModuleList  # that the stages train, one each

    def __init__(self, job: Job, prepared: Summing, features: Tensor, lengths: Sequence[int]) -> None:
        """`features` (N, F) of own records; `lengths`: steps of each stage."""
        self.job, self.prepared, self.records = job, prepared, features
        self.first_steps = np.cumsum([0, *lengths[:-1]])
        self.done, self.stage = 0, -1
        self.rows = features  # (N, columns) that the stage reads
        self._step: Step | None = None

    @abstractmethod
    def rows_of(self, stage: int) -> Tensor:
        """(N, columns) that a stage reads; releases sums. Called once for each stage, in their order."""

    def __call__(self) -> int:
        stage = int(np.searchsorted(self.first_steps, self.done, side="right")) - 1
        while self.stage < stage or self._step is None:
            self.stage += 1
            self.rows = self.rows_of(self.stage)
            network: Any = self.networks[self.stage]
            optimizer = make_optimizer(network.parameters(), self.job.cell.training)
            self._step = self.step_of(self.stage, network, optimizer)
        self.done += 1
        return self._step()

    def step_of(self, stage: int, network: Any, optimizer: torch.optim.Optimizer) -> Step:
        """That trains the network of a stage on `rows`."""
        return self.prepared.step_on(self.rows, network, optimizer)

    @torch.no_grad()
    def logits(self, network: nn.Module, features: Tensor) -> Tensor:
        """(N, classes) of the current stage; as the predictor of a run, which knows neither stages nor their rows."""
        current = self.networks[max(self.stage, 0)]
        return torch.cat([self.classify(current, part) for part in self.rows.split(CHUNK_ROWS)])

    @staticmethod
    def classify(network: Any, rows: Tensor) -> Tensor:
        return network.classify(rows)  # type: ignore[no-any-return]

    def received(self, states: Tensor) -> Tensor:
        """(N, d) the noisy sum of the states (N, d) of those who send to each node, scaled to norm 1 again."""
        summed = self.prepared.sums.release(states.double().cpu().numpy())
        return torch.from_numpy(unit_rows(summed).astype(np.float32)).to(self.records.device)


def equal_parts(steps: int, parts: int) -> list[int]:
    """Steps of each part, the first ones longer.

    >>> equal_parts(8, 3)
    [3, 3, 2]
    """
    return [steps // parts + (part < steps % parts) for part in range(parts)]
