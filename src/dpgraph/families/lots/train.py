"""Training by DP-SGD over lots of independent records: the MNIST baseline of Igamberdiev and Habernal, App. F."""

from __future__ import annotations

from dpgraph.engine.methods.assembly import SeedRun, run_loop, set_up
from dpgraph.engine.methods.base import Job, Observe, Outcome
from dpgraph.families.lots.prepared import PreparedLots
from dpgraph.families.trees.train import tree_run


class DpLots:
    """DP-SGD of an MLP on records without neighbours, in lots; the cell's variant states what is clipped.

    `rigorous`: Poisson lots, the gradient of each record clipped to C, sums divided by q N (Abadi et al., Algorithm 1).
    `components`: the same on noisy principal components of the records, released before (Abadi et al., section 5.2).
    `published`: what the paper's released code is meant to do: disjoint lots of a shuffle, the mean gradient of a lot
    clipped to C as one vector, noise of std C noise_multiplier on that mean, not divided by the lot size. `released`:
    the same without clipping, which is what that code does.
    """

    def run(self, job: Job, observe: Observe) -> Outcome:
        """Train one seed."""
        if not isinstance(job.prepared, PreparedLots):
            return run_loop(tree_run(job), observe)
        bench, prepared = set_up(job), job.prepared
        step = prepared.step(bench.network, bench.optimizer)
        notes = {"clip_norms": list(prepared.accounted_clip_norms)}
        return run_loop(SeedRun(job, bench, step, {"noise": prepared.noise.generator}, notes), observe)
