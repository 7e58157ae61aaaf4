"""DP-GNN by residual clipping: neighbours pay only for what they add (ours, docs/privacy.md, Theorem 3)."""

from __future__ import annotations

from dpgraph.errors import invalid
from dpgraph.methods.assembly import Bench, Run, noise_over_clip, private_step, set_up, stable_trees
from dpgraph.methods.base import Job, Method
from dpgraph.methods.inference_choice import InferenceChoice
from dpgraph.methods.together import TreeMethod
from dpgraph.privacy.mechanisms import ResidualTrees
from dpgraph.sampling.batches import PoissonSampler
from dpgraph.sampling.edge_lists import empty_edge_lists
from dpgraph.sampling.ego import pack_ego_trees
from dpgraph.training.clipping import neighbour_losses
from dpgraph.training.steps import ClippedTerm


class DpResidual(TreeMethod):
    """Residual clipping: a root's own gradient clipped at C_s, what its neighbours add to it at a smaller C_n.

    Each step draws two independent Poisson batches of roots: one for the gradients g_self of their losses without any
    message, one for g_full - g_self. With C_n = 0 the neighbours add nothing to training (DP-MLP's noise). With a
    choice_epsilon the final predictions read neighbours or none, as validation nodes say; those along training do.
    """

    def prepare(self, job: Job, beside: Bench | None = None) -> Run:
        privacy, mechanism = job.cell.privacy, job.mechanism
        if privacy is None:
            raise invalid("privacy", None, f"a budget for the method {job.cell.method}")
        if not isinstance(mechanism, ResidualTrees):
            raise invalid("mechanism", mechanism.kind, "residual-trees")
        bench = set_up(job, beside)
        choice = InferenceChoice(job, bench, mechanism) if mechanism.choice_epsilon else None
        roots = job.graph.train_nodes
        own_clip = privacy.clip_norm
        neighbour_clip = mechanism.neighbour_clip * own_clip
        own = PoissonSampler(len(roots), mechanism.sampling_rate)
        alone = pack_ego_trees(empty_edge_lists(job.graph), roots, mechanism.hops, job.device)
        terms = [ClippedTerm(alone, own, own_clip)]
        ran = "none" if choice is None else "stable"
        if neighbour_clip > 0:
            trees, ran = stable_trees(job, mechanism.hops, mechanism.max_degree, mechanism.list_cap)
            second = PoissonSampler(len(roots), mechanism.neighbour_rate)
            terms.append(ClippedTerm(trees, second, neighbour_clip, neighbour_losses))
        divisor = mechanism.sampling_rate * mechanism.num_roots  # N as it was made public
        step = private_step(bench, terms, noise_over_clip(mechanism) * own_clip, divisor)
        notes = {"edge_lists": ran, "clip_norm": own_clip, "neighbour_clip_norm": neighbour_clip}
        if choice is None:
            return Run(job, bench, step, own, notes)
        return Run(job, bench, step, own, notes, choice.inference, late_notes=choice.notes)


METHODS: dict[str, Method] = {"dp-residual": DpResidual()}
