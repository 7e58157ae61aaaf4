"""Noisy sums over neighbours, and vectors of nodes that are learnt."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

EMBEDDING = "dpgraph.families.aggregates.embedding:"
PREPARED = "dpgraph.families.aggregates.prepared:"
SUMS = "dpgraph.families.aggregates.prepared:"
AGGREGATES = "dpgraph.families.aggregates.mechanism:"
MECHANISMS_EMBEDDING = "dpgraph.families.aggregates.embedding_mechanism:"
OF_AGGREGATES = "tests/families/aggregates/test_aggregates.py::"
OF_EMBEDDING = "tests/families/aggregates/test_embedding.py::"

EDGE_VOTES = "dpgraph.families.aggregates.edge_votes:"
OF_EDGE_VOTES = "tests/families/aggregates/test_edge_votes.py::"

BUGS = (
    edit(
        "edge votes are received without noise",
        EDGE_VOTES + "EdgeVoteStages.rows_of",
        "self.prepared.sums.release(votes.double().cpu().numpy())",
        "self.prepared.sums.senders.received(votes.double().cpu().numpy())",
        OF_EDGE_VOTES + "test_one_noisy_sum_of_votes_is_released",
    ),
    edit(
        "edge votes: a training node's scores are those of a network that was trained with it",
        EDGE_VOTES + "EdgeVoteStages.own_scores",
        "each[self.fold, self.train_nodes]",
        "each[1 - self.fold, self.train_nodes]",
        OF_EDGE_VOTES + "test_own_scores_are_of_networks_trained_without_the_node",
    ),
    edit(
        "everything may be published although predictions read the raw graph",
        AGGREGATES + "EdgeAggregates.scope",
        "self.inference is PredictionInput.OWN_RECORD",
        "True",
        OF_EDGE_VOTES + "test_everything_may_be_published_unless_predictions_read_the_raw_graph",
    ),
    edit(
        "capped by readers",
        SUMS + "Senders.capped",
        "smallest_in_group(owners, lists.indices, receivers, len(sends), key, PROPOSE)",
        "smallest_in_group(lists.indices, owners, receivers, len(sends), key, PROPOSE)",
        OF_AGGREGATES + "test_nobody_sends_to_more_than_the_cap_and_the_choice_is_of_the_own_list_alone[3]",
    ),
    edit(
        "nodes without a record send",
        SUMS + "Senders.received",
        "unit[~self.sends] = 0",
        "pass",
        OF_AGGREGATES + "test_each_node_receives_the_rows_of_all_that_list_it[0]",
    ),
    edit(
        "rows of sums keep their norms",
        SUMS + "Senders.received",
        "unit_rows(rows)",
        "np.nan_to_num(np.array(rows))",
        OF_AGGREGATES + "test_a_null_record_moves_capped_sums_by_at_most_the_root_of_the_cap[0-1]",
    ),
    edit(
        "noise of sums without the root of the cap",
        PREPARED + "PreparedAggregates.__init__",
        "mechanism.sums_noise * self.sensitivity",
        "mechanism.sums_noise",
        OF_AGGREGATES + "test_noise_of_a_sum_is_the_root_of_the_cap_times_that_of_a_step[rigorous]",
    ),
    edit(
        "validation labels make a record",
        PREPARED + "with_record",
        "(np.asarray(graph.split) == TRAIN) & (np.asarray(graph.labels) >= 0)",
        "np.asarray(graph.labels) >= 0",
        OF_AGGREGATES + "test_who_sends_reads_no_list_and_no_validation_label",
    ),
    edit(
        "sums are free",
        AGGREGATES + "NodeAggregates.release_mu",
        "math.sqrt(self.aggregations) / self.sums_noise",
        "1e-09",
        OF_AGGREGATES + "test_full_batches_are_one_gaussian_mechanism",
    ),
    edit(
        "an edge is in one list",
        AGGREGATES + "BOTH_ENDS",
        "math.sqrt(2)",
        "1.0",
        OF_AGGREGATES + "test_an_edge_is_charged_in_both_lists",
    ),
    edit(
        "sums are not counted",
        PREPARED + "Sums.count",
        "len(self._noise.stds)",
        "1",
        OF_AGGREGATES + "test_one_more_sum_than_accounted_is_refused[dp-gap-node-remove]",
    ),
    edit(
        "noise of vectors is that of the classifier",
        EMBEDDING + "PreparedEmbedding.__init__",
        "order.noise(std, 'noise of the embedding')",
        "order.noise(std, 'noise')",
        OF_EMBEDDING + "test_the_two_kinds_of_steps_have_noise_and_batches_of_their_own",
    ),
    edit(
        "a gradient on lists is clipped as one copy",
        EMBEDDING + "clipped_sums",
        "slopes.norm(dim=1) * copies.sqrt()",
        "slopes.norm(dim=1)",
        OF_EMBEDDING + "test_a_null_record_changes_its_own_root_and_those_that_it_sends_to[0-2]",
    ),
    edit(
        "a step of vectors is charged the root of the cap",
        MECHANISMS_EMBEDDING + "EmbeddedAggregates._epsilon",
        "math.sqrt(first) * (2 * roots - 1)",
        "math.sqrt(first * roots)",
        OF_EMBEDDING + "test_full_batches_are_one_gaussian_mechanism",
    ),
    edit(
        "steps of vectors are free under Poisson batches",
        MECHANISMS_EMBEDDING + "EmbeddedAggregates._epsilon",
        "ComposedPair((RepeatedPair(many, first), released))",
        "released",
        OF_EMBEDDING + "test_epsilon_of_poisson_batches_is_that_of_the_composition",
    ),
    edit(
        "predictions read lists before the sum",
        "dpgraph.families.aggregates.train:DgcStages.rows_of",
        "self.rows",
        "self.rows + self.prepared.graph.out_ptr[-1]",
        OF_EMBEDDING + "test_no_list_reaches_a_prediction_before_the_sum",
    ),
)
