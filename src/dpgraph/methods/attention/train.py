"""The two-layer GAT of Velickovic et al. (2018), trained on the whole graph without privacy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dpgraph.methods.assembly import Bench, Run, fixed_size_sampler, run_loop
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.methods.stopping import stopping, validation_nodes
from dpgraph.models.velickovic import NodesInReach, VelickovicGat
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.training.early_stopping import WatchedOnBoth
from dpgraph.training.optimizers import make_optimizer
from dpgraph.training.steps import BatchStep


class Gat:
    """As in the paper's section 3.3; records are divided by the sum of their entries, as in its released code.

    Dropout acts where the paper says it does, not a second time on W h, as in that code.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        graph, training = job.graph, job.cell.training
        records = torch.from_numpy(np.array(graph.features, dtype=np.float32)).to(job.device)
        features = nn.functional.normalize(records, p=1.0, dim=1)
        masks = torch_generator(*job.names("masks"), device=job.device) if job.cell.model.dropout else None
        network = _initial(job, features.shape[1], masks)
        optimizer = make_optimizer(network.parameters(), training, weight_decay=training.weight_decay)
        bench = Bench(network, optimizer, features, masks)
        batches = numpy_generator(*job.names("batches"))
        known = np.asarray(graph.labels, dtype=np.int64)
        roots = graph.train_nodes[known[graph.train_nodes] >= 0]
        labels = torch.from_numpy(known[roots]).to(job.device)
        trained, sampler = NodesInReach(graph, features, roots), fixed_size_sampler(job.cell, len(roots))

        def loss(positions: Tensor) -> Tensor:
            return nn.functional.cross_entropy(trained(network)[positions], labels[positions])

        step = BatchStep(optimizer, sampler, batches, loss, job.device)
        run = Run(job, bench, step, {"batches": batches}, inference=NodesInReach(graph, features))
        if training.patience is not None:
            nodes = validation_nodes(job)
            watched = WatchedOnBoth(network, _initial(job, features.shape[1], None))
            run = stopping(run, watched, NodesInReach(graph, features, nodes), nodes, sampler, "accuracy")
        return run_loop(run, observe)


def _initial(job: Job, num_features: int, masks: torch.Generator | None) -> VelickovicGat:
    generator = torch_generator(*job.names("parameters"))
    network = VelickovicGat(job.cell.model, num_features, job.graph.num_classes, generator, masks=masks)
    return network.to(job.device)
