"""Non-private baselines: GNN and MLP (Daigavane et al., section 6)."""

from __future__ import annotations

from dpgraph.experiments.cell import Cell
from dpgraph.methods.assembly import fixed_size_sampler, run_loop, set_up
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.privacy.for_cell import mechanism_for
from dpgraph.privacy.mechanisms import Mechanism
from dpgraph.sampling.edge_lists import full_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training.steps import PlainStep


class Gnn:
    """GNN (or MLP) trained without privacy on whole neighbourhoods, minibatches of fixed size."""

    private = False

    def mechanism(self, cell: Cell, num_train: int) -> Mechanism:
        return mechanism_for(cell, num_train)

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Lists hold training and other nodes alike, uncut: the paper caps them at K here too, which can only hurt."""
        bench = set_up(job)
        roots = job.graph.train_nodes
        sampler = fixed_size_sampler(job.cell, len(roots))
        trees = pack_ego_trees(full_edge_lists(job.graph, roots), roots, job.cell.model.hops, job.device)
        step = PlainStep(
            bench.network, bench.optimizer, trees, bench.features, bench.labels, sampler, bench.batches
        )  # fmt: skip
        return run_loop(job, bench, step, observe, sampler)


METHODS: dict[str, Method] = {"gnn": Gnn(), "mlp": Gnn()}
