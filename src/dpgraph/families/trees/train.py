"""Training of DP-GNN and DP-MLP (Daigavane et al., Algorithms 1 to 5), proved and as published; and of DP-Residual."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.assembly import SeedRun, TreeMethod, on_device, set_up
from dpgraph.engine.methods.base import Job
from dpgraph.engine.preparation.base import expected
from dpgraph.engine.training.opacus_engine import checked_epsilon, opacus_gradients
from dpgraph.families.trees.prepared import PreparedTrees


class DpGnn(TreeMethod):
    """DP-SGD or DP-Adam on ego trees, node-level privacy; the cell's variant states which mechanism.

    `rigorous`: stable sampler, Poisson batches, one public clip norm for the joint gradient, one noise draw.
    `rigorous-fixed-size`: the same with batches of fixed size. `published`: Algorithm 1, batches of fixed size without
    replacement, each parameter group clipped at the percentile of its initial gradient norms, noise std 2 C_l N(K, r)
    lambda for group l. With 0 hops this is DP-MLP, with noise std C_l lambda as in the released code; `published-text`:
    2 C_l lambda, as in the paper's text. A GCN layer has a skip connection, as in the released code and unlike the
    paper's text (engine/models/gcn.py).

    Residual clipping (dp-residual) clips a root's own gradient at C_s and what its neighbours add at a smaller C_n.
    Each step draws two independent Poisson batches of roots: one for the gradients g_self of their losses without any
    message, one for g_full - g_self. With C_n = 0 neighbours add no gradient (DP-MLP's noise).
    """

    def prepare(self, job: Job) -> SeedRun:
        """Return the run of one seed."""
        return tree_run(job)


def tree_run(job: Job) -> SeedRun:
    """Return the run of one seed: the prepared terms with the cell's network and the usual losses."""
    bench, prepared = set_up(job), expected(job.prepared, PreparedTrees)
    private = prepared.step(bench.network, bench.optimizer)
    norms = prepared.accounted_clip_norms
    notes: dict[str, Any] = {"clip_norms": list(norms)}
    if private.engine is opacus_gradients:
        notes |= {"engine": "opacus", "epsilon_by_opacus": checked_epsilon(job.calibration)}
    step, how = on_device(job, private, prepared.device_key)
    return SeedRun(job, bench, step, prepared.generators, {**notes, **how})
