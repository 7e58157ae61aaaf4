"""Non-private baselines: GNN and MLP (Daigavane et al., section 6)."""

from __future__ import annotations

from dpgraph.methods.assembly import fixed_size_sampler, run_loop, set_up
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.edge_lists import full_edge_lists, sample_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training.steps import PlainStep


class Gnn:
    """GNN (or MLP) trained without privacy on whole neighbourhoods, minibatches of fixed size."""

    private = False

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Whole lists, or with `training.max_degree` lists sampled by Algorithm 1, as the paper does here too."""
        bench = set_up(job)
        roots = job.graph.train_nodes
        sampler = fixed_size_sampler(job.cell, len(roots))
        lists, cap = full_edge_lists(job.graph, roots), job.cell.training.max_degree
        if cap is not None:
            lists = sample_edge_lists(job.graph, roots, cap, numpy_generator(*job.names("edge lists")))
        trees = pack_ego_trees(lists, roots, job.cell.model.hops, job.device)
        step = PlainStep(
            bench.network, bench.optimizer, trees, bench.features, bench.labels, sampler, bench.batches
        )  # fmt: skip
        return run_loop(job, bench, step, observe, sampler)


METHODS: dict[str, Method] = {"gnn": Gnn(), "mlp": Gnn()}
