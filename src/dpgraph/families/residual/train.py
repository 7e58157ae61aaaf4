"""DP-GNN by residual clipping: only what neighbours add is charged to the budget (ours, docs/privacy.md, Theorem 3)."""

from __future__ import annotations

from dataclasses import replace

from dpgraph.engine.methods.assembly import SeedRun, TreeMethod
from dpgraph.engine.methods.base import Job
from dpgraph.engine.preparation.base import expected
from dpgraph.families.residual.inference_choice import InferenceChoice
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.families.trees.train import tree_run


class DpResidual(TreeMethod):
    """Residual clipping: a root's own gradient clipped at C_s, what its neighbours add to it at a smaller C_n.

    Each step draws two independent Poisson batches of roots: one for the gradients g_self of their losses without any
    message, one for g_full - g_self. With C_n = 0 the neighbours add nothing to training (DP-MLP's noise). With a
    choice_epsilon the final predictions read neighbours or none, as the validation nodes decide; those during training
    do.
    """

    def prepare(self, job: Job) -> SeedRun:
        run, prepared = tree_run(job), expected(job.prepared, PreparedTrees)
        if prepared.choice is None:
            return run
        choice = InferenceChoice(job, run.bench, prepared.choice)
        return replace(run, last=choice.inference, late_notes=choice.notes)
