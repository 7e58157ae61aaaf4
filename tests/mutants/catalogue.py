"""The planted bugs: where, what, and which test must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """`old` stands once in the file, which is given below src/dpgraph."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    name: str
    edits: tuple[Edit, ...]
    test: str


def _one(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(name, (Edit(file, old, new),), test)


TREES, PARTS, LOTS = (f"preparation/{name}.py" for name in ("trees", "parts", "lots"))
ROWS = "methods/pagerank/prepared.py"
SOUND, FACTS = "tests/methods/test_soundness.py::", "tests/preparation/test_facts.py::"
STEPS, CLIPPING, STACKED, FUSED = (
    f"tests/training/test_{name}.py::" for name in ("steps", "clipping", "stacked", "fused")
)
PROGRAM = "tests/training/test_captured.py::"
SLOTS = "tests/sampling/test_slots.py::test_every_root_has_a_slot_or_the_overflow_is_reported"
ROW_STACK, LISTS = "tests/training/test_stacked_rows.py::", "tests/sampling/test_edge_lists.py::"
LOOPS = "tests/sampling/test_loops.py::test_lists_of_hubs_equal_those_of_array_operations"
CHOICE = "tests/methods/test_inference_choice.py::"
RELEASES = "tests/sampling/test_pagerank_release.py::"
SUBGRAPHS, RECORDS = (f"tests/privacy/test_{name}_mechanisms.py::" for name in ("subgraph", "record"))
MECHANISMS = "tests/privacy/test_mechanisms.py::"


def ran(cell: str) -> str:
    """The comparison of what ran with what was accounted for, for one cell of the contract."""
    return f"tests/contract/test_methods.py::test_what_ran_is_what_was_accounted_for[{cell}]"


PREPARED_NOISE = "order.noise(order.noise_std)"
WEAKER_NOISE = "order.noise(order.noise_std / 1.3)"

NOISE = (
    _one("noise / 1.3 on ego trees", TREES, PREPARED_NOISE, WEAKER_NOISE, ran("dp-gnn-1-rigorous")),
    _one("noise / 1.3 in residual clipping", TREES, PREPARED_NOISE, WEAKER_NOISE, ran("dp-residual-1-rigorous")),
    _one("noise / 1.3 in lots", LOTS, PREPARED_NOISE, WEAKER_NOISE, ran("dp-lots-0-published")),
    _one("noise / 1.3 on subgraphs", PARTS, PREPARED_NOISE, WEAKER_NOISE, ran("dp-subgraph-3-rigorous")),
    _one(
        "noise / 1.3 on rows",
        ROWS,
        "clip_norm=self.clip_norm))",
        "clip_norm=self.clip_norm) / 1.3)",
        ran("dp-appr-random-rigorous"),
    ),
    _one(
        "noise of a group by the first group's clip norm",
        TREES,
        "clip_norm=clip_norms[name])",
        "clip_norm=next(iter(clip_norms.values())))",
        ran("dp-gnn-1-published"),
    ),
    _one(
        "noise of std / 1.3 where it is added",
        "training/noise.py",
        "add_gaussian_noise(sums, self.std, self.generator)",
        "add_gaussian_noise(sums, self.std / 1.3, self.generator)",
        FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-gnn-1-rigorous]",
    ),
    _one(
        "the same noise in every step",
        "training/noise.py",
        "add_gaussian_noise(sums, self.std, self.generator)",
        "add_gaussian_noise(sums, self.std, self.generator.clone_state())",
        FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-mlp-0-rigorous]",
    ),
    _one(
        "the same noise on every tensor",
        "training/noise.py",
        "normal_(generator=generator)\n        tensor",
        "normal_(generator=generator.clone_state())\n        tensor",
        FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-residual-1-rigorous]",
    ),
    _one(
        "one number of noise for a whole tensor",
        "training/noise.py",
        "noise = torch.empty_like(tensor).normal_(generator=generator)",
        "noise = torch.empty_like(tensor[..., :1]).normal_(generator=generator).expand_as(tensor)",
        FACTS + "test_noise_has_its_std_and_is_independent_across_steps_and_coordinates[dp-lots-0-rigorous]",
    ),
    _one(
        "noise after the optimiser",
        "training/steps.py",
        "        self.noise.add(sums)\n        apply_gradient(self.optimizer, sums, self.divisor)",
        "        apply_gradient(self.optimizer, sums, self.divisor)\n        self.noise.add(sums)",
        STEPS + "test_private_step_is_clip_noise_divide",
    ),
    _one(
        "noise once for each term",
        "training/steps.py",
        "            read += len(positions)\n        self.noise.add(sums)",
        "            read += len(positions)\n            self.noise.add(sums)",
        ran("dp-residual-1-rigorous"),
    ),
    _one(
        "noise of seeds is that of the first",
        "training/seed_stack.py",
        "            step.noise.add(mine)",
        "            self.steps[0].noise.add(mine)",
        "tests/methods/test_together.py::test_a_seed_ends_as_if_alone[cpu-dp-gnn-1-rigorous-gcn]",
    ),
    _one(
        "all seeds draw the same noise",
        "preparation/base.py",
        "return stream(self.cell, role, self.seed)",
        "return stream(self.cell, role, 0)",
        FACTS + "test_seeds_have_noise_and_batches_of_their_own[dp-mlp-0-rigorous]",
    ),
    _one(
        "cells share their noise",
        "experiments/streams.py",
        '        "parameters",\n',
        '        "parameters",\n        "noise",\n',
        SOUND + "test_the_private_gradient_cannot_be_solved_from_two_cells[other0]",
    ),
    _one(
        "runs of one initialisation share their noise",
        "experiments/streams.py",
        "initialisation_number(cell, seed) if role in PAIRED else seed",
        "initialisation_number(cell, seed)",
        SOUND + "test_runs_of_one_initialisation_have_noise_and_batches_of_their_own",
    ),
    _one(
        "cells share everything",
        "experiments/streams.py",
        "(*names, stream_name(cell))",
        "names",
        SOUND + "test_the_private_gradient_cannot_be_solved_from_two_cells[other1]",
    ),
    _one(
        "releases of cells share their noise",
        "experiments/streams.py",
        '        "random rows",\n',
        '        "random rows",\n        "release",\n',
        SOUND + "test_what_is_private_belongs_to_one_cell_and_the_rest_is_paired",
    ),
    _one(
        "noise of stacked subgraphs halved",
        "training/stacked.py",
        "alpha=stds.pop()",
        "alpha=stds.pop() / 2",
        STACKED + "test_noise_has_the_stated_std_and_seeds_their_own",
    ),
    _one(
        "noise of stacked rows divided twice",
        "training/stacked_rows.py",
        ".fill(self._noise) / self.divisor",
        ".fill(self._noise) / self.divisor**2",
        ROW_STACK + "test_a_step_is_the_sum_and_the_noise_of_the_other_engine",
    ),
)

SAMPLING = (
    _one(
        "rate 2q on ego trees",
        TREES,
        "PoissonSampler(len(self.data.graph.train_nodes), rate)",
        "PoissonSampler(len(self.data.graph.train_nodes), min(1.0, 2 * rate))",
        ran("dp-gnn-1-rigorous"),
    ),
    _one(
        "rate 2q on subgraphs",
        PARTS,
        "FreshNodes(nodes, mechanism.rate, generator)",
        "FreshNodes(nodes, min(1.0, 2 * mechanism.rate), generator)",
        ran("dp-subgraph-3-rigorous"),
    ),
    _one(
        "rate 2q on rows",
        ROWS,
        "sampler = PoissonSampler(len(roots), mechanism.sampling_rate)",
        "sampler = PoissonSampler(len(roots), min(1.0, 2 * mechanism.sampling_rate))",
        ran("dp-appr-identity-rigorous"),
    ),
    _one(
        "the second batch holds everybody",
        TREES,
        "self._poisson(mechanism.neighbour_rate)",
        "self._poisson(1.0)",
        ran("dp-residual-1-rigorous"),
    ),
    _one(
        "the second batch replays the first",
        TREES,
        "Prepared(loss, trees, Draws(sampler, self.batches), clip_norm)",
        "Prepared(loss, trees, Draws(sampler, __import__('copy').deepcopy(self.batches)), clip_norm)",
        FACTS + "test_the_two_batches_of_residual_clipping_are_independent",
    ),
    _one(
        "one batch for both terms",
        "training/steps.py",
        "            positions = term.draws.next()",
        "            positions = term.draws.next() if term is self.terms[0] else positions",
        ran("dp-residual-1-rigorous"),
    ),
    _one(
        "fixed-size batches named Poisson",
        TREES,
        "return PoissonSampler(len(self.data.graph.train_nodes), rate)",
        "return FixedSizeSampler(len(self.data.graph.train_nodes), round(rate * len(self.data.graph.train_nodes)))",
        ran("dp-mlp-0-rigorous"),
    ),
    _one(
        "a Poisson sampler that draws a fixed size",
        "sampling/batches.py",
        "return np.flatnonzero(generator.random(num_roots) < rate)",
        "return np.sort(generator.choice(num_roots, round(rate * num_roots), replace=False))",
        FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-mlp-0-rigorous]",
    ),
    _one(
        "rate 2q in the sampler",
        "sampling/batches.py",
        "generator.random(num_roots) < rate",
        "generator.random(num_roots) < 2 * rate",
        FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-gnn-1-rigorous]",
    ),
    _one(
        "neighbouring roots are drawn together",
        "sampling/batches.py",
        "generator.random(num_roots) < rate",
        "np.repeat(generator.random((num_roots + 1) // 2), 2)[:num_roots] < rate",
        FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-lots-0-rigorous]",
    ),
    _one(
        "fixed-size batches with replacement",
        "sampling/batches.py",
        "size=m, replace=False, shuffle=False",
        "size=m, replace=True, shuffle=False",
        "tests/sampling/test_batches.py::test_fixed_size_batches_are_uniform_sets",
    ),
    _one(
        "the same batch in every step",
        "sampling/batches.py",
        "return self.sampler.draw(self.generator)",
        "return self.sampler.draw(np.random.default_rng(7))",
        FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-appr-random-rigorous]",
    ),
    _one(
        "fresh subgraphs come from fixed parts",
        PARTS,
        "            self.schedule = FreshNodes(nodes, mechanism.rate, generator)",
        "            self.schedule = masked_schedule(nodes, mechanism.num_splits, order)",
        ran("dp-subgraph-3-rigorous"),
    ),
    _one(
        "parts depend on who else is there",
        PARTS,
        'parts_by_id(nodes, graph.num_nodes, mechanism.num_splits, order.generator("partition"))',
        'equal_parts(nodes, mechanism.num_splits, order.generator("partition"))',
        FACTS + "test_nobody_else_changes_parts_when_a_node_leaves",
    ),
    _one(
        "an epoch's lots are those of the last",
        "training/lots.py",
        "numpy_generator(*self.names, epoch)",
        "numpy_generator(*self.names)",
        "tests/methods/test_dp_lots.py::test_epochs_differ_and_a_lot_is_a_function_of_its_step",
    ),
    _one(
        "a divisor of the batch's own size",
        "training/steps.py",
        "apply_gradient(self.optimizer, sums, self.divisor)",
        "apply_gradient(self.optimizer, sums, float(max(1, read)))",
        STEPS + "test_each_term_draws_its_own_batch_and_noise_comes_once",
    ),
    _one(
        "a divisor of those with a label",
        TREES,
        "num_roots=mechanism.num_roots)  # public N",
        "num_roots=int((self.data.labels[self.data.graph.train_nodes] >= 0).sum()))",
        "tests/contract/test_methods.py::test_a_null_record_can_be_fed[dp-gnn-1-rigorous]",
    ),
)

