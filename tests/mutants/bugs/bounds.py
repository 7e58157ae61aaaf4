"""Lists, columns and subgraphs of which one record changes more than is charged."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran

TREES = "dpgraph.families.trees.prepared:"
EDGE_LISTS = "dpgraph.engine.sampling.edge_lists:"
LIST_LOOPS = "dpgraph.engine.sampling.list_loops:"
OF_EDGE_LISTS = "tests/engine/sampling/test_edge_lists.py::"
OF_LOOPS = "tests/engine/sampling/test_loops.py::"

BUGS = (
    edit(
        "no degree cap",
        TREES + "stable_trees",
        "return pack_ego_trees(lists, roots, mechanism.hops, order.device)",
        "lists = __import__('dpgraph.engine.sampling.edge_lists', fromlist=['x']).full_edge_lists(graph, roots)\n"
        "return pack_ego_trees(lists, roots, mechanism.hops, order.device)",
        ran("dp-gnn-1-rigorous"),
    ),
    edit(
        "K + 1",
        TREES + "stable_trees",
        "stable_edge_lists(graph, roots, mechanism.max_degree, mechanism.list_cap, order.key('edge lists'))",
        "stable_edge_lists(graph, roots, mechanism.max_degree + 1, mechanism.list_cap, order.key('edge lists'))",
        ran("dp-gnn-2-rigorous"),
    ),
    edit(
        "D + 1",
        TREES + "stable_trees",
        "stable_edge_lists(graph, roots, mechanism.max_degree, mechanism.list_cap, order.key('edge lists'))",
        "stable_edge_lists(graph, roots, mechanism.max_degree, mechanism.list_cap + 1, order.key('edge lists'))",
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "Algorithm 1 for the stable sampler",
        TREES + "stable_trees",
        "stable_edge_lists(graph, roots, mechanism.max_degree, mechanism.list_cap, order.key('edge lists'))",
        "sample_edge_lists(graph, roots, mechanism.max_degree, order.generator('edge lists'))",
        ran("dp-gnn-1-rigorous"),
    ),
    edit(
        "nobody is refused by the sampler",
        EDGE_LISTS + "_stable",
        "pack_lists(graph.num_nodes, owners[accepted], members[accepted])",
        "pack_lists(graph.num_nodes, owners, members)",
        ran("dp-gnn-1-rigorous-fixed-size"),
    ),
    edit(
        "proposals are not cut",
        EDGE_LISTS + "_stable",
        "owners, members = (owners[proposed], members[proposed])",
        "",
        OF_EDGE_LISTS + "test_stability_on_named_shapes[1-1-1-hubs]",
    ),
    edit(
        "priorities read the number of proposals",
        EDGE_LISTS + "smallest_in_group",
        "_priorities(group, elements[entries], key, purpose)",
        "_priorities(group, elements[entries], key + len(groups), purpose)",
        OF_EDGE_LISTS + "test_stability_on_named_shapes",
    ),
    edit(
        "nobody is refused by the compiled sampler",
        LIST_LOOPS + "accept",
        "_smallest(grouped[begin:place[node]], most, heap)",
        "LARGEST",
        OF_LOOPS + "test_lists_of_hubs_equal_those_of_array_operations",
    ),
    edit(
        "compiled priorities read the number of proposals",
        LIST_LOOPS + "accept",
        "_pad(member, seed)",
        "_pad(member, seed + np.uint64(len(members)))",
        OF_LOOPS + "test_lists_of_hubs_equal_those_of_array_operations",
    ),
    edit(
        "compiled proposals are the first of a list",
        LIST_LOOPS + "propose",
        "_priority(pad, listed[i])",
        "i",
        OF_LOOPS + "test_lists_of_hubs_equal_those_of_array_operations",
    ),
    edit(
        "self terms read their neighbours",
        TREES + "PreparedTrees.__init__",
        "_alone(order, mechanism.hops)",
        "stable_trees(order, mechanism)",
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "columns keep one entry more",
        "dpgraph.families.pagerank.release:cap_columns",
        "place < column_cap",
        "place <= column_cap",
        ran("dp-appr-random-rigorous"),
    ),
    edit(
        "a node's own loss is not counted beside the rows that name it",
        "dpgraph.families.pagerank.mechanism:FixedBatchPagerank.affected_roots",
        "self.rows + 1",
        "self.rows",
        "tests/families/pagerank/test_mechanism.py::test_roots_without_a_row_join_the_batches_and_not_the_release",
    ),
    edit(
        "the scales of private rows reach the rows alone",
        "dpgraph.families.pagerank.mechanism:FixedBatchPagerank.affected_roots",
        "self.num_roots if self.release == 'exact' else self.rows + 1",
        "self.rows + 1",
        "tests/families/pagerank/test_appr.py::test_the_scales_of_private_rows_reach_roots_without_a_row[exact]",
    ),
    edit(
        "columns are not capped",
        "dpgraph.families.pagerank.prepared:PreparedRows.__init__",
        "weights = cap_columns(weights, mechanism.column_cap, order.generator('column priorities'))",
        "pass",
        ran("dp-appr-gaussian-rigorous"),
    ),
    edit(
        "cut parts keep the edges between them",
        "dpgraph.families.subgraphs.prepared:source_of",
        "blocks.induced if always else steps.BlockCache(blocks.induced).block_of",
        "steps.BlockCache(blocks.masked).block_of",
        ran("dp-subgraph-3-cut"),
    ),
    edit(
        "an induced subgraph counts degrees outside",
        "dpgraph.engine.models.kipf:GraphBlocks.induced",
        "normalized(among)",
        "Csr(among.ptr, among.columns, self._normalized.take(nodes).values[kept], len(nodes))",
        "tests/engine/models/test_kipf.py::test_induced_blocks_read_nothing_else",
    ),
    edit(
        "messages when there should be none",
        "dpgraph.engine.training.clipping:neighbour_losses",
        "batch.without_messages()",
        "batch",
        "tests/engine/training/test_fused.py::test_sums_and_norms_are_those_of_autograd",
    ),
    edit(
        "messages in closed forms when there should be none",
        "dpgraph.engine.training.fused.network:neighbour_parts",
        "_classify(network, states.index_select(0, roots), batch.without_messages(), calls)",
        "_classify(network, states, batch, calls, index)",
        "tests/engine/training/test_clipping.py::test_self_and_neighbour_gradients",
    ),
)
