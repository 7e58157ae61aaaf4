"""Non-private baselines: GNN and MLP (Daigavane et al., section 6)."""

from __future__ import annotations

import numpy as np
import torch

from dpgraph.methods.assembly import Run, fixed_size_sampler, run_loop, set_up
from dpgraph.methods.base import Job, Observe, Outcome
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.edge_lists import EdgeLists, empty_edge_lists, sample_edge_lists
from dpgraph.sampling.ego import closed_hop, pack_ego_trees
from dpgraph.training.steps import PlainStep, Step, WholeGraphStep


class Gnn:
    """GNN (or MLP) trained without privacy on whole neighbourhoods, minibatches of fixed size."""

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Whole lists of all nodes, or with `training.max_degree` those that Algorithm 1 samples, as in the paper."""
        bench = set_up(job)
        roots = job.graph.train_nodes
        sampler = fixed_size_sampler(job.cell, len(roots))
        batches = numpy_generator(*job.names("batches"))
        labels = torch.from_numpy(np.array(job.graph.labels, dtype=np.int64)).to(job.device)
        hops, cap = job.cell.model.hops, job.cell.training.max_degree
        step: Step
        if hops and cap is None:
            whole = EdgeLists(np.asarray(job.graph.out_ptr), np.asarray(job.graph.out_idx))
            step = WholeGraphStep(
                bench.network,
                bench.optimizer,
                closed_hop(whole, job.device),
                torch.from_numpy(roots).to(job.device),
                bench.features,
                labels,
                sampler,
                batches,
            )
        else:
            lists = empty_edge_lists(job.graph)
            if hops and cap is not None:
                lists = sample_edge_lists(job.graph, roots, cap, numpy_generator(*job.names("edge lists")))
            trees = pack_ego_trees(lists, roots, hops, job.device)
            step = PlainStep(bench.network, bench.optimizer, trees, bench.features, labels, sampler, batches)
        return run_loop(Run(job, bench, step, {"batches": batches}, {"batches": str(sampler.name)}), observe)
