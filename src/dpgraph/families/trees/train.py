"""DP-GNN and DP-MLP (Daigavane et al., Algorithms 1 to 5), rigorous and as published."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.assembly import SeedRun, TreeMethod, set_up
from dpgraph.engine.methods.base import Job
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.opacus_engine import checked_epsilon, opacus_gradients
from dpgraph.families.trees.prepared import PreparedTrees


class DpGnn(TreeMethod):
    """DP-SGD or DP-Adam on ego trees, node-level privacy; the cell's variant states which mechanism.

    `rigorous`: stable sampler, Poisson batches, one public clip norm for the joint gradient, one noise draw;
    `rigorous-fixed-size`: the same with batches of fixed size.
    `published`: Algorithm 1, batches of fixed size without replacement, each parameter group clipped at the percentile
    of its initial gradient norms, noise std 2 C_l N(K, r) lambda for group l. With 0 hops this is DP-MLP, of noise std
    C_l lambda as in the released code; `published-text`: 2 C_l lambda, as in the paper's text.
    A GCN layer has a skip connection, as in the released code and unlike the paper's text (`models.message_passing`).
    """

    def prepare(self, job: Job) -> SeedRun:
        return tree_run(job)


def tree_run(job: Job) -> SeedRun:
    """The prepared terms with the cell's network and the usual losses."""
    bench, prepared = set_up(job), expected(job.prepared, PreparedTrees)
    step = prepared.step(bench.network, bench.optimizer)
    norms = prepared.accounted_clip_norms
    notes: dict[str, Any] = {"clip_norms": list(norms)}
    if step.engine is opacus_gradients:
        notes |= {"engine": "opacus", "epsilon_by_opacus": checked_epsilon(job.calibration)}
    if (captured := prepared.captured()) is not None:
        return SeedRun(job, bench, captured, prepared.generators, {**notes, "step": "captured"})
    return SeedRun(job, bench, step, prepared.generators, notes)
