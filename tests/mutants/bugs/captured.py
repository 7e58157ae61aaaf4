"""Steps captured as one program."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, swap

SLOTS = "dpgraph.engine.sampling.slots:"
GHOST = "dpgraph.engine.training.ghost:"
SEGMENTS = "dpgraph.engine.models.slot_segments:"
BATCH = "dpgraph.engine.training.captured.slot_batch:"
PROGRAM = "dpgraph.engine.training.captured.program:"
STEP = "dpgraph.engine.training.captured.step:"
OF_SLOTS = "tests/engine/sampling/test_slots.py::"
OF_CAPTURED = "tests/engine/training/test_captured.py::"
OF_PLAIN = "tests/engine/training/test_captured_plain.py::"

BUGS = (
    edit(
        "a compiled step on a CPU draws other noise for the batches of the usual one",
        STEP + "CapturedStep.release",
        "noise.add(list(self.sums.values()))",
        "noise.add([self.flat])",
        "tests/engine/methods/test_captured.py::test_a_cpu_compiles_on_request[dp-gnn-1-rigorous]",
    ),
    edit(
        "the host assigns a number inside of a program",
        BATCH + "SlotBatch._lists",
        "unused = entries >= ends[-1]",
        "unused = entries >= ends[-1]; unused[-1] = True",
        "tests/engine/methods/test_captured.py::test_the_host_reads_nothing[dp-gnn-2-rigorous]",
    ),
    edit(
        "noise of std / 1.3 in a captured step",
        STEP + "CapturedStep.release",
        "float(noise.std)",
        "float(noise.std) / 1.3",
        OF_CAPTURED + "test_a_step_is_clip_noise_divide_and_update",
    ),
    edit(
        "roots without a slot are left out",
        PROGRAM + "CapturedProgram.__call__",
        "self.overflows += 1",
        "self.overflows += 1; return 0",
        OF_CAPTURED + "test_a_batch_without_a_slot_for_each_root_is_exact[(1, 12)-adam]",
    ),
    edit(
        "draws of a captured step are not counted",
        STEP + "CapturedStep.count",
        "term.draws.count += 1",
        "term.draws.count += 0",
        "tests/engine/methods/test_captured.py::test_what_ran_is_what_was_accounted_for[dp-gnn-1-rigorous]",
    ),
    edit(
        "a captured program keeps numbers that have changed",
        STEP + "CapturedStep.check",
        "self._baked != self._numbers()",
        "self._baked is None",
        OF_CAPTURED + "test_numbers_that_change_after_the_capture_are_refused",
    ),
    edit(
        "roots of a tree that is not finite are summed in slots",
        GHOST + "CallRows.finite_rows",
        "torch.where(kept, self.gradients, zero)",
        "torch.where(kept | isinstance(self.sizes, SlotRows), self.gradients, zero)",
        OF_CAPTURED + "test_a_record_that_is_not_finite_leaves_its_readers_out[1-nan-gcn-1]",
    ),
    edit(
        "rows of trees in slots are not scaled by clip factors",
        GHOST + "CallRows.per_row",
        "self.sizes.per_row(values).view(-1, 1, 1)",
        "self.sizes.per_row(values.sign() if values.is_floating_point() else values).view(-1, 1, 1)",
        OF_CAPTURED + "test_sums_are_those_of_the_step_it_stands_for[poisson-trees-('gcn', 1, 1, 2, 'tanh')]",
    ),
    edit(
        "padding of slots counts as a row",
        SEGMENTS + "SlotSegments.there",
        "self.rows.column < self.lengths",
        "self.rows.column <= self.lengths",
        OF_CAPTURED + "test_sums_are_those_of_the_step_it_stands_for[poisson-trees-('gin', 1, 2, 1, 'relu')]",
    ),
    edit(
        "attention reads the padding of slots",
        SEGMENTS + "SlotSegments.runs",
        "self.rows.column >= self.lengths",
        "self.rows.column > self.lengths",
        OF_CAPTURED + "test_sums_are_those_of_the_step_it_stands_for[poisson-trees-('gat', 1, 1, 2, 'tanh')]",
    ),
    edit(
        "padded rows of level 1 read another tree",
        BATCH + "SlotBatch._lists",
        "rows.owner.index_select(0, owners)",
        "rows.owner.index_select(0, owners).masked_fill_(padding.index_select(0, owners), 0)",
        OF_CAPTURED + "test_a_record_that_is_not_finite_leaves_its_readers_out[1-nan-gin-2]",
    ),
    edit(
        "slots without a root count where nothing is clipped",
        "dpgraph.engine.training.captured.plain:CapturedTrees.sum_slots",
        "self.flat.div_(batch.finite.sum())",
        "self.flat.div_(len(batch.roots))",
        OF_PLAIN + "test_steps_on_trees_move_parameters_as_the_usual_ones[gcn-1-closed-poisson]",
    ),
    edit(
        "groups of a captured step share one noise",
        STEP + "CapturedStep._scale",
        "torch.full_like(p, std)",
        "torch.full_like(p, stds[0])",
        OF_CAPTURED + "test_groups_have_noise_of_their_own",
    ),
    edit(
        "batches of fixed size are the first roots",
        SLOTS + "fixed_size_batches",
        "numbers.topk(size, largest=False, sorted=False).indices.sort().values",
        "torch.arange(size).expand(len(numbers), -1)",
        OF_SLOTS + "test_batches_of_fixed_size_are_uniform_sets",
    ),
    edit(
        "a checkpoint has the generator of batches ahead of the step",
        PROGRAM + "HostBatches.use",
        "step in self._states",
        "step not in self._states",
        OF_PLAIN + "test_steps_on_a_loss_are_the_usual_ones[mlp-0-fixed]",
    ),
    edit(
        "both terms of a captured step draw one batch",
        SLOTS + "random_numbers",
        "torch.full_like(pairs, stream)",
        "torch.full_like(pairs, 0)",
        OF_CAPTURED + "test_terms_draw_independent_batches",
    ),
    edit(
        "batches of a resumed run begin again",
        SLOTS + "random_numbers",
        "torch.arange(first, first + steps, device=like.device)",
        "torch.arange(0, steps, device=like.device)",
        OF_CAPTURED + "test_it_goes_on_where_it_was[3]",
    ),
    edit(
        "batches of a resumed run that is averaged begin again",
        "dpgraph.engine.training.iterates:AveragingStep.start_at",
        "self.step.start_at(step)",
        "self.step.start_at(0)",
        OF_CAPTURED + "test_a_step_that_was_not_told_where_it_starts_is_refused",
    ),
    edit(
        "a captured program keeps the batch of its capture",
        PROGRAM + "CapturedProgram.__call__",
        "source.row.copy_(drawn.ranks[index])",
        "source.row = drawn.ranks[index]",
        OF_CAPTURED + "test_what_is_replayed_is_the_step[mlp-adam]",
    ),
    edit(
        "a captured program keeps the noise of its first step",
        STEP + "CapturedStep.release",
        "self.flat.add_(self.noise.normal_(generator=noise.generator), alpha=float(noise.std))",
        "drawn = self.noise if noise.draws > 1 else self.noise.normal_(generator=noise.generator)\n"
        "self.flat.add_(drawn, alpha=float(noise.std))",
        OF_CAPTURED + "test_a_step_is_clip_noise_divide_and_update",
    ),
    edit(
        "a step without slots leaves the buffers of the captured program",
        STEP + "CapturedStep.sum_without_slots",
        "self.flat.zero_()",
        "self.sums = {p: torch.zeros_like(p) for p in self.sums}",
        OF_CAPTURED + "test_what_is_replayed_is_the_step[gcn-sgd]",
    ),
    edit(
        "Adam of a captured step counts on the host",
        "dpgraph.engine.training.optimizers:make_optimizer",
        "_eager(torch.optim.Adam)(parameters, capturable=capturable, **moments, **shared)",
        "_eager(torch.optim.Adam)(parameters, capturable=False, **{**moments, 'fused': None}, **shared)",
        OF_CAPTURED + "test_what_is_replayed_is_the_step[mlp-adam]",
    ),
    edit(
        "a step whose optimiser counts on the host is captured",
        "dpgraph.engine.training.captured.dispatch:why_not_captured",
        "group.get('capturable') is False",
        "group.get('capturable') is None",
        OF_CAPTURED + "test_what_is_not_captured",
    ),
    edit(
        "the host reads losses in a captured program",
        STEP + "CapturedStep.sum_slots",
        "for layer, gradients in by_layer.items(): ...",
        "float(losses.sum())\nfor layer, gradients in by_layer.items(): ...",
        OF_CAPTURED + "test_shapes_are_fixed_and_the_host_reads_nothing[('gcn', 1, 1, 2, 'tanh')]",
    ),
    edit(
        "roots that a class has no slots for are left out",
        SLOTS + "fill_slots",
        "start = end",
        "start = upto[:, index]",
        OF_SLOTS + "test_every_root_has_a_slot_or_the_overflow_is_reported",
    ),
    edit(
        "batches of more roots than slots are called fitting",
        SLOTS + "fill_slots",
        "drawn[:, -1] > start",
        "drawn[:, -1] < start",
        OF_SLOTS + "test_every_root_has_a_slot_or_the_overflow_is_reported",
    ),
    edit(
        "a class takes roots that are wider than its slots",
        SLOTS + "fill_slots",
        "upto[:, index]",
        "drawn[:, -1]",
        OF_SLOTS + "test_every_root_has_a_slot_or_the_overflow_is_reported",
    ),
    swap(
        "nine rounds of Philox",
        SLOTS + "ROUNDS",
        lambda _: 9,
        "tests/engine/sampling/test_slots.py::test_known_answers",
    ),
    edit(
        "batches of a captured step are drawn on the host",
        SLOTS + "random_numbers",
        "torch.arange((num_roots + 1) // 2, device=like.device)",
        "torch.arange((num_roots + 1) // 2)",
        OF_CAPTURED + "test_batches_are_drawn_where_the_step_is",
    ),
)
