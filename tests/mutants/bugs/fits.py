"""Fits on a user's own graph: noise, charges and choices of a release."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

SECRET = "dpgraph.own_graph.secret:"
PREPARED = "dpgraph.families.votes.prepared:"
OF_FIT = "tests/own_graph/test_fit.py::"
OF_RELEASE = "tests/own_graph/test_release.py::"
OF_CLASSES = "tests/own_graph/test_classes.py::"
CLASSES = "dpgraph.own_graph.classes:"
OF_SECRET = "tests/own_graph/test_secret.py::"

OF_AUDITED = "tests/own_graph/test_audited.py::"

BUGS = (
    edit(
        "bits of a release that repeat",
        SECRET + "words",
        "os.urandom(8 * count)",
        "np.random.default_rng(0).bytes(8 * count)",
        OF_AUDITED + "test_the_noise_of_every_release_is_as_accounted_for[node-null-votes]",
    ),
    edit(
        "0.9 of the noise of a release's steps",
        SECRET + "SecretNoise.add",
        "float(self.std)",
        "0.9 * float(self.std)",
        OF_AUDITED + "test_the_noise_of_every_release_is_as_accounted_for[node-null-own]",
    ),
    edit(
        "half of the noise of a release's steps, by canaries",
        SECRET + "SecretNoise.add",
        "float(self.std)",
        "0.5 * float(self.std)",
        OF_AUDITED + "test_the_audits_of_a_release_are_of_its_own_noise",
    ),
    edit(
        "noise / 1.3 on the mean of the rows",
        PREPARED + "PreparedVotes.__init__",
        "released.on(row_sum(features), std, 1 / GRID)",
        "released.on(row_sum(features), std / 1.3, 1 / GRID)",
        OF_FIT + "test_all_noise_is_what_was_accounted_for_and_a_little_more",
    ),
    edit(
        "rows of the mean keep their norms",
        "dpgraph.families.votes.rows:row_sum",
        "unit_rows(features[part])",
        "np.nan_to_num(np.array(features[part], dtype=np.float64))",
        "tests/families/votes/test_votes.py::test_a_record_moves_the_sum_of_the_rows_by_at_most_one_and_the_sum_is_exact",
    ),
    edit(
        "rows centred by the exact mean",
        PREPARED + "PreparedVotes.__init__",
        "RowMean(noisy, std, self._how.signed_rows, len(features))",
        "RowMean(row_sum(features), std, self._how.signed_rows, len(features))",
        OF_FIT + "test_the_released_mean_of_the_rows_has_its_noise_and_says_how_records_are_read",
    ),
    edit(
        "the mean of the rows is free",
        "dpgraph.families.votes.epsilon:moved_parts",
        "math.hypot(mean_mu, votes_mu, reader_mu)",
        "math.hypot(votes_mu, reader_mu)",
        "tests/families/votes/test_mechanism.py::test_every_part_costs",
    ),
    edit(
        "noise / 1.3 in a release",
        SECRET + "SecretReleases.on",
        "std * (1 + RAISED)",
        "std / 1.3",
        OF_FIT + "test_all_noise_is_what_was_accounted_for_and_a_little_more",
    ),
    edit(
        "the noise of counts is raised beyond what caps were derived from",
        SECRET + "SecretReleases.on",
        "std if unit >= 1 else std * (1 + RAISED)",
        "std * (1 + RAISED)",
        "tests/own_graph/test_relations.py::test_noise_under_node_remove_is_what_was_accounted_for_and_a_little_more",
    ),
    edit(
        "a choice for a release at twice its epsilon",
        SECRET + "exponentially_chosen",
        "mpmath.mpf(epsilon)",
        "2 * mpmath.mpf(epsilon)",
        OF_SECRET + "test_a_choice_has_the_probabilities_of_the_exponential_mechanism",
    ),
    edit(
        "a release from a seed",
        SECRET + "SecretOrder.generator",
        "role not in ('batches', 'choice of the reader')",
        "role == 'edge lists'",
        OF_SECRET + "test_a_release_takes_no_seed_and_no_sum_off_the_grid",
    ),
    edit(
        "a card without its choice",
        "dpgraph.own_graph.budget:BudgetedRun.choice",
        "return self.mechanism.choice_epsilon",
        "return 0.0",
        OF_FIT + "test_every_part_of_a_release_is_charged[True]",
    ),
    edit(
        "labels to train on are counted",
        "dpgraph.own_graph.fit:fit",
        "int(train_side.sum())",
        "int((train_side & (own.labels >= 0)).sum())",
        OF_RELEASE + "test_neighbours_release_the_same_but_for_declared_noise[null, classes stated]",
    ),
    edit(
        "options are checked after a release with chosen classes is charged",
        "dpgraph.own_graph.fit:fit",
        'plan(FEWEST, places, "nodes that train", selection)',
        "None",
        "tests/own_graph/test_classes.py::test_a_mistyped_option_costs_nothing[wrong0]",
    ),
    edit(
        "classes are read from the data",
        "dpgraph.own_graph.fit:fit",
        "own.classes_given",
        "True",
        OF_RELEASE + "test_neighbours_release_the_same_but_for_declared_noise[null]",
    ),
    edit(
        "who has a label votes",
        "dpgraph.own_graph.training:sides",
        "own.roles == TRAIN",
        "(own.roles == TRAIN) & (own.labels >= 0)",
        "tests/own_graph/test_relations.py::test_who_votes_is_the_split_and_never_who_has_a_label",
    ),
    edit(
        "who votes needs no split",
        "dpgraph.own_graph.fit:check_split",
        "own.split is None",
        "False",
        "tests/own_graph/test_relations.py::test_who_votes_is_the_split_and_never_who_has_a_label",
    ),
    edit(
        "classes by exact counts",
        CLASSES + "select_classes",
        "noisy >= selection.threshold",
        "counts >= 1",
        OF_CLASSES + "test_a_label_of_a_class_that_is_not_kept_is_none",
    ),
    edit(
        "held-out labels make a class",
        CLASSES + "select_classes",
        "(own.labels >= 0) & (own.roles == TRAIN)",
        "own.labels >= 0",
        OF_CLASSES + "test_held_out_labels_make_no_class",
    ),
    edit(
        "a threshold that is one too low",
        CLASSES + "ClassSelection.threshold",
        "1 + max(1, math.ceil((-math.log(self.delta) - math.log1p(math.exp(-epsilon))) / epsilon))",
        "max(1, math.ceil((-math.log(self.delta) - math.log1p(math.exp(-epsilon))) / epsilon))",
        OF_CLASSES + "test_selections_of_neighbours_are_within_epsilon_and_delta",
    ),
    edit(
        "half the noise on counts of classes",
        CLASSES + "two_sided_geometric",
        "(rest + under * whole) // above",
        "(rest + under * whole) // (2 * above)",
        OF_CLASSES + "test_noise_has_the_two_sided_geometric_law",
    ),
    edit(
        "noise on counts of classes from a seed",
        CLASSES + "uniform_below",
        "seed is None",
        "False",
        OF_CLASSES + "test_noise_of_a_release_is_the_operating_systems",
    ),
    edit(
        "the choice of classes is free",
        "dpgraph.own_graph.budget:budgeted",
        "epsilon - float(selection.epsilon)",
        "epsilon",
        OF_CLASSES + "test_a_card_adds_up_what_the_choice_of_classes_costs[node-null]",
    ),
    edit(
        "the choice of classes has no delta",
        "dpgraph.own_graph.budget:budgeted",
        "chosen - selection.delta",
        "chosen",
        OF_CLASSES + "test_a_card_adds_up_what_the_choice_of_classes_costs[node-null]",
    ),
    edit(
        "other relations beside a choice of classes",
        CLASSES + "ClassSelection.charged_under",
        "relation is not Relation.EDGE",
        "relation in (Relation.NODE_NULL, Relation.NODE_REMOVE)",
        OF_CLASSES + "test_a_card_adds_up_what_the_choice_of_classes_costs[node-null]",
    ),
    edit(
        "what cannot be exact is charged first",
        "dpgraph.own_graph.fit:fit",
        "check_exact(what.mechanism, nodes=numbers.nodes, classes=numbers.classes, features=own.num_features)",
        "None",
        OF_SECRET + "test_what_public_numbers_refuse_is_not_charged[classes0]",
    ),
    edit(
        "afford takes all graphs for graphs of many features",
        "dpgraph.own_graph.budget:feature_cases",
        "{1, math.ceil(rules.FEW_WORDS), math.ceil(rules.WORDS_PER_NODE * nodes)}",
        "{math.ceil(rules.FEW_WORDS)}",
        "tests/own_graph/test_learnt.py::test_afford_states_what_the_card_of_the_same_public_numbers_has",
    ),
    edit(
        "times are rounded before they are scaled",
        "dpgraph.own_graph.graph:scaled_columns",
        "features[:, place].astype(np.float64)",
        "rows[:, place].astype(np.float64)",
        "tests/own_graph/test_scales.py::test_a_range_is_applied_before_numbers_are_rounded[float64]",
    ),
)
