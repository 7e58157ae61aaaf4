"""Votes of DP-Votes: who votes, what one node moves, who reads what, and what it costs."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran
from tests.mutants.planting import Bug, Edit

BUDGET = "dpgraph.own_graph.budget:"
BALLOTS = "dpgraph.families.votes.ballots:"
LEARNT = "dpgraph.families.votes.learnt:"
PREPARED = "dpgraph.families.votes.prepared:"
STRANGERS = "dpgraph.families.votes.strangers:"
VOTES = "dpgraph.families.votes.epsilon:"
STRANGER_VOTES = "dpgraph.families.votes.removed_mechanism:"
MECHANISMS_VOTES = "dpgraph.families.votes.mechanism:"
VOTE_SENSITIVITY = "dpgraph.families.votes.sensitivity:"
OF_LEARNT = "tests/own_graph/test_learnt.py::"
OF_LEARNT_READER = "tests/families/votes/test_learnt_reader.py::"
OF_VOTES = "tests/families/votes/test_votes.py::"
OF_EVALUATE = "tests/privacy/test_evaluate.py::"
OF_STRANGER_VOTES = "tests/families/votes/test_strangers.py::"
OF_VOTES_TESTS = "tests/families/votes/test_mechanism.py::"

BUGS = (
    edit(
        "everybody's labels vote",
        PREPARED + "PreparedVotes.labels_trained_on",
        "np.asarray(self.graph.split) == TRAIN",
        "self.graph.labels >= 0",
        OF_VOTES + "test_validation_and_test_labels_do_not_vote",
    ),
    edit(
        "null votes",
        BALLOTS + "Ballots.ballots",
        "self.votes * self.weights",
        "self.weights",
        OF_VOTES + "test_a_null_record_adds_nothing_and_its_place_stays",
    ),
    edit(
        "copies of an id vote",
        BALLOTS + "Ballots.from_lists",
        "not ascending.all()",
        "False",
        OF_VOTES + "test_lists_are_sets_of_ids_of_others",
    ),
    edit(
        "weights forget the own bucket",
        BALLOTS + "Ballots.weights",
        "self.degrees + 1",
        "self.degrees",
        OF_VOTES_TESTS + "test_a_record_that_becomes_null_moves_the_buckets_by_at_most_the_norm_of_a_vote",
    ),
    edit(
        "own share not taken out",
        BALLOTS + "read_around",
        "ballots[rows, :-1]",
        "0",
        OF_VOTES + "test_a_node_reads_the_others_and_not_itself",
    ),
    edit(
        "gradients of a reader of any length",
        LEARNT + "_whole_sum",
        "GRID * CLIP / np.maximum(norms[good], CLIP)",
        "GRID * np.ones(int(good.sum()))",
        OF_LEARNT_READER + "test_a_sum_is_of_gradients_that_are_clipped_one_by_one",
    ),
    edit(
        "a reader goes along its sums without noise",
        LEARNT + "ReaderSteps.learn",
        "noise.on(sums, self.std, 1 / GRID)",
        "0 * noise.on(sums, self.std, 1 / GRID) + sums",
        OF_LEARNT_READER + "test_the_audit_passes_and_finds_a_reader_that_clips_nothing",
    ),
    edit(
        "gradients that are no numbers",
        LEARNT + "_whole_sum",
        "taught & np.isfinite(norms)",
        "taught",
        OF_LEARNT_READER + "test_what_is_not_finite_adds_nothing_and_nothing_is_longer_than_the_clip_norm[nan]",
    ),
    edit(
        "gradients that are clipped without their part of the bias",
        LEARNT + "_whole_sum",
        "(read ** 2).sum(axis=1) + 1",
        "(read ** 2).sum(axis=1)",
        OF_LEARNT_READER + "test_a_sum_is_of_gradients_that_are_clipped_one_by_one",
    ),
    edit(
        "an example without a label has a gradient",
        LEARNT + "_whole_sum",
        "taught & np.isfinite(norms)",
        "np.isfinite(norms)",
        OF_LEARNT_READER + "test_an_example_without_a_label_adds_nothing_and_changes_no_bit_of_others",
    ),
    edit(
        "gradients of all examples at once",
        LEARNT + "gradient_sum",
        "NUMBERS // classes ** 2",
        "len(labels)",
        OF_LEARNT_READER + "test_gradients_of_all_examples_are_never_in_memory_at_once",
    ),
    edit(
        "a null record moves the places of examples",
        PREPARED + "PreparedVotes.examples",
        "np.asarray(self.graph.split) == TRAIN",
        "self.labels_trained_on >= 0",
        OF_LEARNT_READER + "test_a_null_record_keeps_its_place_among_examples",
    ),
    edit(
        "steps of a reader are charged as one where they are evaluated by name",
        "dpgraph.families.votes.accountant:private_votes",
        "math.sqrt(reader_steps or 0)",
        "1",
        OF_EVALUATE + "test_reference_value[R419]",
    ),
    edit(
        "a reader that a fit learns is not released",
        "dpgraph.own_graph.model:SavedModel._scores",
        "self.learnt is not None",
        "False",
        OF_LEARNT + "test_new_nodes_are_read_by_the_reader_that_was_released",
    ),
    edit(
        "a fit learns a reader for an edge",
        BUDGET + "check_kind",
        "relation is Relation.EDGE",
        "False",
        OF_LEARNT
        + "test_where_nothing_is_proved_or_gained_it_is_refused[asked1-each step of its reader moves by four]",
    ),
    edit(
        "a fit learns a reader where all rows are public",
        BUDGET + "check_kind",
        "if all_outputs: ...",
        "if False: ...",
        OF_LEARNT + "test_where_nothing_is_proved_or_gained_it_is_refused[asked2-its rows read raw records]",
    ),
    edit(
        "a fit learns a reader whose code is not audited",
        "dpgraph.own_graph.audited:audits_of",
        "READERS if what.mechanism.reader_ratio is not None else ()",
        "()",
        OF_LEARNT + "test_its_audit_is_run",
    ),
    edit(
        "a fit learns a reader unasked",
        BUDGET + "_rule",
        "rules.always_votes(size, epsilon)",
        "rules.learnt_votes(size, epsilon)",
        OF_LEARNT + "test_it_is_asked_for_by_name",
    ),
    Bug(
        "labels of validation nodes teach the reader",
        (
            Edit(PREPARED + "PreparedVotes._learn", "self.labels_trained_on", "np.asarray(self.graph.labels)"),
            Edit(
                PREPARED + "PreparedVotes.examples",
                "np.flatnonzero(np.asarray(self.graph.split) == TRAIN)",
                "np.arange(self.graph.num_nodes)",
            ),
        ),
        OF_LEARNT_READER + "test_labels_of_test_and_validation_nodes_teach_nothing",
    ),
    edit(
        "an edge moves one gradient of a reader",
        VOTES + "moved_parts",
        "4 * reader_mu",
        "2 * reader_mu",
        OF_LEARNT_READER + "test_each_relation_pays_for_what_it_moves",
    ),
    edit(
        "learning a reader is free",
        VOTES + "moved_parts",
        "math.hypot(mean_mu, votes_mu, reader_mu)",
        "math.hypot(mean_mu, votes_mu)",
        OF_LEARNT_READER + "test_each_relation_pays_for_what_it_moves",
    ),
    edit(
        "steps of a reader are charged as one",
        MECHANISMS_VOTES + "PoissonVotes.reader_mu",
        "math.sqrt(self.reader_steps) * self._mu(self.reader_ratio)",
        "self._mu(self.reader_ratio)",
        OF_LEARNT_READER + "test_steps_share_what_a_reader_has",
    ),
    edit(
        "a reader is learnt under node-remove",
        MECHANISMS_VOTES + "PoissonVotes._votes",
        "self.reader_steps and (not self.learns)",
        "False",
        OF_LEARNT_READER + "test_mechanisms_without_a_proof_refuse_a_reader",
    ),
    edit(
        "predictions on the raw graph count as joint",
        "dpgraph.families.votes.spec:inference",
        "cell.privacy.raw_inference",
        "False",
        OF_VOTES + "test_raw_inference_averages_final_scores_over_lists_and_covers_the_parameters_alone",
    ),
    edit(
        "votes may read the raw graph",
        "dpgraph.families.votes.spec:VotesPrivacy._bounded",
        "self.raw_inference and (self.variant != 'rigorous' or self.votes_share)",
        "False",
        OF_VOTES + "test_the_raw_graph_is_read_without_votes_alone",
    ),
    edit(
        "votes are released twice",
        PREPARED + "PreparedVotes.scores",
        "if mechanism.choice_epsilon: ...",
        "self.made.append(Release(kind=mechanisms.BUCKETS, noise=over, sensitivity=1.0, count=1))\n"
        "if mechanism.choice_epsilon: ...",
        ran("dp-votes-mlp"),
    ),
    edit(
        "an edge costs one end",
        VOTE_SENSITIVITY + "edge_votes",
        "2 / floor",
        "1 / floor",
        OF_VOTES_TESTS + "test_a_floor_makes_the_bound_of_an_edge_a_simple_one",
    ),
    edit(
        "votes do not oppose each other",
        VOTE_SENSITIVITY + "opposed",
        "1 / FEWEST_CLASSES - mass ** 2",
        "0 * mass",
        OF_VOTES_TESTS + "test_an_edge_moves_the_buckets_by_at_most_the_stated_bound",
    ),
    edit(
        "a choice is free",
        VOTES + "votes_epsilon",
        "(PureDp(choice),) if choice else ()",
        "()",
        OF_VOTES_TESTS + "test_full_batches_are_the_limit_of_poisson_batches",
    ),
    edit(
        "a choice after full batches is free",
        VOTES + "votes_epsilon",
        "released_epsilon(mu=mu, choice=choice, delta=delta)",
        "released_epsilon(mu=mu, choice=0.0, delta=delta)",
        OF_VOTES_TESTS + "test_every_part_costs",
    ),
    edit(
        "an edge pays the choice once",
        VOTES + "moved_parts",
        "4 * choice_epsilon",
        "choice_epsilon",
        OF_EVALUATE + "test_reference_value[R405]",
    ),
    edit(
        "one-way edges under node-remove",
        BALLOTS + "mutual_lists",
        "plain.lists.multiply(plain.lists.T).tocsr()",
        "plain.lists",
        OF_VOTES + "test_edges_of_one_list_only_do_not_count_under_node_remove",
    ),
    edit(
        "caps on a graph of any size",
        "dpgraph.families.votes.prepared:PreparedVotes._capped",
        "self.graph.num_nodes > mechanism.most_nodes",
        "False",
        OF_VOTES + "test_caps_are_refused_on_a_graph_of_more_nodes_than_were_accounted_for",
    ),
    edit(
        "delta of the training nodes",
        "dpgraph.privacy.public_numbers:Counted.delta",
        "protected or training",
        "training",
        OF_VOTES_TESTS + "test_shares_are_of_the_squared_mu_and_delta_counts_everybody",
    ),
    edit(
        "degrees above their caps are free",
        VOTE_SENSITIVITY + "capped_receiver_votes",
        "np.minimum(above, degree_bound) / (2 * degree_floor)",
        "0 * np.minimum(above, degree_bound) / (2 * degree_floor)",
        OF_VOTES_TESTS + "test_how_many_caps_are_exceeded_is_bounded_in_probability",
    ),
    edit(
        "a quantile that is 0 where its tail is small",
        VOTE_SENSITIVITY + "capped_receiver_votes",
        "binom.sf(above, degree_bound, chance) > failure",
        "np.zeros(np.shape(above), dtype=bool)",
        OF_VOTES_TESTS + "test_the_bound_holds_where_a_margin_is_almost_never_exceeded",
    ),
    edit(
        "unlikely events are free",
        MECHANISMS_VOTES + "CappedVotes.delta_left",
        "sensitivity.UNLIKELY * (1 if self.hubs_ratio is None else 2)",
        "0 * sensitivity.UNLIKELY * (1 if self.hubs_ratio is None else 2)",
        OF_VOTES_TESTS + "test_each_side_pays_for_what_it_moves",
    ),
    edit(
        "the own degree in reading one bucket",
        BALLOTS + "OneHopBallots.scores",
        "np.full(len(read), reader.strength)",
        "reader.strength / np.sqrt(self.degrees + 1.0)",
        OF_VOTES + "test_with_one_hop_a_node_reads_its_own_bucket",
    ),
    edit(
        "hubs count",
        BALLOTS + "CappedBallots.without_hubs",
        "self.lists @ sp.diags(stays.astype(np.float64))",
        "self.lists",
        OF_VOTES_TESTS + "test_votes_go_from_voters_to_others_and_hubs_have_no_part",
    ),
    edit(
        "receivers vote",
        BALLOTS + "CappedBallots.one_way",
        "sends @ mutual_lists(plain, degree_bound)",
        "mutual_lists(plain, degree_bound)",
        OF_VOTES_TESTS + "test_given_noisy_degrees_a_node_that_leaves_moves_votes_by_what_theorem_r_says",
    ),
    edit(
        "receivers are free",
        MECHANISMS_VOTES + "CappedVotes._epsilon_under",
        "max(super()._epsilon_under(relation), receiver)",
        "max(super()._epsilon_under(relation), 0 * receiver)",
        OF_VOTES_TESTS + "test_each_side_pays_for_what_it_moves",
    ),
    edit(
        "hubs are free",
        MECHANISMS_VOTES + "CappedVotes.votes_mu",
        "self._mu(self.hubs_ratio)",
        "0.0",
        OF_VOTES_TESTS + "test_with_few_caps_exceeded_the_voters_side_decides",
    ),
    edit(
        "rounds after the first are free",
        MECHANISMS_VOTES + "PoissonVotes.votes_mu",
        "math.sqrt(self.rounds) * self._mu(self.votes_ratio)",
        "self._mu(self.votes_ratio)",
        OF_VOTES_TESTS + "test_rounds_share_what_votes_have",
    ),
    edit(
        "an edge of several rounds has the bound of one",
        MECHANISMS_VOTES + "PoissonVotes.beside",
        "self.rounds > 1",
        "False",
        OF_VOTES_TESTS + "test_rounds_share_what_votes_have",
    ),
    edit(
        "in later rounds votes hear neighbours without noise",
        PREPARED + "PreparedVotes.scores",
        "softmax(scores_of(self.reader), axis=1)",
        "softmax(ballots.lists @ scores_of(self.reader), axis=1)",
        OF_VOTES + "test_given_what_was_released_a_record_moves_every_round_by_its_own_votes",
    ),
    edit(
        "two hops are stated as joint",
        STRANGER_VOTES + "_ForStrangers.scope",
        "Scope.STRANGERS",
        "Scope.JOINT",
        OF_STRANGER_VOTES + "test_strangers_are_the_scope_and_everybody_has_node_null",
    ),
    edit(
        "a reader chosen by what two hops say",
        STRANGER_VOTES + "_ForStrangers._no_choice",
        "if self.choice_epsilon: ...",
        "if False: ...",
        OF_STRANGER_VOTES + "test_strangers_are_the_scope_and_everybody_has_node_null",
    ),
    edit(
        "a null record moves half of its part",
        VOTE_SENSITIVITY + "bounded_null_votes",
        "best * (1 + taper * (1 - 2 * best))",
        "0.5 * best * (1 + taper * (1 - 2 * best))",
        OF_STRANGER_VOTES + "test_a_record_that_becomes_null_moves_no_reading_of_others",
    ),
    edit(
        "a taper on lists of one way",
        STRANGERS + "BoundedStrangerBallots.over",
        "(plain.degrees[names] > 0).any()",
        "False",
        OF_STRANGER_VOTES + "test_lists_that_break_the_schema_end_the_run",
    ),
    edit(
        "a bound on lists alone",
        STRANGERS + "check_bound",
        "max(plain.degrees.max(initial=0), named.max(initial=0))",
        "plain.degrees.max(initial=0)",
        OF_STRANGER_VOTES + "test_lists_that_break_the_schema_end_the_run",
    ),
    edit(
        "for strangers, lists of mutual edges",
        STRANGERS + "BoundedStrangerBallots.over",
        "cls(plain.lists, plain.votes, plain.degree_floor, degree_bound, taper)",
        "cls(plain.lists.multiply(plain.lists.T).tocsr(), plain.votes, plain.degree_floor, degree_bound, taper)",
        OF_STRANGER_VOTES + "test_a_record_that_becomes_null_moves_no_reading_of_others",
    ),
    edit(
        "hubs have buckets",
        STRANGERS + "CappedStrangerBallots.read",
        "bucket_trust(released, mass, std, shrinkage, heaviest) * there",
        "bucket_trust(released, mass, std, shrinkage, heaviest)",
        OF_STRANGER_VOTES + "test_voters_and_hubs_have_no_bucket_to_read",
    ),
)
