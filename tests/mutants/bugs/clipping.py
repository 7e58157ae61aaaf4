"""Norms that leave something out, factors above 1, and null records that have a gradient."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran, swap

SPARSE = "dpgraph.engine.models.sparse:"
KIPF = "dpgraph.engine.models.kipf:"
PARTS = "dpgraph.families.subgraphs.prepared:"
TREES = "dpgraph.families.trees.prepared:"
CLIPPING = "dpgraph.engine.training.clipping:"
INPUTS = "dpgraph.engine.training.fused.inputs:"
NETWORK = "dpgraph.engine.training.fused.network:"
RECORDS = "dpgraph.engine.training.fused.records:"
ROW_LOOPS = "dpgraph.engine.training.fused.row_loops:"
SHARED = "dpgraph.engine.training.fused.shared:"
PRECISION = "dpgraph.engine.training.precision:"
STACKED = "dpgraph.families.subgraphs.steps:"
STACKED_ROWS = "dpgraph.engine.training.closed_rows:"
ENGINE = "dpgraph.engine.training.opacus_engine:"
OF_ENGINE = "tests/engine/training/test_opacus_engine.py::"
OF_METHODS = "tests/contract/test_methods.py::"
OF_COMPONENTS = "tests/families/lots/test_components.py::"
OF_CLIPPING = "tests/engine/training/test_clipping.py::"
OF_FUSED = "tests/engine/training/test_fused.py::"
OF_KIPF_NODES = "tests/families/subgraphs/test_clipping.py::"
OF_PASSES = "tests/engine/training/test_passes.py::"
OF_SHARED = "tests/engine/training/test_shared.py::"
OF_SPARSE = "tests/engine/models/test_sparse.py::"
OF_STACKED = "tests/families/subgraphs/test_steps.py::"

BUGS = (
    edit(
        "records decide whether they are sparse",
        SPARSE + "sparse_rows",
        "_DENSITY.get() >= SPARSE_BELOW",
        "int(torch.count_nonzero(features)) >= SPARSE_BELOW * features.numel()",
        OF_SPARSE + "test_what_is_sparse",
    ),
    edit(
        "records decide whether their weighted rows are sparse",
        SPARSE + "Features.__init__",
        "_DENSITY.get() < DENSE_FROM",
        "np.count_nonzero(features) < DENSE_FROM * features.size",
        "tests/engine/models/test_kipf.py::test_features_are_sparse_where_few_are_declared_to_be_not_zero",
    ),
    edit(
        "lists decide what trees share",
        SHARED + "_read",
        "not bounds",
        "True",
        OF_SHARED + "test_of_bounded_lists_no_list_decides_what_is_shared",
    ),
    edit(
        "norms by Opacus without biases",
        ENGINE + "FormedGradients.squared_norms",
        "self.by_parameter.values()",
        "list(self.by_parameter.values())[:1]",
        OF_ENGINE + "test_a_record_contributes_at_most_the_clip_norm",
    ),
    edit(
        "Opacus clips rows of neighbourhoods",
        ENGINE + "opacus_gradients",
        "network.hops or trees.hops",
        "False",
        OF_ENGINE + "test_neighbourhoods_are_refused",
    ),
    edit(
        "Opacus in batches of fixed size",
        "dpgraph.config.cell:RecordBatches.check_engine",
        "variant not in known",
        "False",
        OF_ENGINE + "test_variants_that_opacus_does_not_have_are_refused",
    ),
    edit(
        "any epsilon of Opacus will do",
        ENGINE + "checked_epsilon",
        "calibration.statement.rigorous.epsilon or 0.0",
        "run.rigorous().epsilon",
        OF_ENGINE + "test_an_epsilon_that_is_not_opacus_stops_the_run",
    ),
    edit(
        "clip at 2C on ego trees",
        TREES + "PreparedTrees.__init__",
        "order.privacy.clip_norm",
        "2 * order.privacy.clip_norm",
        ran("dp-mlp-0-rigorous"),
    ),
    edit(
        "neighbours clipped at 2 C_n",
        TREES + "PreparedTrees.__init__",
        "mechanism.neighbour_clip * clip_norm",
        "2 * mechanism.neighbour_clip * clip_norm",
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "clip at 2C on subgraphs",
        PARTS + "PreparedParts.__init__",
        "order.privacy.clip_norm",
        "2 * order.privacy.clip_norm",
        ran("dp-subgraph-3-cut"),
    ),
    edit(
        "clip at 2C on rows",
        "dpgraph.families.pagerank.prepared:PreparedRows.closed",
        "self.clip_norm",
        "2 * self.clip_norm",
        ran("dp-appr-random-rigorous"),
    ),
    edit(
        "lots are not clipped",
        "dpgraph.families.lots.prepared:PreparedLots.__init__",
        "order.privacy.clip_norm if isinstance(mechanism, ShuffledLots) else math.inf",
        "math.inf",
        ran("dp-lots-0-published"),
    ),
    edit(
        "components of records of any length",
        "dpgraph.engine.preparation.rows:unit_rows",
        "scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)",
        "",
        OF_COMPONENTS + "test_a_record_that_becomes_null_moves_the_matrix_by_at_most_1",
    ),
    edit(
        "components without noise on half of the entries",
        "dpgraph.families.lots.prepared:noisy_moments",
        "noise.on(total, std, 0.0)",
        "total + np.triu(noise.on(total, std, 0.0) - total)",
        OF_COMPONENTS + "test_noise_is_on_every_entry_before_the_matrix_is_made_symmetric",
    ),
    edit(
        "components without a charge before the first step",
        "dpgraph.families.lots.mechanism:ComponentLots.at_step",
        "max(step, 1)",
        "step",
        "tests/families/lots/test_mechanism.py::test_predictions_before_the_first_step_read_components_and_are_charged_for"
        "_them",
    ),
    edit(
        "components without a charge",
        "dpgraph.families.lots.mechanism:ComponentLots.release_mu",
        "1 / self.components_noise",
        "0.0",
        "tests/families/lots/test_mechanism.py::test_the_release_of_components_is_charged",
    ),
    edit(
        "clip at 2C on nodes",
        STACKED + "Privatizer.node_factors",
        "self.clip_norm",
        "2 * self.clip_norm",
        OF_STACKED + "test_the_gradient_of_each_node_is_clipped",
    ),
    edit(
        "norms of nodes without their first layer",
        "dpgraph.families.subgraphs.steps:node_norms",
        "piece.squares(backs, found.slopes)",
        "0 * piece.squares(backs, found.slopes)",
        OF_KIPF_NODES + "test_norms_and_clipped_sums_are_those_of_single_nodes",
    ),
    edit(
        "norms of nodes without dropout",
        KIPF + "KipfNetwork._backward",
        "slopes if kept is None else slopes.mul_(kept)",
        "slopes",
        OF_KIPF_NODES + "test_norms_and_clipped_sums_are_those_of_single_nodes",
    ),
    edit(
        "inner products of nodes without biases",
        "dpgraph.engine.models.kipf:_with_products",
        "weights.new_ones",
        "weights.new_zeros",
        OF_KIPF_NODES + "test_norms_and_clipped_sums_are_those_of_single_nodes",
    ),
    edit(
        "subgraphs are not clipped",
        PARTS + "PreparedParts.__init__",
        "isinstance(mechanism, mechanisms.UnclippedSubgraphs)",
        "True",
        ran("dp-subgraph-1-rigorous"),
    ),
    edit(
        "factors above 1",
        CLIPPING + "clip_factors",
        "torch.clamp_max(limits / enlarged, 1)",
        "torch.clamp_max(limits / enlarged, 2)",
        OF_CLIPPING + "test_large_clip_norm_gives_the_plain_gradient",
    ),
    edit(
        "norms of the last layer only",
        CLIPPING + "_squared_norms",
        "squared[place] = squared[place] + norm",
        "squared[place] = norm",
        OF_CLIPPING + "test_clipped_sum_equals_loop_over_roots",
    ),
    edit(
        "norms without their rounding error",
        PRECISION + "enlarged_norms",
        "ROUNDING * torch.finfo(squared.dtype).eps",
        "0",
        OF_CLIPPING + "test_one_root_contributes_at_most_the_clip_norm",
    ),
    edit(
        "norms without what underflow takes",
        PRECISION + "with_underflow",
        "UNDERFLOW",
        "0.0",
        "tests/engine/training/test_underflow.py::test_a_far_record_of_a_sure_root_stays_within_the_clip_norm",
    ),
    swap(
        "norms without the rounding of operands",
        PRECISION + "OPERANDS",
        lambda _: 0.0,
        "tests/engine/training/test_ghost.py::test_a_clipped_contribution_of_rounded_operands_stays_within_the_clip_norm",
    ),
    edit(
        "products of another root's records",
        INPUTS + "TreeInputs.products",
        "ranks - begin",
        "0 * ranks",
        OF_FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "products of another root's records where sizes differ",
        INPUTS + "TreeInputs.products",
        "self._first[ranks]",
        "self._first[0 * ranks]",
        OF_FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "clip factors are left out of a sum by node",
        SHARED + "SharedNodes.add",
        "torch.mul(rows, factors.unsqueeze(1), out=own)",
        "own.copy_(rows)",
        OF_SHARED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "the weighted row of the first root for all of a sum by node",
        SHARED + "SharedNodes.add",
        "above.index + (self._filled - len(rows))",
        "0 * above.index",
        OF_SHARED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "the factor of the first row for all that a loop weighs",
        ROW_LOOPS + "weigh",
        "factors[i]",
        "factors[0]",
        OF_PASSES + "test_rows_times_factors_and_their_sum",
    ),
    edit(
        "lengths of gradients that leave out what tanh let through",
        ROW_LOOPS + "pull",
        "x = np.float64(given[k] * (one - states[k] * states[k]))\nrow[k] = x\nsquare += x * x",
        "x = np.float64(given[k] * (one - states[k] * states[k]))\nrow[k] = x\nsquare += 0.0",
        OF_PASSES + "test_gradients_through_an_activation_and_their_lengths",
    ),
    edit(
        "clip factors of the first root for all rows of a sum by node",
        ROW_LOOPS + "add_rows",
        "factors[v]",
        "factors[0]",
        OF_SHARED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "norms of shared rows without the activation's derivative",
        INPUTS + "SharedGradients.squared_norms",
        "inputs.norms(self.rows.ranks, sizes, kind, output, self._read)",
        "inputs.norms(self.rows.ranks, sizes, 0, output, self._read)",
        OF_SHARED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "norms without what two rows of a root have in common",
        ROW_LOOPS + "norms",
        "2.0 * products[place + i * size + j]",
        "0.0",
        OF_SHARED + "test_norms_by_a_loop_are_those_of_products",
    ),
    edit(
        "a lost root stays in a sum by node",
        SHARED + "SharedNodes.add",
        "above.rows if finite is None else above.rows.masked_fill(~finite.unsqueeze(1), 0)",
        "above.rows",
        OF_SHARED + "test_roots_that_are_lost_leave_the_others_alone",
    ),
    edit(
        "a record that only lost roots read stays in a sum by node",
        SHARED + "SharedNodes.add_weighted",
        "if self._lost: ...",
        "if False: ...",
        OF_SHARED + "test_roots_that_are_lost_leave_the_others_alone",
    ),
    edit(
        "sums by node where operands are rounded",
        SHARED + "groups",
        "not len(network.encoder.layers) or not trees.hops or features.is_cuda or operand_eps(features)",
        "not len(network.encoder.layers) or not trees.hops or features.is_cuda",
        OF_SHARED + "test_nodes_are_shared_where_that_pays",
    ),
    edit(
        "sparse records are not scaled",
        RECORDS + "SparseRows.add_weighted",
        "factors is not None",
        "factors is None",
        OF_FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "sparse records of lost roots stay",
        RECORDS + "SparseRows.add_weighted",
        "finite is not None and (not bool(finite.all()))",
        "False",
        OF_FUSED + "test_known_products_do_not_hide_a_record_that_is_not_finite",
    ),
    edit(
        "norms of the values' heads without the keys'",
        "dpgraph.engine.training.fused.layers:Calls.gradients",
        "self.attention.items()",
        "list(self.attention.items())[:1]",
        OF_FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "what neighbours add, with the root's own gradient added",
        NETWORK + "neighbour_parts",
        "of_own.neg_()",
        "of_own",
        OF_FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "roots without a finite gradient count",
        CLIPPING + "clip_factors",
        "torch.clamp_max(limits / enlarged, 1).masked_fill_(~finite.unsqueeze(1), 0)",
        "torch.clamp_max(limits / enlarged, 1)",
        OF_CLIPPING + "test_root_without_finite_gradient_contributes_nothing",
    ),
    edit(
        "a subgraph's tensors are clipped alone",
        STACKED + "Privatizer._clip",
        "torch.linalg.vector_norm(gradient, dtype=torch.float64)",
        "torch.linalg.vector_norm(gradient[:self.size // 2], dtype=torch.float64)",
        OF_STACKED + "test_all_parameters_are_clipped_as_one_vector",
    ),
    edit(
        "the squares of a subgraph's gradient are summed in float32",
        STACKED + "Privatizer._clip",
        "torch.linalg.vector_norm(gradient, dtype=torch.float64)",
        "torch.linalg.vector_norm(gradient)",
        OF_STACKED + "test_a_gradient_of_many_equal_numbers_stays_within_the_clip_norm[0.7331]",
    ),
    edit(
        "inner products of rows are summed in float32",
        "dpgraph.engine.models.products:inner_products",
        "part.double()",
        "part",
        "tests/engine/training/test_ghost.py::test_wide_equal_rows_that_cancel_have_their_norm[gram_form-8415]",
    ),
    edit(
        "a subgraph's infinite gradient stays",
        STACKED + "Privatizer._clip",
        "gradient.nan_to_num_(nan=0.0)",
        "pass",
        OF_STACKED + "test_a_gradient_that_is_not_finite_stays_within_the_clip_norm",
    ),
    edit(
        "a subgraph's gradient is scaled by a number of few digits",
        STACKED + "Privatizer._clip",
        "factor.masked_fill_(factor < torch.finfo(factor.dtype).tiny, 0)",
        "factor",
        OF_STACKED + "test_a_gradient_whose_factor_is_subnormal_contributes_nothing[1.4e+38-0.0001]",
    ),
    edit(
        "a lot's gradient is scaled by a number of few digits",
        "dpgraph.families.lots.prepared:clipped",
        "factor >= torch.finfo(factor.dtype).tiny",
        "torch.isfinite(norm)",
        "tests/families/lots/test_lots.py::test_a_gradient_that_is_not_finite_contributes_nothing",
    ),
    edit(
        "rows: decoder's norm left out",
        STACKED_ROWS + "_clip_factors",
        "(squared + last).to(delta.dtype)",
        "squared.to(delta.dtype)",
        "tests/engine/training/test_closed_rows.py::test_no_root_adds_more_than_the_clip_norm",
    ),
    edit(
        "a lot's tensors are clipped alone",
        "dpgraph.families.lots.prepared:clipped",
        "torch.stack([torch.linalg.vector_norm(part, dtype=torch.float64) for part in gradient]).norm()",
        "torch.linalg.vector_norm(gradient[0], dtype=torch.float64)",
        "tests/families/lots/test_lots.py::test_a_gradient_that_is_not_finite_contributes_nothing",
    ),
    edit(
        "a null record has a loss in the engine",
        CLIPPING + "root_cross_entropy",
        "nn.functional.cross_entropy(logits, labels, reduction='none', ignore_index=NO_LABEL)",
        "nn.functional.cross_entropy(logits, labels, reduction='none', ignore_index=-7)",
        OF_FUSED + "test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "a null record has a gradient in closed forms",
        NETWORK + "cross_entropy",
        "gradient.masked_fill_(none.unsqueeze(1), 0)",
        "gradient",
        OF_METHODS + "test_a_null_record_has_no_gradient",
    ),
    edit(
        "a null record has a loss on subgraphs",
        KIPF + "KipfNetwork._backward",
        "delta.masked_fill_(block.labels < 0, 0)",
        "delta",
        "tests/engine/models/test_kipf.py::test_a_node_without_label_has_no_loss",
    ),
    edit(
        "a null record has a loss on rows",
        STACKED_ROWS + "write_gradient",
        "error.masked_fill_((batch.labels < 0).unsqueeze(1), 0)",
        "error",
        OF_METHODS + "test_a_null_record_has_no_gradient",
    ),
)
