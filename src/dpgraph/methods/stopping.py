"""Early stopping of methods without privacy on a graph's validation nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from dpgraph.data.records import VALIDATION
from dpgraph.errors import invalid
from dpgraph.methods.assembly import Run
from dpgraph.methods.base import Job
from dpgraph.models.inference import Predictor
from dpgraph.sampling.batches import FixedSizeSampler
from dpgraph.training.early_stopping import Scores, StoppingStep, Watched, validation_scores


def validation_nodes(job: Job) -> np.ndarray:
    """Ids of validation nodes whose label is known. Raises UserError for a split without any."""
    graph = job.graph
    nodes = np.flatnonzero((graph.split == VALIDATION) & (np.asarray(graph.labels) >= 0))
    if not len(nodes):
        raise invalid("patience", job.cell.training.patience, "null: the split has no validation nodes")
    return nodes


def stopping(
    run: Run, watched: Watched, looked_at: Predictor, nodes: np.ndarray, sampler: FixedSizeSampler, by: str
) -> Run:
    """The run under early stopping by the cell's patience; an epoch has as many steps as batches of training nodes.

    looked_at: gives the logits of `nodes`, which have validation labels. by: loss or accuracy.
    """
    job = run.job
    labels = torch.from_numpy(np.asarray(job.graph.labels, dtype=np.int64)[nodes]).to(job.device)

    def scores() -> Scores:
        return validation_scores(looked_at.logits(run.bench.network, run.bench.features), labels, by)

    epoch = min(-(-sampler.num_roots // sampler.size), run.steps)
    step = StoppingStep(run.step, watched, scores, job.cell.training.patience, epoch)
    return replace(run, step=step, watched=watched)
