"""Training of the GAT of Velickovic et al. (2018): the whole graph in each step, without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.core.randomness import numpy_generator, torch_generator
from dpgraph.engine.methods.assembly import SeedRun, fixed_size_sampler, on_device, run_loop, set_up, stopping
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.additive_attention import AttentionNetwork, closed_edges
from dpgraph.engine.models.dense import Dropout
from dpgraph.engine.models.sparse import Bags, sparse_rows
from dpgraph.engine.training.steps import BatchStep
from dpgraph.families.plain.train import UndroppedPredictor


def network_of(job: Job, num_features: int, masks: torch.Generator | None) -> AttentionNetwork:
    """Return the two-layer network of a run; `masks` draws its dropout."""
    model, generator = job.cell.model, torch_generator(*job.names("parameters"))
    classes, drop = job.graph.num_classes, Dropout(model.dropout, masks)
    sizes = (num_features, model.width, model.heads, model.output_heads, classes)
    return AttentionNetwork(*sizes, generator, drop).to(job.device)


@dataclass(frozen=True)
class PartPredictor:
    """A predictor of `nodes` alone."""

    whole: UndroppedPredictor
    nodes: Tensor

    def logits(self, network: Any, features: Tensor) -> Tensor:
        """Return (n, classes) logits of `nodes`."""
        return self.whole.logits(network, features)[self.nodes]


class AdditiveGat:
    """Mean cross-entropy of the training nodes, or of batches of them, with dropout and optional early stopping."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        bench, graph = set_up(job, network_of), job.graph
        network, features = bench.network, bench.features
        edges, rows = closed_edges(graph, job.device), sparse_rows(features)
        words = None if rows is None else Bags.from_csr(rows, job.device)
        labels = np.asarray(graph.labels, dtype=np.int64)
        known = graph.train_nodes[labels[graph.train_nodes] >= 0]
        roots, wanted = (torch.from_numpy(part).to(job.device) for part in (known, labels[known]))
        batches, sampler = numpy_generator(*job.names("batches")), fixed_size_sampler(job.cell, len(known))

        def loss(positions: Tensor) -> Tensor:
            return nn.functional.cross_entropy(network(features, edges, words)[roots[positions]], wanted[positions])

        step, how = on_device(job, BatchStep(bench.optimizer, sampler, batches, loss, job.device, bench.all_masks))
        whole = UndroppedPredictor(lambda one, records: one(records, edges, words))
        run = SeedRun(job, bench, step, {"batches": batches}, how, inference=whole)
        kept, epoch = network_of(job, features.shape[1], None), -(-sampler.num_roots // sampler.size)
        stopped = stopping(run, kept, epoch, lambda nodes: PartPredictor(whole, torch.from_numpy(nodes).to(job.device)))
        return run_loop(stopped, observe)
