"""A run without privacy under early stopping: it is scored on validation nodes, once an epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from dpgraph.core.errors import invalid
from dpgraph.data.records import VALIDATION
from dpgraph.engine.methods.assembly import SeedRun
from dpgraph.engine.models.inference import Predictor
from dpgraph.engine.training.early_stopping import Scores, StoppingStep, Watched, validation_scores


def stopping(run: SeedRun, kept: nn.Module, epoch: int, reader: Callable[[np.ndarray], Predictor]) -> SeedRun:
    """The run if the cell's patience is None; else as it stops, and releases what was best.

    `kept`: another network of the run's own shape. `epoch`: steps that make up one. `reader`: of nodes, what gives
    their logits. Raises UserError where no validation node has a label.
    """
    job, graph = run.job, run.job.graph
    patience = job.cell.training.patience
    if patience is None:
        return run
    nodes = np.flatnonzero((graph.split == VALIDATION) & (np.asarray(graph.labels) >= 0))
    if not len(nodes):
        raise invalid("patience", patience, "null: the split has no validation nodes")
    labels = torch.from_numpy(np.asarray(graph.labels, dtype=np.int64)[nodes]).to(job.device)
    looked_at = reader(nodes)

    def scores() -> Scores:
        logits = looked_at.logits(run.bench.network, run.bench.features)
        return validation_scores(logits, labels, job.cell.training.stop_on)

    watched = Watched(run.bench.network, kept)
    return replace(run, step=StoppingStep(run.step, watched, scores, patience, min(epoch, run.steps)), watched=watched)
