"""The student of PATE on a graph: softmax regression on public nodes, whose labels are all that it reads of others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import torch_generator
from dpgraph.engine.methods.assembly import Bench, RowInference, SeedRun, features_of, run_loop
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.optimizers import make_optimizer
from dpgraph.families.pate.gan import FrozenSoftmax
from dpgraph.families.pate.nodes.prepared import PreparedNodeTeachers, names_of, plan_of, queries_of, votes_of
from dpgraph.families.pate.prepared import vote_histograms

ROWS = 4096  # of a look at all nodes


@dataclass
class LabelledStep:
    """A step on the mean cross-entropy of all labelled public nodes; it moves no parameter if there are none."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    features: Tensor  # (L, F)
    labels: Tensor  # (L,)

    def __call__(self) -> int:
        if len(self.labels):
            self.optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(self.network(self.features), self.labels).backward()
            self.optimizer.step()
        return len(self.labels)


class NodePate:
    """The training of a student on public nodes; without a prepared step its labels are noiseless majorities."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        graph, training = job.graph, job.cell.training
        features = features_of(job)
        labels = torch.from_numpy(released(job, features))
        queries = torch.from_numpy(queries_of(graph, *names_of(job.cell, job.seed)))
        student = FrozenSoftmax(
            features[queries].cpu(),
            job.cell.model.components,
            graph.num_classes,
            torch_generator(*job.names("parameters")),
        ).to(job.device)
        optimizer = make_optimizer(student.last.parameters(), training, weight_decay=training.student_weight_decay)
        known = labels >= 0
        step = LabelledStep(student, optimizer, features[queries[known]], labels[known].to(job.device))
        notes = {} if job.prepared is not None else {"batches": "all labelled", "edge_lists": "own record"}
        bench = Bench(student, optimizer, features, None)
        return run_loop(SeedRun(job, bench, step, {}, notes, inference=RowInference(ROWS)), observe)


def released(job: Job, features: Tensor) -> np.ndarray:
    """Return the (Q,) int64 labels of the public nodes in their order; NO_ANSWER: none."""
    if job.prepared is not None:
        return expected(job.prepared, PreparedNodeTeachers).labels()
    votes = votes_of(job.graph, features, plan_of(job.cell, job.seed))
    return vote_histograms(votes, job.graph.num_classes).argmax(axis=1).astype(np.int64)