CLIPPED = (
    _one(
        "clip at 2C on ego trees",
        TREES,
        "        clip_norm = order.privacy.clip_norm\n",
        "        clip_norm = 2 * order.privacy.clip_norm\n",
        ran("dp-mlp-0-rigorous"),
    ),
    _one(
        "neighbours clipped at 2 C_n",
        TREES,
        "mechanism.neighbour_clip * clip_norm, Loss",
        "2 * mechanism.neighbour_clip * clip_norm, Loss",
        ran("dp-residual-1-rigorous"),
    ),
    _one(
        "clip at 2C on subgraphs",
        PARTS,
        "isinstance(mechanism, UnclippedSubgraphs) else order.privacy.clip_norm",
        "isinstance(mechanism, UnclippedSubgraphs) else 2 * order.privacy.clip_norm",
        ran("dp-subgraph-3-cut"),
    ),
    _one(
        "clip at 2C on rows",
        ROWS,
        "RowPrivatizer(stack, first.clip_norm,",
        "RowPrivatizer(stack, 2 * first.clip_norm,",
        ran("dp-appr-random-rigorous"),
    ),
    _one(
        "lots are not clipped",
        LOTS,
        "order.privacy.clip_norm if isinstance(mechanism, ShuffledLots) else math.inf",
        "math.inf",
        ran("dp-lots-0-published"),
    ),
    _one(
        "components of records of any length",
        "preparation/rows.py",
        "        scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)\n",
        "",
        "tests/preparation/test_components.py::test_a_record_that_becomes_null_moves_the_matrix_by_at_most_1",
    ),
    _one(
        "components without noise on half of the entries",
        "preparation/components.py",
        "total += std * generator.standard_normal((size, size))",
        "total += std * np.triu(generator.standard_normal((size, size)))",
        "tests/preparation/test_components.py::test_noise_is_on_every_entry_before_the_matrix_is_made_symmetric",
    ),
    _one(
        "components without a charge",
        "privacy/mechanisms/lots.py",
        "return 1 / self.components_noise",
        "return 0.0",
        RECORDS + "test_the_release_of_components_is_charged",
    ),
    _one(
        "clip at 2C on nodes",
        "training/stacked.py",
        "NodeClipping(self.clip_norm)",
        "NodeClipping(2 * self.clip_norm)",
        "tests/training/test_stacked.py::test_the_gradient_of_each_node_is_clipped",
    ),
    _one(
        "norms of nodes without their first layer",
        "training/kipf_nodes.py",
        "squared[piece.nodes] = piece.squares(backs, found.slopes)",
        "squared[piece.nodes] = 0 * piece.squares(backs, found.slopes)",
        "tests/training/test_kipf_nodes.py::test_norms_and_clipped_sums_are_those_of_single_nodes",
    ),
    _one(
        "norms of nodes without dropout",
        "models/kipf.py",
        "slopes if kept is None else slopes.mul_(kept)",
        "slopes",
        "tests/training/test_kipf_nodes.py::test_norms_and_clipped_sums_are_those_of_single_nodes",
    ),
    _one(
        "inner products of nodes without biases",
        "models/kipf_pairs.py",
        "grams = [weights.new_ones(",
        "grams = [weights.new_zeros(",
        "tests/training/test_kipf_nodes.py::test_norms_and_clipped_sums_are_those_of_single_nodes",
    ),
    _one(
        "subgraphs are not clipped",
        PARTS,
        "math.inf if isinstance(mechanism, UnclippedSubgraphs) else",
        "math.inf if True else",
        ran("dp-subgraph-1-rigorous"),
    ),
    _one(
        "factors above 1",
        "training/clipping.py",
        "torch.clamp_max(limits / enlarged, 1)",
        "torch.clamp_max(limits / enlarged, 2)",
        CLIPPING + "test_large_clip_norm_gives_the_plain_gradient",
    ),
    _one(
        "norms of the last layer only",
        "training/clipping.py",
        "squared[:, column[layer]] += norm",
        "squared[:, column[layer]] = norm",
        CLIPPING + "test_clipped_sum_equals_loop_over_roots",
    ),
    _one(
        "norms without their rounding error",
        "training/precision.py",
        "squared + ROUNDING * torch.finfo(squared.dtype).eps * scale",
        "squared + 0 * scale",
        CLIPPING + "test_one_root_contributes_at_most_the_clip_norm",
    ),
    _one(
        "norms without the rounding of operands",
        "training/precision.py",
        "OPERANDS = 3.25",
        "OPERANDS = 0.0",
        "tests/training/test_ghost.py::test_a_clipped_contribution_of_rounded_operands_stays_within_the_clip_norm",
    ),
    _one(
        "products of another root's records",
        "training/fused/inputs.py",
        "self._upload(ranks - begin)",
        "self._upload(0 * ranks)",
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "products of another root's records where sizes differ",
        "training/fused/inputs.py",
        "self._first[ranks, None, None] + within",
        "self._first[ranks[:1], None, None] + within",
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "sparse records are not scaled",
        "training/fused/records.py",
        "if factors is not None:\n            gradients = gradients *",
        "if factors is None:\n            gradients = gradients *",
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "sparse records of lost roots stay",
        "training/fused/records.py",
        "if finite is not None and not bool(finite.all()):",
        "if False:",
        FUSED + "test_known_products_do_not_hide_a_record_that_is_not_finite",
    ),
    _one(
        "norms of the values' heads without the keys'",
        "training/fused/layers.py",
        "for layer, attention in self.attention.items():",
        "for layer, attention in list(self.attention.items())[:1]:",
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "what neighbours add, with the root's own gradient added",
        "training/fused/network.py",
        "pull_own(of_own.neg_())",
        "pull_own(of_own)",
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "roots without a finite gradient count",
        "training/clipping.py",
        ".masked_fill_(~finite.unsqueeze(1), 0), finite",
        ", finite",
        CLIPPING + "test_root_without_finite_gradient_contributes_nothing",
    ),
    _one(
        "a subgraph's tensors are clipped alone",
        "training/stacked.py",
        "norms = torch.stack([torch.linalg.vector_norm(row) for row in gradients])",
        "norms = torch.stack([torch.linalg.vector_norm(row[: self.size // 2]) for row in gradients])",
        STACKED + "test_all_parameters_are_clipped_as_one_vector",
    ),
    _one(
        "a subgraph's infinite gradient stays",
        "training/stacked.py",
        "            gradients.nan_to_num_(nan=0.0)",
        "            pass",
        STACKED + "test_a_gradient_that_is_not_finite_stays_within_the_clip_norm",
    ),
    _one(
        "rows: decoder's norm left out",
        "training/stacked_rows.py",
        "    squared += last\n",
        "",
        ROW_STACK + "test_no_root_adds_more_than_the_clip_norm",
    ),
    _one(
        "a lot's tensors are clipped alone",
        "training/lots.py",
        "norm = torch.stack([torch.linalg.vector_norm(part, dtype=torch.float64) for part in gradient]).norm()",
        "norm = torch.linalg.vector_norm(gradient[0], dtype=torch.float64)",
        "tests/methods/test_dp_lots.py::test_a_gradient_that_is_not_finite_contributes_nothing",
    ),
    _one(
        "a null record has a loss in the engine",
        "training/clipping.py",
        'reduction="none", ignore_index=NO_LABEL)',
        'reduction="none", ignore_index=-7)',
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "a null record has a gradient in closed forms",
        "training/fused/network.py",
        "return losses, gradient.masked_fill_(none.unsqueeze(1), 0)",
        "return losses, gradient",
        "tests/contract/test_methods.py::test_a_null_record_has_no_gradient",
    ),
    _one(
        "a null record has a loss on subgraphs",
        "models/kipf.py",
        "delta.masked_fill_(block.labels < 0, 0)",
        "delta",
        "tests/models/test_kipf.py::test_a_node_without_label_has_no_loss",
    ),
    _one(
        "a null record has a loss on rows",
        "training/stacked_rows.py",
        "error.view(groups * roots, -1).masked_fill_(unlabelled.unsqueeze(1), 0)",
        "error",
        "tests/contract/test_methods.py::test_a_null_record_has_no_gradient",
    ),
)

