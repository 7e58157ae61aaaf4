"""DP-SGD and DP-Adam on one clipped gradient of a (sub)graph (Igamberdiev and Habernal, sections 4.2 to 4.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch

from dpgraph.errors import invalid
from dpgraph.experiments.cell import Cell
from dpgraph.methods.assembly import noise_over_clip
from dpgraph.methods.base import Job, Method, Observe, Outcome
from dpgraph.methods.kipf_gcn import SplitRun, masked_parts, run_stack, splits_of, used_nodes
from dpgraph.methods.together import only
from dpgraph.models.kipf import GraphBlocks
from dpgraph.privacy.mechanisms import CutSubgraphs, MaskedSubgraphs, PoissonSubgraphs, PureNoise, UnclippedSubgraphs
from dpgraph.randomness import numpy_generator
from dpgraph.sampling.graph_splits import FixedParts, FreshNodes, Schedule, parts_by_id
from dpgraph.training.loop import Diverged
from dpgraph.training.stacked import BlockCache, GraphSource, NoSource


class DpSubgraph:
    """DP-SGD or DP-Adam on one clipped gradient of a subgraph a step; the variant says which subgraph.

    `rigorous`: a fresh Poisson sample of training nodes and the edges among them. `cut`: fixed parts of the training
    nodes by id, without the edges between parts. Both train on training nodes with a loss only. `published`: fixed
    parts mask the loss, messages cross the whole graph, nodes outside of training included. `released`: the same
    without clipping, as the authors' code runs.

    The clipped vector is the gradient of the mean loss; its divisor, how many nodes the step reads, is inside of it.
    """

    private = True

    def run(self, job: Job, observe: Observe) -> Outcome:
        return only(self.run_all([job], [observe]))

    def stacks(self, cell: Cell, device: torch.device) -> bool:
        return True

    def run_all(self, jobs: Sequence[Job], observes: Sequence[Observe]) -> list[Outcome | Diverged]:
        mechanism, privacy = jobs[0].mechanism, jobs[0].cell.privacy
        if privacy is None:
            raise invalid("privacy", None, f"a budget for the method {jobs[0].cell.method}")
        clip_norm = math.inf if isinstance(mechanism, UnclippedSubgraphs) else privacy.clip_norm
        if isinstance(mechanism, MaskedSubgraphs | UnclippedSubgraphs):
            prepare = masked_parts
        elif isinstance(mechanism, CutSubgraphs):
            prepare = cut_parts
        elif isinstance(mechanism, PoissonSubgraphs):
            prepare = partial(fresh_subgraphs, rate=mechanism.rate)
        elif isinstance(mechanism, PureNoise):
            prepare = nothing
        else:
            kinds = "a mechanism of subgraphs, or pure-noise"
            raise invalid("mechanism", mechanism.kind, kinds)
        std = noise_over_clip(mechanism) * privacy.clip_norm
        return run_stack(jobs, observes, prepare, clip_norm, std)


class DpPureNoise(DpSubgraph):
    """A control: the updates of dp-subgraph with the gradient set to zero, so that nothing but noise is learnt."""


def cut_parts(jobs: Sequence[Job], blocks: GraphBlocks) -> SplitRun:
    """Fixed parts by id; each step reads one part and the edges inside it."""
    schedules: list[Schedule] = []
    for job in jobs:
        nodes = used_nodes(job)
        generator = numpy_generator(*job.names("partition"))
        parts = parts_by_id(nodes, job.graph.num_nodes, splits_of(job.cell, len(nodes)), generator)
        schedules.append(FixedParts(parts, job.names("batches"), "fixed parts by id"))
    source = GraphSource(schedules, BlockCache(blocks.induced).of)
    return SplitRun(source, {}, {"batches": schedules[0].name, "edge_lists": "edges between parts cut"})


def fresh_subgraphs(jobs: Sequence[Job], blocks: GraphBlocks, rate: float) -> SplitRun:
    """A new Poisson sample of the training nodes in each step, and the edges among them."""
    generators = {job.seed: numpy_generator(*job.names("batches")) for job in jobs}
    schedules: list[Schedule] = [FreshNodes(used_nodes(job), rate, generators[job.seed]) for job in jobs]
    build = BlockCache(blocks.induced).of if rate == 1 else blocks.induced
    named = {f"batches {seed}": generator for seed, generator in generators.items()}
    return SplitRun(
        GraphSource(schedules, build), dict(named), {"batches": "poisson", "edge_lists": "induced subgraph"}
    )


def nothing(jobs: Sequence[Job], blocks: GraphBlocks) -> SplitRun:
    """No step reads anything."""
    return SplitRun(NoSource(), {}, {"batches": "none", "edge_lists": "none"})


METHODS: dict[str, Method] = {"dp-subgraph": DpSubgraph(), "dp-pure-noise": DpPureNoise()}
