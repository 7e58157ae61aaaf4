"""Noise of the wrong size, noise that two things share, and noise at the wrong place."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran, swap
from tests.mutants.planting import Bug, Edit

STREAMS = "dpgraph.config.streams:"
TREES = "dpgraph.families.trees.prepared:"
NOISE = "dpgraph.engine.training.noise:"
STEPS = "dpgraph.engine.training.steps:"
OF_SOUNDNESS = "tests/engine/methods/test_soundness.py::"
OF_FACTS = "tests/engine/preparation/test_facts.py::"

BUGS = (
    edit(
        "noise / 1.3 on ego trees",
        TREES + "PreparedTrees.__init__",
        "order.noise_std",
        "order.noise_std / 1.3",
        ran("dp-gnn-1-rigorous"),
    ),
    edit(
        "noise / 1.3 in residual clipping",
        TREES + "PreparedTrees.__init__",
        "order.noise_std",
        "order.noise_std / 1.3",
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "noise / 1.3 in lots",
        "dpgraph.families.lots.prepared:PreparedLots.__init__",
        "order.noise_std",
        "order.noise_std / 1.3",
        ran("dp-lots-0-published"),
    ),
    edit(
        "noise / 1.3 on subgraphs",
        "dpgraph.families.subgraphs.prepared:PreparedParts.__init__",
        "order.noise_std",
        "order.noise_std / 1.3",
        ran("dp-subgraph-3-rigorous"),
    ),
    edit(
        "noise / 1.3 on rows",
        "dpgraph.families.pagerank.prepared:PreparedRows.__init__",
        "noise_std(noise_over_clip=order.noise_over_clip, clip_norm=self.clip_norm)",
        "noise_std(noise_over_clip=order.noise_over_clip, clip_norm=self.clip_norm) / 1.3",
        ran("dp-appr-random-rigorous"),
    ),
    edit(
        "noise of a group by the first group's clip norm",
        TREES + "_stds",
        "clip_norms[name]",
        "next(iter(clip_norms.values()))",
        ran("dp-gnn-1-published"),
    ),
    edit(
        "noise of std / 1.3 where it is added",
        NOISE + "GaussianNoise.add",
        "self.std",
        "self.std / 1.3",
        OF_FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-gnn-1-rigorous]",
    ),
    edit(
        "the same noise in every step",
        NOISE + "GaussianNoise.add",
        "self.generator",
        "self.generator.clone_state()",
        OF_FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-mlp-0-rigorous]",
    ),
    edit(
        "the same noise on every tensor",
        NOISE + "add_gaussian_noise",
        "torch.empty_like(tensor).normal_(generator=generator)",
        "torch.empty_like(tensor).normal_(generator=generator.clone_state())",
        OF_FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-residual-1-rigorous]",
    ),
    edit(
        "one number of noise for a whole tensor",
        NOISE + "add_gaussian_noise",
        "torch.empty_like(tensor).normal_(generator=generator)",
        "torch.empty_like(tensor[..., :1]).normal_(generator=generator).expand_as(tensor)",
        OF_FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-lots-0-rigorous]",
    ),
    edit(
        "noise after the optimiser",
        STEPS + "PrivateStep.__call__",
        "self.noise.add(sums)\napply_gradient(self.optimizer, sums, self.divisor)",
        "apply_gradient(self.optimizer, sums, self.divisor)\nself.noise.add(sums)",
        "tests/engine/training/test_steps.py::test_private_step_is_clip_noise_divide",
    ),
    Bug(
        "noise once for each term",
        (
            Edit(STEPS + "PrivateStep.__call__", "self.noise.add(sums)", ""),
            Edit(
                STEPS + "PrivateStep.__call__", "read += len(positions)", "read += len(positions)\nself.noise.add(sums)"
            ),
        ),
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "all seeds draw the same noise",
        "dpgraph.engine.preparation.base:Order._open",
        "stream(self.cell, role, self.seed)",
        "stream(self.cell, role, 0)",
        OF_FACTS + "test_seeds_have_noise_and_batches_of_their_own[dp-mlp-0-rigorous]",
    ),
    swap(
        "cells share their noise",
        STREAMS + "PAIRED",
        lambda paired: paired | {"noise"},
        OF_SOUNDNESS + "test_the_private_gradient_cannot_be_solved_from_two_cells[other0]",
    ),
    edit(
        "runs of one initialisation share their noise",
        STREAMS + "stream",
        "initialisation_number(cell, seed) if role in PAIRED else seed",
        "initialisation_number(cell, seed)",
        OF_SOUNDNESS + "test_runs_of_one_initialisation_have_noise_and_batches_of_their_own",
    ),
    edit(
        "cells share everything",
        STREAMS + "stream",
        "(*names, name or stream_name(cell))",
        "names",
        OF_SOUNDNESS + "test_the_private_gradient_cannot_be_solved_from_two_cells[other1]",
    ),
    swap(
        "releases of cells share their noise",
        STREAMS + "PAIRED",
        lambda paired: paired | {"release"},
        OF_SOUNDNESS + "test_what_is_private_belongs_to_one_cell_and_the_rest_is_paired",
    ),
    edit(
        "noise of subgraphs halved",
        "dpgraph.families.subgraphs.steps:Privatizer.apply",
        "gradient.add_(self.buffer, alpha=std)",
        "gradient.add_(self.buffer, alpha=std / 2)",
        "tests/families/subgraphs/test_steps.py::test_noise_has_the_stated_std",
    ),
    edit(
        "noise of rows divided twice",
        "dpgraph.engine.training.closed_rows:RowPrivatizer.add_noise",
        "self.divisor",
        "self.divisor ** 2",
        "tests/engine/training/test_closed_rows.py::test_a_step_is_the_sum_and_the_noise_of_the_other_engine",
    ),
)
