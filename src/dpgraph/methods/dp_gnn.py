"""DP-GNN and DP-MLP (Daigavane et al., Algorithms 1 to 5), rigorous and as published."""

from __future__ import annotations

import numpy as np
import torch

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Privacy
from dpgraph.methods.assembly import (
    Bench,
    Run,
    fixed_size_sampler,
    noise_over_clip,
    private_step,
    set_up,
    stable_trees,
)
from dpgraph.methods.base import Job, Method
from dpgraph.methods.together import TreeMethod
from dpgraph.privacy.mechanisms import FixedBatchTrees, FixedSizeStableTrees, PoissonTrees
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.batches import FixedSizeSampler, PoissonSampler, Sampler
from dpgraph.sampling.edge_lists import empty_edge_lists, sample_edge_lists
from dpgraph.sampling.ego import EgoTrees, pack_ego_trees
from dpgraph.training.clipping import gradient_norms
from dpgraph.training.loop import Diverged
from dpgraph.training.steps import ClippedTerm


class DpGnn(TreeMethod):
    """DP-SGD or DP-Adam on ego trees, node-level privacy; the cell's variant says which mechanism.

    `rigorous`: stable sampler, Poisson batches, one public clip norm for the joint gradient, one noise draw;
    `rigorous-fixed-size`: the same with batches of fixed size.
    `published`: Algorithm 1, batches of fixed size without replacement, each parameter group clipped at the percentile
    of its initial gradient norms, noise std 2 C_l N(K, r) lambda for group l. With 0 hops this is DP-MLP.
    """

    def prepare(self, job: Job, beside: Bench | None = None) -> Run:
        privacy = job.cell.privacy
        if privacy is None:
            raise invalid("privacy", None, f"a budget for the method {job.cell.method}")
        if isinstance(job.mechanism, PoissonTrees | FixedSizeStableTrees):
            return self._rigorous(job, job.mechanism, privacy, beside)
        if isinstance(job.mechanism, FixedBatchTrees):
            return self._published(job, job.mechanism, privacy, beside)
        kinds = "poisson-trees, fixed-size-stable-trees or fixed-batch-trees"
        raise invalid("mechanism", job.mechanism.kind, kinds)

    def _rigorous(
        self, job: Job, mechanism: PoissonTrees | FixedSizeStableTrees, privacy: Privacy, beside: Bench | None
    ) -> Run:
        bench = set_up(job, beside)
        num_roots = len(job.graph.train_nodes)
        trees, ran = stable_trees(job, mechanism.hops, mechanism.max_degree, mechanism.list_cap)
        sampler: Sampler
        divisor: float
        if isinstance(mechanism, PoissonTrees):
            sampler = PoissonSampler(num_roots, mechanism.sampling_rate)
            divisor = mechanism.sampling_rate * mechanism.num_roots  # N as it was made public
        else:
            sampler = FixedSizeSampler(num_roots, mechanism.batch_size)
            divisor = mechanism.batch_size
        term = ClippedTerm(trees, sampler, privacy.clip_norm)
        step = private_step(bench, [term], noise_over_clip(mechanism) * privacy.clip_norm, divisor)
        return Run(job, bench, step, sampler, {"edge_lists": ran, "clip_norm": privacy.clip_norm})

    def _published(self, job: Job, mechanism: FixedBatchTrees, privacy: Privacy, beside: Bench | None) -> Run:
        bench = set_up(job, beside)
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
        multiplier = noise_over_clip(mechanism)
        stds = [
            multiplier * clip_norms[name]
            for name, layers in bench.network.groups.items()
            for layer in layers
            for _ in layer.parameters()
        ]
        term = ClippedTerm(trees, sampler, clip_norms)
        step = private_step(bench, [term], stds, sampler.expected_size)
        return Run(job, bench, step, sampler, {"edge_lists": ran, "clip_norms": clip_norms})


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
