"""Who is called the best, on the pages of suites and on the page over all of them."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

RANKING = "dpgraph.reporting.ranking:"
GUIDE = "dpgraph.reporting.leaderboard.guide:"
FINDING = "dpgraph.reporting.leaderboard.finding:"
OF_NAMES = "tests/reporting/leaderboard/test_names.py::"
OF_STANDINGS = "tests/reporting/leaderboard/test_standings.py::"
OF_GUIDE = "tests/reporting/leaderboard/test_guide.py::"

BUGS = (
    edit(
        "a floor of other seeds is compared",
        RANKING + "_shown_above",
        "(-1.0, 'floor', floor[common])",
        "(-1.0, 'floor', floor)",
        OF_NAMES + "test_a_floor_is_compared_on_common_seeds[own0-False]",
    ),
    edit(
        "methods are told from the best without Holm's correction",
        RANKING + "ranked",
        "holm(np.array([p_equal(values[best], values[place]) for place in others.values()]))",
        "np.array([p_equal(values[best], values[place]) for place in others.values()])",
        OF_STANDINGS + "test_more_methods_need_a_larger_difference",
    ),
    edit(
        "the best has the largest mean, over whatever seeds",
        RANKING + "ranked",
        "(beaten[place], -values[place].mean())",
        "-values[place].mean()",
        OF_STANDINGS + "test_a_method_that_is_better_on_every_common_seed_is_the_best_whatever_its_other_seeds",
    ),
    edit(
        "what is above the best on common seeds is called worse",
        RANKING + "ranked",
        "p < LEVEL and _ahead(values[best], values[place]) > 0",
        "p < LEVEL",
        OF_STANDINGS + "test_of_methods_in_a_circle_the_largest_mean_is_the_best_and_what_beats_it_is_not_worse",
    ),
    edit(
        "rows of one cell count as methods of their own",
        RANKING + "ranked",
        "{cells[place]: place for place in places if cells[place] != cells[best]}",
        "{(cells[place], place): place for place in places if cells[place] != cells[best]}",
        OF_STANDINGS + "test_more_methods_need_a_larger_difference",
    ),
    edit(
        "what is not above its floor is best",
        GUIDE + "_top",
        "rows if above.empty else above",
        "rows",
        OF_GUIDE + "test_a_row_that_is_not_above_its_floor_wins_nowhere",
    ),
    edit(
        "only rows of a range's own epsilons compete in it",
        GUIDE + "_winners",
        '(proved["budget"] <= high)',
        '(proved["budget"] <= high) & (proved["budget"] > low)',
        OF_GUIDE + "test_a_smaller_epsilon_and_delta_compete_for_a_range",
    ),
    edit(
        "a larger epsilon than the range's competes in it",
        GUIDE + "_winners",
        'same = (proved[DATA] == list(data)).all(axis=1) & (proved["budget"] <= high)',
        "same = (proved[DATA] == list(data)).all(axis=1)",
        OF_GUIDE + "test_a_smaller_epsilon_and_delta_compete_for_a_range",
    ),
    edit(
        "who shares the first place is left out by the alphabet",
        GUIDE + "Winners.names",
        "[name for name, count in counts.items() if count == max(counts.values())]",
        "[name for name, count in counts.most_common(1)]",
        OF_GUIDE + "test_a_cell_names_all_that_share_the_first_place_and_what_they_fell_back_on",
    ),
    edit(
        "a run of few seeds gives the value without privacy",
        GUIDE + "_longest",
        "-n.astype(float)",
        "n.astype(float)",
        OF_GUIDE + "test_the_price_is_within_a_split_and_of_the_longest_run",
    ),
    edit(
        "methods that protect more are listed as if they protected the same",
        FINDING + "_protecting_more",
        "len(more) == 1",
        "len(more) > 0",
        OF_STANDINGS + "test_the_finding_says_what_the_others_protect_more",
    ),
    edit(
        "what is tied in another ranking is said not to be told apart from the best of this one",
        FINDING + "finding",
        "rivals[beside]",
        "rivals",
        OF_STANDINGS + "test_the_finding_names_who_is_not_told_apart",
    ),
)
