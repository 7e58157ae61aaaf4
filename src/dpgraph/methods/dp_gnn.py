"""DP-GNN and DP-MLP (Daigavane et al., Algorithms 1 to 5), rigorous and as published."""

from __future__ import annotations

import numpy as np
import torch

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Privacy
from dpgraph.methods.assembly import Bench, fixed_size_sampler, run_loop, set_up
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.privacy.mechanisms import FixedBatchTrees, PoissonTrees
from dpgraph.randomness import entropy, numpy_generator
from dpgraph.sampling.batches import PoissonSampler
from dpgraph.sampling.edge_lists import empty_edge_lists, sample_edge_lists, stable_edge_lists
from dpgraph.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.training.clipping import gradient_norms
from dpgraph.training.loop import Diverged
from dpgraph.training.steps import ClippedTerm, PrivateStep


class DpGnn:
    """DP-SGD or DP-Adam on ego trees, node-level privacy; the cell's variant says which mechanism.

    `rigorous`: stable sampler, Poisson batches, one public clip norm for the joint gradient, one noise draw.
    `published`: Algorithm 1, batches of fixed size without replacement, each parameter group clipped at the percentile
    of its initial gradient norms, noise std 2 C_l N(K, r) lambda for group l. With 0 hops this is DP-MLP.
    """

    private = True

    def run(self, job: Job, observe: Observe) -> Outcome:
        privacy = job.cell.privacy
        if privacy is None:
            raise invalid("privacy", None, f"a budget for the method {job.cell.method}")
        if isinstance(job.mechanism, PoissonTrees):
            return self._rigorous(job, observe, job.mechanism, privacy)
        if isinstance(job.mechanism, FixedBatchTrees):
            return self._published(job, observe, job.mechanism, privacy)
        raise invalid("mechanism", job.mechanism.kind, "poisson-trees or fixed-batch-trees")

    def _rigorous(self, job: Job, observe: Observe, mechanism: PoissonTrees, privacy: Privacy) -> Outcome:
        bench = set_up(job)
        roots = job.graph.train_nodes
        lists, ran = empty_edge_lists(job.graph), "none"
        if mechanism.max_degree is not None and mechanism.list_cap is not None:
            key = entropy(*job.names("edge lists")) % 2**63  # public: it depends on names only
            lists = stable_edge_lists(job.graph, roots, mechanism.max_degree, mechanism.list_cap, key)
            ran = "stable"
        trees = pack_ego_trees(lists, roots, mechanism.hops, job.device)
        sampler = PoissonSampler(len(roots), mechanism.sampling_rate)
        term = ClippedTerm(trees, sampler, privacy.clip_norm)
        noise_std = _noise(mechanism) * privacy.clip_norm
        step = _private_step(bench, term, noise_std, sampler.expected_size)
        return run_loop(job, bench, step, observe, sampler, edge_lists=ran, clip_norm=privacy.clip_norm)

    def _published(self, job: Job, observe: Observe, mechanism: FixedBatchTrees, privacy: Privacy) -> Outcome:
        bench = set_up(job)
        roots = job.graph.train_nodes
        lists, ran = empty_edge_lists(job.graph), "none"
        if mechanism.max_degree is not None:
            lists = sample_edge_lists(
                job.graph, roots, mechanism.max_degree, numpy_generator(*job.names("edge lists"))
            )  # fmt: skip
            ran = "algorithm-1"
        trees = pack_ego_trees(lists, roots, mechanism.hops, job.device)
        sampler = fixed_size_sampler(job.cell, len(roots))
        clip_norms = _percentiles(bench, trees, len(roots), privacy.clip_percentile)
        multiplier = _noise(mechanism)
        stds = [
            multiplier * clip_norms[name]
            for name, layers in bench.network.groups.items()
            for layer in layers
            for _ in layer.parameters()
        ]
        term = ClippedTerm(trees, sampler, clip_norms)
        step = _private_step(bench, term, stds, sampler.expected_size)
        return run_loop(job, bench, step, observe, sampler, edge_lists=ran, clip_norms=clip_norms)


def _private_step(bench: Bench, term: ClippedTerm, std: float | list[float], divisor: float) -> PrivateStep:
    return PrivateStep(
        bench.network,
        bench.optimizer,
        bench.features,
        bench.labels,
        [term],
        std,
        divisor,
        bench.batches,
        bench.noise,
    )


def _noise(mechanism: PoissonTrees | FixedBatchTrees) -> float:
    """Noise std over clip norm, the one that the accountant used."""
    value = mechanism.noise_std_over_clip
    if value is None:
        raise invalid("noise_multiplier", None, "a number > 0: calibrate the cell first")
    return value


def _percentiles(bench: Bench, trees: EgoTrees, num_roots: int, percentile: float) -> dict[str, float]:
    """Clip norm per parameter group: the percentile of the initial gradient norms over all training roots.

    Section 6 of the paper. It reads private data and nobody pays for it: one reason why the published variant has no
    rigorous epsilon.
    """
    norms = gradient_norms(bench.network, trees, np.arange(num_roots), bench.features, bench.labels)
    finite = norms[torch.isfinite(norms).all(1)].double()
    if len(finite) == 0:
        raise Diverged(0)
    values = torch.quantile(finite, percentile / 100, dim=0)
    # a group whose gradients all vanish would be clipped at 0 and never move
    return {name: max(float(value), 1e-12) for name, value in zip(bench.network.groups, values, strict=True)}


METHODS: dict[str, Method] = {"dp-gnn": DpGnn(), "dp-mlp": DpGnn()}