BOUNDS = (
    _one(
        "no degree cap",
        TREES,
        'mechanism.list_cap, order.key("edge lists"))',
        'mechanism.list_cap, order.key("edge lists"))\n'
        '    lists = __import__("dpgraph.sampling.edge_lists", fromlist=["x"]).full_edge_lists(graph, roots)',
        ran("dp-gnn-1-rigorous"),
    ),
    _one(
        "K + 1",
        TREES,
        "stable_edge_lists(graph, roots, mechanism.max_degree,",
        "stable_edge_lists(graph, roots, mechanism.max_degree + 1,",
        ran("dp-gnn-2-rigorous"),
    ),
    _one(
        "D + 1",
        TREES,
        'mechanism.max_degree, mechanism.list_cap, order.key("edge lists")',
        'mechanism.max_degree, mechanism.list_cap + 1, order.key("edge lists")',
        ran("dp-residual-1-rigorous"),
    ),
    _one(
        "Algorithm 1 for the stable sampler",
        TREES,
        'stable_edge_lists(graph, roots, mechanism.max_degree, mechanism.list_cap, order.key("edge lists"))',
        'sample_edge_lists(graph, roots, mechanism.max_degree, order.generator("edge lists"))',
        ran("dp-gnn-1-rigorous"),
    ),
    _one(
        "nobody is refused by the sampler",
        "sampling/edge_lists.py",
        "_pack(graph.num_nodes, owners[accepted], members[accepted])",
        "_pack(graph.num_nodes, owners, members)",
        ran("dp-gnn-1-rigorous-fixed-size"),
    ),
    _one(
        "proposals are not cut",
        "sampling/edge_lists.py",
        "    owners, members = owners[proposed], members[proposed]\n",
        "",
        LISTS + "test_stability_on_named_shapes[1-1-1-hubs]",
    ),
    _one(
        "priorities read the number of proposals",
        "sampling/edge_lists.py",
        "_priorities(group, elements[entries], key, purpose)",
        "_priorities(group, elements[entries], key + len(groups), purpose)",
        LISTS + "test_stability_on_named_shapes",
    ),
    _one(
        "nobody is refused by the compiled sampler",
        "sampling/list_loops.py",
        "last[node] = _smallest(grouped[begin : place[node]], most, heap)",
        "last[node] = LARGEST",
        LOOPS,
    ),
    _one(
        "compiled priorities read the number of proposals",
        "sampling/list_loops.py",
        "_priority(_pad(member, seed), roots[i])",
        "_priority(_pad(member, seed + np.uint64(len(members))), roots[i])",
        LOOPS,
    ),
    _one(
        "compiled proposals are the first of a list",
        "sampling/list_loops.py",
        "values[i] = _priority(pad, listed[i])",
        "values[i] = i",
        LOOPS,
    ),
    _one(
        "the choice counts over uncapped lists",
        TREES,
        "mechanism.list_cap or 0, key\n        ).checked()",
        "mechanism.list_cap or 0, key\n        ).checked()\n        self.lists = "
        '__import__("dpgraph.sampling.edge_lists", fromlist=["x"]).full_edge_lists(graph, self.nodes)',
        CHOICE + "test_the_last_point_uses_the_choice_and_earlier_ones_read_neighbours[True]",
    ),
    _one(
        "self terms read their neighbours",
        TREES,
        "                _alone(order, mechanism.hops), self._poisson",
        "                stable_trees(order, mechanism), self._poisson",
        ran("dp-residual-1-rigorous"),
    ),
    _one(
        "columns keep one entry more",
        "sampling/pagerank_release.py",
        "place < column_cap",
        "place <= column_cap",
        ran("dp-appr-random-rigorous"),
    ),
    _one(
        "columns are not capped",
        ROWS,
        'weights = cap_columns(weights, mechanism.column_cap, order.generator("column priorities"))',
        "pass",
        ran("dp-appr-gaussian-rigorous"),
    ),
    _one(
        "cut parts keep the edges between them",
        PARTS,
        "blocks.induced if always else BlockCache(blocks.induced).of",
        "BlockCache(blocks.masked).of",
        ran("dp-subgraph-3-cut"),
    ),
    _one(
        "an induced subgraph counts degrees outside",
        "models/kipf.py",
        "normalized(among)",
        "Csr(among.ptr, among.columns, self._normalized.take(nodes).values[kept], len(nodes))",
        "tests/models/test_kipf.py::test_induced_blocks_read_nothing_else",
    ),
    _one(
        "messages when there should be none",
        "training/clipping.py",
        "    alone = batch.without_messages()\n",
        "    alone = batch\n",
        FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    _one(
        "messages in closed forms when there should be none",
        "training/fused/network.py",
        "states.index_select(0, batch.own), batch.without_messages(), calls)",
        "states, batch, calls)",
        CLIPPING + "test_self_and_neighbour_gradients",
    ),
)

RUNS = (
    _one(
        "a null record moves the mean's divisor",
        "training/stacked.py",
        "        if self.present is not None:",
        "        if self.present is None:",
        FACTS + "test_a_null_record_is_drawn_and_not_read",
    ),
    _one(
        "one step more",
        "training/loop.py",
        "range(resumed_at + 1, steps + 1)",
        "range(resumed_at + 1, steps + 2)",
        ran("dp-mlp-0-rigorous"),
    ),
    _one(
        "a resumed run draws other noise",
        "training/checkpoint.py",
        "        generator.set_state(state)",
        "        pass",
        "tests/training/test_loop.py::test_resumed_run_is_bit_identical",
    ),
    _one(
        "the comparison says nothing",
        "privacy/procedure.py",
        '    if unlike:\n        raise NotAsAccounted(f"what',
        '    if not unlike:\n        raise NotAsAccounted(f"what',
        SOUND + "test_a_planted_difference_is_an_error",
    ),
    _one(
        "the comparison is generous",
        "privacy/procedure.py",
        "TOLERANCE = 1e-9",
        "TOLERANCE = 0.5",
        SOUND + "test_a_planted_difference_is_an_error",
    ),
    _one(
        "the stage compares nothing",
        "pipeline/execute.py",
        "return job.prepared.check(outcome.resumed_at)",
        "return job.prepared.ran(outcome.resumed_at)",
        SOUND + "test_a_planted_difference_is_an_error",
    ),
    _one(
        "a private method without a mechanism counts as public",
        "methods/registry.py",
        "if one.name.startswith(PRIVATE) != one.private:",
        "if False:",
        SOUND + "test_a_private_method_without_a_mechanism_is_refused_before_anything",
    ),
    _one(
        "an unknown variant is the first one",
        "methods/spec.py",
        "        return self.variants[cell.privacy.variant]",
        "        return next(iter(self.variants.values()))",
        SOUND + "test_a_variant_gets_its_own_mechanism[dp-gnn-1-published]",
    ),
    _one(
        "a method that says epsilon 0 sees the records",
        "methods/jobs.py",
        "            hidden = problem.counts_only(value)",
        "            pass",
        "tests/contract/test_methods.py::test_a_method_whose_epsilon_is_0_sees_no_record[random-0-none]",
    ),
    _one(
        "a method runs any mechanism",
        "methods/registry.py",
        "    if type(mechanism) not in classes:",
        "    if False:",
        SOUND + "test_a_method_runs_the_mechanisms_that_it_names_only",
    ),
    _one(
        "a variant builds another mechanism",
        "planning/resolve.py",
        "    if type(built) is not variant.mechanism:",
        "    if False:",
        SOUND + "test_a_variant_builds_the_mechanism_that_it_names",
    ),
    _one(
        "a mechanism gives less noise and says so",
        "privacy/mechanisms/lots.py",
        "        return self.noise_multiplier\n",
        "        return None if self.noise_multiplier is None else self.noise_multiplier / 1.3\n",
        "tests/audits/test_registry.py::test_the_code_keeps_its_claims[facts]",
    ),
    _one(
        "an edited calibration is believed",
        "privacy/calibration.py",
        "    for name, value in asked.items():\n        _same",
        "    for name, value in ():\n        _same",
        SOUND + "test_an_edited_calibration_is_refused[noise]",
    ),
    _one(
        "an edited epsilon is believed",
        "privacy/calibration.py",
        "    if stored.statement != statement:",
        "    if False:",
        SOUND + "test_an_edited_calibration_is_refused[relation]",
    ),
    _one(
        "test labels are shown",
        "problems/classification.py",
        "return np.where(np.isin(records.split, (TRAIN, VALIDATION)), records.labels, -1)",
        "return np.asarray(records.labels)",
        "tests/contract/test_methods.py::test_blind_hides_test_labels_only",
    ),
    Mutant(
        "test labels are shown and nobody looks",
        (
            Edit(
                "problems/classification.py",
                "return np.where(np.isin(records.split, (TRAIN, VALIDATION)), records.labels, -1)",
                "return np.asarray(records.labels)",
            ),
            Edit(
                "problems/node_classification/work.py",
                "if (np.asarray(value.labels)[~allowed] >= 0).any():",
                "if False:",
            ),
        ),
        "tests/contract/test_methods.py::test_a_private_method_sees_no_label[dp-gnn-1-rigorous]",
    ),
    Mutant(
        "training labels are shown to a private method",
        (
            Edit("methods/jobs.py", "public = problem.unlabelled(hidden)", "public = hidden"),
            Edit(
                "problems/node_classification/work.py",
                "if (np.asarray(value.labels)[~allowed] >= 0).any():",
                "if False:",
            ),
        ),
        "tests/contract/test_methods.py::test_a_private_method_sees_no_label[dp-subgraph-3-rigorous]",
    ),
    _one(
        "tested tuples of a relation are shown",
        "problems/relations/work.py",
        "kept = np.asarray(value.split) != TEST",
        "kept = np.asarray(value.split) >= 0",
        "tests/problems/test_problems.py::test_relations_hide_the_tested_tuples_and_keep_every_edge_once",
    ),
    _one(
        "a split with other counts keeps the noise of the first",
        "pipeline/execute.py",
        "    if problem.counts(value) != counts:",
        "    if False:",
        "tests/pipeline/test_stages.py::test_a_split_with_other_counts_than_the_calibrated_ones_is_refused",
    ),
    _one(
        "edges of the first split stay in another one",
        "data/store.py",
        "replace(changed, out_ptr=ptr, out_idx=idx, in_ptr=ptr, in_idx=idx)",
        "changed",
        "tests/problems/test_problems.py::test_a_disjoint_split_has_the_edges_of_its_own_parts",
    ),
)

ACCOUNTING = (
    _one(
        "delta of everybody is not looked at",
        "privacy/mechanisms/base.py",
        "protected = self.num_protected or self.num_roots",
        "protected = self.num_roots",
        SOUND + "test_a_delta_of_one_in_everybody_gives_no_epsilon[dp-gnn-1-rigorous]",
    ),
    _one(
        "a meaningless delta is accepted",
        "privacy/mechanisms/base.py",
        "if self.refuses_delta and (reason",
        "if not self.refuses_delta and (reason",
        SOUND + "test_a_delta_of_one_in_everybody_gives_no_epsilon[dp-appr-random-rigorous]",
    ),
    _one(
        "a paper's mechanism has an epsilon at any delta",
        "privacy/mechanisms/base.py",
        "if (reason := self.meaningless_delta) is not None:\n            return",
        "if (reason := None) is not None:\n            return",
        SOUND + "test_a_delta_of_one_in_everybody_gives_no_epsilon[dp-subgraph-3-published]",
    ),
    _one(
        "R without the nodes that are let in",
        "privacy/mechanisms/trees.py",
        "tree_size(max_degree=degree, hops=self.hops) + cap * tree_size(max_degree=degree, hops=self.hops - 1)",
        "tree_size(max_degree=degree, hops=self.hops)",
        MECHANISMS + "test_affected_roots",
    ),
    _one(
        "a mechanism's pair forgets a root",
        "privacy/mechanisms/trees.py",
        "affected_roots_pair(affected_roots=self.affected_roots, rate=self.sampling_rate, noise_std=noise)",
        "affected_roots_pair(affected_roots=max(1, self.affected_roots - 1), rate=self.sampling_rate, noise_std=noise)",
        MECHANISMS + "test_the_two_epsilons_of_the_rigorous_mechanism",
    ),
    _one(
        "node-remove is stated of trees with neighbours",
        "privacy/mechanisms/removed_records.py",
        "if self.hops != 0:",
        "if self.hops < 0:",
        MECHANISMS + "test_whoever_reads_an_edge_has_no_such_statement",
    ),
    _one(
        "half of the steps are accounted for",
        "privacy/accountants/composition.py",
        "return one.self_compose(steps, tail_mass_truncation=tail_mass)",
        "return one.self_compose(max(1, steps // 2), tail_mass_truncation=tail_mass)",
        MECHANISMS + "test_the_two_epsilons_of_the_rigorous_mechanism",
    ),
    _one(
        "a subgraph moves by C",
        "privacy/mechanisms/subgraphs.py",
        "gaussian_epsilon(mu=2 * vectors * math.sqrt(steps) / noise, delta=self.delta)",
        "gaussian_epsilon(mu=vectors * math.sqrt(steps) / noise, delta=self.delta)",
        SUBGRAPHS + "test_table_3_and_what_holds_instead",
    ),
    _one(
        "one affected node for all of a part",
        "privacy/mechanisms/subgraphs.py",
        "self._gaussian(steps, self.most_nodes)",
        "self._gaussian(steps)",
        SUBGRAPHS + "test_one_node_may_turn_the_gradient_of_every_node_of_a_part_around",
    ),
    _one(
        "fresh subgraphs at the whole noise",
        "privacy/mechanisms/subgraphs.py",
        "noise_std=noise / 2)",
        "noise_std=noise)",
        SUBGRAPHS + "test_ten_parts",
    ),
    _one(
        "an unfinished epoch is free",
        "privacy/mechanisms/subgraphs.py",
        "return math.ceil(steps / self.num_splits)",
        "return max(1, steps // self.num_splits)",
        SUBGRAPHS + "test_an_unfinished_epoch_counts_whole",
    ),
    _one(
        "an unfinished epoch of lots is free",
        "privacy/mechanisms/lots.py",
        "return math.ceil(steps / self.lots_per_epoch)",
        "return max(1, steps // self.lots_per_epoch)",
        RECORDS + "test_an_epoch_that_has_begun_counts",
    ),
    _one(
        "the choice is free",
        "privacy/mechanisms/trees.py",
        "PureDp(self.choice_epsilon) if self.choice_epsilon else None",
        "None",
        "tests/privacy/test_choice.py::test_the_price_lies_between_nothing_and_basic_composition",
    ),
    _one(
        "the choice's noise is halved",
        "privacy/choice.py",
        "scale=sensitivity / epsilon",
        "scale=sensitivity / epsilon / 2",
        "tests/privacy/test_choice.py::test_the_law_of_the_answer",
    ),
    _one(
        "the choice's sensitivity is 1",
        TREES,
        "mechanism.choice_epsilon, mechanism.choice_sensitivity",
        "mechanism.choice_epsilon, 1",
        CHOICE + "test_the_last_point_uses_the_choice_and_earlier_ones_read_neighbours[True]",
    ),
    _one(
        "a quantile at half its price",
        "privacy/accountants/quantile.py",
        "eps_quantile * utility / (2 * affected_roots)",
        "eps_quantile * utility / affected_roots",
        "tests/privacy/test_paid_choices.py::test_the_sampler_draws_from_the_exponential_mechanism",
    ),
    _one(
        "rows move by C1",
        "sampling/pagerank_release.py",
        "return math.sqrt(2 * num_rows) * clip_norm",
        "return math.sqrt(num_rows) * clip_norm",
        RELEASES + "test_the_sensitivity_is_attained_and_larger_than_the_thesis_says",
    ),
    _one(
        "the release of rows is charged half",
        "privacy/mechanisms/pagerank.py",
        "return math.sqrt(2 * self.num_roots) / (self.release_noise or math.inf)",
        "return math.sqrt(self.num_roots) / (self.release_noise or math.inf)",
        "tests/privacy/test_pagerank_mechanisms.py::test_rigorous_example",
    ),
    _one(
        "rows are not clipped",
        "sampling/pagerank_release.py",
        "factors = 1 / np.maximum(1.0, norms / clip_norm)\n    return sp.csr_matrix((rows.data * np.repeat",
        "factors = np.ones(len(norms))\n    return sp.csr_matrix((rows.data * np.repeat",
        RELEASES + "test_clipped_matrices_are_within_the_sensitivity",
    ),
    _one(
        "the noise of rows / 1.3",
        ROWS,
        "gaussian_release(rows, clip, noise, top_k, random)",
        "gaussian_release(rows, clip, noise / 1.3, top_k, random)",
        FACTS + "test_released_rows_have_the_noise_that_is_accounted_for[gaussian]",
    ),
    _one(
        "the draws of rows at 2 epsilon",
        ROWS,
        "exponential_release(rows, clip, noise, top_k, random, values)",
        "exponential_release(rows, clip, 2 * noise, top_k, random, values)",
        FACTS + "test_released_rows_have_the_noise_that_is_accounted_for[exponential]",
    ),
    _one(
        "Gumbel noise of half the scale",
        "sampling/pagerank_release.py",
        "generator.gumbel(scale=clip_value / epsilon,",
        "generator.gumbel(scale=clip_value / epsilon / 2,",
        RELEASES + "test_the_exponential_mechanism_draws_with_its_weights",
    ),
    _one(
        "a release at all of delta",
        "methods/pagerank/mechanism.py",
        'delta=common["delta"] / 2,',
        'delta=common["delta"],',
        "tests/privacy/test_pagerank_mechanisms.py::test_training_epsilon_leaves_the_rest_to_the_release",
    ),
    _one("votes move by 1", "privacy/accountants/pate.py", "2 * answers", "answers", "tests/privacy/test_evaluate.py"),
    _one(
        "votes beyond the cap",
        "privacy/gnmax.py",
        "np.flatnonzero(passed)[:max_answers]",
        "np.flatnonzero(passed)",
        "tests/privacy/test_gnmax.py::test_caps_stop_the_run",
    ),
    _one(
        "a search charges one of its seeds",
        "privacy/accountants/tuning.py",
        "repeats *",
        "1 *",
        "tests/privacy/test_tuning.py",
    ),
)

VOTED, OF_VOTES = "tests/methods/test_votes.py::", "tests/privacy/test_votes.py::"
BALLOTS, BUCKETS, SENSITIVITY = "methods/votes/ballots.py", "methods/votes/prepared.py", "privacy/vote_sensitivity.py"
VOTES_EPSILON = "privacy/accountants/votes.py"
STRANGER, STRANGER_BALLOTS = "privacy/mechanisms/stranger_votes.py", "methods/votes/strangers.py"
OF_STRANGERS = "tests/privacy/test_stranger_votes.py::"
VOTES = (
    _one("everybody's labels vote", BUCKETS, "np.asarray(self.graph.split) == TRAIN, ", "self.graph.labels >= 0, ",
         VOTED + "test_validation_and_test_labels_do_not_vote"),
    _one("null votes", BALLOTS, "votes *= (self.votes * self.weights)[:, None]", "votes *= self.weights[:, None]",
         VOTED + "test_a_null_record_adds_nothing_and_its_place_stays"),
    _one("copies of an id vote", BALLOTS, "if not ascending.all():", "if False:",
         VOTED + "test_lists_are_sets_of_ids_of_others"),
    _one("weights forget the own bucket", BALLOTS, "np.maximum(self.degrees + 1,", "np.maximum(self.degrees,",
         OF_VOTES + "test_a_record_that_becomes_null_moves_the_buckets_by_at_most_the_norm_of_a_vote"),
    _one("own share not taken out", BALLOTS, "ballots[rows, :-1] * own[rows, None]", "0 * own[rows, None]",
         VOTED + "test_a_node_reads_the_others_and_not_itself"),
    _one("votes are released twice", BUCKETS, "self.released = released\n", "self.released = released\n            "
         "self.made.append(Release(kind=BUCKETS, noise=over, sensitivity=1.0, count=1))\n",
         "tests/contract/test_methods.py::test_what_ran_is_what_was_accounted_for[dp-votes-mlp]"),
    _one("an edge costs one end", SENSITIVITY, "cases += [2 / floor,", "cases += [1 / floor,",
         OF_VOTES + "test_a_floor_makes_the_bound_of_an_edge_a_simple_one"),
    _one("votes do not oppose each other", SENSITIVITY, "max(0.0, 1 / FEWEST_CLASSES - mass**2)", "max(0.0, 0 * mass)",
         OF_VOTES + "test_an_edge_moves_the_buckets_by_at_most_the_stated_bound"),
    _one("a choice is free", VOTES_EPSILON, "(PureDp(choice),) if choice else ()", "()",
         OF_VOTES + "test_full_batches_are_the_limit_of_poisson_batches"),
    _one("a choice after full batches is free", VOTES_EPSILON, "released_epsilon(mu=mu, choice=choice, delta=delta)",
         "released_epsilon(mu=mu, choice=0.0, delta=delta)", OF_VOTES + "test_every_part_costs"),
    _one("an edge pays the choice once", VOTES_EPSILON, "choice = 4 * choice_epsilon", "choice = choice_epsilon",
         "tests/privacy/test_evaluate.py::test_reference_value[R405]"),
    _one("one-way edges under node-remove", BALLOTS, "plain.lists.multiply(plain.lists.T).tocsr()", "plain.lists",
         VOTED + "test_edges_of_one_list_only_do_not_count_under_a_degree_bound"),
    _one("delta of the training nodes", "methods/votes/mechanism.py", "asked.counts.num_protected or asked.num_train",
         "asked.num_train", OF_VOTES + "test_shares_are_of_the_squared_mu_and_delta_counts_everybody"),
    _one("degrees above their caps are free", SENSITIVITY, "return above /", "return 0 * above /",
         OF_VOTES + "test_how_many_caps_are_exceeded_is_bounded_in_probability"),
    _one("unlikely events are free", "privacy/mechanisms/votes.py", "self.delta * (1 - UNLIKELY",
         "self.delta * (1 - 0 * UNLIKELY", OF_VOTES + "test_each_side_pays_for_what_it_moves"),
    _one("hubs count", BALLOTS, "self.lists @ sp.diags(stays.astype(np.float64))", "self.lists",
         OF_VOTES + "test_votes_go_from_voters_to_others_and_hubs_have_no_part"),
    _one("receivers vote", BALLOTS, "sends @ bounded.lists @ receives", "bounded.lists @ receives",
         OF_VOTES + "test_given_noisy_degrees_a_node_that_leaves_moves_votes_by_what_theorem_r_says"),
    _one("receivers are free", "privacy/mechanisms/votes.py", "max(super()._epsilon_under(relation), receiver)",
         "max(super()._epsilon_under(relation), 0 * receiver)", OF_VOTES + "test_each_side_pays_for_what_it_moves"),
    _one("hubs are free", "privacy/mechanisms/votes.py", "self._mu(self.votes_ratio), self._mu(self.hubs_ratio))",
         "self._mu(self.votes_ratio), 0.0)", OF_VOTES + "test_with_few_caps_exceeded_the_voters_side_decides"),
    _one("rounds after the first are free", "privacy/mechanisms/votes.py", "math.sqrt(self.rounds) * self._mu(",
         "self._mu(", OF_VOTES + "test_rounds_share_what_votes_have"),
    _one("an edge of several rounds has the bound of one", "privacy/mechanisms/votes.py", "if self.rounds > 1:\n",
         "if False:\n", OF_VOTES + "test_rounds_share_what_votes_have"),
    _one("in later rounds votes hear neighbours without noise", BUCKETS, "softmax(scores_of(self.reader), axis=1)",
         "softmax(ballots.lists @ scores_of(self.reader), axis=1)",
         VOTED + "test_given_what_was_released_a_record_moves_every_round_by_its_own_votes"),
    _one("two hops are stated as joint", STRANGER, "Scope.STRANGERS if", "Scope.JOINT if",
         OF_STRANGERS + "test_strangers_are_the_scope_and_everybody_has_node_null"),
    _one("a reader chosen by what two hops say", STRANGER, "if self.choice_epsilon:", "if False:",
         OF_STRANGERS + "test_strangers_are_the_scope_and_everybody_has_node_null"),
    _one("a null record moves half of its part", SENSITIVITY, "return best * (1 +", "return 0.5 * best * (1 +",
         OF_STRANGERS + "test_a_record_that_becomes_null_moves_no_reading_of_others"),
    _one("a taper on lists of one way", STRANGER_BALLOTS, "if (plain.degrees[names] > 0).any():", "if False:",
         OF_STRANGERS + "test_lists_that_break_the_schema_end_the_run"),
    _one("a bound on lists alone", STRANGER_BALLOTS, "max(plain.degrees.max(initial=0), named.max(initial=0))",
         "plain.degrees.max(initial=0)", OF_STRANGERS + "test_lists_that_break_the_schema_end_the_run"),
    _one("for strangers, lists of mutual edges", STRANGER_BALLOTS, "return cls(plain.lists, plain.votes,",
         "return cls(plain.lists.multiply(plain.lists.T).tocsr(), plain.votes,",
         OF_STRANGERS + "test_a_record_that_becomes_null_moves_no_reading_of_others"),
    _one("hubs have buckets", STRANGER_BALLOTS, "one_vote) * there", "one_vote)",
         OF_STRANGERS + "test_voters_and_hubs_have_no_bucket_to_read"),
)  # fmt: skip

BANDED, OF_BANDS = "training/banded.py", "tests/privacy/test_banded.py::"
SCALED, SCALED_TEST = "training/scaled.py", "tests/training/test_scaled.py::"
CHARGED_BANDS = OF_BANDS + "test_steps_are_charged_at_the_rate_of_their_group_and_as_often_as_it_comes"
BANDS = (
    _one("noise of bands is not divided through their matrix", BANDED, "alpha=factor)", "alpha=0 * factor)",
         "tests/training/test_banded.py::test_streamed_noise_is_the_dense_product"),
    _one("groups that take turns are ignored", "sampling/cyclic.py", "np.flatnonzero(self.groups == group)",
         "np.flatnonzero(self.groups >= 0)", "tests/sampling/test_cyclic.py::test_groups_take_turns_at_their_rate"),
    _one("steps of a group amplified at rate q", "privacy/mechanisms/votes.py", '"sampling_rate": rate}',
         '"sampling_rate": self.sampling_rate}', CHARGED_BANDS),
    _one("a group comes once in 2 b steps", "privacy/banded.py", "math.ceil(steps / bands)",
         "math.ceil(steps / bands / 2)", CHARGED_BANDS),
    _one("columns of bands longer than 1", "privacy/banded.py", "    columns = columns / np.maximum(",
         "    columns = 1.3 * columns / np.maximum(",
         OF_BANDS + "test_a_record_moves_each_block_by_at_most_one_whenever_it_takes_part"),
    _one("longer columns do not lower the stated noise", BANDED, "source.std / matrix.sensitivity", "source.std",
         "tests/training/test_banded.py::test_the_std_that_is_stated_is_for_columns_of_norm_one"),
    _one("a broken run forgets the noise before", BANDED,
         "        for _ in range(step):\n            self._row(like)\n", "        self.generator.set_state(reached)\n",
         "tests/training/test_banded.py::test_a_broken_run_goes_on_with_the_same_noise"),
    _one("groups start again in a run that goes on", "sampling/cyclic.py", "self.first = step - self.count",
         "self.first = 0", "tests/sampling/test_cyclic.py::test_a_resumed_run_goes_on_with_its_group"),
    _one("gradients are scaled by the batch's own", SCALED, "        scales = released_scales(self.optimizer)\n",
         "        ones = [torch.ones_like(one) for one in self.network.parameters()]\n"
         "        raw = scaled_clipped_sum(self.network, self.features, self.labels, nodes, clip_norm, ones)\n"
         "        scales = [1 / (one.abs() + one.abs().mean() + 1e-9) for one in raw]\n",
         SCALED_TEST + "test_scales_follow_from_what_was_released_alone"),
    _one("clipped before they are scaled", SCALED, "rows.square() @ of_weights.square().T + of_bias.square()",
         "rows.square().sum(1, keepdim=True) + 1",
         SCALED_TEST + "test_the_sum_is_of_scaled_gradients_of_norm_at_most_c"),
)  # fmt: skip

SECRET, FITTED, OF_SECRET = "fitting/secret.py", "tests/fitting/test_fit.py::", "tests/fitting/test_secret.py::"
ALL_NOISE = FITTED + "test_all_noise_is_what_was_accounted_for_and_a_little_more"
OWN_GRAPHS = (
    _one("noise / 1.3 on the mean of the rows", BUCKETS, "on(row_sum(features), std,",
         "on(row_sum(features), std / 1.3,", ALL_NOISE),
    _one("rows of the mean keep their norms", "methods/votes/rows.py",
         "rows = unit_rows(features[start : start + ROWS])",
         "rows = np.nan_to_num(np.array(features[start : start + ROWS], dtype=np.float64))",
         VOTED + "test_a_record_moves_the_sum_of_the_rows_by_at_most_one_and_the_sum_is_exact"),
    _one("rows centred by the exact mean", BUCKETS, "RowMean(noisy, std,", "RowMean(row_sum(features), std,",
         FITTED + "test_the_released_mean_of_the_rows_has_its_noise_and_says_how_records_are_read"),
    _one("the mean of the rows is free", VOTES_EPSILON, "math.hypot(mean_mu, votes_mu), choice_epsilon",
         "votes_mu, choice_epsilon", OF_VOTES + "test_every_part_costs"),
    _one("noise / 1.3 in a release", SECRET, "raised = std * (1 + RAISED)", "raised = std / 1.3", ALL_NOISE),
    _one("a choice for a release at twice its epsilon", SECRET, "mpmath.mpf(epsilon) *", "2 * mpmath.mpf(epsilon) *",
         OF_SECRET + "test_a_choice_has_the_probabilities_of_the_exponential_mechanism"),
    _one("a release from a seed", SECRET, 'if role not in ("batches", "choice of the reader"):',
         'if role == "edge lists":', OF_SECRET + "test_a_release_takes_no_seed_and_no_sum_off_the_grid"),
    _one("a card without its choice", "fitting/budget.py", "return self.mechanism.choice_epsilon", "return 0.0",
         FITTED + "test_every_part_of_a_release_is_charged[True]"),
)  # fmt: skip

TUPLES, DRAWN, OF_TUPLES = "preparation/relations.py", "sampling/tuples.py", "training/tuples.py"
TOWERS, HEADS, OF_RELATIONS = (
    "training/tower_clipping.py",
    "training/relation_heads.py",
    "privacy/mechanisms/relations.py",
)
PAIR = "privacy/accountants/relational.py"
TRAINED, SAMPLED, RELATED = (
    "tests/training/test_tuples.py::",
    "tests/sampling/test_tuples.py::",
    "tests/privacy/test_relation_mechanisms.py::",
)
TEXTS_OF_TOWERS, TEXT_TOWER = "tests/models/test_text_tower.py::", "models/text_tower.py"
FACTS_OF_TUPLES = "tests/audits/test_registry.py::test_the_code_keeps_its_claims[tuple-facts]"
RELATIONS = (
    _one("noise / 1.3 on tuples", TUPLES, "order.noise(order.noise_std)", "order.noise(order.noise_std / 1.3)",
         ran("dp-relation-head-rigorous")),
    _one("rate 2q on tuples", TUPLES, "mechanism.num_roots, mechanism.sampling_rate)",
         "mechanism.num_roots, min(1.0, 2 * mechanism.sampling_rate))", ran("dp-relation-head-rigorous")),
    _one("clip at 2C on tuples", TUPLES, "mechanism.shape.clipped, order.privacy.clip_norm",
         "mechanism.shape.clipped, 2 * order.privacy.clip_norm", ran("dp-relation-encoder-rigorous")),
    _one("tuples capped as published, accounted as stable", TUPLES, "if isinstance(mechanism, StaticTuples):",
         "if False:", ran("dp-relation-head-rigorous")),
    _one("one negative more than accounted", TUPLES, "Negatives(entities, mechanism.negatives,",
         "Negatives(entities, mechanism.negatives + 1,", ran("dp-relation-head-published")),
    _one("negatives with replacement", DRAWN, "replace=False, shuffle=True", "replace=True, shuffle=True",
         SAMPLED + "test_no_entity_is_a_negative_twice_in_a_batch"),
    _one("negatives in the order of their ids", DRAWN, "        return self.entities[chosen]",
         "        chosen = np.sort(chosen)\n        return self.entities[chosen]",
         SAMPLED + "test_negatives_are_uniform_at_every_place"),
    _one("an entity's tuples are not capped", DRAWN, "pairs[kept], Lists.CAPPED_TUPLES", "pairs, Lists.CAPPED_TUPLES",
         SAMPLED + "test_no_entity_is_in_too_many_tuples"),
    _one("counts of entities ignore the negatives", OF_TUPLES, "self.clip_norm / largest_counts(batch)",
         "self.clip_norm / largest_counts(batch[:, :2])", FACTS_OF_TUPLES),
    _one("one tuple's limit for all", OF_TUPLES, "self.clip_norm / largest_counts(batch)",
         "self.clip_norm / np.full(len(batch), largest_counts(batch).min(initial=1))", FACTS_OF_TUPLES),
    _one("noise on tuples after the optimiser", OF_TUPLES,
         "        self.noise.add(found.sums)\n        apply_gradient(self.optimizer, found.sums, self.divisor)",
         "        apply_gradient(self.optimizer, found.sums, self.divisor)\n        self.noise.add(found.sums)",
         FACTS_OF_TUPLES),
    _one("a divisor of the tuples drawn", OF_TUPLES, "apply_gradient(self.optimizer, found.sums, self.divisor)",
         "apply_gradient(self.optimizer, found.sums, float(max(1, len(batch))))", FACTS_OF_TUPLES),
    _one("factors of tuples above their limit", OF_TUPLES, "slack = 1 - 1e-6 if", "slack = 1 + 1e-3 if",
         TRAINED + "test_no_factor_lets_a_tuple_beyond_its_limit"),
    _one("ghost norms of towers without cross terms", TOWERS, "squares = grams.sum(dim=(1, 2))",
         "squares = torch.diagonal(grams, dim1=1, dim2=2).sum(dim=1)", TRAINED + "test_both_ways_to_a_norm_agree"),
    _one("norms of towers without biases", TOWERS,
         "squares = squares + slopes.sum(dim=1).square().sum(dim=1)", "pass",
         TRAINED + "test_a_perceptron_equals_autograd_whatever_the_chunks[1-infonce]"),
    _one("norms of a chunk's last layer only", TOWERS, "squares += self._squares(", "squares = self._squares(",
         TRAINED + "test_a_perceptron_equals_autograd_whatever_the_chunks[60-hinge]"),
    _one("norms of towers are not enlarged by rounding", TOWERS, "enlarged_norms(squares.clamp_min(0), scales)",
         "squares.clamp_min(0).sqrt()", TRAINED + "test_no_contribution_of_rounded_operands_is_beyond_its_limit"),
    _one("slopes of texts count for another tuple", TOWERS, "return rows[back].reshape(", "return rows.reshape(",
         TEXTS_OF_TOWERS + "test_clipped_sums_over_texts_equal_autograd"),
    _one("a text's state depends on its batch", TEXT_TOWER, "attention_mask=mask.long()",
         "attention_mask=torch.ones_like(ids)", TEXTS_OF_TOWERS + "test_padding_and_company_do_not_move_a_text"),
    _one("norms of heads without the loss' scale", HEADS, "norms = enlarged_norms((longest + inner) / 2, longest)",
         "norms = enlarged_norms((longest + inner) / 4, longest)", TRAINED + "test_heads_equal_autograd"),
    _one("norms of linear heads without the cross term", HEADS, "(squares + cross).clamp_min(0)",
         "squares.clamp_min(0)",
         TRAINED + "test_heads_equal_autograd"),
    _one("a leaving entity lets no tuple in", PAIR, "Mixture.binomial(count=refill, rate=rate)\n",
         "Mixture.binomial(count=0, rate=rate)\n", RELATED + "test_static_clipping_at_the_papers_size"),
    _one("negatives are free", PAIR, "min(1.0, size * negatives / nodes), unit=2.0", "0.0, unit=2.0",
         RELATED + "test_static_epsilon_moves_as_it_should"),
    _one("a negative moves by C", PAIR, "size * negatives / nodes), unit=2.0", "size * negatives / nodes), unit=1.0",
         RELATED + "test_static_clipping_at_the_papers_size"),
    _one("half the noise of Proposition 4.1", OF_RELATIONS, "SENSITIVITY: ClassVar[float] = 2.0",
         "SENSITIVITY: ClassVar[float] = 1.5", RELATED + "test_noise_is_that_of_the_claimed_sensitivity"),
)  # fmt: skip

TEACHERS, GNMAX = "training/teachers.py", "privacy/gnmax.py"
RELEASED, STUDENT = "preparation/teachers.py", "training/students.py"
TAUGHT, ANSWERED, STUDENTS = (
    "tests/preparation/test_teachers.py::",
    "tests/privacy/test_gnmax.py::",
    "tests/training/test_students.py::",
)
PATE = (
    _one("teachers share images", TEACHERS, ".astype(np.int64) + starts[:-1, None]", ".astype(np.int64)",
         TRAINED.replace("tuples", "teachers") + "test_a_record_moves_one_teacher_only"),
    _one("parts by the order of those who train", TEACHERS,
         "train[np.argsort(parts[train], kind=\"stable\")]", "train",
         TRAINED.replace("tuples", "teachers") + "test_parts_are_disjoint_and_by_public_ids"),
    _one("votes without noise", GNMAX, "return votes + noise_std * generator", "return votes + 0.0 * generator",
         ANSWERED + "test_laws_of_checks_and_answers"),
    _one("checks without noise", GNMAX, "return votes.max(axis=1) + noise_std * generator",
         "return votes.max(axis=1) + 0.0 * generator", ANSWERED + "test_laws_of_checks_and_answers"),
    _one("checks with the answers' noise", RELEASED, "check, answer = mechanism.check_ratio * sigma, sigma",
         "check, answer = sigma, sigma", ran("dp-pate-gan")),
    _one("answers with half their noise", RELEASED, "check, answer = mechanism.check_ratio * sigma, sigma",
         "check, answer = mechanism.check_ratio * sigma, sigma / 2", ran("dp-pate-gan")),
    _one("answers over the cap", GNMAX, "np.flatnonzero(passed)[:max_answers]",
         "np.flatnonzero(passed)[: 2 * max_answers]", ANSWERED + "test_caps_stop_the_run"),
    _one("checks over the cap", GNMAX, "votes[:max_checks], check_noise_std", "votes, check_noise_std",
         ANSWERED + "test_caps_stop_the_run"),
    _one("threshold from the votes", RELEASED, "threshold=self.threshold,",
         "threshold=float(np.median(self.votes().max(axis=0))),", TAUGHT + "test_the_threshold_is_public"),
    _one("noise that two releases share", RELEASED,
         "digest([mechanism.chosen, astuple(self.plan), self.threshold], 32)", "digest([astuple(self.plan)], 32)",
         TAUGHT + "test_each_release_has_noise_of_its_own"),
    _one("votes of other records from the cache", RELEASED, "for array in (features, labels, np.array(records.split))",
         "for array in (features, np.array(records.split))", TAUGHT + "test_kept_votes_are_of_these_records_only"),
    _one("an answer moves by 1", "privacy/accountants/pate.py", "checks / sigma_threshold**2 + 2 * answers",
         "checks / sigma_threshold**2 + answers",
         "tests/privacy/test_gnmax_mechanism.py::test_rigorous_epsilon_is_that_of_the_library"),
    _one("removed labels are learnt from", STUDENT, "& (phase == 1)", "& (phase == 2)",
         STUDENTS + "test_cleansing_begins_anew_without_the_removed_labels"),
)  # fmt: skip

NODE_TEACHERS, NODES_RELEASED = "training/node_teachers.py", "preparation/node_teachers.py"
OF_NODES, NODES_TAUGHT = "tests/training/test_node_teachers.py::", "tests/preparation/test_node_teachers.py::"
NODE_PATE = (
    _one("edges between parts of the nodes", NODE_TEACHERS, "(parts[owners] == parts[found])", "(parts[owners] >= 0)",
         OF_NODES + "test_edges_between_parts_are_in_no_view"),
    _one("a query reads neighbours in all views", NODE_TEACHERS,
         "view_of[found[read]] + whole[2][read]", "size + whole[2][read]",
         OF_NODES + "test_a_node_of_any_degree_moves_one_teacher_only"),
    _one("teachers on nodes share the first part", NODE_TEACHERS, "mine = ids[starts[first] : starts[last]]",
         "mine = ids[: starts[last] - starts[first]]",
         OF_NODES + "test_each_teacher_is_what_it_is_alone_on_its_view"),
    _one("parts of nodes by their rows", NODE_TEACHERS, "parts[train], kind=\"stable\"",
         "rows[train, 0].numpy(), kind=\"stable\"", OF_NODES + "test_a_node_of_any_degree_moves_one_teacher_only"),
    _one("axes of private nodes", NODES_RELEASED, "principal_axes(features[torch.from_numpy(queries)], components)",
         "principal_axes(features, components)",
         NODES_TAUGHT + "test_neither_classes_of_public_nodes_nor_tested_nodes_are_read"),
    _one("classes of public nodes teach", NODES_RELEASED, "np.flatnonzero(np.asarray(graph.split) == TRAIN)",
         "np.flatnonzero(np.asarray(graph.split) <= VALIDATION)",
         NODES_TAUGHT + "test_neither_classes_of_public_nodes_nor_tested_nodes_are_read"),
    _one("answers on nodes with half their noise", RELEASED, "check, answer = mechanism.check_ratio * sigma, sigma",
         "check, answer = mechanism.check_ratio * sigma, sigma / 2", ran("dp-node-pate-means")),
    _one("both kinds of teachers on nodes share noise", NODES_RELEASED, "reads=told.teacher_reads,", "reads=\"own\",",
         NODES_TAUGHT + "test_each_release_has_noise_of_its_own"),
)  # fmt: skip

SUMMED, OF_SUMS = "methods/aggregates/sums.py", "tests/methods/test_aggregates.py::"
SUMS_RUN, SUMS_MECHANISM = "methods/aggregates/prepared.py", "privacy/mechanisms/aggregates.py"
SUMS = (
    _one("capped by readers", SUMMED, "smallest_in_group(owners, lists.indices,",
         "smallest_in_group(lists.indices, owners,",
         OF_SUMS + "test_nobody_sends_to_more_than_the_cap_and_the_choice_is_of_the_own_list_alone[3]"),
    _one("nodes without a record send", SUMMED, "unit[~self.sends] = 0", "pass",
         OF_SUMS + "test_each_node_receives_the_rows_of_all_that_list_it[0]"),
    _one("rows of sums keep their norms", SUMMED, "unit = unit_rows(rows)", "unit = np.nan_to_num(np.array(rows))",
         OF_SUMS + "test_a_null_record_moves_capped_sums_by_at_most_the_root_of_the_cap[0-1]"),
    _one("noise of sums without the root of the cap", SUMS_RUN, "std = mechanism.sums_noise * self.sensitivity",
         "std = mechanism.sums_noise",
         OF_SUMS + "test_noise_of_a_sum_is_the_root_of_the_cap_times_that_of_a_step[rigorous]"),
    _one("validation labels make a record", SUMS_RUN, "(np.asarray(graph.split) == TRAIN) & (", "(",
         OF_SUMS + "test_who_sends_reads_no_list_and_no_validation_label"),
    _one("sums are free", SUMS_MECHANISM, "return math.sqrt(self.aggregations) / self.sums_noise", "return 1e-9",
         OF_SUMS + "test_full_batches_are_one_gaussian_mechanism"),
    _one("an edge is in one list", SUMS_MECHANISM, "BOTH_ENDS = math.sqrt(2)", "BOTH_ENDS = 1.0",
         OF_SUMS + "test_an_edge_is_charged_in_both_lists"),
    _one("sums are not counted", SUMS_RUN, "        self.count += 1", "        self.count = 1",
         OF_SUMS + "test_one_more_sum_than_accounted_is_refused[dp-gap-node-remove]"),
)  # fmt: skip

VECTORS, OF_VECTORS = "methods/aggregates/embedding.py", "tests/methods/test_embedding.py::"
VECTORS_MECHANISM = "privacy/mechanisms/embedding.py"
EMBEDDED = (
    _one("noise of vectors is that of the classifier", VECTORS, 'order.names("noise of the embedding")',
         'order.names("noise")', OF_VECTORS + "test_the_two_kinds_of_steps_have_noise_and_batches_of_their_own"),
    _one("a gradient on lists is clipped as one copy", VECTORS, "norms = slopes.norm(dim=1) * copies.sqrt()",
         "norms = slopes.norm(dim=1)",
         OF_VECTORS + "test_a_null_record_changes_its_own_root_and_those_that_it_sends_to[0-2]"),
    _one("a step of vectors is charged the root of the cap", VECTORS_MECHANISM,
         "math.sqrt(first) * (2 * roots - 1) / self.embedding_noise", "math.sqrt(first * roots) / self.embedding_noise",
         OF_VECTORS + "test_full_batches_are_one_gaussian_mechanism"),
    _one("steps of vectors are free under Poisson batches", VECTORS_MECHANISM,
         "Together((Repeated(many, first), released))", "released",
         OF_VECTORS + "test_epsilon_of_poisson_batches_is_that_of_the_composition"),
    _one("predictions read lists before the sum", "methods/aggregates/train.py",
         "        if stage == 0:\n            return self.rows\n",
         "        if stage == 0:\n            return self.rows + self.prepared.graph.out_ptr[-1]\n",
         OF_VECTORS + "test_no_list_reaches_a_prediction_before_the_sum"),
)  # fmt: skip

UNITS_RUN, UNITS_DRAWN = "preparation/units.py", "sampling/units.py"
UNITS_STEP, UNITS_MECHANISM = "training/units.py", "privacy/mechanisms/units.py"
UNITS = (
    _one("noise / 1.3 over units", UNITS_RUN, PREPARED_NOISE, WEAKER_NOISE, ran("dp-units-class")),
    _one("batches of units twice as large", UNITS_RUN, "PoissonSampler(count, mechanism.sampling_rate)",
         "PoissonSampler(count, min(1.0, 2 * mechanism.sampling_rate))", ran("dp-units-subclass")),
    _one("k-means as a public partition", UNITS_RUN, "if isinstance(mechanism, ClusterUnits):",
         "if isinstance(mechanism, SubclassUnits):", ran("dp-units-subclass")),
    _one("units are not clipped", UNITS_STEP, "torch.where(norms <= clip_norm,", "torch.where(norms > 0,",
         "tests/training/test_units.py::test_rows_are_clipped_one_by_one"),
    _one("images of a unit are summed", UNITS_DRAWN, "(held / sizes[:, None]).astype", "held.astype",
         "tests/sampling/test_units.py::test_all_images_of_a_unit_with_equal_weights"),
    _one("a replaced class is charged as one that leaves", UNITS_MECHANISM, "mu=2 * math.sqrt(steps)",
         "mu=math.sqrt(steps)", "tests/privacy/test_unit_mechanisms.py::"
         "test_all_classes_in_each_step_are_a_gaussian_mechanism"),
    _one("reconstructions hold the mean of the images", "methods/image_networks.py", "Inversion(found.cpu().numpy())",
         "Inversion(found.cpu().numpy() + images.features.mean(axis=0))",
         "tests/methods/test_units.py::test_reconstructions_read_the_parameters_alone[strong]"),
)  # fmt: skip

STREAMED = (
    _one(
        "a node in a list twice gets two votes from a stream",
        "methods/votes/stream.py",
        "keys = keys[np.diff(keys, prepend=-1) > 0]",
        "keys = keys[np.diff(keys, prepend=-1) >= 0]",
        "tests/methods/test_vote_stream.py::test_one_pass_over_shards_is_the_whole_graph",
    ),
)

CAPTURED = (
    _one(
        "noise of std / 1.3 in a captured step",
        "training/captured/step.py",
        "alpha=float(noise.std))",
        "alpha=float(noise.std) / 1.3)",
        PROGRAM + "test_a_step_is_clip_noise_divide_and_update",
    ),
    _one(
        "roots without a slot are left out",
        "training/captured/step.py",
        "        if ahead.fits[index]:",
        "        if ahead.fits:",
        PROGRAM + "test_a_batch_without_a_slot_for_each_root_is_exact[(1, 12)-adam]",
    ),
    _one(
        "draws of a captured step are not counted",
        "training/captured/step.py",
        "            slots.term.draws.count += 1",
        "            slots.term.draws.count += 0",
        "tests/methods/test_captured.py::test_what_ran_is_what_was_accounted_for[dp-gnn-1-rigorous]",
    ),
    _one(
        "a captured program keeps numbers that have changed",
        "training/captured/step.py",
        "        if self._baked != self._numbers():",
        "        if self._baked is None:",
        PROGRAM + "test_numbers_that_change_after_the_capture_are_refused",
    ),
    _one(
        "roots of a tree that is not finite are summed in slots",
        "training/captured/gradients.py",
        "            gradients = gradients.masked_fill(lost, 0)",
        "            gradients = gradients.masked_fill(lost & False, 0)",
        PROGRAM + "test_a_record_that_is_not_finite_leaves_its_readers_out[1-nan-gcn]",
    ),
    _one(
        "rows of trees in slots are not scaled by clip factors",
        "training/captured/gradients.py",
        "gradients * self.layout.per_row(factors).unsqueeze(1)",
        "gradients * self.layout.per_row(factors).unsqueeze(1).sign()",
        PROGRAM + "test_sums_are_those_of_the_step_it_stands_for[trees-('gcn', 1, 1, 2, 'tanh')]",
    ),
    _one(
        "padding of slots counts as a row",
        "training/captured/slot_batch.py",
        "(layout.columns[:width] < self.sizes[own])",
        "(layout.columns[:width] <= self.sizes[own])",
        PROGRAM + "test_sums_are_those_of_the_step_it_stands_for[trees-('gin', 1, 2, 1, 'relu')]",
    ),
    _one(
        "both terms of a captured step draw one batch",
        "sampling/philox.py",
        "torch.full_like(pairs, stream)",
        "torch.full_like(pairs, 0)",
        PROGRAM + "test_terms_draw_independent_batches",
    ),
    _one(
        "batches of a resumed run begin again",
        "sampling/philox.py",
        "torch.arange(first, first + steps, device=like.device)",
        "torch.arange(0, steps, device=like.device)",
        PROGRAM + "test_it_goes_on_where_it_was[3]",
    ),
    _one(
        "batches of a resumed run that is averaged begin again",
        "training/averaging.py",
        "            self.step.start_at(step)",
        "            self.step.start_at(0)",
        PROGRAM + "test_a_step_that_was_not_told_where_it_starts_is_refused",
    ),
)

REPLAYED = (
    _one(
        "a captured program keeps the batch of its capture",
        "training/captured/step.py",
        "                slots.row.copy_(drawn.ranks[index])",
        "                slots.row = drawn.ranks[index]",
        PROGRAM + "test_what_is_replayed_is_the_step[mlp-adam]",
    ),
    _one(
        "a captured program keeps the noise of its first step",
        "training/captured/step.py",
        "        self.noise.normal_(generator=noise.generator)",
        "        if not self._warm:\n            self.noise.normal_(generator=noise.generator)",
        PROGRAM + "test_what_is_replayed_is_the_step[residual-sgd]",
    ),
    _one(
        "a step without slots leaves the buffers of the captured program",
        "training/captured/step.py",
        'of a batch of any size."""\n        self.flat.zero_()',
        'of a batch of any size."""\n        self.sums = {p: torch.zeros_like(p) for p in self.sums}',
        PROGRAM + "test_what_is_replayed_is_the_step[gcn-sgd]",
    ),
    _one(
        "Adam of a captured step counts on the host",
        "training/optimizers.py",
        "_eager(torch.optim.Adam)(parameters, capturable=capturable, **moments, **shared)",
        '_eager(torch.optim.Adam)(parameters, capturable=False, **{**moments, "fused": None}, **shared)',
        PROGRAM + "test_what_is_replayed_is_the_step[mlp-adam]",
    ),
    _one(
        "a step whose optimiser counts on the host is captured",
        "training/captured/step.py",
        'group.get("capturable") is False',
        'group.get("capturable") is None',
        PROGRAM + "test_what_is_not_captured",
    ),
    _one(
        "the host reads losses in a captured program",
        "training/captured/step.py",
        "            _, factors, finite = clip_factors(by_layer, losses, self.column, limits)",
        "            _, factors, finite = clip_factors(by_layer, losses, self.column, limits)\n"
        "            float(losses.sum())",
        PROGRAM + "test_shapes_are_fixed_and_the_host_reads_nothing[('gcn', 1, 1, 2, 'tanh')]",
    ),
    _one(
        "slots are as many as the longest list needs",
        "training/captured/step.py",
        "        list_cap=lists.list_cap,",
        "        list_cap=None if alone else int(np.diff(term.trees.row_ptr[-1]).max()) - 1,",
        PROGRAM + "test_slots_follow_from_public_numbers_alone",
    ),
    _one(
        "roots that a class has no slots for are left out",
        "sampling/slots.py",
        "        start = end",
        "        start = upto[:, index]",
        SLOTS,
    ),
    _one(
        "batches of more roots than slots are called fitting",
        "sampling/slots.py",
        "drawn[:, -1] > start, drawn[:, -1])",
        "drawn[:, -1] < start, drawn[:, -1])",
        SLOTS,
    ),
    _one(
        "a class takes roots that are wider than its slots",
        "sampling/slots.py",
        "        end = torch.minimum(upto[:, index], start + count)",
        "        end = torch.minimum(drawn[:, -1], start + count)",
        SLOTS,
    ),
    _one(
        "nine rounds of Philox",
        "sampling/philox.py",
        "ROUNDS = 10",
        "ROUNDS = 9",
        "tests/sampling/test_philox.py::test_known_answers",
    ),
    _one(
        "batches of a captured step are drawn on the host",
        "sampling/philox.py",
        "torch.arange((num_roots + 1) // 2, device=like.device)",
        "torch.arange((num_roots + 1) // 2)",
        PROGRAM + "test_batches_are_drawn_where_the_step_is",
    ),
)

MUTANTS = (
    *NOISE,
    *SAMPLING,
    *CLIPPED,
    *BOUNDS,
    *RUNS,
    *ACCOUNTING,
    *VOTES,
    *OWN_GRAPHS,
    *RELATIONS,
    *SUMS,
    *EMBEDDED,
    *PATE,
    *NODE_PATE,
    *UNITS,
    *CAPTURED,
    *REPLAYED,
    *STREAMED,
    *BANDS,
)
