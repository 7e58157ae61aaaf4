"""Baselines without privacy: GNN and MLP (Daigavane et al., section 6)."""

from __future__ import annotations

import numpy as np
import torch

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.methods import assembly
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.engine.models.inference import PartOfGraph
from dpgraph.engine.sampling.batches import FixedSizeSampler
from dpgraph.engine.sampling.edge_lists import EdgeLists, empty_edge_lists, sample_edge_lists
from dpgraph.engine.sampling.ego import closed_hop, pack_ego_trees
from dpgraph.engine.training.steps import BatchStep, PlainStep, Step, WholeGraphLoss


class Gnn:
    """GNN (or MLP) trained without privacy on whole neighbourhoods, minibatches of fixed size.

    Weight decay, dropout and early stopping on validation nodes are settings of the cell.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed on whole lists, or with `training.max_degree` on lists sampled by Algorithm 1."""
        bench = assembly.set_up(job)
        sampler = assembly.fixed_size_sampler(job.cell, len(job.graph.train_nodes))
        batches = numpy_generator(*job.names("batches"))
        step, how = assembly.on_device(job, _step(job, bench, sampler, batches))
        run = assembly.SeedRun(job, bench, step, {"batches": batches}, {"batches": str(sampler.name), **how})
        model, epoch = job.cell.model, -(-sampler.num_roots // sampler.size)
        kept = assembly.initial_network(job, bench.features.shape[1])

        def reader(nodes: np.ndarray) -> PartOfGraph:
            return PartOfGraph(job.graph, nodes, model.hops, job.device, model.inference_own_weight)

        return assembly.run_loop(assembly.stopping(run, kept, epoch, reader), observe)


def _step(job: Job, bench: assembly.Bench, sampler: FixedSizeSampler, batches: np.random.Generator) -> Step:
    """Return a step on the whole graph, or on ego trees of a batch."""
    roots = job.graph.train_nodes
    labels = torch.from_numpy(np.array(job.graph.labels, dtype=np.int64)).to(job.device)
    hops, cap = job.cell.model.hops, job.cell.training.max_degree
    # dropout has no closed form; where every step reads all records of an MLP, a sparse product reads them
    all_records = not hops and job.cell.model.dropout > 0 and sampler.size == len(roots)
    if (hops and cap is None) or all_records:
        hop = None
        if hops:
            whole = EdgeLists(np.asarray(job.graph.out_ptr), np.asarray(job.graph.out_idx))
            hop = closed_hop(whole, job.device)
        chosen = torch.from_numpy(roots).to(job.device)
        loss = WholeGraphLoss(bench.network, hop, chosen, bench.features, labels)
        return BatchStep(bench.optimizer, sampler, batches, loss, job.device, bench.all_masks)
    lists = empty_edge_lists(job.graph)
    if hops and cap is not None:
        lists = sample_edge_lists(job.graph, roots, cap, numpy_generator(*job.names("edge lists")))
    trees = pack_ego_trees(lists, roots, hops, job.device)
    return PlainStep(bench.network, bench.optimizer, trees, bench.features, labels, sampler, batches)
