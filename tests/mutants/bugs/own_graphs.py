"""What surrounds a release: edge-made features, the releases file, who may read a folder, and large deltas."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

FEATURES, FIT = "dpgraph.fitting.edge_features:", "dpgraph.fitting.fit:"
RELEASES, CARD = "dpgraph.fitting.releases:", "dpgraph.fitting.card:"
OF_FEATURES, OF_RELEASES = "tests/fitting/test_edge_features.py::", "tests/fitting/test_releases.py::"
OF_READABLE, OF_DELTA = "tests/fitting/test_readable.py::", "tests/fitting/test_delta.py::"
PLANTED = OF_FEATURES + "test_a_column_that_tells_the_degree_is_refused_in_one_line[edge-{}]"
EXPORTS = "tests/fitting/test_compare.py::test_every_export_of_a_known_seed_says_that_it_is_not_private"

BUGS = (
    edit(
        "no column is refused",
        FIT + "fit",
        "check_edge_features(own, about)",
        "None",
        PLANTED.format("degree"),
    ),
    edit(
        "falling columns are not refused",
        FEATURES + "_scores",
        "np.abs(covariance)",
        "np.maximum(covariance, 0)",
        OF_FEATURES + "test_a_column_is_found_where_most_nodes_have_one_degree[-1]",
    ),
    edit(
        "functions of a degree that are not monotone are not refused",
        FEATURES + "_scores",
        "np.clip(explained, 0, 1)",
        "0 * explained",
        PLANTED.format("far from the mean"),
    ),
    edit(
        "ties of degrees lower the score",
        FEATURES + "_scores",
        "squares >= square * (1 - 1e-09)",
        "squares < 0",
        OF_FEATURES + "test_a_column_is_found_where_most_nodes_have_one_degree[1]",
    ),
    edit(
        "the word of a hub is its degree",
        FEATURES + "_scores",
        "(centred[alone] ** 2).sum(axis=0)",
        "0",
        OF_FEATURES + "test_honest_columns_are_not_refused",
    ),
    edit(
        "distinct neighbours are not counted",
        FEATURES + "_degrees",
        "[*received, *sent, joined, received[0] + sent[0]]",
        "[*received, *sent, received[0] + sent[0]]",
        OF_FEATURES + "test_every_count_of_edges_is_found[distinct neighbours-True]",
    ),
    edit(
        "in-degrees are the own record",
        FEATURES + "_degrees",
        "received if own.directed else []",
        "[]",
        OF_FEATURES + "test_a_degree_is_part_of_the_own_record_under_node_null_unless_others_lists_make_it",
    ),
    edit(
        "a public column is not named",
        FEATURES + "feature_premises",
        "if own.public_columns: ...",
        "if False: ...",
        OF_FEATURES + "test_a_column_that_is_said_to_be_public_is_named_in_the_card_and_nowhere_else",
    ),
    edit(
        "a release is charged after its noise",
        FIT + "fit",
        "if seed is None: ...",
        "if False: ...",
        OF_RELEASES + "test_it_is_charged_before_noise_is_drawn_and_a_run_that_dies_stays_charged",
    ),
    edit(
        "a known seed is recorded",
        FIT + "fit",
        "if seed is None: ...",
        "if True: ...",
        OF_RELEASES + "test_a_run_of_a_known_seed_is_not_recorded",
    ),
    edit(
        "mu adds as in the best case",
        RELEASES + "together",
        "math.hypot(*(one.mu or 0.0 for one in made))",
        "max(one.mu or 0.0 for one in made)",
        OF_RELEASES + "test_the_sum_is_that_of_gaussian_mechanisms_choices_and_unlikely_events",
    ),
    edit(
        "choices of other releases are free",
        RELEASES + "together",
        "math.fsum(one.choice for one in made)",
        "0.0",
        OF_RELEASES + "test_the_sum_is_that_of_gaussian_mechanisms_choices_and_unlikely_events",
    ),
    edit(
        "unlikely events happen once",
        RELEASES + "together",
        "math.fsum(one.failure for one in made)",
        "max(one.failure for one in made)",
        OF_RELEASES + "test_the_sum_is_that_of_gaussian_mechanisms_choices_and_unlikely_events",
    ),
    edit(
        "what is not stated costs nothing",
        RELEASES + "together",
        "None in parts",
        "False",
        OF_RELEASES + "test_what_a_release_states_besides_is_added_and_what_it_does_not_state_has_no_sum",
    ),
    edit(
        "one releases file of two is kept",
        RELEASES + "releases_files",
        "{path.with_name(path.name + SUFFIX) for path in resolved}",
        "{path.with_name(path.name + SUFFIX) for path in resolved[:1]}",
        OF_RELEASES + "test_other_data_share_a_file_only_where_they_share_an_input",
    ),
    edit(
        "a damaged releases file is taken as empty",
        RELEASES + "_read",
        "raise _damaged(path, number, first_line(error, RecordedRelease)) from None",
        "return []",
        OF_RELEASES + "test_a_damaged_file_ends_the_run_in_one_line_before_noise_is_drawn",
    ),
    edit(
        "a line without its end is read",
        RELEASES + "_read",
        "not text.endswith(b'\\n')",
        "False",
        OF_RELEASES + "test_a_damaged_file_ends_the_run_in_one_line_before_noise_is_drawn",
    ),
    edit(
        "edges that are features are protected",
        CARD + "other_guarantees",
        "own.features is None",
        "False",
        OF_RELEASES + "test_without_features_no_edge_is_said_to_be_protected",
    ),
    edit(
        "folders of the curator and owners are open",
        FIT + "_write",
        "make_private(private)",
        "None",
        OF_READABLE + "test_what_is_not_for_everyone_is_for_its_owner_alone",
    ),
    edit(
        "private files keep an older mode",
        "dpgraph.files:private_file",
        "os.fchmod(file.fileno(), 384)",
        "None",
        OF_READABLE + "test_predictions_and_a_comparison_are_for_their_owner_alone[True]",
    ),
    edit(
        "an export of a known seed is called private",
        "dpgraph.fitting.model:status_of",
        "SEED_KNOWN if not secret else weakness(advantage or 0.0) or PRIVATE",
        "PRIVATE",
        EXPORTS,
    ),
    edit(
        "a delta just below 1 / N is not named",
        "dpgraph.fitting.budget:delta_warnings",
        "delta <= most * (1 + 1e-09)",
        "delta <= 10 * most",
        OF_DELTA + "test_a_large_delta_is_named_on_screen_and_in_the_card",
    ),
    edit(
        "a default delta of few nodes is not named",
        "dpgraph.fitting.budget:delta_warnings",
        "min(usual_delta(nodes), LARGE_DELTA)",
        "usual_delta(nodes)",
        OF_DELTA + "test_two_nodes_are_warned_and_a_known_seed_promises_nothing_to_warn_of",
    ),
)
